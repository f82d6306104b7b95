"""Near-duplicates of any collection of images: exact, by fingerprint, by embedding."""

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loupe.retrieval.similarity.distances import (
    EXACT_UP_TO,
    close_rows,
    cosine_distances,
    rows_on_disk,
    single_precision,
)
from loupe.retrieval.similarity.hamming import close_pairs, close_pairs_between
from loupe.retrieval.similarity.spectrum import (
    SPECTRUM,
    Colours,
    Spectrum,
    UnusablePictureError,
    colour_distance,
    look_of,
    mirrored_spectra,
    small_picture,
    spectrum_distances,
)
from loupe.schemas.base import sha256_of
from loupe.schemas.grouping import grouped
from loupe.schemas.records import Rejection
from loupe.schemas.similarity import (
    AlikePair,
    DuplicateCluster,
    ImageFingerprint,
    NearDuplicateReport,
    NearDuplicateSettings,
    Sameness,
)

# The fingerprint of an encoded image.

FINGERPRINTS_STAGE = "fingerprint_images"
FINGERPRINTS_VERSION = "1"


def fingerprint(data: bytes, name: str) -> ImageFingerprint | Rejection:
    """The fingerprint of an encoded image, or why it cannot be used.

    Reasons are those of `loupe.retrieval.similarity.spectrum.small_picture`. Thread-safe.

    Args:
        data: an encoded image. Of one that moves the first picture counts.
        name: what to call it in a rejection.
    """
    try:
        size, grey = small_picture(data)
    except UnusablePictureError as fault:
        return Rejection(
            stage=FINGERPRINTS_STAGE,
            reason=fault.reason,
            detail=f"image {name!r} {fault}",
            context={"file": name},
        )
    look = look_of(grey)
    return ImageFingerprint(
        sha256=sha256_of(data),
        width_px=size[0],
        height_px=size[1],
        perceptual_hash=look and f"{look.perceptual_hash:016x}",
        mirrored_hash=look and f"{look.mirrored_hash:016x}",
        spectrum=look.spectrum.tobytes().hex() if look else "",
    )


# A collection of images as arrays.

Fingerprints = Mapping[str, ImageFingerprint]
"""Fingerprints of images by id, in the order of the images."""
Embeddings = NDArray[Any]
"""One row for each image, of shape (n, d)."""
Places = NDArray[np.int64]
"""Positions of images in their collection."""


class ImageCollection(NamedTuple):
    """The data by which images are compared; the first of equal files represents all.

    Attributes:
        names: the ids of all n images, in their order.
        firsts: for each the position of the first image with its bytes, of shape (n,).
        pixels: the number of pixels of each, of shape (n,).
        seen: the positions of first images with a hash, ascending, of shape (s,).
        hashes: their perceptual hashes, of shape (s,).
        mirrored: the hashes of their mirror images.
        spectra: the spectra of all images, of shape (n, 255), in a file.
        embedded: the positions of first images with an embedding, ascending.
        units: their embeddings at unit length, in single precision, of shape (f, d), to search
            among; None if there are none.
        embeddings: the embeddings of all images as given, of shape (n, d), to compute exact
            distances of a few; None if there are none.
    """

    names: tuple[str, ...]
    firsts: Places
    pixels: Places
    seen: Places
    hashes: NDArray[np.uint64]
    mirrored: NDArray[np.uint64]
    spectra: Spectrum
    embedded: Places
    units: NDArray[np.float32] | None
    embeddings: Embeddings | None

    def embedded_as(self, embeddings: Embeddings | None) -> "ImageCollection":
        """The collection with the embeddings of all its images."""
        if embeddings is None:
            return self
        places = np.flatnonzero(self.firsts == np.arange(len(self.names)))
        units = _unit_rows(embeddings, places)
        return self._replace(embedded=places, units=units, embeddings=embeddings)


