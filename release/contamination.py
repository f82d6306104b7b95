"""Holds the images of a release against another dataset: what of ours is there, too.

Exact, and in memory that grows with ours: the other's images pass by one after the other, and are
looked for among ours; only perceptual hashes are gathered, a quarter of a million at a time.
"""

import hashlib
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from release.own_images import OwnImages, SeenImage, caption_key
from release.publishable import published_name
from schemas.contamination import (
    SEARCHED_BITS,
    Contamination,
    ContaminationLimits,
    ContaminationMeasure,
    OtherKind,
    SharedMeasure,
    SharedPair,
    SharedSplit,
)
from schemas.hamming import BITS, nearest_hashes
from schemas.near_duplicates import FINGERPRINT

_NOTHING = "-"


class OtherDigest:
    """Gathers what is compared, 32 bytes for each entry."""

    def __init__(self) -> None:
        self._entries: list[bytes] = []

    def add_image(self, image: SeenImage, captions: Iterable[bytes]) -> None:
        """An image with the digests of its captions (`release.own_images.caption_key`)."""
        look = _NOTHING if image.look is None else f"{image.look:016x}"
        identity = _NOTHING if image.identity is None else "/".join(image.identity)
        self._add(f"image\n{image.sha256}\n{image.name}\n{look}\n{identity}\n", captions)

    def add_video(self, name: str, sha256: str) -> None:
        """A video that images were, or may be, cut out of."""
        self._add(f"video\n{sha256}\n{name}\n")

    def _add(self, lines: str, digests: Iterable[bytes] = ()) -> None:
        entry = hashlib.sha256(lines.encode("utf-8", "surrogatepass"))
        for digest in digests:
            entry.update(digest)
        self._entries.append(entry.digest())

    def result(self) -> str:
        """The digest of all that was added, as 64 hex digits."""
        return hashlib.sha256(b"".join(sorted(self._entries))).hexdigest()


SHOWN = 10
"""Of so many of ours it is shown what they are nearest to, by each measure."""
SHOWN_UNREADABLE = 10
DEFAULT_LIMITS = ContaminationLimits()
LOOKED_AT_BY = f"{FINGERPRINT}, 64 bits"
_AT_ONCE = 1 << 18
_PAIRS_AT_ONCE = 1 << 28
_THRESHOLDS = (0, 2, 4, 6, 8, SEARCHED_BITS)

K = TypeVar("K", bound=Hashable)


class SeenVideo(NamedTuple):
    """A video of another dataset."""

    name: str
    sha256: str


