"""Images that are known by bytes and look, to which more are added one by one."""

import numpy as np
from numpy.typing import NDArray

from schemas.near_duplicates import ImageFingerprint, NearDuplicateSettings
from schemas.spectrum import Spectrum, mirrored_spectra, spectrum_distances

_FIRST_ROOM = 256
_HASHES = ("perceptual_hash", "mirrored_hash")
_OWN, _MIRRORED = range(2)


class GrowingCollection:
    """Images by whom they are for; which of them others are like is told by bytes and look.

    To add an image, and to look one up, reads each fingerprint once and copies none of those that
    are there: time and memory grow with the images, not with their square. What is sure by
    `alike_pairs` without embeddings is alike here.
    """

    def __init__(self, settings: NearDuplicateSettings) -> None:
        """Begins with no image; `settings` say when two have the same content."""
        self._settings = settings
        self._owners: dict[str, set[str]] = {}
        self._names: list[str] = []
        self._hashes = np.empty((2, _FIRST_ROOM), np.uint64)
        self._spectra: Spectrum = np.empty((_FIRST_ROOM, 0), np.int8)

    def __len__(self) -> int:
        """How many images of different bytes there are."""
        return len(self._owners)

    def add(self, owner: str, sha256: str, look: ImageFingerprint | None = None) -> None:
        """From now on an image is there for `owner`; without a look only its bytes are known."""
        owners = self._owners.setdefault(sha256, set())
        if not owners and look is not None and look.perceptual_hash is not None:
            self._append(sha256, look)
        owners.add(owner)

    def owners_alike(self, sha256: str, look: ImageFingerprint | None = None) -> frozenset[str]:
        """Whom the images are for that have these bytes, or surely this look."""
        found = {sha256} if sha256 in self._owners else set()
        if look is not None and look.perceptual_hash is not None and self._names:
            found.update(self._names[row] for row in np.flatnonzero(self._looks_like(look)))
        return frozenset(owner for name in found for owner in self._owners[name])

    def _append(self, sha256: str, look: ImageFingerprint) -> None:
        row, spectrum = len(self._names), _spectrum_of(look)
        if not row:
            self._spectra = np.empty((_FIRST_ROOM, len(spectrum)), np.int8)
        if row == len(self._spectra):
            self._hashes = np.concatenate((self._hashes, np.empty_like(self._hashes)), axis=1)
            self._spectra = np.concatenate((self._spectra, np.empty_like(self._spectra)))
        self._hashes[:, row] = _hashes_of(look)
        self._spectra[row] = spectrum
        self._names.append(sha256)

    def _looks_like(self, look: ImageFingerprint) -> NDArray[np.bool_]:
        """For each image with a look whether it has this one, of shape (n,)."""
        hashes, count = self._hashes[:, : len(self._names)], len(self._names)
        asked, spectrum = _hashes_of(look), _spectrum_of(look)[None]
        own = self._within(hashes[_OWN], asked[_OWN])
        alike = self._are_near(np.flatnonzero(own), spectrum, count)
        if self._settings.mirrored:
            turned = self._within(hashes[_MIRRORED], asked[_OWN])
            turned |= self._within(hashes[_OWN], asked[_MIRRORED])
            alike |= self._are_near(np.flatnonzero(turned), mirrored_spectra(spectrum), count)
        return alike

    def _within(self, hashes: NDArray[np.uint64], asked: np.uint64) -> NDArray[np.bool_]:
        near: NDArray[np.bool_] = np.bitwise_count(hashes ^ asked) <= self._settings.hash_bits
        return near

    def _are_near(
        self, rows: NDArray[np.int64], spectrum: Spectrum, count: int
    ) -> NDArray[np.bool_]:
        near = np.zeros(count, bool)
        others = np.broadcast_to(spectrum, (len(rows), spectrum.shape[1]))
        distances = spectrum_distances(self._spectra[rows], others)
        near[rows] = distances <= self._settings.spectrum_distance
        return near


def _hashes_of(look: ImageFingerprint) -> NDArray[np.uint64]:
    """Its hash and that of its mirror image."""
    return np.array([int(getattr(look, name), 16) for name in _HASHES], np.uint64)


def _spectrum_of(look: ImageFingerprint) -> Spectrum:
    return np.frombuffer(bytes.fromhex(look.spectrum), np.int8)
