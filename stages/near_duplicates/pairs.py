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

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.hamming import close_pairs, close_pairs_between
from schemas.near_duplicates import Evidence, NearDuplicateSettings, Sameness
from schemas.spectrum import Spectrum, mirrored_spectra, spectrum_distances
from stages.near_duplicates.collection import (
    Collection,
    Embeddings,
    Fingerprints,
    Places,
    collect,
)
from stages.near_duplicates.pair_table import AlikePairs, Rows, empty_rows

_AT_ONCE = 1 << 14
"""Pairs whose vectors are multiplied at once."""
_CELLS = 1 << 22
"""Cosines in a block."""
_DECIMALS = 6

_EVIDENCE: tuple[Evidence, ...] = ("same", "unclear", "different", "none")
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
_APART, _DOUBTFUL, _SAME = range(3)
_CODES = np.array(
    [
        [
            {None: _APART, Sameness.DOUBTFUL: _DOUBTFUL, Sameness.SAME: _SAME}[
                _VERDICTS.get((seen, felt))
            ]
            for felt in _EVIDENCE
        ]
        for seen in _EVIDENCE
    ],
    np.uint8,
)
"""What two measures say together, by their places in `_EVIDENCE`."""


class _Looks(NamedTuple):
    """How near images look: a row for each pair, by rising key.

    Attributes:
        keys: the pair, see `_keys`.
        mirrored: whether the second is nearer in a mirror.
        bits: that differ in their hashes.
        distances: of their spectra.
    """

    keys: Places
    mirrored: NDArray[np.bool_]
    bits: NDArray[np.uint8]
    distances: NDArray[np.float64]

    def at(self, rows: Places) -> "_Looks":
        """Some of its rows."""
        return _Looks(self.keys[rows], self.mirrored[rows], self.bits[rows], self.distances[rows])


def alike_pairs(
    images: Fingerprints,
    settings: NearDuplicateSettings,
    embeddings: Embeddings | None = None,
) -> AlikePairs:
    """All pairs that have or may have the same content, in the order of the images.

    Exact: every pair within `hash_bits` is looked at, and, where there are embeddings, every pair
    of these. Images with the same bytes are stood for by the first of them; what is like it is like
    the others, too, but is not said again of them.

    Memory grows with the pairs within `hash_bits`: some sixty bytes each.
    """
    collection = collect(images, embeddings)
    copies = np.flatnonzero(collection.firsts != np.arange(len(collection.names)))
    exact = empty_rows(len(copies))
    exact["first"], exact["second"], exact["exact"] = collection.firsts[copies], copies, True
    rows = np.concatenate((exact, pairs_of(collection, settings)))
    return AlikePairs(collection.names, rows[np.lexsort((rows["second"], rows["first"]))])


def pairs_of(
    collection: Collection, settings: NearDuplicateSettings, asked: Places | None = None
) -> Rows:
    """The pairs of images that are first of their bytes; in order.

    Args:
        collection: the images.
        settings: when two are alike.
        asked: only pairs that one of these places belongs to; None for all.
    """
    count = len(collection.names)
    looks = _looks(collection, settings, asked)
    keys = _distinct(np.append(looks.keys, _near_embeddings(collection, settings, asked)))
    rows = empty_rows(len(keys))
    rows["first"], rows["second"] = np.divmod(keys, max(1, count))
    at = np.searchsorted(keys, looks.keys)
    rows["mirrored"][at], rows["hash_bits"][at] = looks.mirrored, looks.bits
    rows["spectrum_distance"][at] = looks.distances
    if collection.embeddings is not None:
        rows["embedding_distance"] = _cosine_distances(
            collection.embeddings, rows["first"], rows["second"]
        )
    verdicts = _verdicts(rows, settings)
    rows["doubtful"] = verdicts == _DOUBTFUL
    alike: Rows = rows[verdicts != _APART]
    return alike


def _looks(collection: Collection, settings: NearDuplicateSettings, asked: Places | None) -> _Looks:
    """The pairs within `hash_bits`, each the way round in which its spectra are nearer."""
    found = [
        _looks_one_way(collection, settings, asked, is_mirrored=is_mirrored)
        for is_mirrored in ((False, True) if settings.mirrored else (False,))
    ]
    looks = _Looks(
        np.concatenate([one.keys for one in found]),
        np.concatenate([one.mirrored for one in found]),
        np.concatenate([one.bits for one in found]),
        np.concatenate([one.distances for one in found]),
    )
    order = np.lexsort((looks.mirrored, looks.distances, looks.keys))
    best = order[_begins(looks.keys[order])]
    return looks.at(best)


def _looks_one_way(
    collection: Collection,
    settings: NearDuplicateSettings,
    asked: Places | None,
    *,
    is_mirrored: bool,
) -> _Looks:
    hashes, spectra, seen = collection.hashes, collection.spectra, collection.seen
    others = collection.mirrored if is_mirrored else hashes
    rows = None if asked is None else np.flatnonzero(np.isin(seen, asked))
    found = _candidates(hashes, others, settings.hash_bits, rows, is_mirrored=is_mirrored)
    distances = _spectrum_distances(spectra, found, is_mirrored=is_mirrored)
    near = distances <= settings.doubtful_spectrum_distance
    first, second = found[near].T
    return _Looks(
        _keys(seen[first], seen[second], len(collection.names)),
        np.full(len(first), is_mirrored),
        np.bitwise_count(hashes[first] ^ others[second]),
        distances[near],
    )


