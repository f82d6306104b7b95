"""What a release holds, counted row by row: memory grows with the words known, not with the rows.

Words are runs of letters and digits, with apostrophes and hyphens inside them.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping

from release.rows import ReleaseRow
from schemas.records import Granularity
from schemas.release import (
    UNSTATED,
    Distribution,
    GranularityName,
    GranularityStatistics,
    ReleaseStatistics,
    RewriteStatistics,
    SourceStatistics,
)
from schemas.second_look import SecondLookStatistics

HISTOGRAM_STEP = 10

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


def words_of(text: str) -> list[str]:
    """The words of a caption, lower-cased."""
    return _WORD.findall(text.lower())


class StatisticsCounter:
    """Counts rows as they come."""

    def __init__(self) -> None:
        self._last_id = 0
        self._vocabulary: set[str] = set()
        self._splits: Counter[str] = Counter()
        self._identities: Counter[str] = Counter()
        self._images: Counter[str] = Counter()
        self._originals: Counter[str] = Counter()
        self._rewrites: Counter[str] = Counter()
        self._words: defaultdict[str, Counter[int]] = defaultdict(Counter)
        self._styles: Counter[int] = Counter()
        self._authors: Counter[str] = Counter()
        self._review: Counter[str] = Counter()

    def add(self, row: ReleaseRow) -> None:
        """Counts a row; rows come in the order of the release."""
        self._splits[row.split] += 1
        self._images[row.source] += 1
        self._identities[row.source] += row.id != self._last_id
        self._last_id = row.id
        self._styles[len({caption.author for caption in row.captions})] += 1
        for caption in row.captions:
            words = words_of(caption.text)
            self._vocabulary.update(words)
            self._words[row.source][len(words)] += 1
            self._authors[caption.author] += 1
            kind = self._rewrites if caption.is_rewrite else self._originals
            kind[row.source] += 1
            self._review["reviewed"] += caption.is_rewrite and caption.reviewed
            self._review["edited"] += caption.is_rewrite and caption.by_person

    def add_left_out(self, *, rejected: int, pending: int) -> None:
        """Counts rewrites of released images that are not in the release themselves."""
        self._review["rejected"] += rejected
        self._review["pending"] += pending

    def result(
        self,
        granularity_of: Mapping[str, Granularity | None],
        second_looks: tuple[SecondLookStatistics, ...] = (),
    ) -> ReleaseStatistics:
        """Everything counted so far; `granularity_of` maps source names to granularities."""
        all_words = sum(self._words.values(), Counter[int]())
        return ReleaseStatistics(
            images=self._images.total(),
            captions=all_words.total(),
            identities=self._identities.total(),
            vocabulary=len(self._vocabulary),
            words=distribution(all_words),
            splits=tuple(self._splits.items()),
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
            second_looks=second_looks,
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
                        histogram=_histogram(words),
                    )
                )
        return tuple(found)


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


def _histogram(counts: Mapping[int, int]) -> tuple[tuple[int, int], ...]:
    bins: Counter[int] = Counter()
    for words, count in counts.items():
        bins[words // HISTOGRAM_STEP * HISTOGRAM_STEP] += count
    last = max(bins, default=-HISTOGRAM_STEP)
    return tuple((start, bins[start]) for start in range(0, last + 1, HISTOGRAM_STEP))
