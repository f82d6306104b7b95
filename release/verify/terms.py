"""The licences of a release's images: known, permitted, counted, and named in its attribution."""

from collections import Counter
from pathlib import Path
from typing import Any

from release.findings import Findings
from release.manifest import MANIFEST
from release.scratch import Credit, Scratch
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
from schemas.licences import permits_release
from schemas.release import Manifest


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
