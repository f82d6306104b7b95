"""Open image files safely: bytes that decode to one upright image."""

import io
import os
import re
import stat
import unicodedata
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Final, Protocol, TypeVar

from PIL import Image
from PIL.BmpImagePlugin import BmpImageFile
from PIL.ImageFile import ImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.WebPImagePlugin import WebPImageFile
from pydantic import Field

from loupe.schemas.base import Record, Sha256, sha256_of
from loupe.schemas.decoders import DECODER_FAULTS, decode_limited, too_many_scans
from loupe.schemas.limited import LimitExceededError
from loupe.schemas.records import Rejection
from loupe.schemas.wording import storable
from loupe.sources.bare_image import bare_image
from loupe.sources.pieces import Piece
from loupe.sources.records import BadRow, SourceRow

T = TypeVar("T")
_IN_MEMORY = re.compile(r" ?<_io\.BytesIO[^>]*>")  # Pillow's name for something that is not a file
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
    """A file breaks a rule; becomes an `images.ImageProblem`."""

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
        raise ImageRefusedError(fault.reason, f"cannot be decoded: it {fault}") from None


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
            what = f"is not an image: begins with {data[:8]!r}, wanted JPEG, PNG, WebP or BMP"
            raise ImageRefusedError("not_an_image", what)
        width, height = picture.size
        if not 0 < width * height <= max_pixels:
            what = f"has {width:,}×{height:,} pixels, wanted from 1 to {max_pixels:,} in all"
            raise ImageRefusedError("too_many_pixels" if width * height else "no_pixels", what)
        if scans := too_many_scans(data):
            raise ImageRefusedError("too_many_scans", scans)
        if getattr(picture, "is_animated", False):
            raise ImageRefusedError("animated_image", "moves, wanted a single picture")
        return picture


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


class InspectedImage(Record):
    """An image that decodes, upright. Width and height are those of the upright image.

    `data` are the file's own bytes if they contain only pixels and colours. Everything else is
    removed, because it may reveal a place; then `source_sha256` differs but the pixels do not. Only
    a BMP, an image that had to be turned upright, or one whose file cannot be copied in parts, is
    encoded again.
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

    def read() -> bytes:
        if isinstance(image_root, Path):
            return _read_inside(image_root, file_path, limits.max_bytes)
        return image_root.read(_name_inside(file_path), limits.max_bytes)

    return _inspect(file_path, read, limits)


def _inspect(
    file_path: str, read: Callable[[], bytes], limits: ImageLimits
) -> InspectedImage | ImageProblem:
    try:
        data = read()
        image = _inspected(file_path, data, limits.max_pixels)
        _refuse_shape(image, limits)
        return image  # noqa: TRY300 - the refusals of all steps are handled alike
    except ImageRefusedError as refusal:
        detail = f"image {file_path!r} {refusal.what}"
        return ImageProblem(file_path=storable(file_path), reason=refusal.reason, detail=detail)


def inspect_any(
    image_root: ImageRoot, row: SourceRow, limits: ImageLimits | None = None
) -> InspectedImage | ImageProblem:
    """Return the image of a row, from the first of its paths with a file; see `inspect_image`."""
    limits = limits or ImageLimits()
    if row.held is not None:
        return _inspect(row.file_path, partial(_read_held, row.held, limits), limits)
    for path in (row.file_path, *row.other_paths):
        inspected = inspect_image(image_root, path, limits)
        if isinstance(inspected, InspectedImage) or inspected.reason != "missing_image":
            return inspected
    return inspect_image(image_root, row.file_path, limits)


def _read_held(held: Piece, limits: ImageLimits) -> bytes:
    _refuse_size(held.size, limits.max_bytes)
    return held.read()


def is_file_below(image_root: ImageRoot, file_path: str) -> bool:
    """Tell whether there is a file at `file_path` below `image_root`."""
    try:
        if not isinstance(image_root, Path):
            return image_root.holds(_name_inside(file_path))
        return _existing_inside(image_root, file_path).is_file()
    except (ImageRefusedError, OSError):
        return False


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
    path = PurePosixPath(_name_inside(file_path))
    try:
        os.fsencode(file_path).decode("utf-8")
        root = image_root.resolve()
        target = (root / path).resolve()
        if "\0" in file_path:
            raise ValueError(file_path)  # noqa: TRY301 - newer Pythons resolve such a path
    except (OSError, ValueError, RuntimeError) as fault:
        raise ImageRefusedError("unreadable_image", "is not a path that can be opened") from fault
    if not target.is_relative_to(root):
        raise _outside()
    return target


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


def _refuse_shape(image: InspectedImage, limits: ImageLimits) -> None:
    short, long = sorted((image.width_px, image.height_px))
    shape = f"has {image.width_px:,} × {image.height_px:,} pixels"
    if short < limits.least_side_px:
        what = f"{shape}, wanted at least {limits.least_side_px:,} each way"
        raise ImageRefusedError("too_small", what)
    if limits.greatest_aspect and long > limits.greatest_aspect * short:
        what = (
            f"{shape}, wanted a longer side of at most {limits.greatest_aspect:g} times the other"
        )
        raise ImageRefusedError("extreme_aspect", what)


def _upright(data: bytes, max_pixels: int) -> tuple[bytes | None, str, tuple[int, int]]:
    """Return the bytes to keep (None if these are `data`), their type and size in pixels."""
    picture = decoded(data, max_pixels)
    orientation, size = orientation_of(picture), picture.size
    kept = bare_image(data) if orientation == UPRIGHT else None
    if kept is None:
        kept, size = encoded_upright(picture, orientation)
    media_type = f"image/{str(picture.format).lower()}"
    return (None if kept is data else kept), media_type, size
