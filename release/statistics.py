"""What a release holds, counted row by row: memory grows with the words known, not with the rows.

Words are runs of letters and digits, with apostrophes and hyphens inside them.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping

from release.rows import ReleasedCaption, ReleaseRow
from release.task_counts import TaskCounter
from schemas.quality import SecondLookStatistics
from schemas.records import Granularity, Split
from schemas.release import (
    UNSTATED,
    DescriptionStatistics,
    Distribution,
    DraftStatistics,
    GranularityName,
    GranularityStatistics,
    ReleaseStatistics,
    RewriteStatistics,
    SourceStatistics,
    SplitStatistics,
    TrackletStatistics,
)

HISTOGRAM_STEP = 10
DESCRIBED = {"edited_draft": "edited", "confirmed_draft": "drafted"} | {
    origin: origin for origin in ("written", "edited", "drafted")
}
"""Under which name descriptions of an origin are counted."""

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


def words_of(text: str) -> list[str]:
    """The words of a caption, lower-cased."""
    return _WORD.findall(text.lower())


class StatisticsCounter:
    """Counts rows as they come."""

    def __init__(self) -> None:
        self._last_id = 0
        self._vocabulary: set[str] = set()
        self._splits: Counter[tuple[Split, str]] = Counter()
        self._identities: Counter[str] = Counter()
        self._images: Counter[str] = Counter()
        self._originals: Counter[str] = Counter()
        self._rewrites: Counter[str] = Counter()
        self._words: defaultdict[str, Counter[int]] = defaultdict(Counter)
        self._styles: Counter[int] = Counter()
        self._authors: Counter[str] = Counter()
        self._review: Counter[str] = Counter()
        self._descriptions: Counter[str] = Counter()
        self._annotators: set[str] = set()
        self._drafts: Counter[str] = Counter()
        self._unchanged: Counter[str] = Counter()
        self._tasks = TaskCounter()

    def add(self, row: ReleaseRow) -> None:
        """Counts a row; rows come in the order of the release."""
        is_new = row.id != self._last_id
        self._last_id = row.id
        self._splits[row.split, "images"] += 1
        self._splits[row.split, "identities"] += is_new
        self._splits[row.split, "captions"] += len(row.captions)
        self._images[row.source] += 1
        self._identities[row.source] += is_new
        self._tasks.add(row.task, row.tier, len(row.captions))
        self._styles[len({caption.author for caption in row.captions})] += 1
        for caption in row.captions:
            words = words_of(caption.text)
            self._vocabulary.update(words)
            self._words[row.source][len(words)] += 1
            self._authors[caption.author] += 1
            if caption.is_rewrite:
                self._rewrites[row.source] += 1
                self._review["reviewed"] += caption.reviewed
                self._review["edited"] += caption.origin == "edited_rewrite"
            else:
                self._originals[row.source] += 1
                self._add_description(caption)

    def _add_description(self, caption: ReleasedCaption) -> None:
        if caption.origin == "source":
            return
        if caption.drafter:
            self._drafts[caption.drafter] += 1
            self._unchanged[caption.drafter] += caption.origin == "confirmed_draft"
        made = DESCRIBED[caption.origin]
        self._descriptions[made] += 1
        self._descriptions["reviewed"] += made == "drafted" and caption.reviewed
        if made != "drafted":
            self._annotators.add(caption.author)

    def add_left_out(self, *, rejected: int, pending: int) -> None:
        """Counts rewrites of released images that are not in the release themselves."""
        self._review["rejected"] += rejected
        self._review["pending"] += pending

    def result(
        self,
        granularity_of: Mapping[str, Granularity | None],
        second_looks: tuple[SecondLookStatistics, ...] = (),
        tracklets: TrackletStatistics | None = None,
    ) -> ReleaseStatistics:
        """Everything counted so far; `granularity_of` maps source names to granularities."""
        all_words = sum(self._words.values(), Counter[int]())
        return ReleaseStatistics(
            images=self._images.total(),
            captions=all_words.total(),
            identities=self._identities.total(),
            vocabulary=len(self._vocabulary),
            words=distribution(all_words),
            splits=self._split_statistics(),
            sources=tuple(
                self._source(name, granularity_of.get(name) or UNSTATED) for name in self._images
            ),
            granularities=self._granularities(granularity_of),
            styles_per_image=tuple(sorted(self._styles.items())),
            authors=tuple(sorted(self._authors.items())),
            rewrites=RewriteStatistics(
                released=self._rewrites.total(),
                reviewed=self._review["reviewed"],
                edited=self._review["edited"],
                rejected=self._review["rejected"],
                pending=self._review["pending"],
            ),
            descriptions=self._description_statistics(),
            tracklets=tracklets,
            second_looks=second_looks,
            tasks=self._tasks.result(),
        )

    def _split_statistics(self) -> tuple[SplitStatistics, ...]:
        return tuple(
            SplitStatistics(
                split=split,
                identities=self._splits[split, "identities"],
                images=self._splits[split, "images"],
                captions=self._splits[split, "captions"],
            )
            for split in dict.fromkeys(split for split, _ in self._splits)
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

    def _source(self, name: str, granularity: GranularityName) -> SourceStatistics:
        return SourceStatistics(
            name=name,
            granularity=granularity,
            identities=self._identities[name],
            images=self._images[name],
            originals=self._originals[name],
            rewrites=self._rewrites[name],
        )

    def _granularities(
        self, granularity_of: Mapping[str, Granularity | None]
    ) -> tuple[GranularityStatistics, ...]:
        found = []
        for granularity in (*reversed(Granularity), None):
            names = [name for name in self._images if granularity_of.get(name) is granularity]
            if names:
                words = sum((self._words[name] for name in names), Counter[int]())
                found.append(
                    GranularityStatistics(
                        granularity=granularity or UNSTATED,
                        images=sum(self._images[name] for name in names),
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
