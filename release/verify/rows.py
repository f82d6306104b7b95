"""Checks the rows of a release: their form, their images' entries in the manifest, their licences.

The files made of the rows (`<dataset>.json`, `ccd.jsonl`) are rendered again and compared. Images
are not read here; see `loupe.release.verify.images`.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from loupe.release.card.terms import (
    DerivedTerms,
    LicensedItem,
    are_words_of_source,
    held_by_sources,
    terms_of,
    unpermitted,
)
from loupe.release.format.files import is_plain
from loupe.release.format.findings import Findings
from loupe.release.format.manifest import MANIFEST, MAX_CHARACTERS
from loupe.release.format.row_files import RowsText, read_parquet_pages, read_parquet_rows, texts_of
from loupe.release.format.rows import (
    BESIDE_IMAGES,
    RowFaults,
    columns_of,
    form_of,
    number_in,
)
from loupe.release.format.rows import shown as _shown
from loupe.release.format.scratch import Scratch
from loupe.release.verify.lineage import LineageChecks
from loupe.schemas.licences import permits_release
from loupe.schemas.release import Credit, Manifest, ReleasedFile
from loupe.schemas.taxonomy import tiers_within

_Row = dict[str, Any]


class RowChecks:
    """Checks all rows in one pass over the Parquet files; `are_sound` until one has a fault."""

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        shards: list[str],
        scratch: Scratch,
        findings: Findings,
        lineage: LineageChecks,
    ) -> None:
        self._folder = folder
        self._manifest = manifest
        self._shards = shards
        self._scratch = scratch
        self._findings = findings
        self._lineage = lineage
        self._form = form_of(manifest)
        self._names = [one.name for one in columns_of(self._form) if one.name != "image"]
        self._read_columns = [*BESIDE_IMAGES, *(one.name for one in self._form.own)]
        self._licences = LicenceChecks(manifest, scratch, findings)
        self._texts = texts_of(manifest.dataset, self._form)
        self._digests = {path: hashlib.sha256() for path in self._texts}
        self._rows = 0
        self._listed_images = 0
        self._are_all_read = True
        self.are_sound = True

    def run(self) -> None:
        """Report every problem of the rows and of the files made of them."""
        for shard in self._shards:
            if not self._check_shard(shard):
                self._are_all_read = False
        if not self._are_all_read:
            self.are_sound = False
            return
        if self._rows != self._manifest.statistics.images:
            message = (
                f"{MANIFEST} says statistics.images {self._manifest.statistics.images:,}; there "
                f"are {self._rows:,} rows"
            )
            self._findings.add("totals_differ", message, MANIFEST)
        self._check_unshown_images()
        if self.are_sound:
            self._check_texts()
            self._licences.check_totals()

    def _check_shard(self, shard: str) -> bool:
        """Check the rows of a Parquet file; False if it cannot be read to its end."""
        if not is_plain(self._folder / shard):
            return False  # reported with the files
        sources = frozenset(source.name for source in self._manifest.sources)
        tiers = tiers_within(self._manifest.tier) if self._manifest.tier else (None,)
        faults = RowFaults(shard, sources, tiers)
        try:
            for page in read_parquet_pages(self._folder / shard, self._read_columns):
                self._check_page(shard, page, faults)
        except (OSError, ValueError) as error:
            self._add_unreadable(shard, error)
            return False
        return True

    def _check_page(self, shard: str, page: list[_Row], faults: RowFaults) -> None:
        if not self._form.fits(page[0]):
            raise ValueError(f"its columns must be {self._names}")
        listed = self._scratch.listed_among([row["file_path"] for row in page])
        sound = []
        for row in page:
            is_sound = self._check_row(shard, row, listed.get(row["file_path"]), faults)
            if is_sound:
                sound.append(row)
        self._lineage.check_rows(shard, sound)

    def _check_row(
        self, shard: str, row: _Row, listed: ReleasedFile | None, faults: RowFaults
    ) -> bool:
        """Check a row by itself; False if it has a fault."""
        self._rows += 1
        number = number_in(row["file_path"])
        wrong = list(faults.all(number, row))
        if number is not None and number != self._rows:
            wrong += self._faults_of_place(shard, number)
        self._listed_images += listed is not None
        if not wrong:
            wrong += _differences_from(listed, row)
        for fault, what in wrong:
            self._findings.add_row(fault, what, shard, number or self._rows)
        if wrong:
            self.are_sound = False
            return False
        for fault, what in self._licences.faults(row, self._rows):
            self._findings.add_row(fault, what, shard, self._rows)
        for path, text in self._texts.items():
            self._digests[path].update(text.row(row, is_first=self._rows == 1))
        return True

    def _faults_of_place(self, shard: str, number: int) -> Iterator[tuple[str, str]]:
        """The fault of a row that does not follow the one before; the next follows this one."""
        expected, self._rows = self._rows, number
        if number < expected:
            yield "row_out_of_order", f"is out of order, or there twice; expected row {expected}"
            return
        self.are_sound = False
        if self._are_all_read:  # else it is in another file
            self._findings.add_row("row_missing", "is missing", shard, expected)

    def _check_unshown_images(self) -> None:
        """Report files that are listed as images, but shown by no row."""
        if self._listed_images == self._scratch.count_listed_images():
            return
        shown = (row["file_path"] for row in self._read_rows(["file_path"]))
        for path in self._scratch.images_without_row(shown):
            message = f"{MANIFEST} lists {path} as an image, and no row shows it"
            self._findings.add("image_without_row", message, path)

    def _read_rows(self, columns: list[str]) -> Iterator[_Row]:
        for shard in self._shards:
            yield from read_parquet_rows(self._folder / shard, columns)

    def _add_unreadable(self, file: str, error: OSError | ValueError) -> None:
        why = f" ({error.strerror})" if isinstance(error, OSError) else f": {error}"
        self._findings.add("rows_unreadable", f"{file} cannot be read{why}", file)

    def _check_texts(self) -> None:
        """Check that the files made of rows are what the Parquet files give, byte for byte."""
        for path, text in self._texts.items():
            self._digests[path].update(text.ending)
            listed = self._scratch.listed_file(path)
            is_same = listed is not None and listed.sha256 == self._digests[path].hexdigest()
            if is_same and not self._findings.concerns(path):
                continue
            if not is_plain(self._folder / path):
                continue  # reported with the files
            try:
                number, what = self._first_difference(path, text)
            except OSError as error:
                self._add_unreadable(path, error)
            else:
                self._findings.add_row("rows_differ", what, path, number)

    def _first_difference(self, path: str, text: RowsText) -> tuple[int, str]:
        """The number of the first row that differs in a file, and the difference."""
        with (self._folder / path).open("rb") as file:
            found = _lines_of_rows(iter(lambda: file.readline(MAX_CHARACTERS), b""))
            rows = self._read_rows(self._names)
            for number, (ours, row) in enumerate(zip_longest(found, rows), 1):
                wanted = text.line(row) if row else None
                if ours != wanted:
                    return number, _difference(ours, wanted)
        return 1, "is not laid out as in the file generated from Parquet"


class LicenceChecks:
    """Checks that the terms of every image permit its release, and collects the credits."""

    def __init__(self, manifest: Manifest, scratch: Scratch, findings: Findings) -> None:
        self._manifest = manifest
        self._scratch = scratch
        self._findings = findings
        self._has_terms = form_of(manifest).terms
        self._of_sources = {(source.name, source.licence) for source in manifest.sources}
        self._licensed: Counter[tuple[str, str, bool]] = Counter()
        self._derived = DerivedTerms()

    def faults(self, row: Mapping[str, Any], number: int) -> Iterator[tuple[str, str]]:
        """The faults of the next row's terms; its credit is stored in the scratch."""
        if not self._has_terms:
            return
        licence, creator, page = row["licence"], row["creator"], row["source_url"]
        source, path = row["source"], row["file_path"]
        of_source = (source, licence) in self._of_sources
        own = not of_source or bool(creator or page)
        self._scratch.add_credit(Credit(licence, number, path, creator, page, source, own))
        own = own and not are_words_of_source(licence, of_source=of_source)
        self._licensed[licence, source, own] += 1
        if own and not permits_release(licence):
            what = f"is under {licence!r}, which does not permit its release, or is not known"
            yield "licence_forbids", what
        contrast = row.get("contrast")
        anchor, method = (contrast["anchor"], contrast["method"]) if contrast else (None, None)
        problem = self._derived.check(path, licence, anchor, method)
        if problem is not None:
            yield "licence_incompatible", problem

    def check_totals(self) -> None:
        """Check the terms of the release, after all rows were added."""
        stated = self._manifest
        if not stated.sources:
            self._findings.add("licence_missing", f"{MANIFEST} names no source", MANIFEST)
            return
        held = [LicensedItem(*key, images) for key, images in sorted(self._licensed.items())]
        if not self._has_terms:
            held = held_by_sources(stated.sources, stated.statistics.sources)
        permitted = {one.source: one.basis for one in stated.terms.permissions}
        for one in unpermitted(held, permitted):
            if not one.own:  # images with terms of their own are reported row by row
                message = (
                    f"{MANIFEST}: {one.images:,} images are under the terms of their source, "
                    f"{one.source!r}: {one.licence!r} is an unknown licence or forbids their "
                    f"release, and no permission is stated"
                )
                self._findings.add("licence_forbids", message, MANIFEST)
        if terms_of(held, permitted) != stated.terms:
            message = f"{MANIFEST} states other terms than the licences of its images imply"
            self._findings.add("terms_differ", message, MANIFEST)


