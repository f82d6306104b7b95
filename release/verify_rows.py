"""The rows of a release: JSON, Parquet and images against each other, and against the manifest."""

import hashlib
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image

from release.findings import Findings
from release.json_rows import read_json_rows
from release.manifest import MANIFEST
from release.ordering import SPLITS, RowKey
from release.parquet_rows import read_parquet_rows
from release.threads import ordered_map
from release.tiers import CANDIDATES
from release.verify_leaks import LeakChecks
from release.verify_tasks import TaskChecks
from schemas.nearness import perceptual_hash
from schemas.records import Split
from schemas.release import Manifest, SplitStatistics

_MAX_PIXELS = 50_000_000
_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF")
_PARQUET = "Parquet"
_PUBLISHED = ("id", "source", "split", "file_path", "captions")
_PUBLISHED_TASK = ("id", "source", "task", "tier", "split", "file_path", "captions")
_PUBLISHED_CROP = ("split", "id", "file_path", "captions")
_PER_CAPTION = ("caption_entity_ids", "caption_authors", "caption_origins", "caption_reviewed")
_MAY_BE_ABSENT = ("image", "crop", "task", "tier")
_NUMBERED = re.compile(r"images/([1-9][0-9]*)\.[a-z]+")

Row = dict[str, Any]


class Numbered(NamedTuple):
    """A row with the number that its `file_path` says, and the file that it was read from."""

    number: int
    file: str
    row: Row


class RowPair(NamedTuple):
    """The same row in JSON and in Parquet; None where it is not there."""

    number: int
    published: Numbered | None
    embedded: Numbered | None


class ImageCheck(NamedTuple):
    """What is wrong with an image, if anything, and its hash where one is needed."""

    problem: str | None = None
    perceptual_hash: int | None = None


