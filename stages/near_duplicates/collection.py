"""A collection of images as arrays, ready to be compared."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.near_duplicates import ImageFingerprint
from schemas.spectrum import Spectrum

Fingerprints = Mapping[str, ImageFingerprint]
"""Fingerprints of images by id, in the order of the images."""
Embeddings = NDArray[Any]
"""One row for each image, of shape (n, d)."""
Places = NDArray[np.int64]
"""Where images stand in their collection."""

_UNIT_WITHIN = 1e-5
"""How far from 1 a length may be that is taken for 1 where all are looked among."""


class Collection(NamedTuple):
    """What images are compared by. Those with the same bytes are stood for by the first of them.

    Attributes:
        names: the ids of all n images, in their order.
        firsts: for each the place of the first image with its bytes, of shape (n,).
        seen: the places of images with a hash that are first of their bytes, rising, of shape (s,).
        hashes: their perceptual hashes, of shape (s,).
        mirrored: those of their mirror images.
        spectra: their spectra, of shape (s, 255).
        felt: the places of images with an embedding that are first of their bytes, rising.
        units: the embeddings of these at unit length, in single precision, of shape (f, d): for
            looking among all of them; None where there are none.
        embeddings: those of all images as they were given, of shape (n, d): for the exact distance
            of few; None where there are none.
    """

    names: tuple[str, ...]
    firsts: Places
    seen: Places
    hashes: NDArray[np.uint64]
    mirrored: NDArray[np.uint64]
    spectra: Spectrum
    felt: Places
    units: NDArray[np.float32] | None
    embeddings: Embeddings | None


def collect(images: Fingerprints, embeddings: Embeddings | None = None) -> Collection:
    """Makes arrays of fingerprints."""
    stored = list(images.values())
    known: dict[str, int] = {}
    firsts = np.array(
        [known.setdefault(image.sha256, place) for place, image in enumerate(stored)], np.int64
    )
    places = np.array(list(known.values()), np.int64)
    seen = [at for at in known.values() if stored[at].perceptual_hash is not None]
    hashes, mirrored = (
        np.array([int(getattr(stored[at], name), 16) for at in seen], np.uint64)
        for name in ("perceptual_hash", "mirrored_hash")
    )
    spectra = np.frombuffer(bytes.fromhex("".join(stored[at].spectrum for at in seen)), np.int8)
    return Collection(
        tuple(images),
        firsts,
        np.array(seen, np.int64),
        hashes,
        mirrored,
        spectra.reshape(len(seen), -1) if seen else np.empty((0, 0), np.int8),
        places if embeddings is not None else places[:0],
        None if embeddings is None else _units(embeddings, places),
        embeddings,
    )


def _units(embeddings: Embeddings, places: Places) -> NDArray[np.float32]:
    """Rows at unit length in single precision; the given array itself where it is that already."""
    is_whole = len(places) == len(embeddings)
    rows = np.asarray(embeddings if is_whole else embeddings[places], np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if np.allclose(lengths, 1.0, rtol=0, atol=_UNIT_WITHIN):
        return rows
    return np.asarray(rows / np.where(lengths > 0, lengths, np.float32(1.0)), np.float32)