def _differences_from(listed: ReleasedFile | None, row: _Row) -> Iterator[tuple[str, str]]:
    """How a row contradicts the manifest's entry of its image; None if it has none."""
    if listed is None:
        what = f"shows {_shown(row['file_path'])}, which {MANIFEST} does not list"
        yield "image_unlisted", what
        return
    if listed.entity_id != row["image_entity_id"]:
        what = (
            f"is of the image {row['image_entity_id']}; {MANIFEST} lists {listed.path} as "
            f"{listed.entity_id}"
        )
        yield "entity_differs", what
    if listed.sha256 != row["sha256"]:
        what = (
            f"says that {listed.path} has the SHA-256 {row['sha256']}; {MANIFEST} lists "
            f"{listed.sha256}"
        )
        yield "image_wrong", what


def _lines_of_rows(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a file of rows without what surrounds them."""
    for line in lines:
        bare = line.strip().removesuffix(b",")
        if bare not in (b"[", b"]", b"[]"):
            yield bare


def _difference(ours: bytes | None, wanted: bytes | None) -> str:
    """The first difference of a line from the expected one."""
    if ours is None:
        return "is missing"
    if wanted is None:
        return "is in no Parquet file"
    try:
        found = json.loads(ours)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        return "is not a row"
    right = json.loads(wanted)
    for name in ("file_path", *right, *found):
        if found.get(name) != right.get(name):
            return f"says {name} {_shown(found.get(name))}; Parquet says {_shown(right.get(name))}"
    return "has another format than expected"
