"""What the manifest counts of rows, captions, tasks, contrasts and terms, against the rows.

Words are counted only where asked for: they cost as much as a digest. What rows do not tell is
left: rewrites that are not in the release, drafts that people began with.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from release.files import digest_of_file
from release.findings import Findings
from release.json_rows import CCD_LINES, ccd_line
from release.manifest import MANIFEST
from release.model_use import is_demonstration
from release.rows import SPLITS
from release.scratch import Credit, Scratch
from release.statistics import (
    ContrastCounter,
    CountedRow,
    Repeats,
    StatisticsCounter,
    is_reviewed,
)
from release.terms import (
    DerivedTerms,
    LicensedItem,
    licence_statistics,
    licences_by_image,
    terms_of,
    unpermitted,
)
from release.tiers import TIERS, tiers_within
from schemas.base import Record
from schemas.licences import permits_release
from schemas.records import Granularity
from schemas.release import Manifest, ReleaseStatistics, RepeatStatistics
from schemas.retrieval_task import RetrievalTask
from schemas.taxonomy import DifferenceType

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
                self._findings.add_row("contrast_wrong", what, file, number)
            return
        if "contrast" not in row:
            self._is_whole = False
            self._findings.add_row("contrast_wrong", "has no column 'contrast'", file, number)
            return
        wanted = self._stated.captions_per_image
        if wanted is not None and len(row["captions"]) != wanted:
            what = f"has {len(row['captions'])} captions; every image of the release has {wanted}"
            self._findings.add_row("captions_differ", what, file, number)
        if len(row["coarse_captions"]) != len(row["coarse_caption_entity_ids"]):
            what = "has not as many coarse captions as entity ids for them"
            self._findings.add_row("captions_differ", what, file, number)
        known = self._known(file, number, row["contrast"])
        if row["contrast"] is not None and known is None:
            self._is_whole = False
            return
        places = [one["caption"] for one in row["translations"]]
        if any(not 0 <= place < len(row["captions"]) for place in places):
            what = "has a translation of a caption that it has not"
            self._findings.add_row("translation_of_nothing", what, file, number)
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
            self._findings.add_row("difference_unknown", what, file, number)
            return None
        if contrast["way"] not in _WAYS or not all(contrast[field] for field in _TEXTS):
            what = f"has a contrast that is not complete: {contrast!r}"
            self._findings.add_row("contrast_wrong", what, file, number)
            return None
        return DifferenceType(contrast["difference"]), contrast["way"]

    def check_totals(self) -> None:
        """Checks what the manifest counts, and the file in the authors' layout."""
        if self._stated is None or not self._is_whole:
            return
        stated = self._stated
        left_out = stated.without_captions, stated.without_anchor, stated.left_out
        found = self._counter.result(
            *left_out, stated.nearest, stated.editors, repeats=stated.repeats
        )
        for field in type(stated).model_fields:
            ours, theirs = getattr(found, field), getattr(stated, field)
            if ours != theirs:
                message = (
                    f"{MANIFEST} says contrasts.{field} {theirs!s:.200}; the rows {ours!s:.200}"
                )
                self._findings.add("totals_differ", message, MANIFEST)
        self._check_repeats(stated.repeats)
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

    def _check_repeats(self, stated: RepeatStatistics) -> None:
        """Names repeats that the manifest does not state."""
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


def _named(pairs: tuple[tuple[str, str], ...]) -> str:
    """The files of pairs, in brackets; nothing without any."""
    return f" ({'; '.join(' and '.join(pair) for pair in pairs)})" if pairs else ""


class TermsChecks:
    """Collects the credits of images in `scratch`."""

    def __init__(self, manifest: Manifest, scratch: Scratch, findings: Findings) -> None:
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
            self._findings.add_row(
                "licence_missing", "states no licence for its image", file, number
            )
            return
        own = (row["source"], licence) not in self._of_sources or bool(creator or page)
        if own and not permits_release(licence):
            what = f"is under {licence!r}, which does not permit its release, or is not known"
            self._findings.add_row("licence_forbids", what, file, number)
        self._scratch.add_credit(
            Credit(licence, number, row["file_path"], creator, page, row["source"], own)
        )
        contrast = row.get("contrast") or {"anchor": None, "way": None}
        problem = self._derived.check(
            row["file_path"], licence, contrast["anchor"], contrast["way"]
        )
        if problem is not None:
            self._findings.add_row("licence_incompatible", problem, file, number)

    def check_totals(self) -> None:
        """Checks what the manifest counts."""
        found, stated = licence_statistics(self._scratch.credits()), self._manifest.statistics
        if not self._is_whole:
            return
        if found != stated.licences:
            message = f"{MANIFEST} counts other licences than the rows of the Parquet files have"
            self._findings.add("totals_differ", message, MANIFEST)
        self._check_terms()

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


_TASKS = tuple(task.value for task in RetrievalTask)
_SHOWN = 200
_FIRST_WORD = re.compile(r"[.\[]")
_TOTALS = ("images", "captions", "identities", "splits", "tasks")
_BESIDE_ROWS = (
    "tracklets",
    "audits",
    "licences",
    "contrasts",
    "choices",
    "agreement",
    "unused",
    "gates",
)
"""What rows do not tell, or other checks compare."""


