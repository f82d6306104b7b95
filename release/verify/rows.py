"""The rows of a release: JSON, Parquet and images against each other, and against the manifest."""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from release.files import is_plain
from release.findings import Findings
from release.json_rows import read_json_rows
from release.manifest import MANIFEST
from release.parquet_rows import RowBatch, read_parquet_batches, read_parquet_rows
from release.rows import SPLITS, RowKey, published_row
from release.scratch import ListedImage, Scratch
from release.threads import ordered_map, read_ahead
from release.tiers import CANDIDATES
from release.verify.images import NO_IMAGE, ImageCheck, ImageChecks
from release.verify.leaks import ContaminationChecks, LeakChecks
from release.verify.statistics import ContrastChecks, StatisticsChecks, TermsChecks
from schemas.release import Manifest


class _Anchor(NamedTuple):
    """The last image that was not contrastive."""

    file_path: str
    split: str
    key: RowKey


class _OrderChecks:
    """Follows rows of Parquet; `has_groups` where they may be contrastive.

    In such a release each image has an id of its own, and contrastive images follow their anchor.
    """

    def __init__(self, findings: Findings, *, has_groups: bool) -> None:
        self._findings = findings
        self._has_groups = has_groups
        self._id_of: dict[bytes, int] = {}
        self._last_id = 0
        self._last: tuple[RowKey, tuple[Any, ...]] | None = None
        self._anchor: _Anchor | None = None

    def check(self, file: str, number: int, row: dict[str, Any]) -> bool:
        """Whether the row is the first of its identity."""
        is_new = self._check_id(file, number, row)
        if row["split"] not in SPLITS:
            return is_new
        place = self._place(file, number, row)
        if self._last is not None and place <= self._last:
            fault = "row_duplicated" if place == self._last else "row_out_of_order"
            what = "shows the image of the row before" if place == self._last else "is misplaced"
            details = f"{what} ({row['source']}, {row['source_file_path']!r})"
            self._findings.add_row(fault, details, file, number)
        self._last = place
        return is_new

    def _check_id(self, file: str, number: int, row: dict[str, Any]) -> bool:
        if self._has_groups:
            wanted, is_new, rule = self._last_id + 1, True, "each image has its own id"
        else:
            name = f"{row['source']}/{row['identity']}".encode()
            digest = hashlib.blake2b(name, digest_size=12).digest()
            is_new, rule = digest not in self._id_of, "one identity, one id"
            wanted = self._id_of.get(digest, self._last_id + 1)
            self._id_of[digest] = row["id"]
        self._last_id = row["id"]
        if row["id"] != wanted:
            what = (
                f"gives {row['source']}/{row['identity']} the id {row['id']}; "
                f"wanted {wanted}: {rule}, counted from 1"
            )
            self._findings.add_row("id_wrong", what, file, number)
        return is_new

    def _place(self, file: str, number: int, row: dict[str, Any]) -> tuple[RowKey, tuple[Any, ...]]:
        """What a row is ordered by: its own key, or its anchor's and then its own."""
        key = RowKey.of(row["split"], row["source"], row["identity"], row["source_file_path"])
        contrast = row.get("contrast")
        if contrast is None:
            self._anchor = _Anchor(row["file_path"], row["split"], key)
            return key, ()
        anchor = self._anchor
        if anchor is None or contrast["anchor"] != anchor.file_path:
            what = f"differs from {contrast['anchor']!r}, which is not the anchor that it follows"
            self._findings.add_row("anchor_missing", what, file, number)
            return key, ()
        if anchor.split != row["split"]:
            what = f"is in the split {row['split']!r}, its anchor in {anchor.split!r}"
            self._findings.add_row("anchor_in_other_split", what, file, number)
        return anchor.key, key


_PARQUET = "Parquet"
_PER_CAPTION = ("caption_entity_ids", "caption_authors", "caption_origins", "caption_reviewed")
_MAY_BE_ABSENT = {"image", "crop", "task", "tier", "contrast", "creator", "source_url"}
_NUMBERED = re.compile(r"images/(?:[1-9][0-9]*_)?([1-9][0-9]*)\.[a-z]+")

