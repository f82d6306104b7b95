"""Compares the images of a release with another dataset to find shared content.

The comparison is exact, and its memory depends on the release only: the images of the other dataset
are streamed and looked up in the release. Only perceptual hashes are collected, in batches of a
quarter of a million.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from loupe.release.format.publishable import published_name
from loupe.release.format.rows import ReleasedContrast, ReleaseRow
from loupe.retrieval.similarity.hamming import BITS, nearest_hashes
from loupe.retrieval.similarity.spectrum import UnusablePictureError, look_hash
from loupe.schemas.base import Split, sha256_of
from loupe.schemas.decoders import decode_limited
from loupe.schemas.encoding import ReleasedImages
from loupe.schemas.limited import LimitExceededError
from loupe.schemas.quality import AuditStatistics, ErrorStatistics
from loupe.schemas.release import (
    AgreementStatistics,
    ChoiceStatistics,
    GateStatistics,
    JudgeStatistics,
    Manifest,
    NearestStatistics,
    OriginalsStatistics,
    QuotaStatistics,
    ReleaseAbout,
    StratumStatistics,
    TextChecks,
    UnusedStatistics,
)
from loupe.schemas.shortcuts import ShortcutCertificate
from loupe.schemas.similarity import (
    FINGERPRINT,
    SEARCHED_BITS,
    Comparison,
    Contamination,
    ContaminationLimits,
    ContaminationMeasure,
    OtherKind,
    SharedMeasure,
    SharedPair,
    SharedSplit,
)
from loupe.schemas.taxonomy import Tier

_Identity = tuple[str, str]
"""The name of a source and the name of an identity in it."""


class SeenImage(NamedTuple):
    """An image as it is compared with other datasets.

    Attributes:
        name: the path of its file.
        sha256: the digest of its bytes.
        look: its perceptual hash (`loupe.retrieval.similarity.spectrum`); None if it has none.
        split: its split, if any.
        identity: the person or thing shown, as its source names it; None without a source.
        video_sha256: the digest of the video that it was cut from, if any.
        captions: its captions, including coarse ones.
        fault: why it could not be read or decoded, if so.
    """

    name: str
    sha256: str
    look: int | None = None
    split: Split | None = None
    identity: _Identity | None = None
    video_sha256: str | None = None
    captions: tuple[str, ...] = ()
    fault: str | None = None


def seen_row(row: ReleaseRow, look: int | None) -> SeenImage:
    """A row with the perceptual hash of its image."""
    return SeenImage(
        name=row.file_path,
        sha256=row.stored_sha256 or row.sha256,
        look=look,
        split=row.split,
        identity=(row.source, row.identity),
        video_sha256=row.crop.video_sha256 if row.crop else None,
        captions=tuple(one.text for one in (*row.captions, *row.coarse_captions)),
    )


def _caption_key(text: str) -> bytes:
    """A 16-byte digest of the words of a caption, ignoring letter case and white space."""
    words = " ".join(text.split()).casefold().encode("utf-8", "surrogatepass")
    return hashlib.blake2b(words, digest_size=16).digest()


class OwnImages:
    """The images of a release in row order, and digests of their captions."""

    def __init__(self, images: Iterable[SeenImage] = ()) -> None:
        self.images: list[SeenImage] = []
        self.captions: list[bytes] = []
        self.caption_images: list[int] = []
        for image in images:
            self.add(image)

    def __len__(self) -> int:
        return len(self.images)

    def add(self, image: SeenImage) -> None:
        """Add the next image."""
        for text in image.captions:
            self.captions.append(_caption_key(text))
            self.caption_images.append(len(self.images))
        self.images.append(image._replace(captions=()))

    def count(self, places: Iterable[int]) -> dict[Split | None, int]:
        """The number of `places` in each split, for all splits in order."""
        counted = Counter(self.images[place].split for place in places)
        return {one.split: counted[one.split] for one in self.images}


class Look(NamedTuple):
    """Digest and perceptual hash of an image file; `fault` says why one of them is missing."""

    sha256: str
    perceptual_hash: int | None
    fault: str | None = None


def look_at(data: bytes) -> Look:
    """The digest and the perceptual hash of an encoded image, decoded in a limited worker."""
    digest = sha256_of(data)
    try:
        look = decode_limited(look_hash, data)
    except UnusablePictureError as fault:
        return Look(digest, None, str(fault))
    except LimitExceededError as fault:
        return Look(digest, None, f"cannot be decoded: it {fault}")
    return Look(digest, look)


def look_at_file(path: Path) -> Look:
    """Like `look_at`, for a file; the digest is empty if it cannot be read."""
    if path.exists() and not path.is_file():  # a pipe, which reading might never end of
        return Look("", None, "is not a file")
    try:
        data = path.read_bytes()
    except OSError as error:
        return Look("", None, f"cannot be read ({error.strerror or error})")
    return look_at(data)


SHOWN = 10
"""The number of nearest pairs that are listed for each measure."""
_SHOWN_UNREADABLE = 10
DEFAULT_LIMITS = ContaminationLimits()
_HASHED_BY = f"{FINGERPRINT}, 64 bits"
_BATCH = 1 << 18
_PAIRS_AT_ONCE = 1 << 28
_THRESHOLDS = (0, 2, 4, 6, 8, SEARCHED_BITS)

K = TypeVar("K", bound=Hashable)


class SeenVideo(NamedTuple):
    """A video of another dataset."""

    name: str
    sha256: str


class SeenCaption(NamedTuple):
    """A caption of another dataset of which only the digest is known."""

    name: str
    key: bytes


class Other(NamedTuple):
    """A dataset that a release is compared with.

    `contents` yields all images and videos in any order; unreadable images are included with their
    `fault`. `manifest` is that of a release, else None.
    """

    name: str
    kind: OtherKind
    contents: Callable[[], Iterator[SeenImage | SeenVideo | SeenCaption]]
    manifest: Manifest | None = None


class _Match(NamedTuple):
    """A match in the other dataset: the name of the image or video, and the value as text."""

    name: str
    value: str


class _EqualValues(Generic[K]):
    """Looks up values of the release in the other dataset; of several matches keeps the first."""

    def __init__(self, values: Iterable[K | None]) -> None:
        self.theirs = 0
        self.values = list(values)
        self._found: dict[K, _Match | None] = {one: None for one in self.values if one is not None}

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, value: K, name: str, text: str) -> None:
        """Compare a value of the other dataset, found in `name`; `text` is the value in words."""
        self.theirs += 1
        if value in self._found:
            known, there = self._found[value], _Match(name, " ".join(text.split()))
            self._found[value] = there if known is None else min(known, there)

    def found(self) -> dict[int, _Match]:
        """The matches of the release's values, by position."""
        pairs = ((place, self._found.get(one)) for place, one in enumerate(self.values) if one)
        return {place: there for place, there in pairs if there is not None}


