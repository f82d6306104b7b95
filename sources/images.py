"""Open image files safely: bytes that decode to one upright image."""

import os
import re
import stat
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple, Protocol

from pydantic import Field

from loupe.schemas.base import Record, sha256_of
from loupe.schemas.faces import TreatedFaces
from loupe.schemas.records import Rejection
from loupe.schemas.wording import storable
from loupe.sources.decoding import ImageRefusedError, Upright, limited_each, upright
from loupe.sources.pieces import Piece
from loupe.sources.records import BadRow, SourceRow

_FILES_TOGETHER: Final = 16
_BYTES_TOGETHER: Final = 1 << 23
_WINDOWS_DRIVE = re.compile(r"[A-Za-z]:")


class ImageLimits(Record):
    """The maximum size of an image (as a file, and in pixels by its header), and its least shape.

    `least_side_px` is the least width and height, `greatest_aspect` the longer side divided by the
    shorter one.
    """

    max_bytes: int = Field(default=100 * 1024 * 1024, gt=0)
    max_pixels: int = Field(default=50_000_000, gt=0)
    least_side_px: int = Field(default=1, gt=0)
    greatest_aspect: float | None = Field(default=None, ge=1)


class InspectedImage(NamedTuple):
    """An image that decodes, upright. Width and height are those of the upright image.

    `data` are the file's own bytes if they contain only pixels and colours. Everything else is
    removed, because it may reveal a place; then `source_sha256` differs but the pixels do not. Only
    a BMP, an image that had to be turned upright, or one whose file cannot be copied in parts, is
    encoded again. `faces` says what was done to its faces since.
    """

    file_path: str
    data: bytes
    sha256: str
    source_sha256: str
    media_type: str
    width_px: int
    height_px: int
    faces: TreatedFaces | None = None

    def facts(self) -> dict[str, Any]:
        """Return everything except the bytes, by the names that `Image` records have for it."""
        facts = self._asdict()
        del facts["data"]
        return facts


class ImageProblem(Record):
    """Why a file cannot be used as an image."""

    file_path: str
    reason: str
    detail: str

    def as_rejection(self, stage: str) -> Rejection:
        """Return the rejection of the file by a stage."""
        context = {"file_path": self.file_path}
        return Rejection(stage=stage, reason=self.reason, detail=self.detail, context=context)

    def as_bad_row(self, row: SourceRow, file: str) -> BadRow:
        """Return the bad row that `row` of the annotation `file` becomes."""
        return BadRow(
            file=row.file or file,
            index=row.index,
            field="file_path",
            reason=self.reason,
            detail=self.detail,
            raw=row.model_dump_json(),
        )


class RemoteImages(Protocol):
    """A folder of images on another machine."""

    def read(self, file_path: str, max_bytes: int) -> bytes:
        """Return the bytes of an image.

        Raises:
            ImageRefusedError: it is missing, too large or cannot be read.
        """
        ...

    def holds(self, file_path: str) -> bool:
        """Tell whether there is such a file."""
        ...


ImageRoot = Path | RemoteImages
"""What the paths of images are relative to."""


def inspect_image(
    image_root: ImageRoot, file_path: str, limits: ImageLimits | None = None
) -> InspectedImage | ImageProblem:
    """Return the image at `file_path` below `image_root`, or why it is unusable. Thread-safe.

    JPEG, PNG, WebP and BMP are supported, recognized by their content, never by their name;
    animations are not. The pixel cap is compared with the header, before anything is decoded.
    """
    limits = limits or ImageLimits()
    (inspected,) = _inspected([_read(image_root, file_path, limits)], limits)
    return inspected


def inspect_each(
    image_root: ImageRoot, rows: Iterable[SourceRow], limits: ImageLimits | None = None
) -> Iterator[InspectedImage | ImageProblem]:
    """Yield the image of each row, from the first of its paths with a file; see `inspect_image`.

    A few are decoded together, which is faster.
    """
    limits = limits or ImageLimits()
    if isinstance(image_root, Path):
        image_root = Path(os.path.realpath(image_root))
    files: list[_File] = []
    size = 0
    for row in rows:
        files.append(_read_any(image_root, row, limits))
        size += len(files[-1].data)
        if len(files) == _FILES_TOGETHER or size >= _BYTES_TOGETHER:
            yield from _inspected(files, limits)
            files, size = [], 0
    yield from _inspected(files, limits)


def is_file_below(image_root: ImageRoot, file_path: str) -> bool:
    """Tell whether there is a file at `file_path` below `image_root`."""
    try:
        if not isinstance(image_root, Path):
            return image_root.holds(_name_inside(file_path))
        return _existing_inside(image_root, file_path).is_file()
    except (ImageRefusedError, OSError):
        return False


class _File(NamedTuple):
    """The bytes of a file, or why it is refused."""

    path: str
    data: bytes = b""
    refusal: ImageRefusedError | None = None


def _read_any(image_root: ImageRoot, row: SourceRow, limits: ImageLimits) -> _File:
    """Read the image that a row holds, or the first of its files that exists."""
    if row.held is not None:
        return _read_held(row.file_path, row.held, limits)
    first = file = _read(image_root, row.file_path, limits)
    for path in row.other_paths:
        if file.refusal is None or file.refusal.reason != "missing_image":
            return file
        file = _read(image_root, path, limits)
    is_missing = file.refusal is not None and file.refusal.reason == "missing_image"
    return first if is_missing else file


