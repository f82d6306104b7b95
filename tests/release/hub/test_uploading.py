"""Uploads of releases to a hub on loopback: complete, resumable and unchanged."""

import errno
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import HfApi, snapshot_download

from loupe.release.build import BuiltRelease, build_release
from loupe.release.format.manifest import read_manifest
from loupe.release.hub import Uploaded, planned_upload, upload_release
from loupe.release.verify import verify_release
from loupe.schemas.errors import ConfigurationError, IntegrityError, ServiceError, UsageError
from tests.release.hub.loopback_hub import TOKEN, LoopbackHub, Repository, running_hub
from tests.release.worlds import DATASET, World
from tests.servers.processes import FORKED

REPOSITORY = "a-lab/people"

pytestmark = pytest.mark.filterwarnings(
    "ignore:Use 'content=:DeprecationWarning"
)  # from huggingface_hub


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackHub]:
    """A hub without Xet, which is a separate protocol."""
    monkeypatch.setattr("huggingface_hub._commit_api.is_xet_available", lambda: False)
    with running_hub() as hub:
        yield hub


@pytest.fixture
def built(sound: Path, tmp_path: Path) -> BuiltRelease:
    """A copy of the valid release."""
    folder = Path(shutil.copytree(sound, tmp_path / "release"))
    return BuiltRelease(read_manifest(folder), folder, True, folder)


def api(hub: LoopbackHub, token: str = TOKEN) -> HfApi:
    return HfApi(endpoint=hub.url, token=token)


def upload(hub: LoopbackHub, folder: Path, *, token: str = TOKEN) -> Uploaded:
    planned = planned_upload(folder, REPOSITORY)
    return upload_release(planned, api=api(hub, token))


def bytes_in(folder: Path) -> dict[str, bytes]:
    files = (one for one in folder.rglob("*") if one.is_file())
    return {one.relative_to(folder).as_posix(): one.read_bytes() for one in files}


def test_the_repository_contains_exactly_the_release(
    hub: LoopbackHub, built: BuiltRelease, tmp_path: Path
) -> None:
    uploaded = upload(hub, built.folder)
    assert uploaded == (f"{hub.url}/datasets/{REPOSITORY}/tree/v1.0.0", True)
    assert hub.files(REPOSITORY) == bytes_in(built.folder)
    assert hub.repositories[REPOSITORY].private
    downloaded = snapshot_download(
        REPOSITORY,
        repo_type="dataset",
        revision="v1.0.0",
        local_dir=tmp_path / "copy",
        cache_dir=tmp_path / "cache",
        endpoint=hub.url,
        token=TOKEN,
    )
    (tmp_path / "copy/.gitattributes").write_text("*.parquet filter=lfs")
    (tmp_path / "copy/.git").mkdir()
    (tmp_path / "copy/.git/HEAD").write_text("ref: refs/heads/main")
    assert (tmp_path / "copy/.cache/huggingface").is_dir()
    assert verify_release(Path(downloaded), expected_id=built.manifest.id).problems == []


def test_a_second_upload_sends_nothing(hub: LoopbackHub, built: BuiltRelease) -> None:
    upload(hub, built.folder)
    sent, commits = len(hub.sent), len(hub.repositories[REPOSITORY].commits)
    assert upload(hub, built.folder).is_new is False
    assert (len(hub.sent), len(hub.repositories[REPOSITORY].commits)) == (sent, commits)


def test_objects_sent_before_a_failure_are_not_sent_again(
    hub: LoopbackHub, built: BuiltRelease
) -> None:
    hub.refused = 400
    with pytest.raises(ServiceError, match=r"the hub refuses a-lab/people .*run again to continue"):
        upload(hub, built.folder)
    assert hub.files(REPOSITORY) == {}, "no file is visible before the commit"
    sent, hub.refused = len(hub.sent), None
    assert upload(hub, built.folder).is_new
    assert len(hub.sent) == sent > 0
    assert hub.files(REPOSITORY) == bytes_in(built.folder)


def test_an_upload_interrupted_before_its_tag_is_only_tagged(
    hub: LoopbackHub, built: BuiltRelease
) -> None:
    hub.tags_refused = 400
    with pytest.raises(ServiceError, match=r"no tags today.*run again to continue"):
        upload(hub, built.folder)
    repository = hub.repositories[REPOSITORY]
    commits, sent, hub.tags_refused = list(repository.commits), list(hub.sent), None
    assert upload(hub, built.folder).is_new
    assert repository.tags == {"v1.0.0": repository.head}
    assert (list(repository.commits), hub.sent) == (commits, sent)


