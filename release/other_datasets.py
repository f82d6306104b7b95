"""Releases and folders of images that a release is compared with, read from their files."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from release.contamination import Look, SeenImage, SeenVideo, look_at_file, seen_row
from release.files import shown_path
from release.manifest import MANIFEST
from release.row_files import ListedRelease, chosen_split
from release.rows import ReleaseRow
from schemas.errors import UsageError
from schemas.processes import batches, ordered_map
from schemas.similarity import OtherKind

_ENDINGS = ".avif .bmp .gif .heic .heif .jpe .jpeg .jpg .png .tif .tiff .webp"
IMAGE_SUFFIXES = frozenset(_ENDINGS.split())
"""Of files that are compared as images; those that cannot be decoded are named."""

_PAGE = 1000

_KnownLooks = Callable[[Sequence[str]], Mapping[str, Look]]
"""Returns what is known already of images, by entity id."""


def is_release(folder: Path) -> bool:
    """Whether a folder holds a release."""
    return (folder / MANIFEST).is_file()


class FolderOfImages:
    """The images below a folder, recognised by suffix and sorted by path.

    `names` are their paths relative to the folder, with forward slashes.
    """

    kind: OtherKind = "folder"
    release_id: str | None = None

    def __init__(self, folder: Path, name: str | None = None) -> None:
        """List the images.

        Raises:
            UsageError: if `folder` is not a folder, or has no images.
        """
        if not folder.is_dir():
            raise UsageError(f"{folder} is not a folder")
        self.name = name or folder.resolve().name or "folder"
        self._folder = folder
        found = (path for path in folder.rglob("*") if path.suffix.casefold() in IMAGE_SUFFIXES)
        self.names = sorted(path.relative_to(folder).as_posix() for path in found if path.is_file())
        if not self.names:
            suffixes = ", ".join(sorted(IMAGE_SUFFIXES))
            raise UsageError(f"{folder} contains no images: no file ends in {suffixes}")

    def contents(self) -> Iterator[SeenImage]:
        """Every image, as described in `release.contamination.Other`."""

        def seen(name: str) -> SeenImage:
            look = look_at_file(self._folder / name)
            return SeenImage(shown_path(name), look.sha256, look.perceptual_hash, fault=look.fault)

        yield from ordered_map(seen, self.names)


class ReleasedImages:
    """The images of a release, read from its folder, optionally of one `split` only."""

    kind: OtherKind = "release"

    def __init__(
        self,
        folder: Path,
        split: str | None = None,
        name: str | None = None,
        known: _KnownLooks = lambda _ids: {},
    ) -> None:
        """Read the manifest.

        Raises:
            UsageError: if `folder` is not a release, or has no such split.
            IntegrityError: if its manifest was changed.
        """
        self._release = ListedRelease(folder)
        self.manifest = self._release.manifest
        self.release_id: str | None = self.manifest.id
        self._split = None if split is None else chosen_split(self.manifest, split)
        part = f" ({split})" if split else ""
        self.name = (name or f"{self.manifest.dataset} {self.manifest.version}") + part
        self._known = known

    def contents(self) -> Iterator[SeenImage | SeenVideo]:
        """Every image and every video, as described in `release.contamination.Other`.

        Raises:
            IntegrityError: if the rows were changed.
        """
        for video in self.manifest.videos:
            yield SeenVideo(video.file_path, video.sha256)
        yield from self.images()

    def images(self) -> Iterator[SeenImage]:
        """The images in the order of rows."""
        yield from ordered_map(self._seen, self._rows())

    def _rows(self) -> Iterator[tuple[ReleaseRow, Look | None]]:
        """The rows in order, each with what is known of its image."""
        self._release.check(self._release.shards(self._split))
        for page in batches(self._release.rows(ReleaseRow.of, self._split), _PAGE):
            known = self._known([row.image_entity_id for row in page])
            yield from ((row, known.get(row.image_entity_id)) for row in page)

    def _seen(self, one: tuple[ReleaseRow, Look | None]) -> SeenImage:
        """A row as it is compared, using the bytes of its file."""
        row, look = one
        if look is None or look.sha256 != row.sha256:
            look = look_at_file(self._release.folder / row.file_path)
        fault = look.fault
        if fault is None and look.sha256 != row.sha256:
            fault = "holds other bytes than were released"
        seen = seen_row(row, look.perceptual_hash)
        return seen._replace(sha256=look.sha256, fault=fault)
