"""Files named by annotations, opened with care: bytes that are proven to be one upright image."""

import io
import os
import re
import stat
import struct
from pathlib import Path, PurePosixPath
from typing import Final

from PIL import Image
from PIL.BmpImagePlugin import BmpImageFile
from PIL.ImageFile import ImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.WebPImagePlugin import WebPImageFile
from pydantic import Field

from schemas.base import Record, sha256_of
from schemas.records import Sha256
from sources.metadata import UPRIGHT, ExifFacts, read_exif
from sources.records import BadRow, SourceRow

_WINDOWS_DRIVE = re.compile(r"[A-Za-z]:")
# What Pillow's decoders raise on hostile bytes; the fuzz test of this module holds the list.
_DECODER_FAULTS: Final = (
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    ArithmeticError,
    LookupError,
    EOFError,
    MemoryError,
    struct.error,
)
_UPRIGHT_BY_ORIENTATION: Final = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_SAVE_OPTIONS: Final[dict[str, dict[str, object]]] = {
    "JPEG": {"quality": 95, "subsampling": 0},
    "PNG": {},
    "WEBP": {"lossless": True},
    "BMP": {},
}


class ImageLimits(Record):
    """How large an image may be: as a file, and in pixels as its header states them."""

    max_bytes: int = Field(default=100 * 1024 * 1024, gt=0)
    max_pixels: int = Field(default=50_000_000, gt=0)


