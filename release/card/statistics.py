"""Statistics of a release, counted row by row by the build.

Memory grows with the vocabulary, not with the rows. Words are runs of letters and digits, with
apostrophes and hyphens inside them.
"""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from loupe.release.card.terms import (
    DerivedTerms,
    LicensedItem,
    are_words_of_source,
    held_by_sources,
    licence_statistics,
)
from loupe.release.format.rows import ReleaseRow, RowForm
from loupe.release.format.scratch import Scratch
from loupe.retrieval.similarity.distances import ComparedImage
from loupe.schemas.base import Split
from loupe.schemas.faces import FaceTreatment, TreatedFaces
from loupe.schemas.records import Granularity
from loupe.schemas.release import (
    HISTOGRAM_STEP,
    UNSTATED,
    ContrastStatistics,
    Credit,
    DescriptionStatistics,
    DifferenceStatistics,
    Distribution,
    DraftStatistics,
    FaceStatistics,
    GranularityStatistics,
    LeftOutGroups,
    NearestStatistics,
    ReleasedSource,
    ReleasedVideo,
    ReleaseStatistics,
    RewriteStatistics,
    SourceStatistics,
    SplitStatistics,
    TaskStatistics,
    TierStatistics,
)
from loupe.schemas.taxonomy import TIERS, DifferenceType, RetrievalTask, Tier, in_order

_TOKEN = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*|[^\w\s]")
"""Words and punctuation marks."""


class ExternalCounts(NamedTuple):
    """Facts that the rows of a release do not contain, such as images that were left out."""

    without_captions: int = 0
    without_anchor: int = 0
    left_out: LeftOutGroups | None = None
    nearest: NearestStatistics | None = None
    editors: tuple[tuple[str, int], ...] = ()


class _ContrastCounter:
    """Counts images and captions of a contrastive benchmark."""

    def __init__(self) -> None:
        self._images = 0
        self._methods: Counter[tuple[DifferenceType, str | None]] = Counter()
        self._per_image: set[int] = set()
        self._captions: Counter[str] = Counter()
        self._tokens: Counter[str] = Counter()
        self._translations: Counter[str] = Counter()

    def add(self, row: ReleaseRow) -> None:
        """Count an image: its captions and, unless it is an anchor, its type and method."""
        self._images += 1
        if row.contrast is not None:
            self._methods[row.contrast.difference, row.contrast.method] += 1
        self._per_image.add(len(row.captions))
        for kind, captions in (("fine", row.captions), ("coarse", row.coarse_captions)):
            self._captions[kind] += len(captions)
            self._tokens[kind] += sum(len(_TOKEN.findall(one.text)) for one in captions)
        self._translations.update(one.language for one in row.translations)

    def result(self, elsewhere: ExternalCounts) -> ContrastStatistics:
        """All counts so far, with the facts known from elsewhere."""
        contrastive = self._methods.total()
        return ContrastStatistics(
            anchors=self._images - contrastive,
            contrastive=contrastive,
            captions_per_image=next(iter(self._per_image)) if len(self._per_image) == 1 else None,
            coarse_captions=self._captions["coarse"],
            tokens=self._mean("fine") or 0.0,
            coarse_tokens=self._mean("coarse"),
            translations=tuple(sorted(self._translations.items())),
            differences=tuple(map(self._difference, DifferenceType)),
            **elsewhere._asdict(),
        )

    def _mean(self, kind: str) -> float | None:
        captions = self._captions[kind]
        return round(self._tokens[kind] / captions, 2) if captions else None

    def _difference(self, difference: DifferenceType) -> DifferenceStatistics:
        found, edited, unknown = (
            self._methods[difference, method] for method in ("search", "edit", None)
        )
        return DifferenceStatistics(
            difference=difference, images=found + edited + unknown, found=found, edited=edited
        )


def task_statistics(
    images: Mapping[tuple[RetrievalTask | None, Tier | None, int], int],
) -> tuple[TaskStatistics, ...]:
    """Images and captions by task (in the order of the paper) and by tier.

    `images` are their numbers by task, tier and captions of each. Empty if no task is known.
    """
    counted: defaultdict[tuple[RetrievalTask | None, Tier | None], Counter[str]]
    counted = defaultdict(Counter)
    for (task, tier, captions), count in images.items():
        counted[task, tier].update(images=count, captions=count * captions)
    if not counted.keys() - {(None, None)}:
        return ()
    found = []
    for task in in_order(task for task, _ in counted):
        tiers = {tier: numbers for (one, tier), numbers in counted.items() if one is task}
        found.append(
            TaskStatistics(
                task=task,
                **_total(tiers.values()),
                tiers=tuple(
                    TierStatistics(tier=tier, **tiers[tier]) for tier in TIERS if tier in tiers
                ),
            )
        )
    return tuple(found)