class Other(Protocol):
    """A dataset that a release is compared with."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def kind(self) -> OtherKind:
        """What it is."""
        ...

    @property
    def release_id(self) -> str | None:
        """Its id, if it is a release."""
        ...

    def contents(self) -> Iterator[SeenImage | SeenVideo]:
        """All that is in it, in any order; what cannot be looked at says why, and is there, too."""
        ...


class _There(NamedTuple):
    """Where a value of ours was found: the name, and the value in words."""

    name: str
    value: str


class _Equal(Generic[K]):
    """Values of ours, and which of them the other dataset has; of several places the first."""

    def __init__(self, values: Iterable[K | None]) -> None:
        self.theirs = 0
        self._found: dict[K, _There | None] = {one: None for one in values if one is not None}

    def __bool__(self) -> bool:
        return bool(self._found)

    def look_up(self, value: K, name: str, words: str) -> None:
        """Takes a value of theirs, with the name of what has it, and the value in words."""
        self.theirs += 1
        if value in self._found:
            known, there = self._found[value], _There(name, " ".join(words.split()))
            self._found[value] = there if known is None else min(known, there)

    def found(self, values: Sequence[K | None]) -> dict[int, _There]:
        """Those of `values` that are there, by their places."""
        pairs = ((place, self._found.get(one)) for place, one in enumerate(values) if one)
        return {place: there for place, there in pairs if there is not None}


class _Looks:
    """For every hash of ours the nearest of theirs; of equally near ones the first by name.

    Where few are near, the nearest of all are looked for, however far; otherwise only those within
    `SEARCHED_BITS`.
    """

    def __init__(self, own: OwnImages) -> None:
        self._hashes = own.looks
        self.theirs = 0
        self.bits = np.full(len(self._hashes), BITS + 1, np.int64)
        self.there: dict[int, _There] = {}
        self._waiting: list[tuple[str, int]] = []

    def look_up(self, name: str, look: int) -> None:
        """Takes a hash of theirs."""
        self.theirs += 1
        self._waiting.append((name, look))
        if len(self._waiting) >= self._room():
            self.finish()

    def _room(self) -> int:
        """As long as all pairs are looked at, they are so few that it does not take long."""
        if not self._are_few_near():
            return _AT_ONCE
        return min(_AT_ONCE, max(1 << 10, _PAIRS_AT_ONCE // max(1, len(self._hashes))))

    def _are_few_near(self) -> bool:
        return int(np.count_nonzero(self.bits <= SEARCHED_BITS)) < SHOWN

    def finish(self) -> None:
        """Holds what waits against ours."""
        self._waiting.sort()
        names = [name for name, _ in self._waiting]
        hashes = np.array([look for _, look in self._waiting], np.uint64)
        self._waiting = []
        if len(hashes) and len(self._hashes):
            self._merge(names, hashes, SEARCHED_BITS)
            if self._are_few_near():
                self._merge(names, hashes, BITS)

    def _merge(self, names: list[str], hashes: np.ndarray, radius: int) -> None:
        near = nearest_hashes(self._hashes, hashes, radius)
        for at in np.flatnonzero((near.places >= 0) & (near.bits <= self.bits)).tolist():
            place, bits = int(near.places[at]), int(near.bits[at])
            there = _There(names[place], f"{int(hashes[place]):016x}")
            if bits < self.bits[at] or there < self.there[at]:
                self.bits[at], self.there[at] = bits, there


def compare(
    own: OwnImages, other: Other, limits: ContaminationLimits = DEFAULT_LIMITS
) -> Contamination:
    """What of `own` is in `other`, by every measure that both have.

    Raises:
        UsageError, IntegrityError: as reading `other` does.
    """
    return _Comparison(own, other).run(limits)


class _Comparison:
    """One dataset that passes by ours."""

    def __init__(self, own: OwnImages, other: Other) -> None:
        self._own = own
        self._other = other
        self._files = _Equal(own.files)
        self._videos = _Equal(own.videos)
        self._identities = _Equal(own.identities)
        self._captions = _Equal(own.captions)
        self._looks = _Looks(own)
        self._our_sources = {one[0] for one in own.identities if one is not None}
        self._sources: Counter[str] = Counter()
        self._digest = OtherDigest()
        self._images = 0
        self._unreadable: list[str] = []

    def run(self, limits: ContaminationLimits) -> Contamination:
        """Reads the other through."""
        for one in self._other.contents():
            if isinstance(one, SeenVideo):
                self._digest.add_video(one.name, one.sha256)
                self._videos.look_up(bytes.fromhex(one.sha256), one.name, one.sha256)
            else:
                self._look_up(one)
        self._looks.finish()
        return Contamination(
            name=published_name(self._other.name),
            other=self._other.kind,
            release_id=self._other.release_id,
            content_sha256=self._digest.result(),
            images=self._images,
            captions=self._captions.theirs,
            unreadable=len(self._unreadable),
            unreadable_files=tuple(sorted(self._unreadable)[:SHOWN_UNREADABLE]),
            sources=tuple(sorted(self._our_sources & self._sources.keys())),
            measures=tuple(self._measures(limits)),
        )

    def _look_up(self, image: SeenImage) -> None:
        self._images += 1
        captions = [caption_key(text) for text in image.captions]
        self._digest.add_image(image, captions)
        if image.fault is not None:
            self._unreadable.append(image.name)
        if image.sha256:
            self._files.look_up(bytes.fromhex(image.sha256), image.name, image.sha256)
        if image.look is not None:
            self._looks.look_up(image.name, image.look)
        if image.identity is not None:
            self._sources[image.identity[0]] += 1
            self._identities.look_up(image.identity, image.name, "/".join(image.identity))
        for key, text in zip(captions, image.captions, strict=True):
            self._captions.look_up(key, image.name, text)

    def _measures(self, limits: ContaminationLimits) -> Iterator[SharedMeasure]:
        own, found = self._own, self._files.found(self._own.files)
        yield self._equal("file", "SHA-256", range(len(own)), found, self._files.theirs)
        yield self._near(limits.hash_bits)
        if self._videos and self._videos.theirs:
            ours = [place for place, one in enumerate(own.videos) if one is not None]
            found = self._videos.found(own.videos)
            yield self._equal("video", "SHA-256", ours, found, self._videos.theirs)
        if shared := self._our_sources & self._sources.keys():
            ours = [place for place, one in enumerate(own.identities) if one and one[0] in shared]
            theirs = sum(self._sources[source] for source in shared)
            found = self._identities.found(own.identities)
            yield self._equal("identity", "the sources' names", ours, found, theirs)
        if self._captions and self._captions.theirs:
            at = own.caption_images
            found = self._captions.found(own.captions)
            yield self._equal("caption", "words", at, found, self._captions.theirs, at)

    def _equal(
        self,
        measure: ContaminationMeasure,
        computed_by: str,
        ours: Sequence[int],
        found: Mapping[int, _There],
        theirs: int,
        images: Sequence[int] | None = None,
    ) -> SharedMeasure:
        """What is equal; `images` has the place of the image for what is not an image itself."""
        at = {place: place if images is None else images[place] for place in found}
        return SharedMeasure(
            measure=measure,
            computed_by=computed_by,
            threshold=0,
            theirs=theirs,
            splits=self._splits(ours, {0: list(at.values())}, 0),
            nearest=tuple(
                self._pair(at[place], found[place], 0) for place in sorted(found)[:SHOWN]
            ),
        )

    def _near(self, threshold: int) -> SharedMeasure:
        looked, bits = self._own.looked, self._looks.bits
        within = {most: looked[bits <= most].tolist() for most in sorted({*_THRESHOLDS, threshold})}
        nearest = [at for at in np.argsort(bits, kind="stable").tolist() if at in self._looks.there]
        return SharedMeasure(
            measure="perceptual_hash",
            computed_by=LOOKED_AT_BY,
            threshold=threshold,
            theirs=self._looks.theirs,
            splits=self._splits(looked.tolist(), within, threshold),
            nearest=tuple(
                self._pair(int(looked[at]), self._looks.there[at], int(bits[at]))
                for at in nearest[:SHOWN]
            ),
        )

    def _splits(
        self, ours: Sequence[int], within: Mapping[int, Sequence[int]], threshold: int
    ) -> tuple[SharedSplit, ...]:
        compared = self._own.count(ours)
        counted = {most: self._own.count(places) for most, places in within.items()}
        return tuple(
            SharedSplit(
                split=split,
                compared=count,
                leaks=counted[threshold][split],
                within=tuple((most, by_split[split]) for most, by_split in counted.items()),
            )
            for split, count in compared.items()
        )

    def _pair(self, image: int, there: _There, distance: int) -> SharedPair:
        return SharedPair(
            split=self._own.splits[image],
            first=self._own.names[image],
            second=there.name,
            distance=distance,
            value=there.value,
        )
