"""What the manifest counts of rows, captions, tasks, contrasts and terms, against the rows.

Most rows are alike in their captions, so rows are counted by what they have in common, and that is
taken apart at the end. Words are counted only where asked for: they cost as much as a digest. What
rows do not tell is left: rewrites that are not in the release, drafts that people began with.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from release.files import digest_of_file
from release.findings import Findings
from release.json_rows import CCD_LINES, ccd_line
from release.manifest import MANIFEST
from release.model_use import is_demonstration
from release.scratch import Credit, Scratch
from release.statistics import (
    DESCRIBED,
    ContrastCounter,
    Repeats,
    TaskCounter,
    distribution,
    histogram,
    is_reviewed,
    words_of,
)
from release.terms import (
    ATTRIBUTION,
    DerivedTerms,
    LicensedItem,
    attribution_text,
    licence_statistics,
    licences_by_image,
    terms_of,
    unpermitted,
)
from release.tiers import TIERS, tiers_within
from schemas.licences import permits_release
from schemas.records import Granularity
from schemas.release import UNSTATED, GranularityName, Manifest, TaskStatistics
from schemas.retrieval_task import RetrievalTask
from schemas.taxonomy import DifferenceType

_TASKS = tuple(task.value for task in RetrievalTask)


class TaskChecks:
    """Counts rows by task and tier, and names those that cannot be so."""

    def __init__(self, manifest: Manifest, findings: Findings) -> None:
        self._manifest = manifest
        self._findings = findings
        self._counter = TaskCounter()

    def check(self, file: str, number: int, row: dict[str, Any]) -> None:
        """Checks a row of Parquet."""
        task, tier = row.get("task"), row.get("tier")
        if task is not None and task not in _TASKS:
            what = f"is for the task {task!r}; wanted one of {', '.join(_TASKS)}"
            self._report("task_wrong", what, file, number)
            task = None
        stated = self._manifest.tier
        within = tiers_within(stated) if stated else ()
        if tier not in (within or (None,)):
            what = f"is of the tier {tier!r}; the release is of {', '.join(within) or 'none'}"
            self._report("tier_wrong", what, file, number)
            tier = tier if tier in TIERS else None
        self._counter.add(task and RetrievalTask(task), tier, len(row["captions"]))

    def check_totals(self) -> None:
        """Checks what the manifest counts."""
        found, stated = self._counter.result(), self._manifest.statistics.tasks
        for ours, theirs in _side_by_side(found, stated):
            if ours != theirs:
                task = f"for the task {ours.task or 'that is not known'}"
                message = (
                    f"the Parquet files hold {_said(ours)} {task}; {MANIFEST} says {_said(theirs)}"
                )
                self._findings.add("totals_differ", message, MANIFEST)

    def _report(self, fault: str, what: str, file: str, number: int) -> None:
        self._findings.add(fault, f"{file}: row {number} {what}", file, number)


def _side_by_side(
    found: tuple[TaskStatistics, ...], stated: tuple[TaskStatistics, ...]
) -> list[tuple[TaskStatistics, TaskStatistics]]:
    ours, theirs = {one.task: one for one in found}, {one.task: one for one in stated}
    tasks = dict.fromkeys((*ours, *theirs))
    return [(ours.get(task, _nothing(task)), theirs.get(task, _nothing(task))) for task in tasks]


def _nothing(task: RetrievalTask | None) -> TaskStatistics:
    return TaskStatistics(task=task, images=0, captions=0)


def _said(one: TaskStatistics) -> str:
    tiers = "; ".join(
        f"{tier.tier}: {tier.images:,} images, {tier.captions:,} captions" for tier in one.tiers
    )
    return f"{one.images:,} images and {one.captions:,} captions{f' ({tiers})' if tiers else ''}"


_TYPES = tuple(kind.value for kind in DifferenceType)
_WAYS = ("search", "edit", None)
_TEXTS = ("anchor", "anchor_entity_id")


class ContrastChecks:
    """Counts rows of Parquet and names those that cannot be so, against what the manifest states.

    That anchors stand where they should is for `release.verify.rows`.
    """

    def __init__(
        self, folder: Path, manifest: Manifest, scratch: Scratch, findings: Findings
    ) -> None:
        self._folder = folder
        self._stated = manifest.statistics.contrasts
        self._findings = findings
        self._counter = ContrastCounter()
        self._repeats = Repeats(scratch)
        self._lines = hashlib.sha256()
        self._is_whole = True

    @property
    def is_needed(self) -> bool:
        """Whether the manifest states any contrasts."""
        return self._stated is not None

    def check(self, file: str, number: int, row: dict[str, Any]) -> None:
        """Checks a row of Parquet."""
        if self._stated is None:
            if row.get("contrast") is not None:
                what = f"is a contrastive image, of which {MANIFEST} states none"
                self._report("contrast_wrong", what, file, number)
            return
        if "contrast" not in row:
            self._is_whole = False
            self._report("contrast_wrong", "has no column 'contrast'", file, number)
            return
        wanted = self._stated.captions_per_image
        if wanted is not None and len(row["captions"]) != wanted:
            what = f"has {len(row['captions'])} captions; every image of the release has {wanted}"
            self._report("captions_differ", what, file, number)
        if len(row["coarse_captions"]) != len(row["coarse_caption_entity_ids"]):
            what = "has not as many coarse captions as entity ids for them"
            self._report("captions_differ", what, file, number)
        known = self._known(file, number, row["contrast"])
        if row["contrast"] is not None and known is None:
            self._is_whole = False
            return
        places = [one["caption"] for one in row["translations"]]
        if any(not 0 <= place < len(row["captions"]) for place in places):
            what = "has a translation of a caption that it has not"
            self._report("translation_of_nothing", what, file, number)
            self._is_whole = False
            return
        languages = [one["language"] for one in row["translations"]]
        self._counter.add(known, row["captions"], row["coarse_captions"], languages)
        self._repeats.add(row["file_path"], row["sha256"], row["captions"])
        self._lines.update(ccd_line(row))

    def _known(
        self, file: str, number: int, contrast: dict[str, Any] | None
    ) -> tuple[DifferenceType, str | None] | None:
        """The type and the way of a contrast; None where there is none, or it is unknown."""
        if contrast is None:
            return None
        if contrast["difference"] not in _TYPES:
            wanted = f"wanted one of {', '.join(_TYPES)}"
            what = f"differs by {contrast['difference']!r}; {wanted}"
            self._report("difference_unknown", what, file, number)
            return None
        if contrast["way"] not in _WAYS or not all(contrast[field] for field in _TEXTS):
            what = f"has a contrast that is not complete: {contrast!r}"
            self._report("contrast_wrong", what, file, number)
            return None
        return DifferenceType(contrast["difference"]), contrast["way"]

    def check_totals(self) -> None:
        """Checks what the manifest counts, and the file in the authors' layout."""
        if self._stated is None or not self._is_whole:
            return
        stated = self._stated
        left_out = stated.without_captions, stated.without_anchor, stated.left_out
        found = self._counter.result(*left_out, stated.nearest, stated.editors, stated.repeats)
        for field in type(stated).model_fields:
            ours, theirs = getattr(found, field), getattr(stated, field)
            if ours != theirs:
                message = (
                    f"{MANIFEST} says contrasts.{field} {theirs!s:.200}; the rows {ours!s:.200}"
                )
                self._findings.add("totals_differ", message, MANIFEST)
        self._check_repeats()
        try:
            digest = digest_of_file(self._folder / CCD_LINES)
        except OSError:
            if self._findings.hides(CCD_LINES):
                return
            message = f"{CCD_LINES} is missing; a release with contrastive images has one"
            self._findings.add("file_missing", message, CCD_LINES)
            return
        if digest != self._lines.hexdigest():
            message = f"{CCD_LINES} does not say what the Parquet files do"
            self._findings.add("rows_differ", message, CCD_LINES)

    def _check_repeats(self) -> None:
        """Names repeats that the manifest does not state."""
        stated = self._stated.repeats if self._stated else None
        if stated is None:  # of an earlier release, which did not count
            return
        found = self._repeats.result()
        for fault, what, ours, theirs in (
            (
                "images_repeated",
                "images have the bytes of another image",
                (found.images, found.image_pairs),
                (stated.images, stated.image_pairs),
            ),
            (
                "captions_repeated",
                "captions say what one of another image says",
                (found.captions, found.caption_pairs),
                (stated.captions, stated.caption_pairs),
            ),
        ):
            if ours != theirs:
                message = f"{ours[0]:,} {what}{_named(ours[1])}; {MANIFEST} says {theirs[0]:,}"
                self._findings.add(fault, f"{message}{_named(theirs[1])}", MANIFEST)

    def _report(self, fault: str, what: str, file: str, number: int) -> None:
        self._findings.add(fault, f"{file}: row {number} {what}", file, number)


