"""Uploads a release to the hub: whole or not at all, and on from where it was cut off.

Large files are sent first, a few at a time; the hub keeps what it has by its digest, so that a
second upload sends only what is missing. Then one commit makes the repository hold the release and
nothing else, and a tag names the version. Until that commit the repository is as it was.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import httpx2
from huggingface_hub import (
    CommitOperationAdd,
    CommitOperationDelete,
    DatasetInfo,
    HfApi,
    get_token,
)
from huggingface_hub.errors import (
    EntryNotFoundError,
    HfHubHTTPError,
    LocalTokenNotFoundError,
)

from release.hub.plan import PlannedUpload
from release.manifest import MANIFEST, read_values
from release.versions import is_earlier
from schemas.errors import ConfigurationError, ServiceError, UsageError

if TYPE_CHECKING:
    from huggingface_hub.hf_api import GitRefInfo

Progress = Callable[[int, int], None]
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
    on_progress: Progress = lambda _done, _total: None,
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
        _require_unseen(found, private=private)
        if _is_committed(hub, planned, found):  # and was cut off before it had its tag
            hub.create_tag(plan.repository, tag=plan.tag, revision=found.sha, repo_type=_DATASET)
            return Uploaded(_url(hub, planned), is_new=True)
        if not replace:
            _require_ours(hub, planned, found)
        added = []
        for additions in _additions(planned):
            hub.preupload_lfs_files(plan.repository, additions, repo_type=_DATASET)
            added += additions
            on_progress(len(added), plan.files)
        commit = hub.create_commit(
            plan.repository,
            [*added, *_deletions(found, planned)],
            repo_type=_DATASET,
            commit_message=f"{plan.dataset} {plan.version}",
            commit_description=f"Release {plan.release}",
            parent_commit=found.sha,  # or somebody else's commit in between would be undone
        )
        hub.create_tag(plan.repository, tag=plan.tag, revision=commit.oid, repo_type=_DATASET)
    return Uploaded(_url(hub, planned), is_new=True)


def _require_unseen(found: DatasetInfo, *, private: bool) -> None:
    if private and found.private is False:
        raise UsageError(
            f"{found.id} is open to all; say --public if the release may be seen by everybody, or "
            f"choose another repository"
        )


def _is_committed(hub: HfApi, planned: PlannedUpload, found: DatasetInfo) -> bool:
    """Whether the repository holds this very release and nothing else."""
    there = {path for path in _paths(found) if path not in _KEPT}
    if there != {path.as_posix() for path in planned.paths()}.difference(_KEPT):
        return False
    held = _manifest_at(hub, planned.plan.repository, found.sha)
    return held.get("id") == planned.plan.release


def _require_ours(hub: HfApi, planned: PlannedUpload, found: DatasetInfo) -> None:
    """Sees to it that nothing is removed but an earlier release of the same dataset."""
    plan = planned.plan
    there = [path for path in _paths(found) if path not in _KEPT]
    if not there:
        return
    held = _manifest_at(hub, plan.repository, found.sha) if MANIFEST in there else {}
    if held.get("dataset") != plan.dataset:
        raise UsageError(
            f"{plan.repository} holds other files than a release of {plan.dataset}, {there[0]} "
            f"first; choose another repository, or say --replace to remove them"
        )
    version = str(held.get("version"))
    if not is_earlier(version, plan.version):
        raise UsageError(
            f"{plan.repository} holds {plan.dataset} {version}, which is no earlier version than "
            f"{plan.version}; say --replace to put this one in its place"
        )


def _paths(found: DatasetInfo) -> list[str]:
    return [one.rfilename for one in found.siblings or ()]


def _additions(planned: PlannedUpload) -> Iterator[list[CommitOperationAdd]]:
    paths = planned.paths()
    while some := list(islice(paths, _AT_ONCE)):
        yield [CommitOperationAdd(path.as_posix(), planned.folder / path) for path in some]


def _deletions(found: DatasetInfo, planned: PlannedUpload) -> list[CommitOperationDelete]:
    """What lies in the repository and is no part of the release."""
    ours = {path.as_posix() for path in planned.paths()}
    return [CommitOperationDelete(path) for path in _paths(found) if path not in ours.union(_KEPT)]


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
