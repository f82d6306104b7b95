"""Uploads a release to a dataset repository of the Hugging Face Hub."""

import os
import re
from collections.abc import Iterator, Mapping
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

from loupe.release.export.content import ReleaseSource
from loupe.release.format.files import Progress, is_disk_full, is_plain
from loupe.release.format.findings import Findings
from loupe.release.format.manifest import MANIFEST, read_values
from loupe.release.format.signing import SIGNATURE, verify_signature
from loupe.schemas.base import VERSION_PATTERN, Count, DatasetName, HexSha256, Record, Version
from loupe.schemas.errors import ConfigurationError, IntegrityError, ServiceError, UsageError
from loupe.schemas.grouping import batches
from loupe.schemas.withdrawal import version_numbers

_MOST_IMAGES: Final = 10_000
"""The largest number of files in one folder that the hub accepts."""
_BESIDE: Final = (MANIFEST, SIGNATURE)


class UploadPlan(Record):
    """The size and target of an upload.

    Attributes:
        repository: the repository on the hub, `owner/name`.
        release: the id of the release.
        dataset: its dataset.
        version: its version, which becomes a tag.
        files: the number of files.
        size_bytes: their total size.
        with_images: whether image files are uploaded; the Parquet files contain the images, too.
        demonstration: whether the release is marked as a demonstration.
        unreviewed: whether the release is marked as unreviewed.
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
        """The tag of the version in the repository."""
        return f"v{self.version}"


class PlannedUpload(NamedTuple):
    """A plan and its files, relative to the folder of the release."""

    plan: UploadPlan
    folder: Path
    files: tuple[str, ...]


def planned_upload(
    folder: Path, repository: str, *, with_images: bool | None = None, verify: bool = True
) -> PlannedUpload:
    """Plan the upload of the release in `folder` to `repository`; nothing is sent.

    Args:
        folder: the release.
        repository: `owner/name`.
        with_images: upload image files as well; None: unless there are more than the hub accepts.
        verify: check the signature and the digest of every file of the release first.

    Raises:
        UsageError: if `folder` is not a release, `repository` is not a valid name, or there are
            more images than the hub accepts.
        IntegrityError: if the release is damaged, was changed or was erased in part.
    """
    _check_name(repository)
    source = ReleaseSource(folder)
    images = source.manifest.statistics.images
    if with_images and images > _MOST_IMAGES:
        raise UsageError(
            f"the hub accepts {_MOST_IMAGES:,} files in a folder and the release has "
            f"{images:,} images; use --no-images, because the Parquet files contain them too"
        )
    if verify:
        source.verify()
        findings = Findings()
        verify_signature(folder, source.manifest.id, None, findings)
        if found := findings.problems:
            raise IntegrityError(f"{folder}: {found[0].message}")
    _require_plain(source)
    takes_images = images <= _MOST_IMAGES if with_images is None else with_images
    listed = [one for one in source.listed.listed() if takes_images or not _is_image(one.path)]
    beside = [name for name in _BESIDE if (folder / name).is_file()]
    size_bytes = sum(one.size_bytes for one in listed)
    plan = UploadPlan(
        repository=repository,
        release=source.manifest.id,
        files=len(listed) + len(beside),
        size_bytes=size_bytes + sum((folder / name).stat().st_size for name in beside),
        with_images=takes_images,
        **source.manifest.model_dump(include=set(UploadPlan.model_fields)),
    )
    return PlannedUpload(plan, folder, (*(one.path for one in listed), *beside))


def _is_image(path: str) -> bool:
    return path.startswith("images/")


def _require_plain(source: ReleaseSource) -> None:
    """Raise unless all files to send are in the release itself, without any links.

    Applies even without verification: the target of a link is not part of the release.
    """
    root = source.folder.resolve()
    for name in (*(one.path for one in source.listed.listed()), *_BESIDE):
        path = source.folder / name
        if os.path.lexists(path) and not (is_plain(path) and path.resolve() == root / name):
            raise IntegrityError(
                f"{source.folder}: {name} is a link or below one; only files of the release "
                f"itself can be uploaded"
            )


def _check_name(repository: str) -> None:
    try:
        validate_repo_id(repository)
        is_named = repository.count("/") == 1
    except HFValidationError:
        is_named = False
    if not is_named:
        raise UsageError(
            f"a repository of the hub is named OWNER/NAME, with letters, digits, '-', '_' and '.'; "
            f"got {repository!r}"
        )


if TYPE_CHECKING:
    from huggingface_hub.hf_api import GitRefInfo

_AT_ONCE: Final = 100
_DATASET: Final = "dataset"
_KEPT: Final = (".gitattributes",)  # files of the hub itself
_UNAUTHORIZED: Final = (401, 403)


class Uploaded(NamedTuple):
    """A release on the hub; `is_new` is False if it was there already."""

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
    """Upload what is planned; a missing repository is created, `private` or public.

    An existing repository must be empty or hold an earlier release of the same dataset. Anything
    else is removed only with `replace`. The hub's address and the token are those of
    huggingface_hub (`HF_ENDPOINT`, `HF_TOKEN`).

    Raises:
        ConfigurationError: if there is no token, or the hub does not accept it.
        UsageError: if the repository has another release of this version, holds something else,
            or is public although `private` is set.
        IntegrityError: if a file of the release cannot be read any more.
        ServiceError: if the hub does not answer, or refuses the upload.
    """
    plan, hub = planned.plan, api or HfApi()
    with _hub_errors(plan.repository, hub.token or get_token()):
        hub.create_repo(plan.repository, repo_type=_DATASET, private=private, exist_ok=True)
        if known := _tagged(hub, plan.repository, plan.tag):
            _require_same(hub, planned, known)
            return Uploaded(_url(hub, planned), is_new=False)
        found = hub.dataset_info(plan.repository)
        if private and found.private is False:
            raise UsageError(
                f"{found.id} is public; pass --public if the release may be public, "
                f"or choose another repository"
            )
        there = {one.rfilename for one in found.siblings or ()}
        held = _manifest_at(hub, plan.repository, found.sha) if MANIFEST in there else {}
        is_whole = there.union(_KEPT) == {*planned.files, *_KEPT}
        if is_whole and held.get("id") == plan.release:  # and was interrupted before it was tagged
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
            parent_commit=found.sha,  # otherwise a concurrent commit would be undone
        )
        hub.create_tag(plan.repository, tag=plan.tag, revision=commit.oid, repo_type=_DATASET)
    return Uploaded(_url(hub, planned), is_new=True)


def _require_earlier(plan: UploadPlan, file: str, held: Mapping[str, Any]) -> None:
    """Raise unless the files to remove belong to an earlier release of the same dataset.

    `file` is a file in the repository, `held` the manifest there.
    """
    version = str(held.get("version"))
    if held.get("dataset") != plan.dataset or not re.fullmatch(VERSION_PATTERN, version):
        raise UsageError(
            f"{plan.repository} holds other files than a release of {plan.dataset}, {file} first; "
            f"choose another repository, or pass --replace to remove them"
        )
    if version_numbers(version) >= version_numbers(plan.version):
        raise UsageError(
            f"{plan.repository} holds {plan.dataset} {version}, which is not earlier than "
            f"{plan.version}; pass --replace to replace it"
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
    """The manifest in a repository; empty if it cannot be read."""
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
def _hub_errors(repository: str, token: object) -> Iterator[None]:
    """Convert errors of the hub into errors with a readable message; sent files are kept there."""
    again = "run again to continue; files that were sent are kept"
    try:
        yield
    except LocalTokenNotFoundError as error:
        raise ConfigurationError(_LOGIN_HINT) from error
    except HfHubHTTPError as error:
        status = error.response.status_code
        if status in _UNAUTHORIZED:
            raise ConfigurationError(
                f"the hub does not let this token write to {repository} (HTTP {status}); "
                f"{_LOGIN_HINT}"
            ) from error
        said = _without_token(error.server_message or f"HTTP {status}", token)
        raise ServiceError(f"the hub refuses {repository} ({said}); {again}") from error
    except (httpx2.HTTPError, OSError, RuntimeError) as error:
        fault = error.__cause__ or error  # the library wraps errors of single files
        if is_disk_full(fault):
            raise fault from None
        if isinstance(fault, OSError) and fault.filename:
            raise IntegrityError(f"{fault.filename} cannot be read ({fault.strerror})") from error
        raise ServiceError(
            f"the hub does not answer for {repository} ({type(fault).__name__}); {again}"
        ) from error


def _without_token(text: str, token: object) -> str:
    """The hub's message without the token, which it may repeat."""
    return text.replace(token, "***") if isinstance(token, str) and token else text


_LOGIN_HINT: Final = (
    "set HF_TOKEN to a token with write access, or run `hf auth login` "
    "(https://huggingface.co/settings/tokens)"
)
