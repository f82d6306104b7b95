"""Uploads a release to a dataset repository of the Hugging Face Hub."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import httpx2
from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, get_token
from huggingface_hub.errors import (
    EntryNotFoundError,
    HfHubHTTPError,
    HFValidationError,
    LocalTokenNotFoundError,
)
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]
from pydantic import Field

from release.export.formats import ReleaseSource, opened_release
from release.files import is_plain
from release.findings import Findings
from release.manifest import MANIFEST, read_values
from release.signing import SIGNATURE, verify_signature
from release.threads import batches
from release.versions import is_earlier
from schemas.base import Record
from schemas.errors import ConfigurationError, IntegrityError, ServiceError, UsageError
from schemas.release import Count, DatasetName, HexSha256, Version

_MOST_IMAGES: Final = 10_000
"""The most files that the hub takes in one folder."""
_BESIDE: Final = (MANIFEST, SIGNATURE)


class UploadPlan(Record):
    """An upload, in numbers.

    Attributes:
        repository: of the hub, `owner/name`.
        release: the id of the release.
        dataset: its dataset.
        version: its version, which becomes a tag.
        files: how many there are.
        size_bytes: of all of them.
        with_images: whether the image files go along; they are embedded in the Parquet files, too.
        demonstration: the release says that it is one.
        unreviewed: the release says that nobody looked at it.
    """

    repository: str
    release: HexSha256
    dataset: DatasetName
    version: Version
    files: Count
    size_bytes: Count
    with_images: bool = Field(
        description="Without image files a download is not the whole release."
    )
    demonstration: bool
    unreviewed: bool

    @property
    def tag(self) -> str:
        """What the version is called in the repository."""
        return f"v{self.version}"


class PlannedUpload(NamedTuple):
    """A plan, and the files that belong to it, relative to the folder of the release."""

    plan: UploadPlan
    folder: Path
    files: tuple[str, ...]


def planned_upload(
    folder: Path, repository: str, *, with_images: bool | None = None, verify: bool = True
) -> PlannedUpload:
    """The upload of the release in `folder` to `repository`; nothing is sent.

    Args:
        folder: the release.
        repository: `owner/name`.
        with_images: upload image files as well; None: where there are not more than the hub takes.
        verify: hold every file of the release against its digest first, and its signature.

    Raises:
        UsageError: there is no release in `folder`, the repository has no such name, or there are
            more images than the hub takes.
        IntegrityError: the release is not as it was released, or was erased in part.
    """
    _check_name(repository)
    with opened_release(folder, lambda _done, _total: None) as source:
        images = source.manifest.statistics.images
        if with_images and images > _MOST_IMAGES:
            raise UsageError(
                f"the hub takes {_MOST_IMAGES:,} files in a folder and the release has {images:,} "
                f"images; leave them out with --no-images: the Parquet files hold them too"
            )
        if verify:
            source.verify()
            findings = Findings()
            verify_signature(folder, source.manifest.id, None, findings)
            if found := findings.problems:
                raise IntegrityError(f"{folder}: {found[0].message}")
        _require_plain(source)
        takes_images = images <= _MOST_IMAGES if with_images is None else with_images
        listed = [one for one in source.files() if takes_images or not _is_image(one.path)]
        beside = [name for name in _BESIDE if (folder / name).is_file()]
        size_bytes = sum(one.size_bytes for one in listed)
        plan = UploadPlan(
            repository=repository,
            release=source.manifest.id,
            dataset=source.manifest.dataset,
            version=source.manifest.version,
            files=len(listed) + len(beside),
            size_bytes=size_bytes + sum((folder / name).stat().st_size for name in beside),
            with_images=takes_images,
            demonstration=source.manifest.demonstration,
            unreviewed=source.manifest.unreviewed,
        )
        return PlannedUpload(plan, folder, (*(one.path for one in listed), *beside))


def _is_image(path: str) -> bool:
    return path.startswith("images/")


def _require_plain(source: ReleaseSource) -> None:
    """Nothing, if all that would be sent lies in the release itself, and no link leads elsewhere.

    Holds where nothing is verified, too: what a link leads to is somebody's, and no part of it.
    """
    root = source.folder.resolve()
    for name in (*(one.path for one in source.files()), *_BESIDE):
        path = source.folder / name
        if os.path.lexists(path) and not (is_plain(path) and path.resolve() == root / name):
            raise IntegrityError(
                f"{source.folder}: {name} is a link or lies behind one; nothing is sent but files "
                f"of the release itself"
            )


def _check_name(repository: str) -> None:
    try:
        validate_repo_id(repository)
        is_named = repository.count("/") == 1
    except HFValidationError:
        is_named = False
    if not is_named:
        raise UsageError(
            f"a repository of the hub is called OWNER/NAME, in letters, digits, '-', '_' and '.'; "
            f"got {repository!r}"
        )


if TYPE_CHECKING:
    from huggingface_hub.hf_api import GitRefInfo

_Progress = Callable[[int, int], None]
"""Called with the files sent so far and their total."""

_AT_ONCE: Final = 100
_DATASET: Final = "dataset"
_KEPT: Final = (".gitattributes",)  # the hub's own
_UNAUTHORIZED: Final = (401, 403)


class Uploaded(NamedTuple):
    """A release on the hub; `is_new` is False where it was there already."""

    url: str
    is_new: bool


def upload_release(
    planned: PlannedUpload,
    *,
    private: bool = True,
    replace: bool = False,
    api: HfApi | None = None,
    on_progress: _Progress = lambda _done, _total: None,
) -> Uploaded:
    """Uploads what is planned. A repository that is not there is made, `private` or open to all.

    One that is there must be empty, or hold an earlier release of the same dataset: anything else
    is only removed to `replace` it. The hub's address and the token are those of huggingface_hub:
    `HF_ENDPOINT`, `HF_TOKEN`.

    Raises:
        ConfigurationError: there is no token, or the hub does not accept it.
        UsageError: the repository has another release of this version, holds something else, or is
            open to all and nobody said that the release may be.
        ServiceError: the hub does not answer, or refuses.
    """
    plan, hub = planned.plan, api or HfApi()
    with _errors_in_a_sentence(plan.repository, hub.token or get_token()):
        hub.create_repo(plan.repository, repo_type=_DATASET, private=private, exist_ok=True)
        if known := _tagged(hub, plan.repository, plan.tag):
            _require_same(hub, planned, known)
            return Uploaded(_url(hub, planned), is_new=False)
        found = hub.dataset_info(plan.repository)
        if private and found.private is False:
            raise UsageError(
                f"{found.id} is open to all; say --public if the release may be seen by everybody, "
                f"or choose another repository"
            )
        there = {one.rfilename for one in found.siblings or ()}
        held = _manifest_at(hub, plan.repository, found.sha) if MANIFEST in there else {}
        is_whole = there.union(_KEPT) == {*planned.files, *_KEPT}
        if is_whole and held.get("id") == plan.release:  # and was cut off before it had its tag
            hub.create_tag(plan.repository, tag=plan.tag, revision=found.sha, repo_type=_DATASET)
            return Uploaded(_url(hub, planned), is_new=True)
        if not replace and (others := sorted(there.difference(_KEPT))):
            _require_earlier(plan, others[0], held)
        added: list[CommitOperationAdd] = []
        for paths in batches(planned.files, _AT_ONCE):
            additions = [CommitOperationAdd(path, planned.folder / path) for path in paths]
            hub.preupload_lfs_files(plan.repository, additions, repo_type=_DATASET)
            added += additions
            on_progress(len(added), plan.files)
        foreign = sorted(there - {*planned.files, *_KEPT})
        commit = hub.create_commit(
            plan.repository,
            [*added, *map(CommitOperationDelete, foreign)],
            repo_type=_DATASET,
            commit_message=f"{plan.dataset} {plan.version}",
            commit_description=f"Release {plan.release}",
            parent_commit=found.sha,  # or somebody else's commit in between would be undone
        )
        hub.create_tag(plan.repository, tag=plan.tag, revision=commit.oid, repo_type=_DATASET)
    return Uploaded(_url(hub, planned), is_new=True)


def _require_earlier(plan: UploadPlan, file: str, held: Mapping[str, Any]) -> None:
    """Sees to it that nothing is removed but an earlier release of the same dataset.

    `file` is a file in the repository, and `held` the manifest there.
    """
    if held.get("dataset") != plan.dataset:
        raise UsageError(
            f"{plan.repository} holds other files than a release of {plan.dataset}, {file} first; "
            f"choose another repository, or say --replace to remove them"
        )
    version = str(held.get("version"))
    if not is_earlier(version, plan.version):
        raise UsageError(
            f"{plan.repository} holds {plan.dataset} {version}, which is no earlier version than "
            f"{plan.version}; say --replace to put this one in its place"
        )


def _tagged(hub: HfApi, repository: str, tag: str) -> "GitRefInfo | None":
    refs = hub.list_repo_refs(repository, repo_type=_DATASET)
    return next((one for one in refs.tags if one.name == tag), None)


def _require_same(hub: HfApi, planned: PlannedUpload, tag: "GitRefInfo") -> None:
    plan = planned.plan
    release = _manifest_at(hub, plan.repository, tag.target_commit).get("id")
    if release != plan.release:
        other = f"release {release[:12]}" if isinstance(release, str) else "something else"
        raise UsageError(
            f"{plan.repository} has {other} as {plan.tag}, and this is release "
            f"{plan.release[:12]}; releases never change: choose a new version"
        )


def _manifest_at(hub: HfApi, repository: str, revision: str | None) -> dict[str, Any]:
    """The manifest in a repository; empty where there is none that can be read."""
    with TemporaryDirectory() as cache:
        try:
            path = hub.hf_hub_download(
                repository, MANIFEST, repo_type=_DATASET, revision=revision, cache_dir=cache
            )
            return read_values(Path(path))
        except (EntryNotFoundError, ValueError):
            return {}


def _url(hub: HfApi, planned: PlannedUpload) -> str:
    return f"{hub.endpoint}/datasets/{planned.plan.repository}/tree/{planned.plan.tag}"


@contextmanager
def _errors_in_a_sentence(repository: str, token: object) -> Iterator[None]:
    """Faults of the hub as errors that can be shown; what was sent is kept there."""
    again = "run again to go on: nothing that was sent is lost"
    try:
        yield
    except LocalTokenNotFoundError as error:
        raise ConfigurationError(_WANTED) from error
    except HfHubHTTPError as error:
        status = error.response.status_code
        if status in _UNAUTHORIZED:
            raise ConfigurationError(
                f"the hub lets this token not write to {repository} (HTTP {status}); {_WANTED}"
            ) from error
        said = _without_token(error.server_message or f"HTTP {status}", token)
        raise ServiceError(f"the hub refuses {repository} ({said}); {again}") from error
    except (httpx2.HTTPError, OSError, RuntimeError) as error:
        fault = error.__cause__ or error  # the library wraps what happens to one file
        raise ServiceError(
            f"the hub does not answer for {repository} ({type(fault).__name__}); {again}"
        ) from error


def _without_token(text: str, token: object) -> str:
    """What a hub says, which may repeat what it was sent."""
    return text.replace(token, "***") if isinstance(token, str) and token else text


_WANTED: Final = (
    "a token that may write is wanted in HF_TOKEN, or of `hf auth login` "
    "(https://huggingface.co/settings/tokens)"
)
