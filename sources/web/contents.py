"""Verify that a body is one image, and return it upright, scaled and without its location."""

from typing import Final, NamedTuple

from PIL import Image
from PIL.ImageFile import ImageFile

from schemas.download import DownloadSettings
from sources.bare_image import bare_image
from sources.decoding import (
    SIDEWAYS,
    UPRIGHT,
    ImageRefusedError,
    decoded,
    encoded_upright,
    limited,
    load_pixels,
    opened,
    orientation_of,
)
from sources.web.addresses import DownloadRefusedError

# Signatures of files that are not usable images.
_OTHER_TYPES: Final = {
    b"GIF8": "a GIF",
    b"%PDF-": "a PDF document",
    b"PK\x03\x04": "a ZIP archive",
    b"PK\x05\x06": "a ZIP archive",
    b"\x1f\x8b": "a gzip archive",
    b"BZh": "a bzip2 archive",
    b"\xfd7zXZ\x00": "an xz archive",
    b"(\xb5/\xfd": "a Zstandard archive",
    b"7z\xbc\xaf\x27\x1c": "a 7-Zip archive",
    b"Rar!\x1a\x07": "a RAR archive",
    b"II*\x00": "a TIFF",
    b"MM\x00*": "a TIFF",
    b"\x00\x00\x01\x00": "an icon",
    b"8BPS": "a Photoshop document",
    b"\xff\x0a": "a JPEG XL",
    b"\x1aE\xdf\xa3": "a Matroska video",
}
_OTHER_TYPES_WITHIN: Final = {
    (4, b"ftyp"): "a video, an AVIF or a HEIC",
    (257, b"ustar"): "a tar archive",
}
_LOOKED_AT_BYTES: Final = 4096
_ZIP_END_WITHIN_BYTES: Final = 22 + 0xFFFF  # its last record with the longest comment
_RENAMED: Final = {"animated_image": "animated"}


class Content(NamedTuple):
    """An image: its bytes, its size in pixels, and its upright size before scaling."""

    data: bytes
    media_type: str
    size: tuple[int, int]
    source_size: tuple[int, int]


def read_content(body: bytes, settings: DownloadSettings) -> Content:
    """Return the image in `body`, identified by its bytes, never by the host's content type.

    The header is checked before anything is decoded. Safe in threads.

    Raises:
        DownloadRefusedError: it is not a usable image.
    """
    try:
        content = limited(_content, body, settings, max_pixels=settings.max_pixels)
        return content if content.data else content._replace(data=body)
    except ImageRefusedError as refusal:
        if refusal.reason == "not_an_image":
            raise _other_type(body) from None
        reason = _RENAMED.get(refusal.reason, refusal.reason)
        raise DownloadRefusedError(reason, refusal.what) from None


def _content(body: bytes, settings: DownloadSettings) -> Content:
    """Return the image, without data if this is the whole body, which saves copying it."""
    picture = opened(body, settings.max_pixels)
    if min(picture.size) < settings.min_side_px:
        width, height = picture.size
        what = f"has {width:,}×{height:,} pixels, wanted sides of at least {settings.min_side_px:,}"
        raise DownloadRefusedError("too_small", what)
    stored_size = picture.size
    media_type = f"image/{str(picture.format).lower()}"
    _refuse_an_archive(body)
    bare = small = None
    longest = settings.resize_longest_px
    if longest is not None and max(stored_size) > longest:
        small = _scaled_down(picture, longest)
    else:
        bare = bare_image(body)
        if settings.decode_all or bare is None or picture.format != "JPEG":
            # A grey JPEG at an eighth of its size is still read to its end, in half the time.
            picture.draft("L", (1, 1))
            load_pixels(picture)
    orientation = orientation_of(picture)  # which may follow the pixels
    source_size = stored_size[::-1] if orientation in SIDEWAYS else stored_size
    if small is not None:
        data, size = encoded_upright(small, orientation, lossy=True)
    elif bare is None or orientation != UPRIGHT:
        data, size = encoded_upright(decoded(body, settings.max_pixels), orientation)
    else:
        data, size = bare, stored_size
    return Content(b"" if data is body else data, media_type, size, source_size)