class RowChecks:
    """Reads all rows once, side by side, and checks each; `shards` are in the order of rows."""

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        shards: list[str],
        findings: Findings,
        *,
        decode: bool,
        threads: int,
    ) -> None:
        self._folder = folder
        self._manifest = manifest
        self._shards = shards
        self._findings = findings
        self._decode = decode
        self._threads = threads
        self._json = f"{manifest.dataset}.json"
        self._licensed = {source.name for source in manifest.sources}
        self._videos = {video.entity_id: video for video in manifest.videos}
        self._seen_videos: Counter[str] = Counter()
        self._leaks = LeakChecks(folder, manifest, findings, decode=decode)
        self._entities = hashlib.sha256()
        self._tasks = TaskChecks(manifest, findings)
        self._counts: Counter[str] = Counter()
        self._splits: Counter[tuple[Split, str]] = Counter()
        self._id_of: dict[bytes, int] = {}
        self._last_id = 0
        self._unread: set[str] = set()
        self._last_number = 0
        self._last_key: RowKey | None = None

    def run(self) -> None:
        """Checks everything that concerns rows."""
        published = self._numbered(self._json, self._json, read_json_rows)
        embedded = chain.from_iterable(
            self._numbered(shard, _PARQUET, read_parquet_rows) for shard in self._shards
        )
        for pair, image in ordered_map(
            self._with_image_check, _side_by_side(published, embedded), self._threads
        ):
            self._check(pair, image)
            if image.problem and pair.embedded:
                self._report("image_wrong", image.problem, pair.embedded)
        if _PARQUET not in self._unread:
            self._check_totals()
            self._leaks.run()

    def _numbered(
        self, file: str, kind: str, read: Callable[[Path], Iterator[Row]]
    ) -> Iterator[Numbered]:
        """The rows of a file, up to where it makes no sense any more."""
        last = 0
        try:
            for index, row in enumerate(read(self._folder / file), 1):
                match = _NUMBERED.fullmatch(str(row.get("file_path")))
                if match is None:
                    what = f"names its image {row.get('file_path')!r}; wanted 'images/NUMBER.jpg'"
                    self._report("row_unnumbered", what, Numbered(index, file, row))
                    continue
                at = Numbered(int(match[1]), file, row)
                if at.number < last:
                    what = f"comes after row {last}; the rest of the file was not compared"
                    self._report("row_out_of_order", what, at)
                    self._unread.add(kind)
                    return
                if at.number == last:
                    self._report("row_duplicated", "stands there twice", at)
                else:
                    yield at
                last = at.number
        except FileNotFoundError:
            self._unread.add(kind)  # named already as a missing file
        except ValueError as error:
            self._unread.add(kind)
            self._findings.add("rows_unreadable", f"{file} cannot be read: {error}", file)

    def _report(self, fault: str, what: str, at: Numbered) -> None:
        self._findings.add(fault, f"{at.file}: row {at.number} {what}", at.file, at.number)

    def _check(self, pair: RowPair, image: ImageCheck) -> None:
        published, embedded = pair.published, pair.embedded
        for number in range(self._last_number + 1, pair.number):
            message = f"row {number} is missing, in {self._json} as in {_PARQUET}"
            self._findings.add("row_missing", message, self._json, number)
        self._last_number = pair.number
        if published is not None and embedded is not None:
            self._check_agreement(published, embedded)
        elif published is not None and _PARQUET not in self._unread:
            self._report("row_missing", f"is not in {_PARQUET}", published)
        elif embedded is not None and self._json not in self._unread:
            self._report("row_missing", f"is not in {self._json}", embedded)
        if published is not None:
            self._check_captions(published)
        if embedded is not None:
            self._check_row(embedded, image)

    def _check_agreement(self, published: Numbered, embedded: Numbered) -> None:
        wanted = _fields_of(embedded.row)
        if sorted(published.row) != sorted(wanted):
            fields = ", ".join(published.row)
            self._report("row_malformed", f"has the fields {fields}", published)
        for field in wanted:
            ours, theirs = published.row.get(field), embedded.row[field]
            if ours != theirs:
                what = f"says {field} {_shown(ours)}; {embedded.file} says {_shown(theirs)}"
                self._report("rows_differ", what, published)

    def _check_captions(self, at: Numbered) -> None:
        captions, is_candidate = at.row.get("captions"), at.row.get("tier") == CANDIDATES
        if not isinstance(captions, list) or not (captions or is_candidate):
            self._report("captions_missing", "has no captions", at)
        elif captions and is_candidate:
            what = f"has captions; images of tier {CANDIDATES} are candidates without any"
            self._report("captions_unexpected", what, at)
        elif any(not isinstance(text, str) or not text.strip() for text in captions):
            self._report("caption_empty", "has an empty caption", at)

    def _check_row(self, at: Numbered, image: ImageCheck) -> None:
        """What Parquet alone knows of a row."""
        row = at.row
        if blank := [
            name for name, value in row.items() if value is None and name not in _MAY_BE_ABSENT
        ]:
            self._report("row_malformed", f"has no {', '.join(blank)}", at)
            return
        self._check_captions(at)
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
        if row["crop"] is not None:
            self._check_crop(at)
        self._tasks.check(at.file, at.number, row)
        is_new = self._check_identity(at)
        if row["split"] in SPLITS:
            self._count(row, is_new=is_new)
            self._leaks.add(row, row["split"], image.perceptual_hash)

    def _check_crop(self, at: Numbered) -> None:
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

    def _check_identity(self, at: Numbered) -> bool:
        """Whether the row is the first of its identity."""
        row = at.row
        name = hashlib.blake2b(f"{row['source']}/{row['identity']}".encode(), digest_size=12)
        is_new = name.digest() not in self._id_of
        expected = self._id_of.get(name.digest(), self._last_id + 1)
        self._id_of[name.digest()] = self._last_id = row["id"]
        if row["id"] != expected:
            what = (
                f"gives {row['source']}/{row['identity']} the id {row['id']}; "
                f"wanted {expected}: one identity, one id, counted from 1"
            )
            self._report("id_wrong", what, at)
        if row["split"] not in SPLITS:
            return is_new
        key = RowKey.of(row["split"], row["source"], row["identity"], row["source_file_path"])
        if self._last_key is not None and key <= self._last_key:
            fault = "row_duplicated" if key == self._last_key else "row_out_of_order"
            what = "shows the image of the row before" if key == self._last_key else "is misplaced"
            self._report(fault, f"{what} ({row['source']}, {row['source_file_path']!r})", at)
        self._last_key = key
        return is_new

    def _count(self, row: Row, *, is_new: bool) -> None:
        counts = {"identities": int(is_new), "images": 1, "captions": len(row["captions"])}
        self._counts.update(counts)
        self._splits.update({(row["split"], what): count for what, count in counts.items()})
        tracklet = [row["crop"]["tracklet_entity_id"]] if row["crop"] else []
        for entity_id in (row["image_entity_id"], *tracklet, *row["caption_entity_ids"]):
            self._entities.update(f"{entity_id}\n".encode())

    def _check_totals(self) -> None:
        statistics = self._manifest.statistics
        for what, wanted in (
            ("images", statistics.images),
            ("captions", statistics.captions),
            ("identities", statistics.identities),
        ):
            if (got := self._counts[what]) != wanted:
                message = f"the Parquet files hold {got:,} {what}; {MANIFEST} says {wanted:,}"
                self._findings.add("totals_differ", message, MANIFEST)
        self._check_splits(statistics.splits)
        self._tasks.check_totals()
        for video in self._manifest.videos:
            if (got := self._seen_videos[video.entity_id]) != video.images:
                message = (
                    f"the Parquet files hold {got:,} images of {video.file_path!r}; "
                    f"{MANIFEST} says {video.images:,}"
                )
                self._findings.add("totals_differ", message, MANIFEST)
        for listed in (self._manifest.sources, self._manifest.prompts, self._manifest.videos):
            for one in listed:
                self._entities.update(f"{one.entity_id}\n".encode())
        if self._entities.hexdigest() != self._manifest.entities_sha256:
            message = f"the entity ids of the rows are not those that {MANIFEST} was made from"
            self._findings.add("entities_differ", message, MANIFEST)

    def _check_splits(self, stated: tuple[SplitStatistics, ...]) -> None:
        found = tuple(
            SplitStatistics(
                split=split,
                identities=self._splits[split, "identities"],
                images=self._splits[split, "images"],
                captions=self._splits[split, "captions"],
            )
            for split in dict.fromkeys(split for split, _ in self._splits)
        )
        if found != stated:
            message = (
                f"the Parquet files hold the splits {_in_short(found)}; "
                f"{MANIFEST} says {_in_short(stated)}"
            )
            self._findings.add("totals_differ", message, MANIFEST)

    def _with_image_check(self, pair: RowPair) -> tuple[RowPair, ImageCheck]:
        """Runs in threads: reads and decodes the image of a row, then lets go of its bytes."""
        if pair.embedded is None:
            return pair, ImageCheck()
        row = pair.embedded.row
        problem = self._image_problem(row)
        hashed = problem is None and self._leaks.needs_hashes
        check = ImageCheck(problem, perceptual_hash(row["image"]["bytes"]) if hashed else None)
        row["image"] = None
        return pair, check

    def _image_problem(self, row: Row) -> str | None:
        image = row["image"] or {}
        data = image.get("bytes")
        if not data:
            return "holds no image"
        if image.get("path") != row["file_path"]:
            return f"calls its image {image.get('path')!r}; wanted {row['file_path']!r}"
        try:
            beside = (self._folder / row["file_path"]).read_bytes()
        except OSError:
            return None  # named already as a missing file
        if data != beside:
            return f"holds other bytes than {row['file_path']}"
        return _picture_problem(data, (row["width_px"], row["height_px"]), decode=self._decode)


