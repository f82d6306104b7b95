"""The contrastive images of a release: their types and captions, and their published lines."""

import hashlib
from pathlib import Path
from typing import Any

from release.contrast_counts import ContrastCounter
from release.files import digest_of_file
from release.findings import Findings
from release.manifest import MANIFEST
from release.published_ccd import CCD_LINES, ccd_line
from release.repeats import Repeats
from release.scratch import Scratch
from schemas.release import Manifest
from schemas.taxonomy import DifferenceType

_TYPES = tuple(kind.value for kind in DifferenceType)
_WAYS = ("search", "edit", None)
_TEXTS = ("anchor", "anchor_entity_id")


class ContrastChecks:
    """Counts rows of Parquet and names those that cannot be so, against what the manifest states.

    That anchors stand where they should is for `release.verify.order`.
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
