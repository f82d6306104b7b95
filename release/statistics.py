"""What a release holds, counted row by row: memory grows with the words known, not with the rows.

Words are runs of letters and digits, with apostrophes and hyphens inside them.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from release.publishable import published_name
from release.rows import ReleaseRow
from release.scratch import Scratch
from release.tiers import TIERS
from schemas.base import sha256_of
from schemas.quality import AuditStatistics
from schemas.records import Granularity, Split
from schemas.release import (
    UNSTATED,
    ContrastStatistics,
    DescriptionStatistics,
    DifferenceStatistics,
    Distribution,
    DraftStatistics,
    GranularityStatistics,
    LeftOutGroups,
    NearestStatistics,
    ReleaseStatistics,
    RepeatStatistics,
    RewriteStatistics,
    SourceStatistics,
    SplitStatistics,
    TaskStatistics,
    TierStatistics,
    TrackletStatistics,
)
from schemas.retrieval_task import RetrievalTask, Tier
from schemas.taxonomy import DifferenceType

SHOWN = 5
"""Of so many images, and captions, that repeat one another two files are named."""

_IMAGE, _CAPTION = "image", "caption"


class Repeats:
    """Remembers the images of a release and their captions, in `scratch`, and counts the repeats.

    Images are equal by their SHA-256; captions by their words, letter case and white space aside.
    """

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._place = 0

    def add(self, file_path: str, sha256: str, captions: list[str]) -> None:
        """Remembers the next image and its fine captions; equal ones of one image count once."""
        self._place += 1
        digests = [(_IMAGE, sha256), *((_CAPTION, _digest(text)) for text in captions)]
        self._scratch.add_shown(digests, self._place, file_path)

    def result(self) -> RepeatStatistics:
        """Everything that was remembered, counted."""
        return RepeatStatistics(
            images=self._scratch.count_repeats(_IMAGE),
            captions=self._scratch.count_repeats(_CAPTION),
            image_pairs=self._scratch.repeated_pairs(_IMAGE, SHOWN),
            caption_pairs=self._scratch.repeated_pairs(_CAPTION, SHOWN),
        )


def _digest(text: str) -> str:
    return sha256_of(" ".join(text.split()).casefold().encode("utf-8", "surrogatepass"))


_TOKEN = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*|[^\w\s]")


def _tokens_of(text: str) -> int:
    """How many words and punctuation marks a caption has."""
    return len(_TOKEN.findall(text))


class ContrastCounter:
    """Counts images and captions of a contrastive benchmark."""

    def __init__(self) -> None:
        self._images = 0
        self._ways: Counter[tuple[DifferenceType, str | None]] = Counter()
        self._per_image: set[int] = set()
        self._captions: Counter[str] = Counter()
        self._tokens: Counter[str] = Counter()
        self._translations: Counter[str] = Counter()

    def add(
        self,
        contrast: tuple[DifferenceType, str | None] | None,
        captions: list[str],
        coarse: list[str],
        languages: list[str],
    ) -> None:
        """Counts an image: its type and way where it is no anchor, and its captions."""
        self._images += 1
        if contrast is not None:
            self._ways[contrast] += 1
        self._per_image.add(len(captions))
        for kind, texts in (("fine", captions), ("coarse", coarse)):
            self._captions[kind] += len(texts)
            self._tokens[kind] += sum(map(_tokens_of, texts))
        self._translations.update(languages)

    def result(
        self,
        without_captions: int = 0,
        without_anchor: int = 0,
        left_out: LeftOutGroups | None = None,
        nearest: NearestStatistics | None = None,
        editors: tuple[tuple[str, int], ...] = (),
        *,
        repeats: RepeatStatistics,
    ) -> ContrastStatistics:
        """Everything counted so far, with what is known from elsewhere."""
        contrastive = self._ways.total()
        return ContrastStatistics(
            anchors=self._images - contrastive,
            contrastive=contrastive,
            captions_per_image=next(iter(self._per_image)) if len(self._per_image) == 1 else None,
            coarse_captions=self._captions["coarse"],
            tokens=self._mean("fine") or 0.0,
            coarse_tokens=self._mean("coarse"),
            translations=tuple(sorted(self._translations.items())),
            differences=tuple(map(self._difference, DifferenceType)),
            without_captions=without_captions,
            without_anchor=without_anchor,
            left_out=left_out,
            nearest=nearest and _published(nearest),
            editors=editors,
            repeats=repeats,
        )

    def _mean(self, kind: str) -> float | None:
        captions = self._captions[kind]
        return round(self._tokens[kind] / captions, 2) if captions else None

    def _difference(self, difference: DifferenceType) -> DifferenceStatistics:
        methods = {
            method: count for (kind, method), count in self._ways.items() if kind is difference
        }
        return DifferenceStatistics(
            difference=difference,
            images=sum(methods.values()),
            found=methods.get("search", 0),
            edited=methods.get("edit", 0),
        )


def _published(nearest: NearestStatistics) -> NearestStatistics:
    return nearest.model_copy(update={"embedder": published_name(nearest.embedder)})


class TaskCounter:
    """Counts images and captions by task and tier."""

    def __init__(self) -> None:
        self._images: Counter[tuple[RetrievalTask | None, Tier | None]] = Counter()
        self._captions: Counter[tuple[RetrievalTask | None, Tier | None]] = Counter()

    def add(
        self, task: RetrievalTask | None, tier: Tier | None, captions: int, images: int = 1
    ) -> None:
        """Counts images, and the captions of all of them."""
        self._images[task, tier] += images
        self._captions[task, tier] += captions

    def result(self) -> tuple[TaskStatistics, ...]:
        """By task, in the order in which the paper names them; nothing where no task is known."""
        if not self._images.keys() - {(None, None)}:
            return ()
        return tuple(self._of(task) for task in (*RetrievalTask, None) if self._is_there(task))

    def _is_there(self, task: RetrievalTask | None) -> bool:
        return any(one is task for one, _ in self._images)

    def _of(self, task: RetrievalTask | None) -> TaskStatistics:
        return TaskStatistics(
            task=task,
            images=sum(self._images[task, tier] for tier in (*TIERS, None)),
            captions=sum(self._captions[task, tier] for tier in (*TIERS, None)),
            tiers=tuple(
                TierStatistics(
                    tier=tier,
                    images=self._images[task, tier],
                    captions=self._captions[task, tier],
                )
                for tier in TIERS
                if self._images[task, tier]
            ),
        )


HISTOGRAM_STEP = 10
_DESCRIBED = {"edited_draft": "edited", "confirmed_draft": "drafted"} | {
    origin: origin for origin in ("written", "edited", "drafted")
}
"""Under which name descriptions of an origin are counted."""
_REWRITES = ("rewrite", "edited_rewrite")
_BY_MODELS = ("drafted", "rewrite")
_OF_SPLITS = ("identities", "images", "captions")
_OF_SOURCES = ("identities", "images", "originals", "rewrites")
_OF_REWRITES = ("reviewed", "edited", "rejected", "pending")
_MOST_KINDS = 10_000

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


def words_of(text: str) -> list[str]:
    """The words of a caption, lower-cased."""
    return _WORD.findall(text.lower())


class _CountedRow(NamedTuple):
    """What is counted of a row but its words; most rows of a release are alike in this.

    `is_new` is the first row of an identity. Authors, origins and reviews are those of captions.
    """

    split: Split
    source: str
    is_new: bool
    task: RetrievalTask | None
    tier: Tier | None
    captions: int
    authors: tuple[str, ...]
    origins: tuple[str, ...]
    reviewed: tuple[bool, ...]


class StatisticsCounter:
    """Counts rows as they come, in the order of the release.

    Rows are counted by what they have in common, and that is taken apart at the end.

    Attributes:
        models: the authors of what models drafted and rewrote.
    """

    def __init__(self) -> None:
        self.models: set[str] = set()
        self._last_id = 0
        self._rows: Counter[_CountedRow] = Counter()
        self._vocabulary: set[str] = set()
        self._splits: dict[Split, Counter[str]] = {}
        self._sources: dict[str, Counter[str]] = {}
        self._words: defaultdict[str, Counter[int]] = defaultdict(Counter)
        self._styles: Counter[int] = Counter()
        self._authors: Counter[str] = Counter()
        self._review: Counter[str] = Counter()
        self._descriptions: Counter[str] = Counter()
        self._annotators: set[str] = set()
        self._drafts: Counter[str] = Counter()
        self._unchanged: Counter[str] = Counter()
        self._tasks = TaskCounter()

    def add(self, row: ReleaseRow, *, words: bool = True) -> None:
        """Counts a row, and where `words` the words of its captions."""
        counted = _CountedRow(
            split=row.split,
            source=row.source,
            is_new=row.id != self._last_id,
            task=row.task,
            tier=row.tier,
            captions=len(row.captions),
            authors=tuple(one.author for one in row.captions),
            origins=tuple(one.origin for one in row.captions),
            reviewed=tuple(one.reviewed for one in row.captions),
        )
        self._last_id = row.id
        self._rows[counted] += 1
        if len(self._rows) > _MOST_KINDS:
            self._take_apart()
        for one in row.captions:
            if words:
                found = words_of(one.text)
                self._vocabulary.update(found)
                self._words[row.source][len(found)] += 1
            if one.drafter:
                self._drafts[one.drafter] += 1
                self._unchanged[one.drafter] += one.origin == "confirmed_draft"

    def _take_apart(self) -> None:
        for row, images in self._rows.items():
            numbers = {"images": images, "identities": images * row.is_new}
            split = self._splits.setdefault(row.split, Counter())
            split.update(numbers, captions=images * row.captions)
            of_source = self._sources.setdefault(row.source, Counter())
            of_source.update(numbers)
            self._tasks.add(row.task, row.tier, images * row.captions, images)
            self._styles[len(set(row.authors))] += images
            for author, origin, reviewed in zip(
                row.authors, row.origins, row.reviewed, strict=False
            ):
                self._authors[author] += images
                of_source["rewrites" if origin in _REWRITES else "originals"] += images
                self._add_caption(author, origin, images, images * bool(reviewed))
        self._rows.clear()

    def _add_caption(self, author: str, origin: str, captions: int, reviewed: int) -> None:
        """Counts captions of one author; a person decided on `reviewed` of them."""
        if origin in _BY_MODELS:
            self.models.add(author)
        if origin in _REWRITES:
            self._review["reviewed"] += reviewed
            self._review["edited"] += captions * (origin == "edited_rewrite")
        elif origin != "source":
            made = _DESCRIBED.get(origin, origin)
            self._descriptions[made] += captions
            if made == "drafted":
                self._descriptions["reviewed"] += reviewed
            else:
                self._annotators.add(author)

    def add_left_out(self, *, rejected: int, pending: int) -> None:
        """Counts rewrites of released images that are not in the release themselves."""
        self._review["rejected"] += rejected
        self._review["pending"] += pending

    def result(
        self,
        granularity_of: Mapping[str, Granularity | None],
        audits: tuple[AuditStatistics, ...] = (),
        tracklets: TrackletStatistics | None = None,
    ) -> ReleaseStatistics:
        """Everything counted so far; `granularity_of` maps source names to granularities."""
        self._take_apart()
        totals = sum(self._splits.values(), Counter[str]())
        return ReleaseStatistics(
            images=totals["images"],
            captions=totals["captions"],
            identities=totals["identities"],
            vocabulary=len(self._vocabulary),
            words=distribution(sum(self._words.values(), Counter[int]())),
            splits=tuple(
                SplitStatistics(split=split, **{what: counts[what] for what in _OF_SPLITS})
                for split, counts in self._splits.items()
            ),
            sources=tuple(
                SourceStatistics(
                    name=name,
                    granularity=granularity_of.get(name) or UNSTATED,
                    **{what: counts[what] for what in _OF_SOURCES},
                )
                for name, counts in self._sources.items()
            ),
            granularities=self._granularities(granularity_of),
            styles_per_image=tuple(sorted(self._styles.items())),
            authors=tuple(sorted(self._authors.items(), key=lambda one: str(one[0]))),
            rewrites=RewriteStatistics(
                released=sum(one["rewrites"] for one in self._sources.values()),
                **{name: self._review[name] for name in _OF_REWRITES},
            ),
            descriptions=self._description_statistics(),
            tracklets=tracklets,
            audits=audits,
            tasks=self._tasks.result(),
        )

    def _description_statistics(self) -> DescriptionStatistics | None:
        if not self._descriptions:
            return None
        return DescriptionStatistics(
            written=self._descriptions["written"],
            edited=self._descriptions["edited"],
            drafted=self._descriptions["drafted"],
            reviewed=self._descriptions["reviewed"],
            annotators=len(self._annotators),
            drafts=tuple(
                DraftStatistics(model=model, begun=count, unchanged=self._unchanged[model])
                for model, count in sorted(self._drafts.items())
            ),
        )

    def _granularities(
        self, granularity_of: Mapping[str, Granularity | None]
    ) -> tuple[GranularityStatistics, ...]:
        found = []
        for granularity in (*reversed(Granularity), None):
            names = [name for name in self._sources if granularity_of.get(name) is granularity]
            if names:
                words = sum((self._words[name] for name in names), Counter[int]())
                found.append(
                    GranularityStatistics(
                        granularity=granularity or UNSTATED,
                        images=sum(self._sources[name]["images"] for name in names),
                        words=distribution(words),
                        histogram=histogram(words),
                    )
                )
        return tuple(found)


def is_reviewed(statistics: ReleaseStatistics) -> bool:
    """Whether a person wrote, or decided on, any of the texts that no source gave."""
    made = statistics.descriptions
    by_people = made is not None and made.written + made.edited + made.reviewed > 0
    return by_people or statistics.rewrites.reviewed > 0


def distribution(counts: Mapping[int, int]) -> Distribution:
    """The distribution of numbers, given how often each occurs."""
    total = sum(counts.values())
    ordered = sorted(counts.items())

    def quantile(quarters: int) -> int:
        """The smallest number that so many quarters of all are not above (nearest rank)."""
        rank, seen = max(1, -(-total * quarters // 4)), 0
        for value, count in ordered:
            seen += count
            if seen >= rank:
                return value
        return 0

    return Distribution(
        count=total,
        mean=round(sum(value * count for value, count in ordered) / total, 2) if total else 0.0,
        minimum=quantile(0),
        lower_quartile=quantile(1),
        median=quantile(2),
        upper_quartile=quantile(3),
        maximum=quantile(4),
    )


def histogram(counts: Mapping[int, int]) -> tuple[tuple[int, int], ...]:
    """How many captions there are by words in steps, given how many have how many words."""
    bins: Counter[int] = Counter()
    for words, count in counts.items():
        bins[words // HISTOGRAM_STEP * HISTOGRAM_STEP] += count
    last = max(bins, default=-HISTOGRAM_STEP)
    return tuple((start, bins[start]) for start in range(0, last + 1, HISTOGRAM_STEP))