_Row = dict[str, Any]
_Reader = Callable[[Path], Iterator[tuple[_Row, ImageCheck]]]


class _Numbered(NamedTuple):
    """A row, the number that its `file_path` says, the file that it was read from, its image."""

    number: int
    file: str
    row: _Row
    image: ImageCheck = NO_IMAGE


class RowChecks:
    """Reads all rows once, side by side, and checks each; `shards` are in the order of rows.

    What must be remembered of them lies in `scratch`.
    """

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        shards: list[str],
        findings: Findings,
        scratch: Scratch,
        *,
        decode: bool,
        threads: int,
    ) -> None:
        self._folder = folder
        self._manifest = manifest
        self._shards = shards
        self._findings = findings
        self._scratch = scratch
        self._decode = decode
        self._threads = threads
        self._json = f"{manifest.dataset}.json"
        self._licensed = {source.name for source in manifest.sources}
        self._videos = {video.entity_id: video for video in manifest.videos}
        self._seen_videos: Counter[str] = Counter()
        self._people: dict[str, set[int]] = {}
        self._leaks = LeakChecks(manifest, findings, decode=decode)
        self._contamination = ContaminationChecks(manifest, findings, decode=decode)
        self._images = ImageChecks(
            decode=decode,
            needs_hashes=self._leaks.needs_hashes,
            needs_looks=self._contamination.needs_looks,
        )
        self._entities = hashlib.sha256()
        self._contrasts = ContrastChecks(folder, manifest, scratch, findings)
        self._terms = TermsChecks(manifest, scratch, findings)
        self._statistics = StatisticsChecks(manifest, findings, words=decode)
        self._order = _OrderChecks(findings, has_groups=self._contrasts.is_needed)
        self._unread: set[str] = set()
        self._last_number = 0
        self._listed_images = 0

    def run(self) -> None:
        """Checks everything that concerns rows."""
        published = self._numbered(self._json, self._json, _published_rows)
        embedded = chain.from_iterable(
            self._numbered(shard, _PARQUET, self._embedded_rows) for shard in self._shards
        )
        for number, ours, theirs in _side_by_side(published, embedded):
            self._check(number, ours, theirs)
        if _PARQUET not in self._unread:
            self._check_totals()
            self._leaks.run()
            self._contamination.run()

    def _embedded_rows(self, shard: Path) -> Iterator[tuple[_Row, ImageCheck]]:
        """The rows of a Parquet file, each with what was found of its image."""
        read = ((batch, self._listed(batch)) for batch in read_ahead(read_parquet_batches(shard)))
        if self._decode:
            checked = ordered_map(self._checked, read, self._threads)
        else:  # nothing to wait for, so that threads would only wait for each other
            checked = map(self._checked, read)
        return chain.from_iterable(checked)

    def _listed(self, batch: RowBatch) -> dict[str, ListedImage]:
        return self._scratch.listed_among([row["file_path"] for row in batch.rows])

    def _checked(
        self, read: tuple[RowBatch, dict[str, ListedImage]]
    ) -> list[tuple[_Row, ImageCheck]]:
        return list(zip(read[0].rows, self._images.check(*read), strict=True))

    def _read(self, file: str, read: _Reader) -> Iterator[tuple[_Row, ImageCheck]]:
        if not is_plain(self._folder / file):  # a link, or what reading might never end of
            raise FileNotFoundError(file)
        return read(self._folder / file)

    def _numbered(self, file: str, kind: str, read: _Reader) -> Iterator[_Numbered]:
        """The rows of a file, up to where it makes no sense any more.

        A row is given when the next one is known: that a file ends there is known before it is
        compared on.
        """
        held: _Numbered | None = None
        last = 0
        try:
            for index, (row, image) in enumerate(self._read(file, read), 1):
                name = row.get("file_path")
                match = _NUMBERED.fullmatch(name) if isinstance(name, str) else None
                if match is None:
                    what = f"names its image {name!r}; wanted 'images/NUMBER.jpg'"
                    self._report("row_unnumbered", what, _Numbered(index, file, row))
                    continue
                at = _Numbered(int(match[1]), file, row, image)
                if at.number < last:
                    what = f"comes after row {last}; the rest of the file was not compared"
                    self._report("row_out_of_order", what, at)
                    self._unread.add(kind)
                    break
                if at.number == last:
                    self._report("row_duplicated", "is there twice", at)
                    continue
                if held is not None:
                    yield held
                held, last = at, at.number
        except FileNotFoundError:
            self._unread.add(kind)  # named already as a missing file
        except OSError as error:
            self._leave(kind, file, f" ({error.strerror})")
        except ValueError as error:
            self._leave(kind, file, f": {error}")
        if held is not None:
            yield held

    def _leave(self, kind: str, file: str, why: str) -> None:
        """Goes on without the rest of a file."""
        self._unread.add(kind)
        if not self._findings.hides(file):
            self._findings.add("rows_unreadable", f"{file} cannot be read{why}", file)

    def _report(self, fault: str, what: str, at: _Numbered) -> None:
        self._findings.add(fault, f"{at.file}: row {at.number} {what}", at.file, at.number)

    def _check(self, number: int, published: _Numbered | None, embedded: _Numbered | None) -> None:
        for missing in range(self._last_number + 1, number):
            message = f"row {missing} is missing, in {self._json} as in {_PARQUET}"
            self._findings.add("row_missing", message, self._json, missing)
        self._last_number = number
        if published is not None and embedded is not None:
            self._check_agreement(published, embedded)
        elif published is not None and _PARQUET not in self._unread:
            self._report("row_missing", f"is not in {_PARQUET}", published)
        elif embedded is not None and self._json not in self._unread:
            self._report("row_missing", f"is not in {self._json}", embedded)
        if published is not None:
            self._check_captions(published)
        if embedded is not None:
            if published is None or published.row.get("captions") != embedded.row["captions"]:
                self._check_captions(embedded)
            self._check_row(embedded)
            if embedded.image.problem:
                self._report("image_wrong", embedded.image.problem, embedded)

    def _check_agreement(self, published: _Numbered, embedded: _Numbered) -> None:
        wanted = published_row(embedded.row)
        if published.row == wanted:
            return
        if published.row.keys() != wanted.keys():
            fields = ", ".join(published.row)
            self._report("row_malformed", f"has the fields {fields}", published)
        for field in wanted:
            ours, theirs = published.row.get(field), wanted[field]
            if ours != theirs:
                what = f"says {field} {_shown(ours)}; {embedded.file} says {_shown(theirs)}"
                self._report("rows_differ", what, published)

    def _check_captions(self, at: _Numbered) -> None:
        captions, is_candidate = at.row.get("captions"), at.row.get("tier") == CANDIDATES
        if not isinstance(captions, list) or not (captions or is_candidate):
            self._report("captions_missing", "has no captions", at)
        elif captions and is_candidate:
            what = f"has captions; images of tier {CANDIDATES} are candidates without any"
            self._report("captions_unexpected", what, at)
        elif not ({*map(type, captions)} <= {str} and all(map(str.strip, captions))):
            self._report("caption_empty", "has an empty caption", at)

    def _check_row(self, at: _Numbered) -> None:
        """What Parquet alone knows of a row."""
        row = at.row
        if blank := {name for name, value in row.items() if value is None} - _MAY_BE_ABSENT:
            self._report("row_malformed", f"has no {', '.join(sorted(blank))}", at)
            return
        captions = row["captions"]
        for field in _PER_CAPTION:
            if len(row[field]) != len(captions):
                what = f"has {len(captions)} captions and {len(row[field])} {field}"
                self._report("captions_differ", what, at)
        if row["source"] not in self._licensed:
            what = f"is from {row['source']!r}, of which {MANIFEST} states no licence"
            self._report("licence_missing", what, at)
        if not at.file.startswith(f"data/{row['split']}-"):
            what = f"says it is in the split {row['split']!r}"
            self._report("split_wrong", what, at)
        listed = at.image.listed
        self._listed_images += listed is not None
        if listed is not None and listed.entity_id != row["image_entity_id"]:
            what = (
                f"is of the image {row['image_entity_id']}; {MANIFEST} lists {row['file_path']} "
                f"as {listed.entity_id}"
            )
            self._report("entity_differs", what, at)
        if row["crop"] is not None:
            self._check_crop(at)
        for checks in (self._contrasts, self._terms):
            checks.check(at.file, at.number, row)
        is_new = self._order.check(at.file, at.number, row)
        self._statistics.check(at.file, at.number, row, is_new=is_new)
        if row["split"] in SPLITS:
            self._add_entities(row)
            self._leaks.add(row, row["split"], at.image.perceptual_hash)
            self._contamination.add(row, row["split"], at.image.look)

    def _check_crop(self, at: _Numbered) -> None:
        crop = at.row["crop"]
        if blank := [name for name, value in crop.items() if value is None]:
            self._report("row_malformed", f"has no crop.{', crop.'.join(blank)}", at)
            return
        video = self._videos.get(crop["video_entity_id"])
        if video is None or (video.file_path, video.sha256) != (
            crop["video"],
            crop["video_sha256"],
        ):
            what = f"was cut out of {crop['video']!r}, which {MANIFEST} does not list so"
            self._report("video_unknown", what, at)
        self._seen_videos[crop["video_entity_id"]] += 1
        self._people.setdefault(crop["video_entity_id"], set()).add(at.row["id"])

    def _add_entities(self, row: _Row) -> None:
        tracklet = [row["crop"]["tracklet_entity_id"]] if row["crop"] else []
        coarse = row.get("coarse_caption_entity_ids") or ()
        texts = (*coarse, *(one["entity_id"] for one in row.get("translations") or ()))
        details = (row["image_entity_id"], *tracklet, *row["caption_entity_ids"], *texts)
        self._entities.update("\n".join((*details, "")).encode())

    def _check_totals(self) -> None:
        for checks in (self._statistics, self._contrasts, self._terms):
            checks.check_totals()
        for video in self._manifest.videos:
            people = len(self._people.get(video.entity_id, ()))
            for what, got, stated in (
                ("images", self._seen_videos[video.entity_id], video.images),
                ("identities", people, video.identities),
            ):
                if got != stated:
                    message = (
                        f"the Parquet files hold {got:,} {what} of {video.file_path!r}; "
                        f"{MANIFEST} says {stated:,}"
                    )
                    self._findings.add("totals_differ", message, MANIFEST)
        named = self._manifest
        for listed in (named.sources, named.prompts, named.videos, named.corrections):
            for one in listed:
                self._entities.update(f"{one.entity_id}\n".encode())
        if self._scratch.count_listed_images() != self._listed_images:
            shown = chain.from_iterable(map(self._paths, self._shards))
            for path in self._scratch.images_without_row(shown):
                message = f"{MANIFEST} lists {path} as an image, and no row shows it"
                self._findings.add("image_without_row", message, path)
        if self._entities.hexdigest() != self._manifest.entities_sha256:
            message = f"the entity ids of the rows are not those that {MANIFEST} was made from"
            self._findings.add("entities_differ", message, MANIFEST)

    def _paths(self, shard: str) -> Iterator[str]:
        return (row["file_path"] for row in read_parquet_rows(self._folder / shard, ["file_path"]))


def _side_by_side(
    published: Iterator[_Numbered], embedded: Iterator[_Numbered]
) -> Iterator[tuple[int, _Numbered | None, _Numbered | None]]:
    """Rows of both, matched by number; both count upwards."""
    ours, theirs = next(published, None), next(embedded, None)
    while ours is not None or theirs is not None:
        if theirs is None or (ours is not None and ours.number < theirs.number):
            assert ours is not None  # noqa: S101 - one of both is there
            yield ours.number, ours, None
            ours = next(published, None)
        elif ours is None or theirs.number < ours.number:
            yield theirs.number, None, theirs
            theirs = next(embedded, None)
        else:
            yield ours.number, ours, theirs
            ours, theirs = next(published, None), next(embedded, None)


def _published_rows(path: Path) -> Iterator[tuple[_Row, ImageCheck]]:
    return ((row, NO_IMAGE) for row in read_json_rows(path))


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:120]}…"