def _candidates(
    hashes: NDArray[np.uint64],
    others: NDArray[np.uint64],
    radius: int,
    rows: Places | None,
    *,
    is_mirrored: bool,
) -> Places:
    """Pairs (i, j), i < j, of which one hash is near to the other or to that of its mirror image.

    With `rows`, only pairs that one of them belongs to.
    """
    if rows is None and not is_mirrored:
        return close_pairs(hashes, radius)
    if rows is None:
        found = close_pairs_between(hashes, others, radius)
    else:
        found = _from(rows, close_pairs_between(hashes[rows], others, radius))
        if is_mirrored:
            back = _from(rows, close_pairs_between(others[rows], hashes, radius))
            found = np.concatenate((found, back))
    found = np.sort(found[found[:, 0] != found[:, 1]], axis=1)
    keys = _distinct(_keys(found[:, 0], found[:, 1], len(hashes)))
    return np.stack(np.divmod(keys, max(1, len(hashes))), axis=1)


def _from(rows: Places, found: Places) -> Places:
    """Pairs of places among `rows` and places, as pairs of places."""
    return np.stack((rows[found[:, 0]], found[:, 1]), axis=1)


def _keys(first: Places, second: Places, count: int) -> Places:
    """Pairs of places among `count` as one number each, which rise as the pairs do."""
    return first.astype(np.int64) * count + second


def _distinct(keys: Places) -> Places:
    """Each key once, rising; by sorting, which for millions is faster than a table of hashes."""
    ordered = np.sort(keys)
    return ordered[_begins(ordered)]


def _begins(ordered: Places) -> NDArray[np.bool_]:
    """Where runs of equal keys begin."""
    begins = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
    return begins


def _spectrum_distances(
    spectra: Spectrum, pairs: Places, *, is_mirrored: bool
) -> NDArray[np.float64]:
    """Distances of spectra for each pair, in blocks."""
    found = np.empty(len(pairs))
    for start in range(0, len(pairs), _AT_ONCE):
        first, second = pairs[start : start + _AT_ONCE].T
        other = mirrored_spectra(spectra[second]) if is_mirrored else spectra[second]
        found[start : start + _AT_ONCE] = spectrum_distances(spectra[first], other)
    return found


def _near_embeddings(
    collection: Collection, settings: NearDuplicateSettings, asked: Places | None
) -> Places:
    """The keys of pairs whose embeddings say the same, and of few that hardly miss it."""
    felt, units, count = collection.felt, collection.units, len(collection.names)
    if units is None or not len(felt):
        return np.empty(0, np.int64)
    least = 1 - settings.embedding_distance - _slack(units.shape[1])
    rows = np.arange(len(felt)) if asked is None else np.flatnonzero(np.isin(felt, asked))
    step = max(1, _CELLS // len(felt))
    found = [np.empty(0, np.int64)]
    for block in np.split(rows, range(step, len(rows), step)):
        start = 0 if asked is not None or not len(block) else int(block[0])
        at, beside = np.nonzero(units[block] @ units[start:].T >= least)
        pairs = np.sort(np.stack((block[at], start + beside)), axis=0)
        pairs = pairs[:, pairs[0] < pairs[1]]
        found.append(_keys(felt[pairs[0]], felt[pairs[1]], count))
    return np.concatenate(found)


def _slack(width: int) -> float:
    """By how much a cosine in single precision may be wrong, of vectors with so many numbers."""
    return 1e-4 + width * float(np.finfo(np.float32).eps)


def _cosine_distances(
    embeddings: Embeddings, first: NDArray[np.int32], second: NDArray[np.int32]
) -> NDArray[np.float64]:
    """Of each pair, in blocks and in double precision."""
    found = np.empty(len(first))
    for start in range(0, len(first), _AT_ONCE):
        one, other = (
            np.asarray(embeddings[side[start : start + _AT_ONCE]], np.float64)
            for side in (first, second)
        )
        lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
        cosines = np.einsum("ij,ij->i", one, other) / np.where(lengths > 0, lengths, 1.0)
        found[start : start + _AT_ONCE] = 1.0 - cosines
    return np.maximum(np.round(found, _DECIMALS), 0.0)


def _verdicts(rows: Rows, settings: NearDuplicateSettings) -> NDArray[np.uint8]:
    """What two images are to each other, as `_CODES` has it."""
    seen = _evidence(
        rows["spectrum_distance"], settings.spectrum_distance, settings.doubtful_spectrum_distance
    )
    felt = _evidence(
        rows["embedding_distance"],
        settings.embedding_distance,
        settings.doubtful_embedding_distance,
    )
    seen[seen == _EVIDENCE.index("none")] = _EVIDENCE.index("different")
    found: NDArray[np.uint8] = _CODES[seen, felt]
    return found


def _evidence(distances: NDArray[np.float64], sure: float, doubtful: float) -> NDArray[np.intp]:
    """What one measure says, by its place in `_EVIDENCE`."""
    found = np.searchsorted([sure, doubtful], distances, side="left")
    found[np.isnan(distances)] = _EVIDENCE.index("none")
    return found
