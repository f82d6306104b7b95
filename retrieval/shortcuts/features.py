"""What blind opponents use: statistics of pixels, files, places and words, none of the content.

Every function returns named numbers, so that a certificate can say what gave the answer away.
"""

import re
from collections.abc import Mapping
from io import BytesIO
from itertools import pairwise
from pathlib import PurePosixPath
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, JpegImagePlugin

from loupe.schemas.decoders import as_rgb

Features = dict[str, float]
Plane = NDArray[np.float32]

_MOST_PX = 512  # of a side, which bounds the time an image takes
_THUMBNAIL = 4  # fields a side
_COLOURS = ("red", "green", "blue")
_BLOCK = 8  # JPEG transforms blocks of 8 x 8 pixels
_FLAT = 12.0  # a larger difference of neighbours is mostly an edge of the content
_BANDS = (0.0, 0.125, 0.25, 0.5, 0.75, 1.0)  # of the highest spatial frequency
_SEPARATORS = re.compile(r"[^0-9A-Za-z]")
_SENTENCE_END = re.compile(r"[.!?。！？]")


class Looks(NamedTuple):
    """What opponents use of one image: its pixels, its colours, its file."""

    pixels: Features
    colours: Features
    file: Features


def looks_of(data: bytes) -> Looks:
    """Return what opponents use of an encoded image."""
    with Image.open(BytesIO(data)) as opened:
        pixels = np.asarray(as_rgb(opened))
    height, width = pixels.shape[:2]
    file = file_features(data, width, height)
    return Looks(pixel_features(pixels), colour_features(pixels), file)