def _named(pairs: tuple[tuple[str, str], ...]) -> str:
    """The files of pairs, in brackets; nothing without any."""
    return f" ({'; '.join(' and '.join(pair) for pair in pairs)})" if pairs else ""


class TermsChecks:
    """Collects the credits of images in `scratch`."""

    def __init__(
        self, folder: Path, manifest: Manifest, scratch: Scratch, findings: Findings
    ) -> None:
        self._folder = folder
        self._manifest = manifest
        self._scratch = scratch
        self._findings = findings
        self._of_sources = {(source.name, source.licence) for source in manifest.sources}
        self._images: Counter[str] = Counter()
        self._derived = DerivedTerms()
        self._is_whole = True

    def check(self, file: str, number: int, row: dict[str, Any]) -> None:
        """Checks a row of Parquet; rows without a column for licences are under their source's."""
        self._images[row["source"]] += 1
        if "licence" not in row:
            return
        licence, creator, page = row["licence"], row["creator"], row["source_url"]
        if not licence.strip():
            self._is_whole = False
            self._report("licence_missing", "states no licence for its image", file, number)
            return
        own = (row["source"], licence) not in self._of_sources or bool(creator or page)
        if own and not permits_release(licence):
            what = f"is under {licence!r}, which does not permit its release, or is not known"
            self._report("licence_forbids", what, file, number)
        self._scratch.add_credit(
            Credit(licence, number, row["file_path"], creator, page, row["source"], own)
        )
        contrast = row.get("contrast") or {"anchor": None, "way": None}
        problem = self._derived.check(
            row["file_path"], licence, contrast["anchor"], contrast["way"]
        )
        if problem is not None:
            self._report("licence_incompatible", problem, file, number)

    def check_totals(self) -> None:
        """Checks what the manifest counts, and the file that names the creators."""
        found, stated = licence_statistics(self._scratch.credits()), self._manifest.statistics
        if not self._is_whole:
            return
        if found != stated.licences:
            message = f"{MANIFEST} counts other licences than the rows of the Parquet files have"
            self._findings.add("totals_differ", message, MANIFEST)
        self._check_terms()
        if not found:
            return
        name = f"{self._manifest.dataset} {self._manifest.version}"
        wanted = b"".join(attribution_text(name, self._scratch.credits()))
        try:
            written = (self._folder / ATTRIBUTION).read_bytes()
        except OSError:
            if self._findings.hides(ATTRIBUTION):
                return
            message = f"{ATTRIBUTION} is missing; images with terms of their own need it"
            self._findings.add("file_missing", message, ATTRIBUTION)
            return
        if written != wanted:
            message = f"{ATTRIBUTION} does not name the creators that the rows do"
            self._findings.add("attribution_differs", message, ATTRIBUTION)

    def _check_terms(self) -> None:
        """The terms of sources, and what the manifest says of all together."""
        stated = self._manifest.terms
        permitted = {one.source: one.basis for one in stated.permissions}
        held = self._held()
        if not held:
            message = (
                f"{MANIFEST} names no source, so that nothing says under which terms images are"
            )
            self._findings.add("licence_missing", message, MANIFEST)
            return
        for one in unpermitted(held, permitted):
            if not one.own:
                message = (
                    f"{MANIFEST}: {one.images:,} images are under the terms of their source, "
                    f"{one.source!r}: {one.licence!r} is no licence that we know, or forbids their "
                    f"release, and nothing says why they may be released"
                )
                self._findings.add("licence_forbids", message, MANIFEST)
        if terms_of(held, permitted) != stated:
            message = f"{MANIFEST} says other terms of the whole than the licences of the rows make"
            self._findings.add("terms_differ", message, MANIFEST)

    def _held(self) -> list[LicensedItem]:
        if images := licences_by_image(self._scratch.credits()):
            return images
        stated = sorted({(one.licence, one.name) for one in self._manifest.sources})
        return [LicensedItem(licence, name, False, self._images[name]) for licence, name in stated]

    def _report(self, fault: str, what: str, file: str, number: int) -> None:
        self._findings.add(fault, f"{file}: row {number} {what}", file, number)


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