def _total(counts: Iterable[Counter[str]]) -> Counter[str]:
    """The sums of counts, including those that are 0."""
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return total


_DESCRIBED = {"edited_draft": "edited", "confirmed_draft": "drafted"} | {
    origin: origin for origin in ("written", "edited", "drafted")
}
"""The name under which descriptions of an origin are counted."""
_REWRITES = ("rewrite", "edited_rewrite")
_BY_MODELS = ("drafted", "rewrite")

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


def words_of(text: str) -> list[str]:
    """The words of a caption, in lower case."""
    return _WORD.findall(text.lower())


class _ImageKind(NamedTuple):
    """What is counted of a row as a whole; `is_new` marks the first row of an identity."""

    split: Split
    source: str
    is_new: bool
    task: RetrievalTask | None
    tier: Tier | None
    captions: int
    styles: int


class _CaptionKind(NamedTuple):
    """What is counted of a caption besides its words."""

    source: str
    author: str
    origin: str
    reviewed: bool


class StatisticsCounter:
    """Counts rows in the order of the release, grouped by their common values.

    `rewrites` are the states of all rewrites of the images, to be added by the caller.
    """

    def __init__(self) -> None:
        self._last_id = 0
        self._images: Counter[_ImageKind] = Counter()
        self._captions: Counter[_CaptionKind] = Counter()
        self._vocabulary: set[str] = set()
        self._words: defaultdict[str, Counter[int]] = defaultdict(Counter)
        self._drafts: Counter[str] = Counter()
        self._unchanged: Counter[str] = Counter()
        self._faces: Counter[TreatedFaces] = Counter()
        self.rewrites: Counter[str] = Counter()

    @property
    def models(self) -> set[str]:
        """The authors of texts that models drafted or rewrote."""
        return {one.author for one in self._captions if one.origin in _BY_MODELS}

    def add(self, row: ReleaseRow) -> None:
        """Count a row and the words of its captions."""
        is_new, self._last_id = row.id != self._last_id, row.id
        styles = len({one.author for one in row.captions})
        captions = len(row.captions)
        kind = _ImageKind(row.split, row.source, is_new, row.task, row.tier, captions, styles)
        self._images[kind] += 1
        if row.faces:
            self._faces[row.faces] += 1
        for one in row.captions:
            self._captions[_CaptionKind(row.source, one.author, one.origin, one.reviewed)] += 1
            found = words_of(one.text)
            self._vocabulary.update(found)
            self._words[row.source][len(found)] += 1
            if one.drafter:
                self._drafts[one.drafter] += 1
                self._unchanged[one.drafter] += one.origin == "confirmed_draft"

    def result(self, granularity_of: Mapping[str, Granularity | None]) -> ReleaseStatistics:
        """All counts so far; `granularity_of` maps source names to granularities."""
        by_source = self._totals(lambda one: one.source)
        is_rewrite = _sums(self._captions, lambda one: (one.source, one.origin in _REWRITES))
        origins = _sums(self._captions, lambda one: (one.origin, bool(one.reviewed)))
        edited = origins["edited_rewrite", True] + origins["edited_rewrite", False]
        reviewed = origins["edited_rewrite", True] + origins["rewrite", True]
        total = _total(by_source.values())
        return ReleaseStatistics(
            images=total["images"],
            captions=total["captions"],
            identities=total["identities"],
            vocabulary=len(self._vocabulary),
            words=distribution(sum(self._words.values(), Counter[int]())),
            splits=tuple(
                SplitStatistics(split=split, **counts)
                for split, counts in self._totals(lambda one: one.split).items()
            ),
            sources=tuple(
                SourceStatistics(
                    name=name,
                    granularity=granularity_of.get(name) or UNSTATED,
                    identities=counts["identities"],
                    images=counts["images"],
                    originals=is_rewrite[name, False],
                    rewrites=is_rewrite[name, True],
                )
                for name, counts in by_source.items()
            ),
            granularities=self._granularities(granularity_of, by_source),
            styles_per_image=tuple(sorted(_sums(self._images, lambda one: one.styles).items())),
            authors=tuple(sorted(_sums(self._captions, lambda one: one.author).items())),
            rewrites=RewriteStatistics(
                released=sum(is_rewrite[name, True] for name in by_source),
                reviewed=reviewed,
                edited=edited,
                rejected=self.rewrites["rejected"],
                pending=self.rewrites["proposed"],
            ),
            descriptions=self._description_statistics(),
            tasks=task_statistics(
                _sums(self._images, lambda one: (one.task, one.tier, one.captions))
            ),
            faces=self._face_statistics(),
        )

    def _face_statistics(self) -> tuple[FaceStatistics, ...]:
        found: defaultdict[FaceTreatment, Counter[str]] = defaultdict(Counter)
        for one, images in self._faces.items():
            changed = images if one.count else 0
            counts = {"images": images, "changed": changed, "faces": images * one.count}
            found[one.treatment].update(counts)
        made = [FaceStatistics(**one.model_dump(), **counts) for one, counts in found.items()]
        return tuple(sorted(made, key=lambda one: (one.method, one.model, one.version)))

    def _totals(self, key: Callable[[_ImageKind], str]) -> dict[str, Counter[str]]:
        """Identities, images and captions by a key, in the order of the rows."""
        totals: dict[str, Counter[str]] = {}
        for kind, images in self._images.items():
            numbers = {"identities": images * kind.is_new, "images": images}
            numbers["captions"] = images * kind.captions
            totals.setdefault(key(kind), Counter()).update(numbers)
        return totals

    def _description_statistics(self) -> DescriptionStatistics | None:
        made: Counter[str] = Counter()
        annotators = set()
        for one, captions in self._captions.items():
            if one.origin in _DESCRIBED:
                kind = _DESCRIBED[one.origin]
                made[kind] += captions
                if kind != "drafted":
                    annotators.add(one.author)
                elif one.reviewed:
                    made["reviewed"] += captions
        if not made:
            return None
        return DescriptionStatistics(
            **{kind: made[kind] for kind in ("written", "edited", "drafted", "reviewed")},
            annotators=len(annotators),
            drafts=tuple(
                DraftStatistics(model=model, started=count, unchanged=self._unchanged[model])
                for model, count in sorted(self._drafts.items())
            ),
        )

    def _granularities(
        self,
        granularity_of: Mapping[str, Granularity | None],
        by_source: Mapping[str, Counter[str]],
    ) -> tuple[GranularityStatistics, ...]:
        found = []
        for granularity in (*reversed(Granularity), None):
            names = [name for name in by_source if granularity_of.get(name) is granularity]
            if names:
                words = sum((self._words[name] for name in names), Counter[int]())
                found.append(
                    GranularityStatistics(
                        granularity=granularity or UNSTATED,
                        images=sum(by_source[name]["images"] for name in names),
                        words=distribution(words),
                        histogram=histogram(words),
                    )
                )
        return tuple(found)


