"""Measures of images for filters: sharpness, brightness, contrast."""

import numpy as np
from numpy.typing import NDArray

from loupe.api.values import Image


def _grey(image: Image) -> NDArray[np.uint8]:
    import cv2

    return np.asarray(cv2.cvtColor(image.pixels, cv2.COLOR_RGB2GRAY), np.uint8)


def sharpness(image: Image) -> float:
    """Return the variance of the Laplacian: below about 60, most photographs look blurred."""
    import cv2

    return float(cv2.Laplacian(_grey(image), cv2.CV_64F).var())


def brightness(image: Image) -> float:
    """Return the mean of the grey values, from 0 (black) to 255 (white)."""
    return float(_grey(image).mean())


def contrast(image: Image) -> float:
    """Return the standard deviation of the grey values."""
    return float(_grey(image).std())