def pixel_features(pixels: NDArray[np.uint8]) -> Features:
    """Return statistics of an image that depend on its encoding, noise and colours.

    Of a large image they are those of its middle, in whole blocks of JPEG.

    Args:
        pixels: RGB, of shape (height, width, 3).
    """
    top, left = (max(0, side - _MOST_PX) // (2 * _BLOCK) * _BLOCK for side in pixels.shape[:2])
    pixels = np.ascontiguousarray(pixels[top : top + _MOST_PX, left : left + _MOST_PX])
    planes = cv2.cvtColor(pixels, cv2.COLOR_RGB2YCrCb).astype(np.float32)
    luma = planes[..., 0]
    saturation = cv2.cvtColor(pixels, cv2.COLOR_RGB2HSV)[..., 1].astype(np.float32)
    detail = cv2.Laplacian(luma, cv2.CV_32F)
    chroma_detail = cv2.Laplacian(planes[..., 1], cv2.CV_32F)
    return {
        "8-pixel grid, columns": _grid_strength(luma),
        "8-pixel grid, rows": _grid_strength(luma.T),
        "rounded DCT coefficients": _rounded_coefficients(luma),
        "noise": _log(_noise(luma)),
        "share of pixels without noise": float((np.abs(_residual(luma)) < 1).mean()),
        "sharpness": _log(float(detail.var())),
        "detail of chroma": _log(float(chroma_detail.var())) - _log(float(detail.var())),
        "mean saturation": float(saturation.mean()),
        "spread of saturation": float(saturation.std()),
        "share of black or white values": float(((pixels == 0) | (pixels == 255)).mean()),
        "unused brightness levels": _unused_levels(luma),
        **_spectrum(luma),
    }


def _log(value: float) -> float:
    return float(np.log1p(value))


def _grid_strength(luma: Plane) -> float:
    """Return how much more neighbours differ across the borders of blocks than elsewhere."""
    steps = np.abs(np.diff(luma, axis=1))
    flat = np.where(steps < _FLAT, steps, np.nan)
    usable = flat.shape[1] // _BLOCK * _BLOCK
    if not usable:
        return 0.0
    by_column = np.nan_to_num(_nanmean(flat[:, :usable]))
    profile = by_column.reshape(-1, _BLOCK).mean(axis=0)
    elsewhere = profile[: _BLOCK - 1].mean()
    return float((profile[_BLOCK - 1] - elsewhere) / (elsewhere + 1e-3))


def _nanmean(values: Plane) -> Plane:
    """Return the mean of each column; 0 for a column without a value."""
    known = ~np.isnan(values)
    sums = np.where(known, values, 0).sum(axis=0)
    mean: Plane = sums / np.maximum(known.sum(axis=0), 1)
    return mean


def _rounded_coefficients(luma: Plane) -> float:
    """Return how many more coefficients vanish in JPEG's blocks than in shifted ones."""
    half = _BLOCK // 2
    return _vanishing(luma) - _vanishing(luma[half:, half:])


def _vanishing(luma: Plane) -> float:
    from scipy.fft import dctn

    height, width = (side // _BLOCK * _BLOCK for side in luma.shape)
    if not height or not width:
        return 0.0
    whole = luma[:height, :width] - 128
    blocks = whole.reshape(height // _BLOCK, _BLOCK, width // _BLOCK, _BLOCK).swapaxes(1, 2)
    return float((np.abs(dctn(blocks, axes=(2, 3), norm="ortho")) < 1).mean())


def _residual(luma: Plane) -> Plane:
    """Return what a median of 3 x 3 pixels removes."""
    residual: Plane = luma - cv2.medianBlur(luma, 3)
    return residual


def _noise(luma: Plane) -> float:
    """Return the noise level: the median absolute residual, scaled as a standard deviation."""
    return float(np.mean(np.abs(_residual(luma))) * 1.2533)


def _unused_levels(luma: Plane) -> float:
    """Return the share of brightness levels between the extremes that no pixel has."""
    counts = np.bincount(luma.astype(np.uint8).ravel(), minlength=256)
    used = np.flatnonzero(counts)
    within = counts[used[0] : used[-1] + 1]
    return float((within == 0).mean())


def _spectrum(luma: Plane) -> Features:
    """Return the logarithmic power of bands of spatial frequency, relative to the lowest."""
    power = np.abs(np.fft.rfft2(luma - luma.mean())) ** 2
    rows = np.abs(np.fft.fftfreq(luma.shape[0]))[:, None] * 2
    columns = np.fft.rfftfreq(luma.shape[1])[None, :] * 2
    frequency = np.maximum(rows, columns)
    means = []
    for low, high in pairwise(_BANDS):
        band = power[(frequency > low) & (frequency <= high)]
        means.append(_log(float(band.mean())) if band.size else 0.0)
    return {f"power of band {at} of 4": mean - means[0] for at, mean in enumerate(means) if at}


def colour_features(pixels: NDArray[np.uint8]) -> Features:
    """Return the colours of an image in a few large fields: what it shows, hardly.

    Args:
        pixels: RGB, of shape (height, width, 3).
    """
    small = cv2.resize(pixels, (_THUMBNAIL, _THUMBNAIL), interpolation=cv2.INTER_AREA)
    found = {}
    for (row, column, channel), value in np.ndenumerate(small):
        field = row * _THUMBNAIL + column + 1
        found[f"{_COLOURS[channel]} of field {field} of {_THUMBNAIL**2}"] = float(value)
    return found


def size_features(width_px: int, height_px: int) -> Features:
    """Return the sides of an image, their ratio, and what remains of them in blocks."""
    return {
        "width": float(width_px),
        "height": float(height_px),
        "aspect": width_px / height_px,
        "area": _log(width_px * height_px),
        "width in whole blocks": float(width_px % _BLOCK == 0),
        "height in whole blocks": float(height_px % _BLOCK == 0),
        "square": float(width_px == height_px),
    }


def file_features(data: bytes, width_px: int, height_px: int) -> Features:
    """Return what a file says of itself: its format, quality and metadata."""
    with Image.open(BytesIO(data)) as opened:
        image_format = opened.format or ""
        metadata = sum(len(str(value)) for value in opened.info.values())
        exif = len(opened.getexif())
        tables: Mapping[int, list[int]] = getattr(opened, "quantization", {})
        steps = sum(sum(table) for table in tables.values())
        subsampling = -1
        if isinstance(opened, JpegImagePlugin.JpegImageFile):
            subsampling = JpegImagePlugin.get_sampling(opened)
    return {
        "bytes": _log(len(data)),
        "bytes per pixel": len(data) / (width_px * height_px),
        "JPEG": float(image_format == "JPEG"),
        "PNG": float(image_format == "PNG"),
        "WebP": float(image_format == "WEBP"),
        "length of metadata": _log(metadata),
        "EXIF fields": float(exif),
        "quantisation steps of JPEG": _log(steps),
        "chroma subsampling": float(subsampling),
    }


def name_features(name: str) -> Features:
    """Return the form of a file's name: its length, characters and suffix."""
    path = PurePosixPath(name)
    digits = sum(letter.isdigit() for letter in path.stem)
    return {
        "length of name": float(len(path.stem)),
        "digits in name": float(digits),
        "separators in name": float(len(_SEPARATORS.findall(path.stem))),
        "folders": float(len(path.parts)),
        "suffix .jpg": float(path.suffix.lower() in {".jpg", ".jpeg"}),
        "suffix .png": float(path.suffix.lower() == ".png"),
    }


def text_features(text: str) -> Features:
    """Return the length of a text and counts of its words and signs."""
    words = text.split()
    letters = sum(len(word) for word in words)
    return {
        "words": float(len(words)),
        "characters": float(len(text)),
        "letters a word": letters / max(len(words), 1),
        "sentences": float(len(_SENTENCE_END.findall(text))),
        "commas": float(text.count(",")),
        "digits": float(sum(letter.isdigit() for letter in text)),
        "capitals": float(sum(letter.isupper() for letter in text)),
        "different words": len({word.casefold() for word in words}) / max(len(words), 1),
    }
