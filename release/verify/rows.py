"""Checks the rows of a release: Parquet and images against each other, and derived files.

Rows are counted as in the build. Files of rows are rendered again and compared, as are the
manifest's totals.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from loupe.release.changes import value_changes
from loupe.release.facts import form_of
from loupe.release.files import ReleasedFile, is_plain
from loupe.release.findings import Findings
from loupe.release.manifest import MANIFEST, MAX_CHARACTERS
from loupe.release.model_use import is_demonstration
from loupe.release.row_files import (
    RowBatch,
    RowsText,
    read_parquet_batches,
    read_parquet_rows,
    texts_of,
)
from loupe.release.rows import (
    SPLITS,
    ReleasedTerms,
    ReleaseRow,
    RowFaults,
    RowKey,
    number_in,
)
from loupe.release.rows import shown as _shown
from loupe.release.scratch import Scratch
from loupe.release.statistics import ExternalCounts, ReleaseAccumulator, is_reviewed
from loupe.release.terms import terms_of, unpermitted
from loupe.release.verify.images import (
    ContaminationChecks,
    DecodingOptions,
    ImageCheck,
    check_images,
    found_leaks,
)
from loupe.release.verify.lineage import LineageChecks
from loupe.schemas.licences import permits_release
from loupe.schemas.processes import ordered_map, read_ahead
from loupe.schemas.release import Manifest, ReleaseStatistics
from loupe.schemas.taxonomy import CANDIDATES, tiers_within

_Row = dict[str, Any]


class _OrderChecks:
    """Checks the order of Parquet rows; `has_groups` if they may be contrastive.

    In such a release each image has its own id, and contrastive images follow their anchor.
    """

    def __init__(self, *, has_groups: bool) -> None:
        self._has_groups = has_groups
        self._id_of: dict[bytes, int] = {}
        self._last_id = 0
        self._last: tuple[RowKey, tuple[Any, ...]] | None = None
        self._anchor: tuple[str, str, RowKey] | None = None  # its file, split and key

    def faults(self, row: _Row) -> Iterator[tuple[str, str]]:
        """The faults of the next row: code, and words."""
        wanted, rule = self._wanted_id(row)
        self._last_id = row["id"]
        if row["id"] != wanted:
            what = (
                f"gives {row['source']}/{row['identity']} the id {row['id']}; "
                f"expected {wanted}: {rule}, counted from 1"
            )
            yield "id_wrong", what
        if row["split"] not in SPLITS:
            return
        key = RowKey.of(row["split"], row["source"], row["identity"], row["source_file_path"])
        place: tuple[RowKey, tuple[Any, ...]] = (key, ())
        if (contrast := row.get("contrast")) is None:
            self._anchor = row["file_path"], row["split"], key
        elif self._anchor is None or contrast["anchor"] != self._anchor[0]:
            what = f"differs from {contrast['anchor']!r}, which is not the anchor that it follows"
            yield "anchor_missing", what
        else:
            _, split, anchor_key = self._anchor
            place = anchor_key, key
            if split != row["split"]:
                what = f"is in the split {row['split']!r}, its anchor in {split!r}"
                yield "anchor_in_other_split", what
        if self._last is not None and place <= self._last:
            fault = "row_duplicated" if place == self._last else "row_out_of_order"
            what = "shows the image of the row before" if place == self._last else "is misplaced"
            yield fault, f"{what} ({row['source']}, {row['source_file_path']!r})"
        self._last = place

    def _wanted_id(self, row: _Row) -> tuple[int, str]:
        """The right id of a row, and the rule that it follows from."""
        if self._has_groups:
            return self._last_id + 1, "each image has its own id"
        name = f"{row['source']}/{row['identity']}".encode()
        digest = hashlib.blake2b(name, digest_size=12).digest()
        wanted = self._id_of.get(digest, self._last_id + 1)
        self._id_of[digest] = row["id"]
        return wanted, "one identity, one id"


_COUNTED = {
    *("statistics", "leaks", "terms", "videos", "demonstration", "unreviewed", "entities_sha256"),
}
"""Fields of the manifest that follow from the rows."""
_STATED = ("audits", "tracklets", "choices", "agreement", "judges", "unused", "gates", "originals")
"""Statistics that do not."""
_FAULTS = (
    ("entities_sha256", "entities_differ"),
    ("statistics.repeats.image", "images_repeated"),
    ("statistics.repeats.caption", "captions_repeated"),
    *(
        (f"statistics.{name}", "totals_differ")
        for name in ("images", "captions", "identities", "splits", "tasks", "licences", "contrasts")
    ),
    ("videos", "totals_differ"),
    ("terms", "terms_differ"),
    ("leaks", "leaks_differ"),
    ("", "statistics_differ"),
)
"""The fault code of a difference, by the beginning of the name of what differs."""
_SHOWN = 200


class RowChecks:
    """Reads all rows once and checks each; `shards` are in the order of rows.

    Temporary data are in `scratch`.
    """

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        shards: list[str],
        findings: Findings,
        scratch: Scratch,
        lineage: LineageChecks,
        *,
        decode: bool,
    ) -> None:
        self._folder = folder
        self._manifest = manifest
        self._shards = shards
        self._findings = findings
        self._scratch = scratch
        self._lineage = lineage
        self._decode = decode
        self._form = form_of(manifest)
        self._tiers = (tiers_within(manifest.tier) if manifest.tier else ()) or (None,)
        self._own_terms = {(source.name, source.licence) for source in manifest.sources}
        self._videos = {video.entity_id: video for video in manifest.videos}
        several = len(manifest.statistics.splits) > 1 or manifest.leaks is not None
        self._tally = ReleaseAccumulator(scratch, self._form, has_splits=several, words=decode)
        self._contamination = ContaminationChecks(manifest, findings, decode=decode)
        self._of_images = DecodingOptions(
            decode, several and decode, self._contamination.needs_looks
        )
        self._order = _OrderChecks(has_groups=self._form.contrasts)
        self._texts = texts_of(manifest.dataset, self._form)
        self._digests = {path: hashlib.sha256() for path in self._texts}
        self._is_whole = True
        self._is_read = True
        self._last_number = 0
        self._listed_images = 0

    def run(self) -> None:
        """Check everything about the rows."""
        sources = frozenset(source.name for source in self._manifest.sources)
        for shard in self._shards:
            faults = RowFaults(shard, sources, self._tiers)
            for number, row, image in self._numbered(shard):
                self._check_row(shard, number, row, image, faults)
        if not self._is_read:
            return
        if self._is_whole:
            self._check_texts()
            self._check_totals()
        self._check_images()
        self._contamination.run()

    def _embedded_rows(self, shard: str) -> Iterator[tuple[_Row, ImageCheck]]:
        """The rows of a Parquet file, each with the check of its image.

        The lineage of a batch is checked as it is read.
        """
        if not is_plain(self._folder / shard):  # a link, or a file that reading might never end of
            raise FileNotFoundError(shard)

        def checked(
            read: tuple[RowBatch, dict[str, ReleasedFile]],
        ) -> list[tuple[_Row, ImageCheck]]:
            return list(zip(read[0].rows, check_images(*read, self._of_images), strict=True))

        batches = read_ahead(read_parquet_batches(self._folder / shard))
        read = (
            (batch, self._scratch.listed_among([row["file_path"] for row in batch.rows]))
            for batch in batches
        )
        # without decoding, threads have no advantage, because there is no waiting
        for rows in ordered_map(checked, read) if self._decode else map(checked, read):
            self._lineage.check_rows(shard, [row for row, _ in rows])
            yield from rows

    def _numbered(self, shard: str) -> Iterator[tuple[int, _Row, ImageCheck]]:
        """The numbered rows of a file, up to a fault after which checks make no sense."""
        try:
            for index, (row, image) in enumerate(self._embedded_rows(shard), 1):
                number = number_in(row.get("file_path"))
                if number is None:
                    what = f"names its image {row.get('file_path')!r}; expected 'images/NUMBER.jpg'"
                    self._report("row_unnumbered", what, shard, index)
                elif number < self._last_number:
                    what = f"comes after row {self._last_number}; the rest was not compared"
                    self._report("row_out_of_order", what, shard, number)
                    self._is_read = False
                    return
                elif number == self._last_number:
                    self._report("row_duplicated", "is there twice", shard, number)
                else:
                    missed = range(self._last_number + 1, number) if self._is_read else ()
                    for missing in missed:
                        self._findings.add_row("row_missing", "is missing", shard, missing)
                    self._last_number = number
                    yield number, row, image
        except FileNotFoundError:  # reported already as a missing file
            self._is_read = False
        except (OSError, ValueError) as error:
            self._is_read = False
            self._add_unreadable(shard, error)

    def _add_unreadable(self, file: str, error: OSError | ValueError) -> None:
        why = f" ({error.strerror})" if isinstance(error, OSError) else f": {error}"
        if not self._findings.hides(file):
            self._findings.add("rows_unreadable", f"{file} cannot be read{why}", file)

    def _report(self, fault: str, what: str, file: str, number: int) -> None:
        self._is_whole = False
        self._findings.add_row(fault, what, file, number)

    def _check_row(
        self, shard: str, number: int, row: _Row, image: ImageCheck, faults: RowFaults
    ) -> None:
        if image.problem:
            self._findings.add_row("image_wrong", image.problem, shard, number)
        if not self._form.fits(row):
            what = f"has other columns than {MANIFEST} implies"
            self._report("row_malformed", what, shard, number)
            self._is_read = False
            return
        listed = image.listed
        self._listed_images += listed is not None
        if listed is not None and listed.entity_id != row["image_entity_id"]:
            what = (
                f"is of the image {row['image_entity_id']}; {MANIFEST} lists {row['file_path']} "
                f"as {listed.entity_id}"
            )
            self._findings.add_row("entity_differs", what, shard, number)
        wrong = [*faults.all(number, row)]
        wrong += [] if wrong else _caption_faults(row)
        for fault, what in wrong:
            self._report(fault, what, shard, number)
        if self._is_read and not any(fault == "row_malformed" for fault, _ in wrong):
            for fault, what in self._order.faults(row):
                self._findings.add_row(fault, what, shard, number)
        if not wrong:
            self._add(shard, number, row, image)

    def _add(self, shard: str, number: int, row: _Row, image: ImageCheck) -> None:
        """Count a sound row."""
        if crop := row["crop"]:
            video = self._videos.get(crop["video_entity_id"])
            stated = video and (video.file_path, video.sha256)
            if stated != (crop["video"], crop["video_sha256"]):
                what = (
                    f"was cut out of {crop['video']!r}; {MANIFEST} lists no such video, or another "
                    f"path or digest"
                )
                self._findings.add_row("video_unknown", what, shard, number)
        terms = self._terms(row)
        if terms.own and not permits_release(terms.licence):
            what = f"is under {terms.licence!r}, which does not permit its release, or is not known"
            self._findings.add_row("licence_forbids", what, shard, number)
        counted = ReleaseRow.of(row, terms)
        problem = self._tally.add(counted, image.perceptual_hash)
        if problem is not None:
            self._findings.add_row("licence_incompatible", problem, shard, number)
        self._contamination.add(counted, image.look)
        for path, text in self._texts.items():
            self._digests[path].update(text.row(row, is_first=number == 1))

    def _terms(self, row: _Row) -> ReleasedTerms:
        """The terms of an image; without columns for them, those of its source."""
        licence, creator, page = map(row.get, ("licence", "creator", "source_url"))
        if licence is None:
            return ReleasedTerms("", None, None, own=False)
        own = (row["source"], licence) not in self._own_terms or bool(creator or page)
        return ReleasedTerms(licence, creator, page, own)

    def _check_images(self) -> None:
        if self._scratch.count_listed_images() != self._listed_images:
            for path in self._scratch.images_without_row(
                row["file_path"] for row in self._read_rows(["file_path"])
            ):
                message = f"{MANIFEST} lists {path} as an image, and no row shows it"
                self._findings.add("image_without_row", message, path)

    def _read_rows(self, columns: list[str] | None = None) -> Iterator[_Row]:
        for shard in self._shards:
            yield from read_parquet_rows(self._folder / shard, columns)

    def _check_totals(self) -> None:
        """Report totals of the manifest that differ from the rows.

        If totals differ, other values are not compared, because they would differ, too.
        """
        stated = self._manifest
        if not stated.sources:
            self._findings.add("licence_missing", f"{MANIFEST} names no source", MANIFEST)
            return
        values = (one.model_dump(mode="json", include=_COUNTED) for one in (stated, self._found()))
        faults = defaultdict[str, list[str]](list)
        for one in value_changes("", *values):
            fault = next(code for start, code in _FAULTS if one.field.startswith(start))
            what = f"{one.field} {_short(one.before)}; the rows make it {_short(one.after)}"
            faults[fault].append(f"{MANIFEST} says {what}")
        if "totals_differ" in faults:
            faults.pop("statistics_differ", None)
        if self._findings.has("row_missing"):
            faults = defaultdict(list, totals_differ=faults["totals_differ"])
        for fault, messages in faults.items():
            for message in messages:
                self._findings.add(fault, message, MANIFEST)
        known = {f"{model.name}@{model.revision}".removesuffix("@") for model in stated.models}
        wrote = {str(name).removesuffix("@") for name in self._tally.statistics.models}
        for model in sorted(wrote - known):
            message = f"{MANIFEST} does not list the model {model}, which wrote captions of rows"
            self._findings.add("statistics_differ", message, MANIFEST)

    def _found(self) -> Manifest:
        """The manifest computed from the rows; other values are as stated."""
        stated = self._manifest
        statistics = self._statistics(stated.statistics)
        editors = statistics.contrasts.editors if statistics.contrasts else ()
        makers = (*stated.trackers, *(editor for editor, _ in editors))
        permitted = {one.source: one.basis for one in stated.terms.permissions}
        held = self._tally.held(stated.sources, statistics)
        for one in unpermitted(held, permitted):
            if not one.own:
                message = (
                    f"{MANIFEST}: {one.images:,} images are under the terms of their source, "
                    f"{one.source!r}: {one.licence!r} is an unknown licence or forbids their "
                    f"release, and no permission is stated"
                )
                self._findings.add("licence_forbids", message, MANIFEST)
        self._tally.add_entities(stated.stated_entities)
        counted = {
            "statistics": statistics,
            "leaks": found_leaks(stated, self._tally.splits, self._findings, decode=self._decode),
            "terms": terms_of(held, permitted),
            "videos": self._tally.counted(stated.videos),
            "demonstration": is_demonstration(stated.models, stated.sources, makers),
            "unreviewed": not is_reviewed(statistics),
            "entities_sha256": self._tally.entities_sha256,
        }
        return stated.model_copy(update=counted)

    def _statistics(self, stated: ReleaseStatistics) -> ReleaseStatistics:
        elsewhere = ExternalCounts()
        if stated.contrasts is not None:
            names = ExternalCounts._fields
            elsewhere = ExternalCounts(*(getattr(stated.contrasts, name) for name in names))
        facts = {name: getattr(stated, name) for name in _STATED}
        found = self._tally.result(self._manifest.sources, elsewhere, **facts)
        left = {"rejected": stated.rewrites.rejected, "pending": stated.rewrites.pending}
        known: dict[str, Any] = {"rewrites": found.rewrites.model_copy(update=left)}
        if stated.descriptions and found.descriptions:
            drafts = {"drafts": stated.descriptions.drafts}
            known["descriptions"] = found.descriptions.model_copy(update=drafts)
        if not self._decode:  # words are not counted, because that takes as long as a digest
            words = {one.granularity: one for one in stated.granularities}
            known["vocabulary"] = stated.vocabulary
            known["words"] = stated.words.model_copy(update={"count": found.captions})
            known["granularities"] = tuple(
                words.get(one.granularity, one).model_copy(update={"images": one.images})
                for one in found.granularities
            )
        return found.model_copy(update=known)

    def _check_texts(self) -> None:
        """Check that files of rows equal the Parquet files, byte for byte."""
        for path, text in self._texts.items():
            self._digests[path].update(text.ending)
            listed = self._scratch.listed_file(path)
            is_same = listed is not None and listed.sha256 == self._digests[path].hexdigest()
            if is_same and not self._findings.concerns(path):
                continue
            if not is_plain(self._folder / path):  # reported already
                continue
            try:
                number, what = self._first_difference(path, text)
            except OSError as error:
                self._add_unreadable(path, error)
            else:
                self._findings.add_row("rows_differ", what, path, number)

    def _first_difference(self, path: str, text: RowsText) -> tuple[int, str]:
        """The number of the first row that differs in a file, and the difference."""
        with (self._folder / path).open("rb") as file:
            lines = iter(lambda: file.readline(MAX_CHARACTERS), b"")
            bare = (line.strip().removesuffix(b",") for line in lines)
            said = (line for line in bare if line not in (b"[", b"]", b"[]"))
            for number, (ours, row) in enumerate(zip_longest(said, self._read_rows()), 1):
                wanted = text.line(row) if row else None
                if ours != wanted:
                    return number, _difference(ours, wanted)
        return 1, "is not laid out as in the file generated from Parquet"


def _caption_faults(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    captions, is_candidate = row["captions"], row.get("tier") == CANDIDATES
    if not captions and not is_candidate:
        yield "captions_missing", "has no captions"
    elif captions and is_candidate:
        what = f"has captions; images of tier {CANDIDATES} are candidates without any"
        yield "captions_unexpected", what
    elif not all(map(str.strip, captions)):
        yield "caption_empty", "has an empty caption"


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


def _short(value: Any) -> str:
    return f"{value!s:.{_SHOWN}}"
