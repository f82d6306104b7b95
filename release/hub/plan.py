"""What an upload to the hub would do: looked at before anything is sent."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]
from pydantic import Field

from release.export.formats import ReleaseSource, opened_release
from release.files import is_plain
from release.findings import Findings
from release.manifest import MANIFEST
from release.signing import SIGNATURE, verify_signature
from schemas.base import Record
from schemas.errors import IntegrityError, UsageError
from schemas.release import Count, DatasetName, HexSha256, Manifest, ReleasedFile, Version

MOST_IMAGES: Final = 10_000
"""The most files that the hub takes in one folder."""
_IMAGES: Final = "images/"
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


class PlannedUpload:
    """A plan, and the files that belong to it."""

    def __init__(self, plan: UploadPlan, source: ReleaseSource) -> None:
        self.plan = plan
        self._source = source

    @property
    def manifest(self) -> Manifest:
        """Of the release."""
        return self._source.manifest

    def paths(self) -> Iterator[Path]:
        """The files, relative to the folder of the release, which is `folder`."""
        yield from (Path(one.path) for one in _listed(self._source, self.plan.with_images))
        yield from (Path(name) for name in _BESIDE if (self.folder / name).is_file())

    @property
    def folder(self) -> Path:
        """Of the release."""
        return self._source.folder


@contextmanager
def planned_upload(
    folder: Path, repository: str, *, with_images: bool | None = None, verify: bool = True
) -> Iterator[PlannedUpload]:
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
        if with_images and images > MOST_IMAGES:
            raise UsageError(
                f"the hub takes {MOST_IMAGES:,} files in a folder and the release has {images:,} "
                f"images; leave them out with --no-images: the Parquet files hold them too"
            )
        if verify:
            source.verify()
            _verify_signature(source)
        _require_plain(source)
        takes_images = images <= MOST_IMAGES if with_images is None else with_images
        listed = list(_sizes(source, takes_images))
        plan = UploadPlan(
            repository=repository,
            release=source.manifest.id,
            dataset=source.manifest.dataset,
            version=source.manifest.version,
            files=len(listed),
            size_bytes=sum(listed),
            with_images=takes_images,
            demonstration=source.manifest.demonstration,
            unreviewed=source.manifest.unreviewed,
        )
        yield PlannedUpload(plan, source)


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


def _sizes(source: ReleaseSource, with_images: bool) -> Iterator[int]:
    yield from (one.size_bytes for one in _listed(source, with_images))
    for name in _BESIDE:
        if (path := source.folder / name).is_file():
            yield path.stat().st_size


def _listed(source: ReleaseSource, with_images: bool) -> Iterator[ReleasedFile]:
    for one in source.files():
        if with_images or not one.path.startswith(_IMAGES):
            yield one


def _verify_signature(source: ReleaseSource) -> None:
    findings = Findings()
    verify_signature(source.folder, source.manifest.id, None, findings)
    if found := findings.problems:
        raise IntegrityError(f"{source.folder}: {found[0].message}")


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