def test_a_foreign_commit_before_the_tag_is_not_tagged(
    hub: LoopbackHub, built: BuiltRelease
) -> None:
    hub.tags_refused = 400
    with pytest.raises(ServiceError):
        upload(hub, built.folder)
    hub.commit_foreign_file(REPOSITORY, "theirs.txt")
    hub.tags_refused = None
    with pytest.raises(UsageError, match="is not earlier than"):
        upload(hub, built.folder)
    assert hub.repositories[REPOSITORY].tags == {}


def upload_without_xet(url: str, folder: Path) -> None:
    """Upload in another process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("huggingface_hub._commit_api.is_xet_available", lambda: False)
        planned = planned_upload(folder, REPOSITORY)
        upload_release(planned, api=HfApi(endpoint=url, token=TOKEN))


@pytest.mark.xdist_group("kill")  # all processes are forked from one server
def test_a_killed_upload_is_resumed(hub: LoopbackHub, built: BuiltRelease) -> None:
    hub.hold_after = 3
    sending = FORKED.Process(target=upload_without_xet, args=(hub.url, built.folder))
    sending.start()
    assert hub.held.wait(60)
    sending.kill()
    sending.join()
    sent = set(hub.sent)
    assert len(sent) >= 3
    upload(hub, built.folder)
    assert len(hub.sent) == len(set(hub.sent)), "no object is sent twice"
    assert hub.files(REPOSITORY) == bytes_in(built.folder)


def test_a_later_version_replaces_the_earlier_one(
    hub: LoopbackHub, world: World, built: BuiltRelease, tmp_path: Path
) -> None:
    upload(hub, built.folder)
    hub.commit_foreign_file(REPOSITORY, "old.txt")
    later = build_release(world.store, world.blobs, DATASET, "1.0.1", tmp_path / "later")
    upload(hub, later.folder)
    assert hub.files(REPOSITORY) == bytes_in(later.folder)
    assert bytes_in(built.folder).items() <= hub.files(REPOSITORY, "v1.0.0").items()
    before = build_release(world.store, world.blobs, DATASET, "0.9.0", tmp_path / "before")
    with pytest.raises(UsageError, match=r"holds ufine3c 1\.0\.1, which is not earlier than"):
        upload(hub, before.folder)
    assert hub.files(REPOSITORY) == bytes_in(later.folder)


def test_foreign_files_are_only_replaced_on_request(hub: LoopbackHub, built: BuiltRelease) -> None:
    hub.repositories[REPOSITORY] = Repository(private=True)
    hub.commit_foreign_file(REPOSITORY, "my/precious.txt")
    details = r"holds other files than a release of ufine3c, my/precious\.txt first; .* --replace"
    with pytest.raises(UsageError, match=details):
        upload(hub, built.folder)
    assert (list(hub.files(REPOSITORY)), hub.sent) == (["my/precious.txt"], [])
    planned = planned_upload(built.folder, REPOSITORY)
    upload_release(planned, replace=True, api=api(hub))
    assert hub.files(REPOSITORY) == bytes_in(built.folder)


def test_a_manifest_of_something_else_belongs_to_no_earlier_release(
    hub: LoopbackHub, built: BuiltRelease
) -> None:
    hub.repositories[REPOSITORY] = Repository(private=True)
    draft = json.dumps({"dataset": DATASET, "version": "draft"}).encode()
    hub.commit_foreign_file(REPOSITORY, "manifest.json", draft)
    hub.commit_foreign_file(REPOSITORY, "my/precious.txt")
    with pytest.raises(UsageError, match="holds other files than a release of ufine3c"):
        upload(hub, built.folder)


class Failing(HfApi):
    """A hub that is reached from a machine with a fault."""

    fault = OSError()

    def list_repo_refs(self, *_: Any, **__: Any) -> Any:
        raise self.fault


def test_faults_of_this_machine_are_not_blamed_on_the_hub(
    hub: LoopbackHub, built: BuiltRelease
) -> None:
    planned = planned_upload(built.folder, REPOSITORY)
    failing = Failing(endpoint=hub.url, token=TOKEN)
    failing.fault = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(OSError, match="No space left on device"):
        upload_release(planned, api=failing)
    failing.fault = FileNotFoundError(errno.ENOENT, "No such file or directory", "images/3.jpg")
    with pytest.raises(IntegrityError, match=r"images/3\.jpg cannot be read"):
        upload_release(planned, api=failing)


def test_a_public_repository_needs_confirmation(hub: LoopbackHub, built: BuiltRelease) -> None:
    hub.repositories[REPOSITORY] = Repository(private=False)
    with pytest.raises(UsageError, match="a-lab/people is public; pass --public"):
        upload(hub, built.folder)
    assert hub.sent == []
    planned = planned_upload(built.folder, REPOSITORY)
    assert upload_release(planned, private=False, api=api(hub)).is_new


def test_a_concurrent_commit_is_not_overwritten(
    hub: LoopbackHub, built: BuiltRelease, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload_files = HfApi.preupload_lfs_files

    def upload_then_commit(*arguments: Any, **options: Any) -> None:
        upload_files(*arguments, **options)
        hub.commit_foreign_file(REPOSITORY, "theirs.txt")

    monkeypatch.setattr(HfApi, "preupload_lfs_files", upload_then_commit)
    with pytest.raises(ServiceError, match="A commit has happened since"):
        upload(hub, built.folder)
    assert list(hub.files(REPOSITORY)) == ["theirs.txt"]


def test_a_wrong_signature_is_not_uploaded(built: BuiltRelease) -> None:
    (built.folder / "signature.json").write_text("{}")
    with pytest.raises(IntegrityError, match=r"signature\.json cannot be read"):
        planned_upload(built.folder, REPOSITORY)


def test_an_existing_version_tag_is_not_moved(
    hub: LoopbackHub, world: World, built: BuiltRelease, tmp_path: Path
) -> None:
    upload(hub, built.folder)
    repository = hub.repositories[REPOSITORY]
    repository.tags["v1.0.1"] = repository.head
    later = build_release(world.store, world.blobs, DATASET, "1.0.1", tmp_path / "later")
    with pytest.raises(UsageError, match=f"has release {built.manifest.id[:12]} as v1.0.1"):
        upload(hub, later.folder)
    assert hub.files(REPOSITORY) == bytes_in(built.folder)


def test_a_rejected_token_is_a_configuration_error(hub: LoopbackHub, built: BuiltRelease) -> None:
    with pytest.raises(ConfigurationError, match="does not let this token write") as refused:
        upload(hub, built.folder, token="s3cr3t-token")
    assert "s3cr3t" not in str(refused.value)


def test_a_token_in_an_error_of_the_hub_is_masked(hub: LoopbackHub, built: BuiltRelease) -> None:
    hub.refused = 507
    with pytest.raises(ServiceError, match=r"no room is left for Bearer \*\*\*") as refused:
        upload(hub, built.folder)
    assert TOKEN not in str(refused.value)


def test_links_are_refused_even_without_verification(
    built: BuiltRelease, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for linked in ("images/3.jpg", "images", "signature.json"):
        home = tmp_path / linked.replace("/", "-")
        release = Path(shutil.copytree(built.folder, home / "release"))
        outside, inside = home / "private", release / linked
        if inside.exists():
            inside.rename(outside)
        else:
            outside.write_text("a private key")
        inside.symlink_to(outside)
        message = "only files of the release itself can be uploaded"
        with subtests.test(linked=linked), pytest.raises(IntegrityError, match=message):
            planned_upload(release, REPOSITORY, verify=False)


def test_an_unreachable_hub_is_a_service_error(hub: LoopbackHub, built: BuiltRelease) -> None:
    nowhere = HfApi(endpoint="http://127.0.0.1:9", token=TOKEN)
    planned = planned_upload(built.folder, REPOSITORY)
    with pytest.raises(ServiceError, match="the hub does not answer for a-lab/people"):
        upload_release(planned, api=nowhere)


def test_images_may_be_left_out(hub: LoopbackHub, built: BuiltRelease) -> None:
    planned = planned_upload(built.folder, REPOSITORY, with_images=False)
    assert planned.plan.files == len(bytes_in(built.folder)) - 12
    upload_release(planned, api=api(hub), private=False)
    ours = bytes_in(built.folder)
    assert hub.files(REPOSITORY) == {p: d for p, d in ours.items() if not p.startswith("images/")}
    assert not hub.repositories[REPOSITORY].private


def test_repository_names_need_an_owner_and_a_name(built: BuiltRelease) -> None:
    for name in ("people", "a/b/c", "", "a-lab/", "../x/y", "a lab/people"):
        with pytest.raises(UsageError, match="is named OWNER/NAME"):
            planned_upload(built.folder, name)


def test_a_damaged_release_is_not_uploaded(built: BuiltRelease) -> None:
    (built.folder / "images/3.jpg").write_bytes(b"no picture")
    with pytest.raises(IntegrityError, match=r"images/3\.jpg"):
        planned_upload(built.folder, REPOSITORY)