def collect(images: Iterable[tuple[str, ImageFingerprint]]) -> ImageCollection:
    """Makes arrays of ids and fingerprints, in which an image takes some 150 bytes."""
    names: list[str] = []
    digests, numbers = bytearray(), array("Q")

    def spectra() -> Iterator[Spectrum]:
        for name, image in images:
            names.append(name)
            digests.extend(bytes.fromhex(image.sha256))
            look = image.perceptual_hash is not None
            numbers.extend((image.pixels, look, *(_hashes_of(image).tolist() if look else (0, 0))))
            yield (_spectrum_of(image) if look else np.zeros(SPECTRUM, np.int8))[None]

    stored = rows_on_disk(spectra())
    pixels, looks, hashes, mirrored = np.array(numbers, np.uint64).reshape(-1, 4).T
    files = np.frombuffer(bytes(digests), "S32")
    _, known, same = np.unique(files, return_index=True, return_inverse=True)
    firsts = known[same].astype(np.int64)
    seen = np.flatnonzero((firsts == np.arange(len(names))) & (looks > 0))
    return ImageCollection(
        tuple(names),
        firsts,
        pixels.astype(np.int64),
        seen,
        hashes[seen],
        mirrored[seen],
        stored,
        seen[:0],
        None,
        None,
    )


def _unit_rows(embeddings: Embeddings, places: Places) -> NDArray[np.float32]:
    """Some of the embeddings at unit length; in a file if there are many of them."""
    if len(places) == len(embeddings):
        return single_precision(embeddings)
    if len(places) <= EXACT_UP_TO:
        return single_precision(embeddings[places])
    parts = (places[at : at + _AT_ONCE] for at in range(0, len(places), _AT_ONCE))
    return rows_on_disk(single_precision(embeddings[part]) for part in parts)


# Pairs of images as columns: millions of pairs take tens of bytes each, and no objects.

_NONE_BITS = 255
"""Marks pairs whose hashes were not near; a hash has 64 bits."""

COLUMNS = np.dtype(
    [
        ("first", np.int32),
        ("second", np.int32),
        ("doubtful", np.bool_),
        ("exact", np.bool_),
        ("mirrored", np.bool_),
        ("hash_bits", np.uint8),
        ("spectrum_distance", np.float64),
        ("embedding_distance", np.float64),
    ]
)
"""A row of the table: the positions of two images, and the fields of `AlikePair`; NaN is None."""

_OF_LOOKS = ("mirrored", "hash_bits", "spectrum_distance")

Rows = NDArray[np.void]
"""Rows of `COLUMNS`, of shape (p,)."""


def _empty_rows(count: int) -> Rows:
    """Rows without images and measurements."""
    rows = np.zeros(count, COLUMNS)
    rows["hash_bits"] = _NONE_BITS
    rows["spectrum_distance"] = rows["embedding_distance"] = np.nan
    return rows


class AlikePairs:
    """Pairs of images, ordered by first and second; records are created on access.

    Attributes:
        names: the ids of all images, in their order.
        rows: the pairs, of shape (p,); see `COLUMNS`.
        recall: the share of pairs of near embeddings that an index finds (`close_rows`); None where
            all pairs were looked at.
    """

    def __init__(self, names: Sequence[str], rows: Rows, recall: float | None = None) -> None:
        self.names = names
        self.rows = rows
        self.recall = recall

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> AlikePair:
        return self._record(self.rows[place].item())

    def __iter__(self) -> Iterator[AlikePair]:
        for start in range(0, len(self.rows), 4096):
            yield from map(self._record, self.rows[start : start + 4096].tolist())

    def of(self, sameness: Sameness) -> "AlikePairs":
        """The pairs of the same content, or the doubtful ones."""
        return AlikePairs(
            self.names, self.rows[self.rows["doubtful"] == (sameness is Sameness.DOUBTFUL)]
        )

    def _record(self, row: tuple[Any, ...]) -> AlikePair:
        first, second, doubtful, exact, mirrored, bits, spectrum, embedding = row
        return AlikePair(
            first=self.names[first],
            second=self.names[second],
            sameness=Sameness.DOUBTFUL if doubtful else Sameness.SAME,
            exact=exact,
            mirrored=mirrored,
            hash_bits=None if bits == _NONE_BITS else bits,
            spectrum_distance=_value(spectrum),
            embedding_distance=_value(embedding),
        )


def _value(number: float) -> float | None:
    return None if np.isnan(number) else number


# Which images of a collection have the same content: by bytes, appearance and embedding.
#
# There are two measures, appearance (hash and spectrum) and embedding, and neither counts where the
# other contradicts it.

