"""The perceptual hash and the spectrum of a small grey picture, and of its mirror image.

Both are read off one cosine transform (DCT-II). The hash is that of pHash: of the lowest 8 x 8
frequencies, which are above their median. It finds; but where pictures are plain it finds what is
different, too, and so the spectrum decides: the lowest 16 x 16 frequencies as they are, without the
mean (brightness) and at one length (contrast).
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SIDE_PX = 32
_HASH_SIDE = 8
_SPECTRUM_SIDE = 16
_LEAST_CONTRAST = 0.5
"""Grey levels (root mean square, of 255) below which a picture has nothing on it."""
_MOST = 127

Grey = NDArray[np.float64]
"""A picture of shape (32, 32), values from 0 to 255; or frequencies. Of double precision, so that
the order in which a machine adds up does not show in the bits of a hash."""
Spectrum = NDArray[np.int8]
"""255 frequencies, the largest of which is 127 or -127."""


class Look(NamedTuple):
    """What a picture looks like: two hashes and a spectrum."""

    perceptual_hash: int
    mirrored_hash: int
    spectrum: Spectrum


def look_of(picture: Grey) -> Look | None:
    """Hash and spectrum of a picture; None where it has nothing on it."""
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
    """What makes orthonormal frequencies those of pHash, of shape (8, 8): its transform is not."""
    scale = np.where(np.arange(_HASH_SIDE) == 0, np.sqrt(2), 1.0)
    return np.asarray(np.outer(scale, scale), np.float64)


@cache
def _turns() -> Grey:
    """What a mirror does to frequencies, of shape (1, 16): 1 for even columns, -1 for odd ones."""
    columns = np.arange(_SPECTRUM_SIDE)[None, :]
    return np.where(columns % 2 == 0, 1.0, -1.0)