K = TypeVar("K")
T = TypeVar("T", bound=Hashable)


def _sums(counted: Counter[K], key: Callable[[K], T]) -> Counter[T]:
    """The counts summed by a part of each key."""
    sums: Counter[T] = Counter()
    for one, count in counted.items():
        sums[key(one)] += count
    return sums


def is_reviewed(statistics: ReleaseStatistics) -> bool:
    """Whether a person wrote or reviewed any of the texts that are not from a source."""
    made = statistics.descriptions
    by_people = made is not None and made.written + made.edited + made.reviewed > 0
    return by_people or statistics.rewrites.reviewed > 0


def distribution(counts: Mapping[int, int]) -> Distribution:
    """The distribution of numbers, given the frequency of each; quartiles by nearest rank."""
    total = sum(counts.values())
    values, weights = zip(*(counts.items() if total else [(0, 1)]), strict=True)
    steps = (0, 0.25, 0.5, 0.75, 1)
    quartiles = np.quantile(values, steps, weights=weights, method="inverted_cdf")
    names = ("minimum", "lower_quartile", "median", "upper_quartile", "maximum")
    mean = sum(value * count for value, count in counts.items()) / max(1, total)
    return Distribution(
        count=total,
        mean=round(mean, 2),
        **dict(zip(names, map(int, quartiles), strict=True)),
    )


