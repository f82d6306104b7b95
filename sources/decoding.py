"""Decode untrusted images, in a limited process. Little is imported, as each such process does."""

import io
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from PIL import Image
from PIL.BmpImagePlugin import BmpImageFile
from PIL.ImageFile import ImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.WebPImagePlugin import WebPImageFile

from loupe.schemas.decoders import (
    DECODER_FAULTS,
    decode_each_limited,
    decode_limited,
    too_many_scans,
)
from loupe.schemas.limited import LimitExceededError
from loupe.sources.bare_image import bare_image

T = TypeVar("T")
_IN_MEMORY = re.compile(r" ?<_io\.BytesIO[^>]*>")  # Pillow's name for something that is not a file
_LFS_POINTER: Final = b"version https://git-lfs"
UPRIGHT: Final = 1
_ORIENTATION_TAG: Final = 0x0112
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
    "WEBP": {"lossless": True},
}


class ImageRefusedError(Exception):
    """A file breaks a rule; becomes a `loupe.sources.images.ImageProblem`."""

    def __init__(self, reason: str, what: str) -> None:
        super().__init__(what)
        self.reason = reason
        self.what = what


class _Jpeg(JpegImageFile):
    """A JPEG reader that ignores its EXIF block, because Pillow's reader warns of a damaged one."""

    def _read_dpi_from_exif(self) -> None:
        """Do nothing: the resolution in dots per inch is not needed."""


def limited(function: Callable[..., T], *args: Any, max_pixels: int) -> T:
    """Run `function(*args)`, which decodes an untrusted image, in a limited process.

    Raises:
        ImageRefusedError: as `function`, or if it exceeded the time or memory, or crashed.
    """
    try:
        return decode_limited(function, *args, max_pixels=max_pixels)
    except LimitExceededError as fault:
        raise _refused(fault) from None


def limited_each(
    function: Callable[..., T], images: Sequence[bytes], *args: Any, max_pixels: int
) -> list[T | ImageRefusedError]:
    """Return what `limited` returns for each of these images, or raises; faster than one by one."""
    each = decode_each_limited(
        function, images, *args, refusal=ImageRefusedError, max_pixels=max_pixels
    )
    return [_refused(one) if isinstance(one, LimitExceededError) else one for one in each]


def _refused(fault: LimitExceededError) -> ImageRefusedError:
    return ImageRefusedError(fault.reason, f"cannot be decoded: it {fault}")


def decoded(data: bytes, max_pixels: int) -> ImageFile:
    """Decode the image in `data`; the format is recognized by content, never by a name.

    Raises:
        ImageRefusedError: its format is not supported, it is animated or damaged, or it has too
            many pixels by its header or too many scans, which is checked before anything is
            decoded.
    """
    picture = opened(data, max_pixels)
    load_pixels(picture)
    return picture


def opened(data: bytes, max_pixels: int) -> ImageFile:
    """Open the image in `data` by its header, with nothing decoded yet.

    Raises:
        ImageRefusedError: as `decoded`, except for damage after the header.
    """
    with _faults_refused(max_pixels):
        picture = _opened(data)
        if picture is None:
            raise ImageRefusedError("not_an_image", f"is {_other_content(data)}")
        width, height = picture.size
        if not 0 < width * height <= max_pixels:
            what = f"has {width:,}×{height:,} pixels, wanted from 1 to {max_pixels:,} in all"
            raise ImageRefusedError("too_many_pixels" if width * height else "no_pixels", what)
        if scans := too_many_scans(data):
            raise ImageRefusedError("too_many_scans", scans)
        if getattr(picture, "is_animated", False):
            raise ImageRefusedError("animated_image", "moves, wanted a single picture")
        return picture


def _other_content(data: bytes) -> str:
    if not data:
        return "empty, it has no bytes; copy or download it again"
    if data.startswith(_LFS_POINTER):
        return "a pointer of Git LFS, not the image itself; fetch it: git lfs pull"
    return f"not an image: begins with {data[:8]!r}, wanted JPEG, PNG, WebP or BMP"


def load_pixels(picture: ImageFile) -> None:
    """Decode an opened image, in the size that its `draft` may have requested.

    Raises:
        ImageRefusedError: it is cut off or damaged.
    """
    with _faults_refused(picture.width * picture.height):
        picture.load()