class InspectedImage(Record):
    """An image that decodes, upright. Width and height are those of the upright image.

    `data` are the file's own bytes, unless the picture had to be turned upright or its metadata
    told a place: then it is encoded anew without metadata, and `source_sha256` differs.
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
        """The bad row that `row` of the annotation `file` becomes."""
        return BadRow(
            file=file,
            index=row.index,
            field="file_path",
            reason=self.reason,
            detail=self.detail,
            raw=row.model_dump_json(),
        )


class _RefusedError(Exception):
    """A file breaks a rule; becomes an `ImageProblem` and goes no further."""

    def __init__(self, reason: str, what: str) -> None:
        super().__init__(what)
        self.reason = reason
        self.what = what


def inspect_image(
    image_root: Path, file_path: str, limits: ImageLimits | None = None
) -> InspectedImage | ImageProblem:
    """The image at `file_path` below `image_root`, or why it cannot be used. Safe in threads.

    JPEG, PNG, WebP and BMP are images, told by their content and never by their name; one that
    moves is not. The pixel cap is held against the header, before anything is decoded.
    """
    limits = limits or ImageLimits()
    try:
        data = _read_inside(image_root, file_path, limits.max_bytes)
        return _inspected(file_path, data, limits.max_pixels)
    except _RefusedError as refusal:
        detail = f"image {file_path!r} {refusal.what}"
        return ImageProblem(file_path=file_path, reason=refusal.reason, detail=detail)


def _read_inside(image_root: Path, file_path: str, max_bytes: int) -> bytes:
    target = _resolved_inside(image_root, file_path)
    try:
        # Not blocking: opening a pipe would otherwise wait for somebody to write into it.
        descriptor = os.open(target, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except FileNotFoundError:
        raise _RefusedError("missing_image", "does not exist below the image root") from None
    except OSError as fault:
        raise _RefusedError("unreadable_image", f"cannot be read: {fault.strerror}") from fault
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor has no path to be raced
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _RefusedError("not_a_file", "is a directory or a device, wanted a file")
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        what = f"is too large, wanted at most {max_bytes:,} bytes"
        raise _RefusedError("too_many_bytes", what)
    return data


def _resolved_inside(image_root: Path, file_path: str) -> Path:
    """The file behind all symbolic links, which must lie below the image root."""
    path = PurePosixPath(file_path.replace("\\", "/"))
    outside = _RefusedError(
        "path_outside_root", "leads out of the image root, wanted a path below it"
    )
    if path.is_absolute() or ".." in path.parts or _WINDOWS_DRIVE.match(file_path):
        raise outside
    try:
        root = image_root.resolve()
        target = (root / path).resolve()
    except (OSError, ValueError, RuntimeError) as fault:
        raise _RefusedError("unreadable_image", "is not a path that can be opened") from fault
    if not target.is_relative_to(root):
        raise outside
    return target


def _inspected(file_path: str, data: bytes, max_pixels: int) -> InspectedImage:
    picture = _decoded(data, max_pixels)
    exif = _exif_facts(picture)
    kept, size = data, picture.size
    if exif.orientation != UPRIGHT or exif.has_location:
        kept, size = _encoded_upright(picture, exif.orientation)
    return InspectedImage(
        file_path=file_path,
        data=kept,
        sha256=sha256_of(kept),
        source_sha256=sha256_of(data),
        media_type=f"image/{str(picture.format).lower()}",
        width_px=size[0],
        height_px=size[1],
    )


def _decoded(data: bytes, max_pixels: int) -> ImageFile:
    """The image that `data` holds, its pixels decoded."""
    try:
        picture = _opened(data)
        if picture is None:
            raise _RefusedError("not_an_image", "is not an image, wanted JPEG, PNG, WebP or BMP")
        width, height = picture.size
        if width * height > max_pixels:
            what = f"has {width:,}×{height:,} pixels, wanted at most {max_pixels:,} in all"
            raise _RefusedError("too_many_pixels", what)
        if getattr(picture, "is_animated", False):
            raise _RefusedError("animated_image", "moves, wanted a single picture")
        picture.load()
    except _DECODER_FAULTS as fault:
        what = f"cannot be decoded: {str(fault) or type(fault).__name__}"
        raise _RefusedError("undecodable_image", what) from fault
    return picture


def _opened(data: bytes) -> ImageFile | None:
    """The image's header, read by the one decoder that its first bytes ask for.

    Not through `Image.open`: its own pixel cap is a process-wide setting, and between one and two
    times that cap it speaks through the process-wide `warnings` filters.
    """
    file = io.BytesIO(data)
    if data.startswith(b"\xff\xd8\xff"):
        return JpegImageFile(file)
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return PngImageFile(file)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return WebPImageFile(file)
    if data.startswith(b"BM"):
        return BmpImageFile(file)
    return None


def _exif_facts(picture: ImageFile) -> ExifFacts:
    """Orientation and location; damaged metadata may tell a place, and so counts as telling one."""
    info = picture.info
    facts = ExifFacts(UPRIGHT, has_location=False)
    if block := info.get("exif"):
        facts = read_exif(block) or ExifFacts(UPRIGHT, has_location=True)
    packets = (info.get("xmp"), info.get("XML:com.adobe.xmp"))
    tells = any(b"GPS" in (p.encode() if isinstance(p, str) else p) for p in packets if p)
    # "mp": further pictures behind the first, each with metadata of its own.
    hidden = "mp" in info or any(str(key).startswith("Raw profile type") for key in info)
    return facts._replace(has_location=facts.has_location or tells or hidden)


def _encoded_upright(picture: ImageFile, orientation: int) -> tuple[bytes, tuple[int, int]]:
    """The picture turned upright in its own format, of its metadata only the colours; its size."""
    turn = _UPRIGHT_BY_ORIENTATION.get(orientation)
    upright = picture.copy() if turn is None else picture.transpose(turn)
    kept = {
        key: picture.info[key] for key in ("icc_profile", "transparency") if key in picture.info
    }
    upright.info = {}
    options = _SAVE_OPTIONS[str(picture.format)] | kept
    encoded = io.BytesIO()
    try:
        upright.save(encoded, str(picture.format), **options)
    except _DECODER_FAULTS as fault:
        what = f"cannot be turned upright: {fault}"
        raise _RefusedError("undecodable_image", what) from fault
    return encoded.getvalue(), upright.size