_AT_ONCE = 1 << 14
"""The number of pairs whose vectors are multiplied at once."""

_APART, _DOUBTFUL, _SAME = range(3)
_DIFFERENT, _NOTHING = 2, 3
_CODES = np.array(
    [  # embeddings are the same, unclear, different, missing
        [_SAME, _SAME, _DOUBTFUL, _SAME],  # looks are the same
        [_SAME, _DOUBTFUL, _APART, _DOUBTFUL],  # unclear
        [_DOUBTFUL, _APART, _APART, _APART],  # different, or hashes are not near
    ],
    np.uint8,
)
"""The verdict of both measures together."""

_LOOKS = np.dtype([("key", np.int64), *((name, COLUMNS[name]) for name in _OF_LOOKS)])
"""How similar two images look: the pair (see `_keys`), and what is measured of it."""


def near_duplicate_pairs(
    images: Fingerprints,
    settings: NearDuplicateSettings,
    embeddings: Embeddings | None = None,
) -> AlikePairs:
    """All pairs that have or may have the same content, in the order of the images.

    Exact: every pair within `hash_bits` is compared and, if there are embeddings, every pair of
    embeddings up to a hundred thousand images (see `close_rows`). The first of equal files
    represents all: pairs with the others are not listed.

    Memory grows with the pairs within `hash_bits`: about sixty bytes each.
    """
    return pairs_among(collect(images.items()).embedded_as(embeddings), settings)


def pairs_among(collection: ImageCollection, settings: NearDuplicateSettings) -> AlikePairs:
    """All pairs of a collection, see `near_duplicate_pairs`."""
    copies = np.flatnonzero(collection.firsts != np.arange(len(collection.names)))
    exact = _empty_rows(len(copies))
    exact["first"], exact["second"], exact["exact"] = collection.firsts[copies], copies, True
    near, recall = pairs_of(collection, settings)
    rows = np.concatenate((exact, near))
    return AlikePairs(collection.names, rows[np.lexsort((rows["second"], rows["first"]))], recall)


def pairs_of(
    collection: ImageCollection, settings: NearDuplicateSettings, asked: Places | None = None
) -> tuple[Rows, float | None]:
    """The pairs of images that are the first of equal files, in order.

    With them the recall of the index that embeddings were searched with; None if all were compared.

    Args:
        collection: the images.
        settings: when two are alike.
        asked: only pairs that one of these places belongs to; None for all.
    """
    count = len(collection.names)
    looks = _looks(collection, settings, asked)
    near, recall = _near_embeddings(collection, settings, asked)
    keys = _distinct(np.append(looks["key"], near))
    rows = _empty_rows(len(keys))
    rows["first"], rows["second"] = np.divmod(keys, max(1, count))
    at = np.searchsorted(keys, looks["key"])
    for name in _OF_LOOKS:
        rows[name][at] = looks[name]
    if collection.embeddings is not None:
        vectors = collection.embeddings
        rows["embedding_distance"] = cosine_distances(
            vectors, vectors, rows["first"], rows["second"]
        )
    verdicts = _verdicts(rows, settings)
    rows["doubtful"] = verdicts == _DOUBTFUL
    return rows[verdicts != _APART], recall


def _looks(
    collection: ImageCollection, settings: NearDuplicateSettings, asked: Places | None
) -> Rows:
    """The pairs within `hash_bits`, by key, mirrored if that brings the spectra nearer."""
    looks = np.concatenate(
        [
            _looks_in_one_orientation(collection, settings, asked, is_mirrored=is_mirrored)
            for is_mirrored in ((False, True) if settings.mirrored else (False,))
        ]
    )
    order = np.lexsort((looks["mirrored"], looks["spectrum_distance"], looks["key"]))
    return looks[order[_begins(looks["key"][order])]]


