"""The perceptual hash and the spectrum of an image."""

import io
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loupe.schemas.decoders import DECODER_FAULTS, MOST_PIXELS, as_rgb, too_many_scans

if TYPE_CHECKING:
    from PIL import Image


# The perceptual hash and the spectrum of a small grey picture, and of its mirror image.
#
# Both come from one cosine transform (DCT-II). The hash is pHash: which of the lowest 8 x 8
# frequencies are above their median. It finds candidates, but also matches plain pictures that
# differ; the spectrum decides: the lowest 16 x 16 frequencies without the mean (brightness), at
# unit length (contrast).

SIDE_PX = 32
_HASH_SIDE = 8
_SPECTRUM_SIDE = 16
SPECTRUM = _SPECTRUM_SIDE**2 - 1
"""The number of frequencies of a spectrum."""
_LEAST_CONTRAST = 0.5
"""Contrast (root mean square of grey levels, of 255) below which a picture counts as blank."""
_MOST = 127

Grey = NDArray[np.float64]
"""A picture of shape (32, 32) with values from 0 to 255, or frequencies. In double precision, so
that the order of summation does not change the bits of a hash.
"""
Spectrum = NDArray[np.int8]
"""255 frequencies, the largest of which is 127 or -127."""


class Look(NamedTuple):
    """The appearance of a picture: two hashes and a spectrum."""

    perceptual_hash: int
    mirrored_hash: int
    spectrum: Spectrum


def look_of(picture: Grey) -> Look | None:
    """Hash and spectrum of a picture; None if it is blank."""
    waves = _waves()
    frequencies = waves @ picture @ waves.T
    spectrum = frequencies.reshape(-1)[1:]
    largest = float(np.abs(spectrum).max())
    contrast = float(np.sqrt(np.square(spectrum).sum())) / SIDE_PX
    if contrast < _LEAST_CONTRAST:
        return None
    mirrored = frequencies * _turns()
    return Look(
        _hash_of(frequencies),
        _hash_of(mirrored),
        np.rint(spectrum * (_MOST / largest)).astype(np.int8),
    )


def mirrored_spectra(spectra: Spectrum) -> Spectrum:
    """The spectra of the mirror images, of shape (n, 255): odd frequencies across change signs."""
    turns = np.broadcast_to(_turns(), (_SPECTRUM_SIDE, _SPECTRUM_SIDE)).reshape(-1)[1:]
    return spectra * turns.astype(np.int8)


def spectrum_distances(first: Spectrum, second: Spectrum) -> NDArray[np.float64]:
    """1 - cosine of each row of `first` (n, 255) and the same row of `second`, six decimals."""
    one, other = first.astype(np.float32), second.astype(np.float32)
    # whole numbers below 255 * 127 * 127 < 2 ** 24: sums in single precision are exact
    products, *squares = (
        np.einsum("ij,ij->i", *sides).astype(np.float64)
        for sides in ((one, other), (one, one), (other, other))
    )
    lengths = squares[0] * squares[1]
    distances: NDArray[np.float64] = np.round(1.0 - products / np.sqrt(lengths), 6)
    return np.maximum(distances, 0.0)


