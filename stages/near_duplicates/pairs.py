"""Which images of a collection are alike: the same bytes, the same look, the same embedding.

Two measures speak, the look (hash and spectrum) and the embedding, and neither is believed where
the other denies it:

============  =========  =========  ==========  =========
look          embedding: same       unclear     different  none
============  =========  =========  ==========  =========
same          same       same       doubtful    same
unclear       same       doubtful   –           doubtful
different     doubtful   –          –           –
============  =========  =========  ==========  =========
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.hamming import close_pairs, close_pairs_between
from schemas.near_duplicates import (
    AlikePair,
    Evidence,
    ImageFingerprint,
    NearDuplicateSettings,
    Sameness,
)
from schemas.nearness import cosine_distances, pairs_within
from stages.near_duplicates.spectrum import Spectrum, mirrored_spectra, spectrum_distances

Fingerprints = Mapping[str, ImageFingerprint]
"""Fingerprints of images by id, in the order of the images."""
Embeddings = NDArray[Any]
"""One row for each image, of shape (n, d)."""

_AT_ONCE = 1 << 16

_VERDICTS: dict[tuple[Evidence, Evidence], Sameness] = {
    ("same", "same"): Sameness.SAME,
    ("same", "unclear"): Sameness.SAME,
    ("same", "different"): Sameness.DOUBTFUL,
    ("same", "none"): Sameness.SAME,
    ("unclear", "same"): Sameness.SAME,
    ("unclear", "unclear"): Sameness.DOUBTFUL,
    ("unclear", "none"): Sameness.DOUBTFUL,
    ("different", "same"): Sameness.DOUBTFUL,
}


class _Look(NamedTuple):
    """How near two images look."""

    mirrored: bool
    bits: int
    distance: float


def alike_pairs(
    images: Fingerprints,
    settings: NearDuplicateSettings,
    embeddings: Embeddings | None = None,
) -> list[AlikePair]:
    """All pairs that have or may have the same content, in the order of the images.

    Exact: every pair within `hash_bits` is looked at, and, where there are embeddings, every pair
    of these. Images with the same bytes are stood for by the first of them; what is like it is like
    the others, too, but is not said again of them.
    """
    ids = list(images)
    firsts: dict[str, int] = {}
    pairs: dict[tuple[int, int], AlikePair] = {}
    for place, image in enumerate(images.values()):
        first = firsts.setdefault(image.sha256, place)
        if first != place:
            pairs[first, place] = AlikePair(
                first=ids[first], second=ids[place], sameness=Sameness.SAME, exact=True
            )
    places = list(firsts.values())
    units = None if embeddings is None else _unit(embeddings)
    looks = dict(_looks(places, list(images.values()), settings))
    near = set(looks) | set(_near_embeddings(places, units, settings))
    distances = _embedding_distances(sorted(near), units)
    for pair in near:
        found = _judged(looks.get(pair), distances.get(pair), settings)
        if found is not None:
            details = found.model_copy(update={"first": ids[pair[0]], "second": ids[pair[1]]})
            pairs[pair] = details
    return [pairs[pair] for pair in sorted(pairs)]


def _looks(
    places: Sequence[int], images: Sequence[ImageFingerprint], settings: NearDuplicateSettings
) -> Iterator[tuple[tuple[int, int], _Look]]:
    """The pairs within `hash_bits`, each the way round in which its spectra are nearer."""
    seen = np.array([at for at in places if images[at].perceptual_hash is not None], np.int64)
    hashes, mirrored = (
        np.array([int(getattr(images[at], name), 16) for at in seen], np.uint64)
        for name in ("perceptual_hash", "mirrored_hash")
    )
    spectra = np.array(
        [np.frombuffer(bytes.fromhex(images[at].spectrum), np.int8) for at in seen], np.int8
    )
    best: dict[tuple[int, int], _Look] = {}
    for is_mirrored in (False, True) if settings.mirrored else (False,):
        others = mirrored if is_mirrored else hashes
        found = _candidates(hashes, others, settings.hash_bits, is_mirrored=is_mirrored)
        bits = np.bitwise_count(hashes[found[:, 0]] ^ others[found[:, 1]])
        distances = _distances(spectra, found, is_mirrored=is_mirrored)
        near = distances <= settings.doubtful_spectrum_distance
        for (i, j), bit, distance in zip(
            seen[found[near]].tolist(), bits[near].tolist(), distances[near].tolist(), strict=True
        ):
            look = _Look(is_mirrored, bit, distance)
            if (i, j) not in best or look.distance < best[i, j].distance:
                best[i, j] = look
    yield from best.items()


def _candidates(
    hashes: NDArray[np.uint64], others: NDArray[np.uint64], radius: int, *, is_mirrored: bool
) -> NDArray[np.int64]:
    if not is_mirrored:
        return close_pairs(hashes, radius)
    found = close_pairs_between(hashes, others, radius)
    return np.unique(np.sort(found[found[:, 0] != found[:, 1]], axis=1), axis=0)


def _distances(
    spectra: Spectrum, pairs: NDArray[np.int64], *, is_mirrored: bool
) -> NDArray[np.float64]:
    """Distances of spectra for each pair, in blocks."""
    found = np.empty(len(pairs))
    for start in range(0, len(pairs), _AT_ONCE):
        first, second = pairs[start : start + _AT_ONCE].T
        other = mirrored_spectra(spectra[second]) if is_mirrored else spectra[second]
        found[start : start + _AT_ONCE] = spectrum_distances(spectra[first], other)
    return found


def _unit(embeddings: Embeddings) -> NDArray[np.float64]:
    rows = np.asarray(embeddings, np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    units: NDArray[np.float64] = rows / np.where(lengths > 0, lengths, 1.0)
    return units


def _near_embeddings(
    places: Sequence[int], units: NDArray[np.float64] | None, settings: NearDuplicateSettings
) -> Iterator[tuple[int, int]]:
    if units is not None:
        rows = units[np.array(places, np.int64)]
        for i, j in pairs_within(rows, cosine_distances, settings.embedding_distance):
            yield places[i], places[j]


def _embedding_distances(
    pairs: Sequence[tuple[int, int]], units: NDArray[np.float64] | None
) -> dict[tuple[int, int], float]:
    if units is None:
        return {}
    return {
        (i, j): float(cosine_distances(units[i : i + 1], units[j : j + 1])[0, 0]) for i, j in pairs
    }


def _judged(
    look: _Look | None, embedding: float | None, settings: NearDuplicateSettings
) -> AlikePair | None:
    """What two images are to each other, their ids left open; None where they differ."""
    seen = _evidence(
        look and look.distance, settings.spectrum_distance, settings.doubtful_spectrum_distance
    )
    felt = _evidence(embedding, settings.embedding_distance, settings.doubtful_embedding_distance)
    sameness = _VERDICTS.get(("different" if seen == "none" else seen, felt))
    if sameness is None:
        return None
    return AlikePair(
        first="",
        second="",
        sameness=sameness,
        mirrored=look is not None and look.mirrored,
        hash_bits=look and look.bits,
        spectrum_distance=look and look.distance,
        embedding_distance=embedding,
    )


def _evidence(distance: float | None, sure: float, doubtful: float) -> Evidence:
    if distance is None:
        return "none"
    if distance <= sure:
        return "same"
    return "unclear" if distance <= doubtful else "different"
