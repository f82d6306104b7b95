"""Releases and folders of images that a release is compared with, read from their files."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from loupe.release.contamination import Look, Other, SeenImage, SeenVideo, look_at_file, seen_row
from loupe.release.format.files import shown_path
from loupe.release.format.manifest import MANIFEST
from loupe.release.format.row_files import ListedRelease, chosen_split
from loupe.release.format.rows import ReleaseRow
from loupe.schemas.errors import UsageError
from loupe.schemas.grouping import batches
from loupe.schemas.processes import ordered_map

_ENDINGS = ".avif .bmp .gif .heic .heif .jpe .jpeg .jpg .png .tif .tiff .webp"
IMAGE_SUFFIXES = frozenset(_ENDINGS.split())
"""Of files that are compared as images; those that cannot be decoded are named."""

_PAGE = 1000

_KnownLooks = Callable[[Sequence[str]], Mapping[str, Look]]
"""Returns what is known already of images, by entity id."""


def is_release(folder: Path) -> bool:
    """Whether a folder holds a release."""
    return (folder / MANIFEST).is_file()


def images_below(folder: Path) -> list[str]:
    """The images below a folder, recognised by suffix: sorted paths relative to the folder.

    Raises:
        UsageError: if `folder` is not a folder, or has no images.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder")
    found = (path for path in folder.rglob("*") if path.suffix.casefold() in IMAGE_SUFFIXES)
    names = sorted(path.relative_to(folder).as_posix() for path in found if path.is_file())
    if not names:
        suffixes = ", ".join(sorted(IMAGE_SUFFIXES))
        raise UsageError(f"{folder} contains no images: no file ends in {suffixes}")
    return names


def folder_of_images(folder: Path, name: str | None = None) -> Other:
    """The images below a folder.

    Raises:
        UsageError: if `folder` is not a folder, or has no images.
    """

    def seen(path: str) -> SeenImage:
        look = look_at_file(folder / path)
        return SeenImage(shown_path(path), look.sha256, look.perceptual_hash, fault=look.fault)

    paths = images_below(folder)
    named = name or folder.resolve().name or "folder"
    return Other(named, "folder", lambda: ordered_map(seen, paths))


def released_images(
    folder: Path,
    split: str | None = None,
    name: str | None = None,
    known: _KnownLooks = lambda _ids: {},
) -> Other:
    """The videos and images of a release, read from its folder, optionally of one `split` only.

    Reading them raises IntegrityError if the rows were changed.

    Raises:
        UsageError: if `folder` is not a release, or has no such split.
        IntegrityError: if its manifest was changed.
    """
    release = ListedRelease(folder)
    manifest = release.manifest
    chosen = None if split is None else chosen_split(manifest, split)

    def rows() -> Iterator[tuple[ReleaseRow, Look | None]]:
        """The rows in order, each with what is known of its image."""
        for page in batches(release.rows(ReleaseRow.of, chosen), _PAGE):
            looks = known([row.image_entity_id for row in page])
            yield from ((row, looks.get(row.image_entity_id)) for row in page)

    def seen(one: tuple[ReleaseRow, Look | None]) -> SeenImage:
        """A row as it is compared, using the bytes of its file."""
        row, look = one
        if look is None or look.sha256 != row.sha256:
            look = look_at_file(folder / row.file_path)
        fault = look.fault
        if fault is None and look.sha256 != row.sha256:
            fault = "holds other bytes than were released"
        found = seen_row(row, look.perceptual_hash)
        return found._replace(sha256=look.sha256, fault=fault)

    def contents() -> Iterator[SeenImage | SeenVideo]:
        for video in manifest.videos:
            yield SeenVideo(video.file_path, video.sha256)
        release.check(release.shards(chosen))
        yield from ordered_map(seen, rows())

    named = (name or manifest.name) + (f" ({split})" if split else "")
    return Other(named, "release", contents, manifest)