def _read_held(file_path: str, held: Piece, limits: ImageLimits) -> _File:
    try:
        _refuse_size(held.size, limits.max_bytes)
    except ImageRefusedError as refusal:
        return _File(file_path, refusal=refusal)
    return _File(file_path, held.read())


def _read(image_root: ImageRoot, file_path: str, limits: ImageLimits) -> _File:
    try:
        if isinstance(image_root, Path):
            data = _read_inside(image_root, file_path, limits.max_bytes)
        else:
            data = image_root.read(_name_inside(file_path), limits.max_bytes)
    except ImageRefusedError as refusal:
        return _File(file_path, refusal=refusal)
    return _File(file_path, data)


def _read_inside(image_root: Path, file_path: str, max_bytes: int) -> bytes:
    target = _existing_inside(image_root, file_path)
    try:
        with open(target, "rb", opener=_without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ImageRefusedError("not_a_file", "is a device or a pipe, wanted a file")
            _refuse_size(status.st_size, max_bytes)
            return file.read(status.st_size)
    except (FileNotFoundError, NotADirectoryError):
        raise ImageRefusedError("missing_image", "does not exist below the image root") from None
    except IsADirectoryError:
        raise ImageRefusedError("not_a_file", "is a directory, wanted a file") from None
    except OSError as fault:
        raise ImageRefusedError("unreadable_image", f"cannot be read: {fault.strerror}") from fault


def _refuse_size(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        what = f"has {size:,} bytes, wanted at most {max_bytes:,}"
        raise ImageRefusedError("too_many_bytes", what)


def _existing_inside(image_root: Path, file_path: str) -> Path:
    """Return the file at `file_path`, or one whose name differs only in how letters are composed.

    Annotation files and file systems write «é» as one character (NFC) or as two (NFD).
    """
    target = _resolved_inside(image_root, file_path)
    for form in ("NFC", "NFD"):
        other = unicodedata.normalize(form, file_path)
        if other != file_path and not target.exists():
            target = _resolved_inside(image_root, other)
    return target


def _without_waiting(path: str, flags: int) -> int:
    """Open a file without waiting; a pipe would otherwise wait for a writer."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)


def _resolved_inside(image_root: Path, file_path: str) -> Path:
    """Return the file behind all symbolic links, which must lie below the image root."""
    name = _name_inside(file_path)
    try:
        os.fsencode(file_path).decode("utf-8")
        root = os.path.realpath(image_root)  # twice as fast as `resolve`
        target = os.path.realpath(os.path.join(root, name))  # noqa: PTH118 - fast
        if "\0" in file_path:
            raise ValueError(file_path)  # noqa: TRY301 - newer Pythons resolve such a path
    except (OSError, ValueError, RuntimeError) as fault:
        raise ImageRefusedError("unreadable_image", "is not a path that can be opened") from fault
    if target != root and not target.startswith(f"{root.rstrip('/')}/"):
        raise _outside()
    return Path(target)


def _name_inside(file_path: str) -> str:
    """Return a path that does not lead out of its folder, with forward slashes."""
    path = PurePosixPath(file_path.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or _WINDOWS_DRIVE.match(file_path):
        raise _outside()
    return str(path)


def _outside() -> ImageRefusedError:
    return ImageRefusedError(
        "path_outside_root", "leads out of the image root, wanted a path below it"
    )


def _inspected(
    files: Sequence[_File], limits: ImageLimits
) -> Iterator[InspectedImage | ImageProblem]:
    most = limits.max_pixels
    images = [file.data for file in files if file.refusal is None]
    decoded = iter(limited_each(upright, images, most, max_pixels=most))
    for file in files:
        result = file.refusal or next(decoded)
        if isinstance(result, ImageRefusedError):
            yield _problem(file.path, result)
            continue
        image = _image(file, result)
        refusal = _shape_refusal(image, limits)
        yield image if refusal is None else _problem(file.path, refusal)


def _image(file: _File, decoded: Upright) -> InspectedImage:
    changed, media_type, size = decoded
    source_sha256 = sha256_of(file.data)
    return InspectedImage(
        file_path=file.path,
        data=file.data if changed is None else changed,
        sha256=source_sha256 if changed is None else sha256_of(changed),
        source_sha256=source_sha256,
        media_type=media_type,
        width_px=size[0],
        height_px=size[1],
    )


def _problem(file_path: str, refusal: ImageRefusedError) -> ImageProblem:
    detail = f"image {file_path!r} {refusal.what}"
    return ImageProblem(file_path=storable(file_path), reason=refusal.reason, detail=detail)


def _shape_refusal(image: InspectedImage, limits: ImageLimits) -> ImageRefusedError | None:
    short, long = sorted((image.width_px, image.height_px))
    shape = f"has {image.width_px:,} × {image.height_px:,} pixels"
    if short < limits.least_side_px:
        what = f"{shape}, wanted at least {limits.least_side_px:,} each way"
        return ImageRefusedError("too_small", what)
    if limits.greatest_aspect and long > limits.greatest_aspect * short:
        what = (
            f"{shape}, wanted a longer side of at most {limits.greatest_aspect:g} times the other"
        )
        return ImageRefusedError("extreme_aspect", what)
    return None
