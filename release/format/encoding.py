"""One encoder for the images of a release: the same resampling, format and quality for each.

Editors scale a photograph to a megapixel and back whatever they change, and write another format.
Both are found in pixels, so a model could tell originals from edits without looking at what they
show. The encoder gives every image the same history: once through the round trip, once through
JPEG, no metadata. It works with integers only, so that its bytes depend on nothing but the image,
the settings and the versions of two libraries, which the manifest names.
"""

import io
import math
from typing import NamedTuple

import PIL
from PIL import Image, ImageOps, JpegImagePlugin, features

from loupe.schemas.decoders import DECODER_FAULTS, as_rgb
from loupe.schemas.encoding import ImageEncoder, ImageEncoding
from loupe.schemas.errors import IntegrityError

MEDIA_TYPE = "image/jpeg"
SUFFIX = ".jpg"

_MEGAPIXEL = 1024 * 1024
_MULTIPLE = 32
_LANCZOS = Image.Resampling.LANCZOS
_SUBSAMPLING = {"4:4:4": 0, "4:2:0": 2}  # as Pillow numbers them

Size = tuple[int, int]
"""Width and height in pixels."""


class EncodedImage(NamedTuple):
    """A JPEG and its size."""

    data: bytes
    width_px: int
    height_px: int


def encoding_of(encoder: ImageEncoder) -> ImageEncoding:
    """Return an encoder with the versions of the libraries in use."""
    settings = {name: getattr(encoder, name) for name in ImageEncoder.model_fields}
    libraries = f"Pillow {PIL.__version__}, libjpeg-turbo {features.version('libjpeg_turbo')}"
    return ImageEncoding(**settings, libraries=libraries)


def encode(data: bytes, encoder: ImageEncoder, size: Size, *, was_edited: bool) -> EncodedImage:
    """Encode an image at `size`; `was_edited` ones have been through the round trip.

    Raises:
        IntegrityError: if it does not decode.
    """
    try:
        with Image.open(io.BytesIO(data)) as opened:
            picture = as_rgb(ImageOps.exif_transpose(opened))
    except (*DECODER_FAULTS, Image.DecompressionBombError) as error:
        raise IntegrityError(f"an image cannot be encoded for release ({error})") from error
    if encoder.round_trip and not was_edited:
        picture = picture.resize(_working_size(picture.size), _LANCZOS)
    if picture.size != size:
        picture = picture.resize(size, _LANCZOS)
    buffer = io.BytesIO()
    bare = Image.frombytes("RGB", picture.size, picture.tobytes())  # without its metadata
    bare.save(
        buffer,
        "JPEG",
        quality=encoder.quality,
        subsampling=_SUBSAMPLING[encoder.subsampling],
    )
    return EncodedImage(buffer.getvalue(), *size)


def _working_size(size: Size) -> Size:
    """The size at which editors work: a megapixel, in multiples of 32, about the same shape."""
    factor = math.sqrt(_MEGAPIXEL / (size[0] * size[1]))
    width, height = (max(_MULTIPLE, round(one * factor / _MULTIPLE) * _MULTIPLE) for one in size)
    return width, height


def common_sizes(sizes: list[Size]) -> list[Size]:
    """The sizes of the images of a group with the area of the smallest, shapes as they are."""
    area = min(width * height for width, height in sizes)
    found = []
    for width, height in sizes:
        factor = math.sqrt(area / (width * height))
        found.append((max(1, round(width * factor)), max(1, round(height * factor))))
    return found


def encoding_fault(picture: Image.Image, encoding: ImageEncoding) -> str | None:
    """How an opened image differs from what the encoder writes; None if it does not."""
    if not isinstance(picture, JpegImagePlugin.JpegImageFile) or picture.mode != "RGB":
        return "has an image that is no colour JPEG, as the encoder of the release writes"
    if len(picture.getexif()) or set(picture.info) - {"jfif", *_OF_JFIF}:
        return "has an image with metadata, which the encoder of the release does not write"
    if JpegImagePlugin.get_sampling(picture) != _SUBSAMPLING[encoding.subsampling]:
        return f"has an image whose chroma is not subsampled as {encoding.subsampling}"
    if picture.quantization != _tables(encoding.quality):
        return f"has an image of another quality than {encoding.quality}"
    return None


_OF_JFIF = ("jfif_version", "jfif_unit", "jfif_density", "dpi")


def _tables(quality: int) -> dict[int, list[int]]:
    """The quantisation tables of a quality, read from a JPEG of it."""
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "JPEG", quality=quality)
    with Image.open(buffer) as written:
        tables: dict[int, list[int]] = written.quantization  # type: ignore[attr-defined]
        return tables
