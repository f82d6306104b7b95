"""What the manifest counts of captions, against the rows: who wrote them, how, and of which source.

Most rows are alike in this, so rows are counted by what they have in common, and that is taken
apart at the end. Words are counted only where asked for: they cost as much as a digest.

What rows do not tell is left: rewrites that are not in the release, drafts that people began with.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from release.findings import Findings
from release.manifest import MANIFEST
from release.model_use import is_demonstration
from release.statistics import DESCRIBED, distribution, histogram, is_reviewed, words_of
from schemas.records import Granularity
from schemas.release import UNSTATED, GranularityName, Manifest

_MOST_KINDS = 10_000
_REWRITES = ("rewrite", "edited_rewrite")
_BY_MODELS = ("drafted", "rewrite")
_SHOWN = 200


class _Kind(NamedTuple):
    """What rows may have in common; `is_new` is the first row of an identity."""

    source: str
    is_new: bool
    authors: tuple[str, ...]
    origins: tuple[str, ...]
    reviewed: tuple[bool, ...]


class StatisticsChecks:
    """Counts rows of Parquet, with their words where `words`, and compares."""

    def __init__(self, manifest: Manifest, findings: Findings, *, words: bool) -> None:
        self._manifest = manifest
        self._findings = findings
        self._has_words = words
        self._kinds: Counter[_Kind] = Counter()
        self._counts: Counter[str] = Counter()
        self._of_sources: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._styles: Counter[int] = Counter()
        self._authors: Counter[str] = Counter()
        self._annotators: set[str] = set()
        self._models: set[str] = set()
        self._words: defaultdict[str, Counter[int]] = defaultdict(Counter)
        self._vocabulary: set[str] = set()

    def check(self, row: dict[str, Any], *, is_new: bool) -> None:
        """Counts a row; rows come in the order of the release."""
        source = row["source"]
        authors, origins = tuple(row["caption_authors"]), tuple(row["caption_origins"])
        reviewed = tuple(row["caption_reviewed"])
        self._kinds[_Kind(source, is_new, authors, origins, reviewed)] += 1
        if len(self._kinds) > _MOST_KINDS:
            self._take_apart()
        if self._has_words:
            for text in row["captions"]:
                words = words_of(str(text))
                self._vocabulary.update(words)
                self._words[source][len(words)] += 1

    def check_totals(self) -> None:
        """Names each value that the manifest states otherwise than the rows."""
        self._take_apart()
        stated = self._manifest.statistics
        for name, said, found in (*self._pairs(), *self._pairs_of_words(), *self._of_manifest()):
            if said != found:
                message = f"{MANIFEST} says {name} {said!s:.{_SHOWN}}; found {found!s:.{_SHOWN}}"
                self._findings.add("statistics_differ", message, MANIFEST)
        known = {f"{one.name}@{one.revision}".removesuffix("@") for one in self._manifest.models}
        for model in sorted({str(one).removesuffix("@") for one in self._models} - known):
            message = f"{MANIFEST} does not list the model {model}, which wrote captions of rows"
            self._findings.add("statistics_differ", message, MANIFEST)
        if self._manifest.unreviewed is is_reviewed(stated):
            message = (
                f"{MANIFEST} says unreviewed {self._manifest.unreviewed}, and counts otherwise"
            )
            self._findings.add("statistics_differ", message, MANIFEST)

    def _take_apart(self) -> None:
        for kind, rows in self._kinds.items():
            of_source = self._of_sources[kind.source]
            of_source["images"] += rows
            of_source["identities"] += rows * kind.is_new
            self._styles[len(set(kind.authors))] += rows
            captions = zip(kind.authors, kind.origins, kind.reviewed, strict=False)
            for author, origin, reviewed in captions:
                self._authors[author] += rows
                of_source["rewrites" if origin in _REWRITES else "originals"] += rows
                self._add(author, origin, rows * bool(reviewed), rows)
        self._kinds.clear()

    def _add(self, author: str, origin: str, reviewed: int, captions: int) -> None:
        """Counts captions of one author; `reviewed` of them a person decided on."""
        if origin in _BY_MODELS:
            self._models.add(author)
        if origin in _REWRITES:
            self._counts["rewrites"] += captions
            self._counts["rewrites.reviewed"] += reviewed
            self._counts["rewrites.edited"] += captions * (origin == "edited_rewrite")
        elif origin != "source":
            made = DESCRIBED.get(origin, f"of the origin {origin!r}")
            self._counts[made] += captions
            self._counts["described"] += captions
            if made == "drafted":
                self._counts["reviewed"] += reviewed
            else:
                self._annotators.add(author)

    def _pairs(self) -> Iterator[tuple[str, Any, Any]]:
        """Names of values, what is stated, and what was found."""
        stated, counts = self._manifest.statistics, self._counts
        yield "styles_per_image", stated.styles_per_image, tuple(sorted(self._styles.items()))
        authors = sorted(self._authors.items(), key=lambda one: str(one[0]))
        yield "authors", stated.authors, tuple(authors)
        rewrites = stated.rewrites
        yield "rewrites.released", rewrites.released, counts["rewrites"]
        yield "rewrites.reviewed", rewrites.reviewed, counts["rewrites.reviewed"]
        yield "rewrites.edited", rewrites.edited, counts["rewrites.edited"]
        made = stated.descriptions
        yield "descriptions", made is not None, counts["described"] > 0
        if made is not None:
            for name in ("written", "edited", "drafted", "reviewed"):
                yield f"descriptions.{name}", getattr(made, name), counts[name]
            yield "descriptions.annotators", made.annotators, len(self._annotators)
        said = tuple(
            (one.name, one.granularity, one.identities, one.images, one.originals, one.rewrites)
            for one in stated.sources
        )
        names = ("identities", "images", "originals", "rewrites")
        yield (
            "sources",
            said,
            tuple(
                (name, self._granularity(name), *(one[what] for what in names))
                for name, one in self._of_sources.items()
            ),
        )
        images = tuple((one.granularity, one.images) for one in stated.granularities)
        yield (
            "granularities",
            images,
            tuple(
                (granularity, sum(self._of_sources[name]["images"] for name in of))
                for granularity, of in self._by_granularity()
            ),
        )

    def _pairs_of_words(self) -> Iterator[tuple[str, Any, Any]]:
        stated = self._manifest.statistics
        yield "words.count", stated.words.count, self._authors.total()
        if not self._has_words:
            return
        yield "vocabulary", stated.vocabulary, len(self._vocabulary)
        yield "words", stated.words, distribution(sum(self._words.values(), Counter[int]()))
        found = {
            granularity: sum((self._words[name] for name in of), Counter[int]())
            for granularity, of in self._by_granularity()
        }
        for one in stated.granularities:
            words = found.get(one.granularity, Counter[int]())
            yield f"words of {one.granularity} captions", one.words, distribution(words)
            yield f"histogram of {one.granularity} captions", one.histogram, histogram(words)

    def _of_manifest(self) -> Iterator[tuple[str, Any, Any]]:
        one, contrasts = self._manifest, self._manifest.statistics.contrasts
        editors = [editor for editor, _ in contrasts.editors] if contrasts else []
        makers = (*one.trackers, *editors)
        found = is_demonstration(one.models, one.sources, makers)
        yield "demonstration", one.demonstration, found

    def _by_granularity(self) -> Iterator[tuple[GranularityName, list[str]]]:
        order: tuple[GranularityName, ...] = (*reversed(Granularity), UNSTATED)
        for granularity in order:
            names = [one for one in self._of_sources if self._granularity(one) == granularity]
            if names:
                yield granularity, names

    def _granularity(self, name: str) -> GranularityName:
        """Of a source; coarse captions of contrastive benchmarks stand apart."""
        if self._manifest.statistics.contrasts is not None:
            return Granularity.FINE
        stated = {one.name: one.granularity for one in self._manifest.sources}
        return stated.get(name) or UNSTATED