def _fields_of(row: Row) -> tuple[str, ...]:
    """What the published JSON tells of a row."""
    if row["crop"] is not None:
        return _PUBLISHED_CROP
    return _PUBLISHED_TASK if "task" in row else _PUBLISHED


def _picture_problem(data: bytes, size: tuple[int, int], *, decode: bool) -> str | None:
    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as picture:
            if picture.size != size:
                return f"says its image has {size} pixels; the image has {picture.size}"
            if size[0] * size[1] > _MAX_PIXELS:
                return f"has an image of {size[0] * size[1]:,} pixels; {_MAX_PIXELS:,} are allowed"
            if decode:
                picture.load()
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError, Warning) as error:
        return f"has an image that does not decode ({error})"
    return None


def _in_short(splits: tuple[SplitStatistics, ...]) -> str:
    return "; ".join(
        f"{one.split}: {one.identities:,} identities, {one.images:,} images, "
        f"{one.captions:,} captions"
        for one in splits
    )


def _side_by_side(published: Iterator[Numbered], embedded: Iterator[Numbered]) -> Iterator[RowPair]:
    """Rows of both, matched by number; both count upwards."""
    ours, theirs = next(published, None), next(embedded, None)
    while ours is not None or theirs is not None:
        number = min(one.number for one in (ours, theirs) if one is not None)
        pair = RowPair(
            number,
            ours if ours is not None and ours.number == number else None,
            theirs if theirs is not None and theirs.number == number else None,
        )
        yield pair
        ours = next(published, None) if pair.published else ours
        theirs = next(embedded, None) if pair.embedded else theirs


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:120]}…"