@contextmanager
def _faults_refused(max_pixels: int) -> Iterator[None]:
    """Turn exceptions of Pillow's decoders into refusals."""
    try:
        yield
    except Image.DecompressionBombError as fault:  # of the WebP decoder's own check
        what = f"has too many pixels, wanted from 1 to {max_pixels:,} in all"
        raise ImageRefusedError("too_many_pixels", what) from fault
    except DECODER_FAULTS as fault:
        if "truncated" in str(fault).casefold():
            what = "is cut off: the file ends before its last pixel"
            raise ImageRefusedError("truncated_image", what) from fault
        said = _IN_MEMORY.sub("", str(fault)) or type(fault).__name__
        what = f"cannot be decoded: {said}"
        raise ImageRefusedError("undecodable_image", what) from fault


def _opened(data: bytes) -> ImageFile | None:
    """Open the image with the one decoder that its first bytes indicate.

    `Image.open` is not used: its pixel cap is a process-wide setting, and between one and two times
    that cap it uses the process-wide `warnings` filters.
    """
    file = io.BytesIO(data)
    if data.startswith(b"\xff\xd8\xff"):
        return _Jpeg(file)
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return PngImageFile(file)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return WebPImageFile(file)
    if data.startswith(b"BM"):
        return BmpImageFile(file)
    return None


def orientation_of(picture: ImageFile) -> int:
    """Return the orientation of the image, from 1 (upright) to 8, as in EXIF.

    For some formats it is known only after the pixels are loaded.
    """
    block = picture.info.get("exif")
    return read_orientation(block) if block else UPRIGHT


def read_orientation(block: bytes) -> int:
    """Return the orientation of an EXIF block (with or without its `Exif` header), from 1 to 8.

    1 (upright) if it does not state one, or is damaged. To be called in a worker process: Pillow
    reports damage through the process-wide `warnings` filters.
    """
    exif = Image.Exif()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exif.load(block)
            orientation: object = exif.get(_ORIENTATION_TAG)
        except DECODER_FAULTS:
            return UPRIGHT
    if isinstance(orientation, int) and UPRIGHT <= orientation <= 8:
        return orientation
    return UPRIGHT


def turned_upright(picture: Image.Image, orientation: int) -> Image.Image:
    """Return a copy of the image, turned upright."""
    turn = _UPRIGHT_BY_ORIENTATION.get(orientation)
    return picture.copy() if turn is None else picture.transpose(turn)


def encoded_upright(
    picture: Image.Image, orientation: int, *, lossy: bool = False
) -> tuple[bytes, tuple[int, int]]:
    """Encode the image upright in its own format, without metadata but colours; return its size.

    The pixels of a WebP are kept exactly unless `lossy` permits changes.

    Raises:
        ImageRefusedError: it cannot be encoded.
    """
    kept = {
        key: picture.info[key] for key in ("icc_profile", "transparency") if key in picture.info
    }
    options = _SAVE_OPTIONS.get(str(picture.format), {}) | kept
    if lossy and picture.format == "WEBP":
        options |= {"lossless": False, "quality": 95}
    encoded = io.BytesIO()
    try:
        upright = turned_upright(picture, orientation)
        upright.info = {}
        upright.save(encoded, str(picture.format), **options)
    except DECODER_FAULTS as fault:
        what = f"cannot be turned upright: {fault}"
        raise ImageRefusedError("undecodable_image", what) from fault
    return encoded.getvalue(), upright.size


Upright = tuple[bytes | None, str, tuple[int, int]]
"""Changed bytes (None: those of the file), media type, and size in pixels of an upright image."""


def upright(data: bytes, max_pixels: int) -> Upright:
    """Return the bytes to keep (None if these are `data`), their type and size in pixels.

    A JPEG is read to its last coefficient, but its pixels are computed only if they are needed.
    """
    picture = opened(data, max_pixels)
    size = picture.size
    picture.draft("L", (1, 1))
    load_pixels(picture)
    orientation = orientation_of(picture)
    kept = bare_image(data) if orientation == UPRIGHT else None
    if kept is None:
        kept, size = encoded_upright(decoded(data, max_pixels), orientation)
    media_type = f"image/{str(picture.format).lower()}"
    return (None if kept is data else kept), media_type, size