class _NearestHashes:
    """For every hash of the release the nearest of the other dataset; ties go to the first name.

    While fewer than `SHOWN` are near, all distances are searched; afterwards only those up to
    `SEARCHED_BITS`.
    """

    def __init__(self, own: OwnImages) -> None:
        looks = {place: one.look for place, one in enumerate(own.images) if one.look is not None}
        self.places = np.array(list(looks), np.int64)
        self._hashes = np.array(list(looks.values()), np.uint64)
        self.theirs = 0
        self.bits = np.full(len(self._hashes), BITS + 1, np.int64)
        self.there: dict[int, _Match] = {}
        self._waiting: list[tuple[str, int]] = []

    def add(self, name: str, look: int) -> None:
        """Compare a hash of the other dataset."""
        self.theirs += 1
        self._waiting.append((name, look))
        if len(self._waiting) >= self._batch_size():
            self.finish()

    def _batch_size(self) -> int:
        """The size of a batch, smaller while all pairs are compared, to bound the time."""
        if not self._are_few_near():
            return _BATCH
        return min(_BATCH, max(1 << 10, _PAIRS_AT_ONCE // max(1, len(self._hashes))))

    def _are_few_near(self) -> bool:
        return int(np.count_nonzero(self.bits <= SEARCHED_BITS)) < SHOWN

    def finish(self) -> None:
        """Compare the hashes collected so far with those of the release."""
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
            there = _Match(names[place], f"{int(hashes[place]):016x}")
            if bits < self.bits[at] or there < self.there[at]:
                self.bits[at], self.there[at] = bits, there


def compare(
    own: OwnImages, other: Other, limits: ContaminationLimits = DEFAULT_LIMITS
) -> Contamination:
    """Find what of `own` is also in `other`, by every measure that both have.

    Raises:
        UsageError, IntegrityError: if reading `other` raises them.
    """
    return _Comparison(own, other).run(limits)


class _Comparison:
    """The comparison with one dataset."""

    def __init__(self, own: OwnImages, other: Other) -> None:
        self._own = own
        self._other = other
        self._files = _EqualValues(one.sha256 for one in own.images)
        self._videos = _EqualValues(one.video_sha256 for one in own.images)
        self._identities = _EqualValues(one.identity for one in own.images)
        self._captions = _EqualValues(own.captions)
        self._hashes = _NearestHashes(own)
        self._our_sources = {one[0] for one in self._identities.values if one is not None}
        self._sources: Counter[str] = Counter()
        self._entries: list[bytes] = []
        self._images = 0
        self._unreadable: list[str] = []

    def run(self, limits: ContaminationLimits) -> Contamination:
        """Read the other dataset completely."""
        for one in self._other.contents():
            if isinstance(one, SeenVideo):
                self._add_digest(f"video\n{one.sha256}\n{one.name}\n")
                self._videos.add(one.sha256, one.name, one.sha256)
            elif isinstance(one, SeenCaption):
                self._captions.add(one.key, one.name, one.key.hex())
            else:
                self._add_image(one)
        self._hashes.finish()
        return Contamination(
            name=published_name(self._other.name),
            other=self._other.kind,
            release_id=self._other.manifest and self._other.manifest.id,
            content_sha256=hashlib.sha256(b"".join(sorted(self._entries))).hexdigest(),
            images=self._images,
            captions=self._captions.theirs,
            unreadable=len(self._unreadable),
            unreadable_files=tuple(sorted(self._unreadable)[:_SHOWN_UNREADABLE]),
            sources=tuple(sorted(self._our_sources & self._sources.keys())),
            measures=tuple(self._measures(limits)),
        )

    def _add_image(self, image: SeenImage) -> None:
        self._images += 1
        captions = [_caption_key(text) for text in image.captions]
        look = "-" if image.look is None else f"{image.look:016x}"
        identity = "-" if image.identity is None else "/".join(image.identity)
        self._add_digest(f"image\n{image.sha256}\n{image.name}\n{look}\n{identity}\n", captions)
        if image.fault is not None:
            self._unreadable.append(image.name)
        if image.sha256:
            self._files.add(image.sha256, image.name, image.sha256)
        if image.look is not None:
            self._hashes.add(image.name, image.look)
        if image.identity is not None:
            self._sources[image.identity[0]] += 1
            self._identities.add(image.identity, image.name, "/".join(image.identity))
        for key in captions:
            self._captions.add(key, image.name, key.hex())

    def _add_digest(self, lines: str, captions: Iterable[bytes] = ()) -> None:
        """Store a 32-byte digest of an image or video, for the digest of the whole dataset."""
        entry = hashlib.sha256(lines.encode("utf-8", "surrogatepass"))
        for digest in captions:
            entry.update(digest)
        self._entries.append(entry.digest())

    def _measures(self, limits: ContaminationLimits) -> Iterator[SharedMeasure]:
        ours: Sequence[int] = range(len(self._own))
        yield self._equal("file", "SHA-256", ours, self._files, self._files.theirs)
        yield self._near(limits.hash_bits)
        if self._videos and self._videos.theirs:
            ours = [place for place, one in enumerate(self._videos.values) if one is not None]
            yield self._equal("video", "SHA-256", ours, self._videos, self._videos.theirs)
        if shared := self._our_sources & self._sources.keys():
            named = enumerate(self._identities.values)
            ours = [place for place, one in named if one and one[0] in shared]
            theirs = sum(self._sources[source] for source in shared)
            yield self._equal("identity", "the sources' names", ours, self._identities, theirs)
        if self._captions and self._captions.theirs:
            at, theirs = self._own.caption_images, self._captions.theirs
            yield self._equal("caption", "words", at, self._captions, theirs, at)

    def _equal(
        self,
        measure: ContaminationMeasure,
        computed_by: str,
        ours: Sequence[int],
        values: _EqualValues[Any],
        theirs: int,
        images: Sequence[int] | None = None,
    ) -> SharedMeasure:
        """The result of an exact measure; `images` maps captions to images, by position."""
        found = values.found()
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
        looked, bits = self._hashes.places, self._hashes.bits
        within = {most: looked[bits <= most].tolist() for most in sorted({*_THRESHOLDS, threshold})}
        nearest = [
            at for at in np.argsort(bits, kind="stable").tolist() if at in self._hashes.there
        ]
        return SharedMeasure(
            measure="perceptual_hash",
            computed_by=_HASHED_BY,
            threshold=threshold,
            theirs=self._hashes.theirs,
            splits=self._splits(looked.tolist(), within, threshold),
            nearest=tuple(
                self._pair(int(looked[at]), self._hashes.there[at], int(bits[at]))
                for at in nearest[:SHOWN]
            ),
        )

    def _splits(
        self, ours: Sequence[int], within: Mapping[int, Sequence[int]], threshold: int
    ) -> tuple[SharedSplit, ...]:
        compared = self._own.count(ours)
        counted = {most: self._own.count(places) for most, places in within.items()}
        splits = []
        for split, count in compared.items():
            leaks = {most: by_split[split] for most, by_split in counted.items()}
            splits.append(
                SharedSplit(
                    split=split,
                    compared=count,
                    leaks=leaks[threshold],
                    within=tuple(leaks.items()),
                )
            )
        return tuple(splits)

    def _pair(self, image: int, there: _Match, distance: int) -> SharedPair:
        own = self._own.images[image]
        return SharedPair(
            split=own.split,
            first=own.name,
            second=there.name,
            distance=distance,
            value=there.value,
        )


_SHARED_ITEMS: dict[ContaminationMeasure, str] = {
    "file": "images with the same file",
    "perceptual_hash": "similar images",
    "video": "images from the same videos",
    "identity": "images of the same identities",
    "caption": "captions with the same words",
}


def contaminated_sentence(held: Contamination) -> str:
    """The share of a release that is in the other dataset, by measure, and the nearest pair."""
    details = "; ".join(_counted(one) for one in held.leaks)
    nearest = held.leaks[0].nearest[0]
    return f"compared with {held.name}, {details} (such as {nearest.first}: {nearest.second})"


def _counted(measure: SharedMeasure) -> str:
    splits = ", ".join(
        f"{one.leaks:,} of {one.compared:,}" + (f" in {one.split}" if one.split else "")
        for one in measure.splits
        if one.leaks
    )
    return f"{_SHARED_ITEMS[measure.measure]}: {splits}"


def leak_rule(measure: SharedMeasure | Comparison) -> str:
    """The condition for a leak, between datasets or between splits."""
    return {
        "perceptual_hash": f"up to {measure.threshold:g} bits differ",
        "embedding": f"cosine distance up to {measure.threshold:g}",
    }.get(measure.measure, "equal")


def distance_in_words(measure: SharedMeasure | Comparison, distance: float) -> str:
    """A distance with its unit, or "equal" for exact measures."""
    return {"perceptual_hash": f"{distance:g} bits", "embedding": f"{distance:g}"}.get(
        measure.measure, "equal"
    )


class WrittenSample(NamedTuple):
    """A written image of a contrastive benchmark, with its fine and its coarse captions."""

    sha256: str
    file: Path
    captions: tuple[str, ...]
    coarse: tuple[str, ...]
    contrast: ReleasedContrast | None = None


_Nearest = Callable[[Sequence[WrittenSample]], NearestStatistics | None]
"""Measures the similarity of the nearest other samples, for all samples in order."""


Against = Callable[[OwnImages], tuple[Contamination, ...]]
"""Compares the images of a release with other datasets."""


Certify = Callable[[Path], ShortcutCertificate | None]
"""Returns what blind opponents reach, given the folder of the rows; None if nothing was asked."""


def _uncertified(_folder: Path) -> None:
    """Ask no blind opponents."""


CountStrata = Callable[[Manifest, Iterable[ReleaseRow]], tuple[StratumStatistics, ...]]
"""Returns how many images are in each stratum, given the manifest and the rows."""


class Checks(NamedTuple):
    """Additional content of the card.

    Attributes:
        nearest: measures the similarity of contrastive samples (CCD, table 1), if set.
        choices: results of forced-choice tests (6-AFC).
        audits: error rates found by audits; None for those in the store.
        errors: returns the error of the labels, inferred from all answers.
        agreement: agreement of annotators in the review queues of the dataset.
        judges: returns how models that gave second opinions agree with the rules and with people,
            given the tier.
        unused: unusable responses of models.
        gates: returns who decided at which gate, which takes time and is asked for last.
        originals: returns the captions of sources that were flagged.
        quotas: returns what the build asked for, and what the release has, given its tier.
        text_checks: the checks that compared rewrites with their captions.
        test_share: the share of identities for testing that the build asked for.
        about: statements of the curators.
        against: compares the release with the named datasets, if any.
        of_persons: False where the build does not ask for the check of persons.
        contamination: results of earlier comparisons with other datasets.
        permitted_terms: reasons why terms in words of their own permit a release, by source.
        images: how images are written; None: by one encoder in a benchmark, else as stored.
        certify: measures what blind opponents reach, given the folder of the rows, if set.
        strata: counts what captions state of people, given the manifest and the rows.
    """

    nearest: _Nearest | None = None
    choices: tuple[ChoiceStatistics, ...] = ()
    audits: tuple[AuditStatistics, ...] | None = None
    errors: Callable[[], tuple[ErrorStatistics, ...]] = tuple
    agreement: tuple[AgreementStatistics, ...] = ()
    judges: Callable[[Tier | None], tuple[JudgeStatistics, ...]] = lambda _tier: ()
    unused: tuple[UnusedStatistics, ...] = ()
    gates: Callable[[], tuple[GateStatistics, ...]] = tuple
    originals: Callable[[], tuple[OriginalsStatistics, ...]] = tuple
    quotas: Callable[[Tier | None], tuple[QuotaStatistics, ...]] = lambda _tier: ()
    text_checks: TextChecks | None = None
    test_share: float | None = None
    about: ReleaseAbout | None = None
    permitted_terms: Mapping[str, str] = MappingProxyType({})
    against: Against | None = None
    contamination: tuple[Contamination, ...] = ()
    of_persons: bool | None = None
    images: ReleasedImages | None = None
    certify: Certify = _uncertified
    strata: CountStrata = lambda _manifest, _rows: ()


UNCHECKED = Checks()
"""No checks but the audits of the store."""
