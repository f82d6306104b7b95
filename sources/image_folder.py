"""Folders of images, with their captions in text files beside them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from loupe.schemas.errors import FormatError
from loupe.schemas.text_files import read_text
from loupe.sources.annotations import SPLIT_NAMES, FieldError, bad_row
from loupe.sources.columns import Found, RecordImporter, split_of
from loupe.sources.files import digest_of_files
from loupe.sources.records import BadRow, ReadOptions

_SUFFIXES: Final = (".jpg", ".jpeg", ".png", ".webp", ".bmp")
_CAPTIONS: Final = (".txt", ".caption", ".cap")
_MOST_BYTES: Final = 1024 * 1024


class ImageFolderImporter(RecordImporter):
    """Reads a folder: `dock.jpg`, and its captions in `dock.txt`, one a line.

    The fields of an image are `image`, `captions`, `folder` (the name of its folder, such as a
    class) and `name`. A folder `train`, `val` or `test` is a split. The name of any other folder is
    a category of its images.
    """

    def digest(self, path: Path) -> str:
        """Return the digest of the names and digests of all images and captions.

        Raises:
            FormatError: one cannot be read, or it is no folder.
        """
        return digest_of_files(path, [one for one in self._files(path) if _is_read(one)])

    def records(self, path: Path, options: ReadOptions) -> Iterator[Found | BadRow]:  # noqa: ARG002
        """Yield the images in the order of their paths.

        Raises:
            FormatError: it is no folder, or has no image.
        """
        files = [one for one in self._files(path) if one.suffix.casefold() in _SUFFIXES]
        if not files:
            raise self.stranger(path, f": it has no image ({', '.join(_SUFFIXES)})")
        for index, file in enumerate(files):
            name = file.relative_to(path).as_posix()
            folder = "" if file.parent == path else file.parent.name
            is_class = bool(folder) and folder.casefold() not in SPLIT_NAMES
            fields = {"image": name, "name": file.stem, "folder": folder or None}
            try:
                captions = _captions(file)
            except FormatError as fault:
                unreadable = FieldError("captions", "unreadable_captions", str(fault))
                yield bad_row(unreadable, name, index, fields)
                continue
            yield Found(
                name,
                index,
                {**fields, "captions": captions},
                split=split_of(path, file.parent) if file.parent != path else None,
                categories=(folder.replace("_", " "),) if is_class else (),
            )

    def _files(self, path: Path) -> list[Path]:
        if not path.is_dir():
            raise self.stranger(path, ": it is no folder")
        found = []
        for one in path.rglob("*"):
            is_hidden = any(part.startswith(".") for part in one.relative_to(path).parts)
            if not is_hidden and one.is_file():
                found.append(one)
        return sorted(found)


def _is_read(file: Path) -> bool:
    return file.suffix.casefold() in (*_SUFFIXES, *_CAPTIONS)


def _captions(image: Path) -> list[str]:
    for suffix in _CAPTIONS:
        file = image.with_suffix(suffix)
        if file.is_file():
            text = read_text(file, "captions", most_bytes=_MOST_BYTES)
            return [line for line in text.splitlines() if line.strip()]
    return []