class StatisticsChecks:
    """Counts rows of Parquet as the build does, with their words where `words`, and compares."""

    def __init__(self, manifest: Manifest, findings: Findings, *, words: bool) -> None:
        self._manifest = manifest
        self._findings = findings
        self._has_words = words
        self._within = (tiers_within(manifest.tier) if manifest.tier else ()) or (None,)
        self._counter = StatisticsCounter()

    def check(self, file: str, number: int, row: dict[str, Any], *, is_new: bool) -> None:
        """Checks the task and tier of a row, and counts it; rows come in order."""
        task, tier = row.get("task"), row.get("tier")
        if task is not None and task not in _TASKS:
            what = f"is for the task {task!r}; wanted one of {', '.join(_TASKS)}"
            self._findings.add_row("task_wrong", what, file, number)
            task = None
        if tier not in self._within:
            wanted = ", ".join(one for one in self._within if one) or "none"
            what = f"is of the tier {tier!r}; the release is of {wanted}"
            self._findings.add_row("tier_wrong", what, file, number)
            tier = tier if tier in TIERS else None
        if row["split"] not in SPLITS:
            return
        source, captions = row["source"], row["captions"]
        counted = CountedRow(
            row["split"],
            source,
            is_new,
            task and RetrievalTask(task),
            tier,
            len(captions),
            tuple(row["caption_authors"]),
            tuple(row["caption_origins"]),
            tuple(row["caption_reviewed"]),
        )
        self._counter.count(counted)
        if self._has_words:
            self._counter.count_words(source, map(str, captions))

    def check_totals(self) -> None:
        """Names each value that the manifest states otherwise than the rows.

        Where totals differ, or a source has no licence, other values would differ for that reason.
        """
        stated = self._manifest.statistics
        try:
            differing = [*_differing("", stated, self._found(stated))]
        except ValidationError:
            message = "the rows hold authors or origins of captions that no release has"
            self._findings.add("statistics_differ", message, MANIFEST)
            return
        for is_total, fault in ((True, "totals_differ"), (False, "statistics_differ")):
            for name, said, found in differing:
                if (_FIRST_WORD.split(name)[0] in _TOTALS) is is_total:
                    self._add(fault, f"{name} {said!s:.{_SHOWN}}; found {found!s:.{_SHOWN}}")
            if any(map(self._findings.has, ("totals_differ", "licence_missing"))):
                return
        one, contrasts = self._manifest, stated.contrasts
        editors = [editor for editor, _ in contrasts.editors] if contrasts else []
        found = is_demonstration(one.models, one.sources, (*one.trackers, *editors))
        if one.demonstration is not found:
            self._add("statistics_differ", f"demonstration {one.demonstration}; found {found}")
        if one.unreviewed is is_reviewed(stated):
            self._add("statistics_differ", f"unreviewed {one.unreviewed}, and counts otherwise")
        known = {f"{model.name}@{model.revision}".removesuffix("@") for model in one.models}
        for model in sorted({str(name).removesuffix("@") for name in self._counter.models} - known):
            message = f"{MANIFEST} does not list the model {model}, which wrote captions of rows"
            self._findings.add("statistics_differ", message, MANIFEST)

    def _found(self, stated: ReleaseStatistics) -> ReleaseStatistics:
        """What the rows make; what they do not tell is as stated."""
        granularities = {one.name: one.granularity for one in self._manifest.sources}
        if stated.contrasts is not None:  # coarse captions stand apart
            granularities = dict.fromkeys(granularities, Granularity.FINE)
        found = self._counter.result(granularities)
        left = {"rejected": stated.rewrites.rejected, "pending": stated.rewrites.pending}
        known = {name: getattr(stated, name) for name in _BESIDE_ROWS}
        known["rewrites"] = found.rewrites.model_copy(update=left)
        if stated.descriptions and found.descriptions:
            drafts = {"drafts": stated.descriptions.drafts}
            known["descriptions"] = found.descriptions.model_copy(update=drafts)
        if not self._has_words:
            words = {one.granularity: one for one in stated.granularities}
            known["vocabulary"] = stated.vocabulary
            known["words"] = stated.words.model_copy(update={"count": found.captions})
            known["granularities"] = tuple(
                words.get(one.granularity, one).model_copy(update={"images": one.images})
                for one in found.granularities
            )
        return found.model_copy(update=known)

    def _add(self, fault: str, what: str) -> None:
        self._findings.add(fault, f"{MANIFEST} says {what}", MANIFEST)


def _differing(name: str, stated: Any, found: Any) -> Iterator[tuple[str, Any, Any]]:
    """The values of a record that differ, by their names."""
    if stated == found:
        return
    if isinstance(stated, Record) and isinstance(found, Record):
        for field in type(stated).model_fields:
            ours, theirs = getattr(stated, field), getattr(found, field)
            yield from _differing(f"{name}.{field}" if name else field, ours, theirs)
        return
    ours, theirs = _by_name(stated), _by_name(found)
    differing = [one for one in {**ours, **theirs} if ours.get(one) != theirs.get(one)]
    for one in differing:
        yield f"{name}[{one}]", ours.get(one), theirs.get(one)
    if not differing:
        yield name, stated, found


def _by_name(records: Any) -> dict[str, Record]:
    """Records of a list by their first field, which names them; nothing of other values."""
    if not isinstance(records, tuple) or not all(isinstance(one, Record) for one in records):
        return {}
    return {str(next(iter(one))[1]): one for one in records}