def _hash_of(frequencies: Grey) -> int:
    lowest = (frequencies[:_HASH_SIDE, :_HASH_SIDE] * _phash_scale()).reshape(-1)
    ranked = np.sort(lowest)
    median = (ranked[lowest.size // 2 - 1] + ranked[lowest.size // 2]) / 2
    return int.from_bytes(np.packbits(lowest > median).tobytes(), "big")


@cache
def _waves() -> Grey:
    """The lowest rows of the orthonormal DCT-II matrix, of shape (16, 32)."""
    frequency = np.arange(_SPECTRUM_SIDE)[:, None]
    waves = np.cos(np.pi * (2 * np.arange(SIDE_PX)[None, :] + 1) * frequency / (2 * SIDE_PX))
    scale = np.where(frequency == 0, np.sqrt(1 / SIDE_PX), np.sqrt(2 / SIDE_PX))
    return np.asarray(scale * waves, np.float64)


@cache
def _phash_scale() -> Grey:
    """Scales orthonormal frequencies to those of pHash, of shape (8, 8)."""
    scale = np.where(np.arange(_HASH_SIDE) == 0, np.sqrt(2), 1.0)
    return np.asarray(np.outer(scale, scale), np.float64)


@cache
def _turns() -> Grey:
    """What mirroring multiplies frequencies with, of shape (1, 16): 1 or -1 in turn."""
    columns = np.arange(_SPECTRUM_SIDE)[None, :]
    return np.where(columns % 2 == 0, 1.0, -1.0)


# An encoded image as 32 x 32 grey values, decoded no larger than necessary.
#
# JPEG stores blocks of 8 x 8 frequencies, so a decoder can produce a half, a quarter or an eighth
# of the size for a fraction of the work, and brightness without colours.

_DRAFT_PX = 45
"""The minimum side of a draft: 1.4 times what is used. With less, a picture and the same picture
cropped by a few pixels become less similar; with more, they do not become more similar.
"""
_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF")


class SmallPicture(NamedTuple):
    """A small picture, and the width and height in pixels that its bytes state."""

    size: tuple[int, int]
    grey: Grey


class UnusablePictureError(ValueError):
    """An image that cannot be used; `reason` is a word, and the text follows the image's name."""

    def __init__(self, reason: str, what: str) -> None:
        super().__init__(what)
        self.reason = reason


def small_picture(data: bytes) -> SmallPicture:
    """The picture, upright, in 32 x 32 grey values; transparent areas are white.

    Thread-safe. Of an animation the first frame counts.

    Raises:
        UnusablePictureError: `undecodable_image` (it is none that we read, or is damaged or cut
            off), `too_many_pixels` (by its header) or `too_many_scans`; of both nothing is decoded.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            size = image.size  # a draft has another size
            _refuse_costly(data, size)
            return SmallPicture(size, _small_grey(image))
    except UnusablePictureError:
        raise
    except Image.DecompressionBombError as fault:
        raise UnusablePictureError("too_many_pixels", f"has too many pixels: {fault}") from fault
    except UnidentifiedImageError as fault:
        what = "it is not an image of a known format"
        raise UnusablePictureError("undecodable_image", f"cannot be decoded: {what}") from fault
    except DECODER_FAULTS as fault:
        what = " ".join(str(fault).split()) or type(fault).__name__
        raise UnusablePictureError("undecodable_image", f"cannot be decoded: {what}") from fault


COLOUR_SIDE = 6
_LEAST_COLOUR = 2.0
"""Distance from grey (mean, of 128) below which a picture counts as one without colours."""

Colours = NDArray[np.float32]
"""The colours of a picture without its brightness: Cb and Cr of 6 x 6 fields, around 0, of shape
(6, 6, 2).
"""


def small_colours(data: bytes) -> Colours | None:
    """The colours of the picture, upright; None if it is grey or does not decode."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            _refuse_costly(data, image.size)
            image.draft("RGB", (_DRAFT_PX, _DRAFT_PX))
            fields = as_rgb(image).resize((COLOUR_SIDE, COLOUR_SIDE), Image.Resampling.BOX)
            values = np.asarray(_upright(fields, image).convert("YCbCr"), np.float32)
    except (UnusablePictureError, Image.DecompressionBombError, *DECODER_FAULTS):
        return None
    colours: Colours = values[..., 1:] - 128
    return colours if np.linalg.norm(colours, axis=-1).mean() >= _LEAST_COLOUR else None


def colour_distance(first: Colours, second: Colours) -> float:
    """The mean distance of colours, the second as saturated as the first (at most twice, or half).

    So brighter, paler and richer copies are near.
    """
    saturation = np.clip(np.vdot(first, second) / np.vdot(second, second), 0.5, 2.0)
    return float(np.linalg.norm(first - saturation * second, axis=-1).mean())


def look_hash(data: bytes) -> int | None:
    """The perceptual hash of fingerprints; None for a blank picture.

    Raises:
        UnusablePictureError: as `small_picture`.
    """
    look = look_of(small_picture(data).grey)
    return look and look.perceptual_hash


def _refuse_costly(data: bytes, size: tuple[int, int]) -> None:
    if scans := too_many_scans(data):
        raise UnusablePictureError("too_many_scans", scans)
    if size[0] * size[1] > MOST_PIXELS:
        what = f"has {size[0]:,} x {size[1]:,} pixels, wanted {MOST_PIXELS:,} at most"
        raise UnusablePictureError("too_many_pixels", what)


def _small_grey(image: "Image.Image") -> Grey:
    from PIL import Image

    image.draft("L", (_DRAFT_PX, _DRAFT_PX))
    shown = image if image.mode == "L" else as_rgb(image)
    grey = shown.convert("L").resize((SIDE_PX, SIDE_PX), Image.Resampling.BILINEAR)
    return np.asarray(_upright(grey, image), np.float64)


def _upright(grey: "Image.Image", image: "Image.Image") -> "Image.Image":
    """The picture, upright by the metadata of `image`; as it is if these are damaged."""
    from PIL import ImageOps

    if not image.info.get("exif"):
        return grey
    grey.info["exif"] = image.info["exif"]
    try:
        return ImageOps.exif_transpose(grey)
    except DECODER_FAULTS:
        return grey