def _refuse_an_archive(body: bytes) -> None:
    """Raise if the image is also a valid archive; programs look for its end first."""
    tail = max(0, len(body) - _ZIP_END_WITHIN_BYTES)
    if body.rfind(b"PK\x05\x06", tail) >= 0 and b"PK\x01\x02" in body:
        raise DownloadRefusedError("refused_type", "also is a ZIP archive, wanted only an image")


def _other_type(body: bytes) -> DownloadRefusedError:
    """Return the type of a body that is not a usable image."""
    wanted = "wanted JPEG, PNG, WebP or BMP"
    if not body:
        return DownloadRefusedError("not_an_image", f"is empty, {wanted}")
    if body.startswith(b"GIF8") and moves(body):
        return DownloadRefusedError("animated", "is animated, wanted a single image")
    for magic, name in _OTHER_TYPES.items():
        if body.startswith(magic):
            return DownloadRefusedError("refused_type", f"is {name}, {wanted}")
    for (offset, magic), name in _OTHER_TYPES_WITHIN.items():
        if body.startswith(magic, offset):
            return DownloadRefusedError("refused_type", f"is {name}, {wanted}")
    head = body[:_LOOKED_AT_BYTES].lower()
    if b"<svg" in head:
        return DownloadRefusedError("refused_type", f"is an SVG, {wanted}")
    if any(tag in head for tag in (b"<html", b"<!doctype html", b"<head", b"<body", b"<script")):
        return DownloadRefusedError("not_an_image", f"is a web page, {wanted}")
    return DownloadRefusedError("not_an_image", f"is not an image of a known format, {wanted}")


# Images scaled down while they are decoded.


def _scaled_down(picture: ImageFile, longest_px: int) -> Image.Image:
    """Return the image with a longer side of `longest_px`, not turned. It is opened, not decoded.

    A JPEG is decoded at a half, a quarter or an eighth of its size if this is not too small: its
    own transform is the better filter, and less is decoded.

    Raises:
        ImageRefusedError: it is truncated or damaged.
    """
    width, height = picture.size
    scale = longest_px / max(width, height)
    wanted = max(1, round(width * scale)), max(1, round(height * scale))
    drafted = picture.draft(None, wanted)
    load_pixels(picture)
    smooth = _with_continuous_colours(picture)
    small = smooth.resize(wanted, Image.Resampling.BICUBIC, box=drafted[1] if drafted else None)
    small.format = picture.format
    small.info = {key: picture.info[key] for key in ("icc_profile",) if key in picture.info}
    return small


def _with_continuous_colours(picture: Image.Image) -> Image.Image:
    """Convert palettes and transparent colours, which cannot be interpolated."""
    if "transparency" in picture.info:
        return picture.convert("RGBA")
    if picture.mode in ("P", "PA"):
        return picture.convert("RGB" if picture.mode == "P" else "RGBA")
    return picture.convert("L") if picture.mode == "1" else picture


# Whether a GIF is animated. Its blocks are skipped; nothing is decoded.

_HEADER_BYTES: Final = 13
_EXTENSION: Final = 0x21
_PICTURE: Final = 0x2C


def moves(gif: bytes) -> bool:
    """Return whether a second frame begins before the GIF ends or is truncated."""
    try:
        at = _HEADER_BYTES + _table_bytes(gif[10])
        pictures = 0
        while pictures < 2:
            if gif[at] == _EXTENSION:
                at = _behind_blocks(gif, at + 2)
            elif gif[at] == _PICTURE:
                pictures += 1
                at = _behind_blocks(gif, at + 11 + _table_bytes(gif[at + 9]))
            else:
                return False
    except IndexError:
        return False
    return True


def _table_bytes(flags: int) -> int:
    """Return the length of the colour table announced by the flags."""
    return 3 * 2 ** ((flags & 0b111) + 1) if flags & 0b1000_0000 else 0


def _behind_blocks(gif: bytes, at: int) -> int:
    """Return the end of a chain of data blocks, each preceded by its length."""
    while length := gif[at]:
        at += 1 + length
    return at + 1