def histogram(counts: Mapping[int, int]) -> tuple[tuple[int, int], ...]:
    """The number of captions by words in steps, given the number of captions of each length."""
    bins: Counter[int] = Counter()
    for words, count in counts.items():
        bins[words // HISTOGRAM_STEP * HISTOGRAM_STEP] += count
    last = max(bins, default=-HISTOGRAM_STEP)
    return tuple((start, bins[start]) for start in range(0, last + 1, HISTOGRAM_STEP))


class ReleaseAccumulator:
    """Counts rows and collects what the checks of the whole release need.

    Attributes:
        form: the form of the rows.
        has_splits: whether the images are in several splits, which must not leak.
        splits: the images of each split, if there are several.
        statistics: the counts common to rows of every form.
        derived: images edited from others, and their licences.
    """

    def __init__(self, scratch: Scratch, form: RowForm, *, has_splits: bool) -> None:
        self.form = form
        self.has_splits = has_splits
        self.splits: dict[Split, list[ComparedImage]] = {}
        self.statistics = StatisticsCounter()
        self.derived = DerivedTerms()
        self._scratch = scratch
        self._contrasts = _ContrastCounter()
        self._entities = hashlib.sha256()
        self._licensed: Counter[tuple[str, str, bool]] = Counter()
        self._video_images: Counter[str] = Counter()
        self._video_people: defaultdict[str, set[int]] = defaultdict(set)

    def add(
        self,
        row: ReleaseRow,
        perceptual_hash: int | None = None,
        embedding: NDArray[np.float16] | None = None,
        embedder: str = "",
    ) -> None:
        """Count the next row."""
        self.statistics.add(row)
        self.add_entities(row.entity_ids())
        if self.has_splits:
            image = ComparedImage(
                name=row.file_path,
                identity=f"{row.source}/{row.identity}",
                sha256=row.sha256,
                perceptual_hash=perceptual_hash,
                video_sha256=row.crop.video_sha256 if row.crop else None,
                embedding=embedding,
                embedder=embedder,
            )
            self.splits.setdefault(row.split, []).append(image)
        if row.crop:
            self._video_images[row.crop.video_entity_id] += 1
            self._video_people[row.crop.video_entity_id].add(row.id)
        texts = (one.text for one in row.captions)
        self._scratch.add_repeatable(row.id, row.file_path, row.sha256, texts)
        if self.form.contrasts:
            self._contrasts.add(row)
        if not self.form.terms:
            return
        licence, creator, page, own, of_source = row.terms
        credit = Credit(licence, row.number, row.file_path, creator, page, row.source, own)
        self._scratch.add_credit(credit)
        own = own and not are_words_of_source(licence, of_source=of_source)
        self._licensed[licence, row.source, own] += 1
        contrast = row.contrast
        anchor = (contrast.anchor, contrast.method) if contrast else (None, None)
        self.derived.check(row.file_path, licence, *anchor)

    def counted(self, videos: Iterable[ReleasedVideo]) -> tuple[ReleasedVideo, ...]:
        """The videos with the numbers of their images and people so far."""
        images, people = self._video_images, self._video_people
        return tuple(
            one.model_copy(
                update={"images": images[one.entity_id], "identities": len(people[one.entity_id])}
            )
            for one in videos
        )

    def add_entities(self, entity_ids: Sequence[str]) -> None:
        """Add entities to `entities_sha256`, in this order."""
        self._entities.update("".join(f"{one}\n" for one in entity_ids).encode())

    @property
    def entities_sha256(self) -> str:
        """The digest of all entities so far, one per line."""
        return self._entities.hexdigest()

    def result(
        self,
        sources: Sequence[ReleasedSource],
        elsewhere: ExternalCounts,
        **stated: Any,
    ) -> ReleaseStatistics:
        """All counts so far, with the facts known from elsewhere.

        `stated` are the other statistics that the rows do not contain, by name.
        """
        granularities: Mapping[str, Granularity | None]
        granularities = {one.name: one.granularity for one in sources}
        contrasts: ContrastStatistics | None = None
        if self.form.contrasts:  # coarse captions are counted separately
            granularities = dict.fromkeys(granularities, Granularity.FINE)
            contrasts = self._contrasts.result(elsewhere)
        counted = self.statistics.result(granularities)
        stated |= {"licences": licence_statistics(self._by_image()), "contrasts": contrasts}
        stated |= {"repeats": self._scratch.repeats()}
        return counted.model_copy(update=stated)

    def held(
        self, sources: Sequence[ReleasedSource], statistics: ReleaseStatistics
    ) -> list[LicensedItem]:
        """The licences of the images."""
        return self._by_image() or held_by_sources(sources, statistics.sources)

    def _by_image(self) -> list[LicensedItem]:
        """The licences of images that each state their own."""
        return [LicensedItem(*key, images) for key, images in sorted(self._licensed.items())]