def _looks_in_one_orientation(
    collection: ImageCollection,
    settings: NearDuplicateSettings,
    asked: Places | None,
    *,
    is_mirrored: bool,
) -> Rows:
    hashes, spectra, seen = collection.hashes, collection.spectra, collection.seen
    others = collection.mirrored if is_mirrored else hashes
    rows = None if asked is None else np.flatnonzero(np.isin(seen, asked))
    found = _candidates(hashes, others, settings.hash_bits, rows, is_mirrored=is_mirrored)
    distances = _spectrum_distances(spectra, seen[found], is_mirrored=is_mirrored)
    near = distances <= settings.doubtful_spectrum_distance
    first, second = found[near].T
    looks = np.empty(len(first), _LOOKS)
    looks["key"] = _keys(seen[first], seen[second], len(collection.names))
    looks["mirrored"] = is_mirrored
    looks["hash_bits"] = np.bitwise_count(hashes[first] ^ others[second])
    looks["spectrum_distance"] = distances[near]
    return looks


def _candidates(
    hashes: NDArray[np.uint64],
    others: NDArray[np.uint64],
    radius: int,
    rows: Places | None,
    *,
    is_mirrored: bool,
) -> Places:
    """Pairs (i, j), i < j, in which one hash is near to the other, or to that of its mirror image.

    With `rows`, only pairs with one of them.
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
    """Pairs of positions within `rows` and positions, as pairs of positions."""
    return np.stack((rows[found[:, 0]], found[:, 1]), axis=1)


def _keys(first: Places, second: Places, count: int) -> Places:
    """Pairs of positions among `count` as one number each, in the order of the pairs."""
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
    collection: ImageCollection, settings: NearDuplicateSettings, asked: Places | None
) -> tuple[Places, float | None]:
    """The keys of pairs whose embeddings say the same, and of few that hardly miss it.

    With them the recall of the index that found them; None where all pairs were looked at.
    """
    embedded, units = collection.embedded, collection.units
    if units is None or not len(embedded):
        return np.empty(0, np.int64), None
    rows = None if asked is None else np.flatnonzero(np.isin(embedded, asked))
    found, recall = close_rows(units, settings.embedding_distance, rows)
    first, second = embedded[found].T
    return _keys(first, second, len(collection.names)), recall


def _verdicts(rows: Rows, settings: NearDuplicateSettings) -> NDArray[np.uint8]:
    """What two images are to each other, as `_CODES` has it."""
    looks, embedded = (
        _evidence(rows[name], getattr(settings, name), getattr(settings, f"doubtful_{name}"))
        for name in ("spectrum_distance", "embedding_distance")
    )
    found: NDArray[np.uint8] = _CODES[np.minimum(looks, _DIFFERENT), embedded]
    return found


def _evidence(distances: NDArray[np.float64], sure: float, doubtful: float) -> NDArray[np.intp]:
    """What one measure says, as a row or column of `_CODES`."""
    found = np.searchsorted([sure, doubtful], distances, side="left")
    found[np.isnan(distances)] = _NOTHING
    return found


# Images of one layout in other colours: drawings, plates, maps.

COLOUR_DISTANCE = 8.0
"""Mean distance of the colours (Cb, Cr; of 128) beyond which images that look the same are in
doubt. Copies that were saved again, resized, cropped a little or brightened are within 5.
"""

ColoursOf = Callable[[str], Colours | None]
"""Gives the colours of an image by id; None if they are not known."""


def _doubted_by_colour(pairs: AlikePairs, colours_of: ColoursOf) -> AlikePairs:
    """The pairs, those in doubt that look the same in other colours; an embedder sees colours."""
    colours_of = cache(colours_of)
    rows = pairs.rows.copy()
    by_look = ~rows["doubtful"] & ~rows["exact"] & np.isnan(rows["embedding_distance"])
    for place in np.flatnonzero(by_look).tolist():
        row = rows[place]
        one, other = colours_of(pairs.names[row["first"]]), colours_of(pairs.names[row["second"]])
        if one is None or other is None:
            continue
        shown = other[:, ::-1] if row["mirrored"] else other
        rows["doubtful"][place] = colour_distance(one, shown) > COLOUR_DISTANCE
    return AlikePairs(pairs.names, rows, pairs.recall)


# Which of the images that are alike is kept: always one that every dropped one is like.


class NearDuplicates(NamedTuple):
    """The kept images of a collection, and why the others are dropped.

    Attributes:
        kept: the ids of the images that stay, in the order of the images.
        clusters: what goes, with the image that stands for it, in the order of these.
        pairs: all pairs of the same content; more than `clusters` say, as images of a cluster may
            be alike among themselves.
        doubtful: pairs of kept images that people have to decide.
        report: the numbers.
    """

    kept: tuple[str, ...]
    clusters: tuple[DuplicateCluster, ...]
    pairs: AlikePairs
    doubtful: AlikePairs
    report: NearDuplicateReport


def find_near_duplicates(
    images: Fingerprints,
    settings: NearDuplicateSettings,
    *,
    embeddings: Embeddings | None = None,
    embedder: str | None = None,
    protected: Collection[str] = (),
    colours_of: ColoursOf | None = None,
) -> NearDuplicates:
    """Keeps one image of each content.

    Images are considered in this order: protected ones first, then those with more pixels, then
    earlier ones. Each is kept unless it has the same content as an image that is already kept. So
    no two kept images have the same content (except protected ones, which are always kept), and
    none is dropped because of a chain of others.

    Args:
        images: fingerprints by id; their order says what is earlier.
        settings: when two images have the same content.
        embeddings: one row for each image, of shape (n, d), where there are some.
        embedder: what made them, as `name@revision`.
        protected: ids that stay whatever they are like (the images of an earlier version, say).
        colours_of: colours of images by id, to compare those that look the same without them.
    """
    collection = collect(images.items()).embedded_as(embeddings)
    return near_duplicates_among(collection, settings, embedder, protected, colours_of)


def near_duplicates_among(
    images: ImageCollection,
    settings: NearDuplicateSettings,
    embedder: str | None = None,
    protected: Collection[str] = (),
    colours_of: ColoursOf | None = None,
) -> NearDuplicates:
    """Keeps one image of each content of a collection, see `find_near_duplicates`."""
    safe = frozenset(protected)
    pairs = pairs_among(images, settings)
    if colours_of is not None:
        pairs = _doubted_by_colour(pairs, colours_of)
    same = pairs.of(Sameness.SAME)
    goes = _what_goes(images, same, safe)
    stars = grouped(
        (pairs.names[going.kept], _why(place, going, same)) for place, going in goes.items()
    )
    kept = tuple(name for place, name in enumerate(images.names) if place not in goes)
    clusters = tuple(
        DuplicateCluster(kept=name, dropped=tuple(stars[name])) for name in kept if name in stars
    )
    doubtful = _between_kept(pairs.of(Sameness.DOUBTFUL), np.array(list(goes), np.int64))
    report = _report(len(images.names), clusters, doubtful, settings, embedder, pairs.recall)
    return NearDuplicates(kept, clusters, same, doubtful, report)


class _Going(NamedTuple):
    """The position of the image that represents a dropped one, and the pair that proves it.

    `pair` is of the firsts of both files; -1 if that is the same image.
    """

    kept: int
    pair: int


def _what_goes(
    images: ImageCollection, same: AlikePairs, protected: frozenset[str]
) -> dict[int, _Going]:
    """The dropped images by position, in order.

    Near pairs are known of the first of equal files only, so it stands for all. An image is
    represented by the earliest kept image of the same content.
    """
    rows, count = same.rows, len(images.names)
    near = np.flatnonzero(~rows["exact"])
    others = _Neighbours(rows["first"][near], rows["second"][near], near, count)
    nobody = count
    stands = np.full(count, nobody)  # the earliest kept image of the same content, for each image
    why = np.full(count, -1)
    kept: dict[int, int] = {}
    goes: dict[int, _Going] = {}
    paired = np.unique(np.append(rows["first"], rows["second"]))
    for place in _in_order(paired, images, protected):
        first = int(images.firsts[place])
        own = first if first in kept else int(stands[first])
        if own == nobody or same.names[place] in protected:
            if first not in kept:
                kept[first] = place
                beside, pair = others.of(first)
                earlier = first < stands[beside]
                stands[beside[earlier]], why[beside[earlier]] = first, pair[earlier]
            continue
        goes[place] = _Going(kept[own], -1 if own == first else int(why[first]))
    return dict(sorted(goes.items()))


def _in_order(places: Places, images: ImageCollection, protected: frozenset[str]) -> list[int]:
    """Positions of images in the order in which they are considered."""
    is_open = np.array([images.names[place] not in protected for place in places.tolist()], bool)
    ordered: list[int] = places[np.lexsort((-images.pixels[places], is_open))].tolist()
    return ordered


class _Neighbours:
    """The images that each image makes a pair with."""

    def __init__(self, first: Places, second: Places, pairs: Places, count: int) -> None:
        own = np.concatenate((first, second))
        order = np.argsort(own, kind="stable")
        self._others = np.concatenate((second, first))[order]
        self._pairs = np.concatenate((pairs, pairs))[order]
        self._starts = np.searchsorted(own[order], np.arange(count + 1))

    def of(self, place: int) -> tuple[Places, Places]:
        """The positions of its neighbours, and the pairs."""
        start, stop = self._starts[place], self._starts[place + 1]
        return self._others[start:stop], self._pairs[start:stop]


def _why(place: int, going: _Going, same: AlikePairs) -> AlikePair:
    """The pair of a dropped image with the one that represents it."""
    first, second = (same.names[end] for end in sorted((place, going.kept)))
    if going.pair < 0:
        return AlikePair(first=first, second=second, sameness=Sameness.SAME, exact=True)
    return same[going.pair].model_copy(update={"first": first, "second": second})


def _between_kept(pairs: AlikePairs, goes: Places) -> AlikePairs:
    rows = pairs.rows
    gone = np.isin(rows["first"], goes) | np.isin(rows["second"], goes)
    return AlikePairs(pairs.names, rows[~gone])


def _report(
    images: int,
    clusters: Sequence[DuplicateCluster],
    doubtful: AlikePairs,
    settings: NearDuplicateSettings,
    embedder: str | None,
    recall: float | None,
) -> NearDuplicateReport:
    dropped = [pair for cluster in clusters for pair in cluster.dropped]
    exact = sum(pair.exact for pair in dropped)
    mirrored = sum(pair.mirrored for pair in dropped)
    return NearDuplicateReport(
        images=images,
        kept=images - len(dropped),
        exact=exact,
        near=len(dropped) - exact - mirrored,
        mirrored=mirrored,
        doubtful=len(doubtful),
        clusters=len(clusters),
        settings=settings,
        embedder=embedder,
        embedding_recall=recall,
    )


# Images of the same content as given ones, without comparing all with all.

_ASKED_AT_ONCE = 512


class AlikeImages(Mapping[str, frozenset[str]]):
    """For each image with duplicates, the images of the same content, doubtful ones included.

    An image is compared with all others on first access; `look_up` compares many at once, which is
    faster. Results are stored as positions, a few bytes for each pair.
    """

    def __init__(
        self,
        images: Fingerprints,
        settings: NearDuplicateSettings,
        embeddings: Embeddings | None = None,
        contents: Mapping[str, str] | None = None,
    ) -> None:
        """Takes a collection.

        Args:
            images: fingerprints by id.
            settings: when two images have the same content.
            embeddings: one row for each image, of shape (n, d).
            contents: what images are known to show: two of which that differs are not alike,
                whatever they look like.
        """
        self._settings = settings
        self._collection = collect(images.items()).embedded_as(embeddings)
        self._places = {name: place for place, name in enumerate(images)}
        firsts = self._collection.firsts
        self._copies = np.argsort(firsts, kind="stable")
        self._starts = np.searchsorted(firsts[self._copies], np.arange(len(firsts) + 1))
        self._contents = _numbered([(contents or {}).get(name) for name in images])
        self._known: dict[int, Places] = {}

    def look_up(self, names: Iterable[str]) -> None:
        """Compares images with all others; ids outside the collection are ignored."""
        firsts = self._collection.firsts
        places = {int(firsts[self._places[name]]) for name in names if name in self._places}
        open_ = np.array(sorted(places - self._known.keys()), np.int64)
        for start in range(0, len(open_), _ASKED_AT_ONCE):
            self._compare(open_[start : start + _ASKED_AT_ONCE])

    def __getitem__(self, name: str) -> frozenset[str]:
        self.look_up([name])
        place = self._places[name]
        first = int(self._collection.firsts[place])
        found = [self._with_bytes_of(one) for one in (first, *self._known[first].tolist())]
        names = self._collection.names
        others = frozenset(names[one] for one in np.concatenate(found)) - {name}
        if not others:
            raise KeyError(name)
        return others

    def __iter__(self) -> Iterator[str]:
        self.look_up(self._places)
        return (name for name in self._places if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _compare(self, places: Places) -> None:
        rows, _ = pairs_of(self._collection, self._settings, places)
        contents = self._contents[rows["first"]], self._contents[rows["second"]]
        rows = rows[(contents[0] == contents[1]) | (contents[0] < 0) | (contents[1] < 0)]
        count = len(self._collection.names)
        others = _Neighbours(rows["first"], rows["second"], np.arange(len(rows)), count)
        for place in places.tolist():
            self._known[place] = others.of(place)[0].copy()

    def _with_bytes_of(self, first: int) -> Places:
        return self._copies[self._starts[first] : self._starts[first + 1]]


def _numbered(contents: list[str | None]) -> Places:
    """A number for each content, equal for equal contents; -1 if it is unknown."""
    numbers: dict[str, int] = {}
    return np.array(
        [-1 if one is None else numbers.setdefault(one, len(numbers)) for one in contents],
        np.int64,
    )


# Images known by bytes and appearance, to which others are added one by one.

_HASHES = ("perceptual_hash", "mirrored_hash")


class GrowingCollection:
    """Images by owner; similar ones are found by bytes and appearance.

    Adding or looking up an image reads each fingerprint once and copies nothing: time and memory
    are linear in the images. Images are similar if `near_duplicate_pairs` without embeddings would
    find the same content.
    """

    def __init__(self, settings: NearDuplicateSettings) -> None:
        """Starts empty; `settings` say when two images have the same content."""
        self._settings = settings
        self._owners: dict[str, set[str]] = {}
        self._names: list[str] = []
        self._hashes = array("Q")
        self._spectra = bytearray()

    def __len__(self) -> int:
        """The number of different files."""
        return len(self._owners)

    def add(self, owner: str, sha256: str, look: ImageFingerprint | None = None) -> None:
        """Adds an image of `owner`; without a fingerprint only its bytes are compared."""
        owners = self._owners.setdefault(sha256, set())
        if not owners and look is not None and look.perceptual_hash is not None:
            self._names.append(sha256)
            self._hashes.extend(_hashes_of(look).tolist())
            self._spectra += bytes.fromhex(look.spectrum)
        owners.add(owner)

    def owners_of_similar(
        self, sha256: str, look: ImageFingerprint | None = None
    ) -> frozenset[str]:
        """The owners of images with these bytes, or certainly this appearance."""
        found = {sha256} if sha256 in self._owners else set()
        if look is not None and look.perceptual_hash is not None and self._names:
            found.update(self._names[row] for row in self._looking_like(look))
        return frozenset(owner for name in found for owner in self._owners[name])

    def _looking_like(self, look: ImageFingerprint) -> list[int]:
        """The images with this appearance, by place."""
        own, mirrored = np.frombuffer(self._hashes, np.uint64).reshape(-1, 2).T
        spectra = np.frombuffer(self._spectra, np.int8).reshape(len(self._names), -1)
        asked, turned = _hashes_of(look)
        spectrum = _spectrum_of(look)[None]
        ways = [(spectrum, self._within(own, asked))]
        if self._settings.mirrored:
            either = self._within(mirrored, asked) | self._within(own, turned)
            ways.append((mirrored_spectra(spectrum), either))
        found: list[int] = []
        for shown, near in ways:
            rows = np.flatnonzero(near)
            distances = spectrum_distances(spectra[rows], np.repeat(shown, len(rows), axis=0))
            found += rows[distances <= self._settings.spectrum_distance].tolist()
        return found

    def _within(self, hashes: NDArray[np.uint64], asked: np.uint64) -> NDArray[np.bool_]:
        near: NDArray[np.bool_] = np.bitwise_count(hashes ^ asked) <= self._settings.hash_bits
        return near


def _hashes_of(look: ImageFingerprint) -> NDArray[np.uint64]:
    """The hash, and that of the mirror image."""
    return np.array([int(getattr(look, name), 16) for name in _HASHES], np.uint64)


def _spectrum_of(look: ImageFingerprint) -> Spectrum:
    return np.frombuffer(bytes.fromhex(look.spectrum), np.int8)
