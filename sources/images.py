"""Open the image files of annotations safely: bytes that decode to one upright image."""

import os
import re
import stat
from pathlib import Path, PurePosixPath

from pydantic import Field

from schemas.base import Record, sha256_of
from schemas.records import Sha256
from sources.bare_image import bare_image
from sources.decoding import (
    UPRIGHT,
    ImageRefusedError,
    decoded,
    encoded_upright,
    limited,
    orientation_of,
)
from sources.records import BadRow, SourceRow, storable

_WINDOWS_DRIVE = re.compile(r"[A-Za-z]:")


class ImageLimits(Record):
    """The maximum size of an image: as a file, and in pixels by its header."""

    max_bytes: int = Field(default=100 * 1024 * 1024, gt=0)
    max_pixels: int = Field(default=50_000_000, gt=0)


class InspectedImage(Record):
    """An image that decodes, upright. Width and height are those of the upright image.

    `data` are the file's own bytes if they contain only pixels and colours. Everything else is
    removed, because it may reveal a place; then `source_sha256` differs but the pixels do not. Only
    an image that had to be turned upright, or whose file cannot be copied in parts, is encoded
    again.
    """

    file_path: str
    data: bytes = Field(repr=False)
    sha256: Sha256
    source_sha256: Sha256
    media_type: str
    width_px: int = Field(gt=0)
    height_px: int = Field(gt=0)


class ImageProblem(Record):
    """Why a file cannot be used as an image."""

    file_path: str
    reason: str
    detail: str

    def as_bad_row(self, row: SourceRow, file: str) -> BadRow:
        """Return the bad row that `row` of the annotation `file` becomes."""
        return BadRow(
            file=file,
            index=row.index,
            field="file_path",
            reason=self.reason,
            detail=self.detail,
            raw=row.model_dump_json(),
        )


def inspect_image(
    image_root: Path, file_path: str, limits: ImageLimits | None = None
) -> InspectedImage | ImageProblem:
    """Return the image at `file_path` below `image_root`, or why it is unusable. Thread-safe.

    JPEG, PNG, WebP and BMP are supported, recognized by their content, never by their name;
    animations are not. The pixel cap is compared with the header, before anything is decoded.
    """
    limits = limits or ImageLimits()
    try:
        data = _read_inside(image_root, file_path, limits.max_bytes)
        return _inspected(file_path, data, limits.max_pixels)
    except ImageRefusedError as refusal:
        detail = f"image {file_path!r} {refusal.what}"
        return ImageProblem(file_path=storable(file_path), reason=refusal.reason, detail=detail)


def inspect_any(
    image_root: Path, row: SourceRow, limits: ImageLimits | None = None
) -> InspectedImage | ImageProblem:
    """Return the image of a row, from the first of its paths with a file; see `inspect_image`."""
    for path in (row.file_path, *row.other_paths):
        inspected = inspect_image(image_root, path, limits)
        if isinstance(inspected, InspectedImage) or inspected.reason != "missing_image":
            return inspected
    return inspect_image(image_root, row.file_path, limits)


def _read_inside(image_root: Path, file_path: str, max_bytes: int) -> bytes:
    target = _resolved_inside(image_root, file_path)
    try:
        with open(target, "rb", opener=_without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ImageRefusedError("not_a_file", "is a device or a pipe, wanted a file")
            if status.st_size > max_bytes:
                size = f"has {status.st_size:,} bytes, wanted at most {max_bytes:,}"
                raise ImageRefusedError("too_many_bytes", size)
            return file.read(status.st_size)
    except (FileNotFoundError, NotADirectoryError):
        raise ImageRefusedError("missing_image", "does not exist below the image root") from None
    except IsADirectoryError:
        raise ImageRefusedError("not_a_file", "is a directory, wanted a file") from None
    except OSError as fault:
        raise ImageRefusedError("unreadable_image", f"cannot be read: {fault.strerror}") from fault


def _without_waiting(path: str, flags: int) -> int:
    """Open a file without waiting; a pipe would otherwise wait for a writer."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)


def _resolved_inside(image_root: Path, file_path: str) -> Path:
    """Return the file behind all symbolic links, which must lie below the image root."""
    path = PurePosixPath(file_path.replace("\\", "/"))
    outside = ImageRefusedError(
        "path_outside_root", "leads out of the image root, wanted a path below it"
    )
    if path.is_absolute() or ".." in path.parts or _WINDOWS_DRIVE.match(file_path):
        raise outside
    try:
        os.fsencode(file_path).decode("utf-8")
        root = image_root.resolve()
        target = (root / path).resolve()
        if "\0" in file_path:
            raise ValueError(file_path)  # noqa: TRY301 - newer Pythons resolve such a path
    except (OSError, ValueError, RuntimeError) as fault:
        raise ImageRefusedError("unreadable_image", "is not a path that can be opened") from fault
    if not target.is_relative_to(root):
        raise outside
    return target


def _inspected(file_path: str, data: bytes, max_pixels: int) -> InspectedImage:
    changed, media_type, size = limited(_upright, data, max_pixels, max_pixels=max_pixels)
    kept = data if changed is None else changed
    return InspectedImage(
        file_path=file_path,
        data=kept,
        sha256=sha256_of(kept),
        source_sha256=sha256_of(data),
        media_type=media_type,
        width_px=size[0],
        height_px=size[1],
    )


def _upright(data: bytes, max_pixels: int) -> tuple[bytes | None, str, tuple[int, int]]:
    """Return the bytes to keep (None if these are `data`), their type and size in pixels."""
    picture = decoded(data, max_pixels)
    orientation, size = orientation_of(picture), picture.size
    kept = bare_image(data) if orientation == UPRIGHT else None
    if kept is None:
        kept, size = encoded_upright(picture, orientation)
    media_type = f"image/{str(picture.format).lower()}"
    return (None if kept is data else kept), media_type, size
