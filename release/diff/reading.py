"""Opens a release for comparison: its manifest, its rows without images, and withdrawals."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from release.diff.records import PlacedText, RowDifference, RowPlace, TextChange
from release.notices_files import WITHDRAWALS, read_mark, read_notices
from release.parquet_rows import opened_parquet, read_parquet_rows, shards_among
from release.reading import check_file, read_listed
from release.rows import BESIDE_IMAGES, COLUMNS
from schemas.errors import IntegrityError
from schemas.release import Manifest, ReleasedFile
from schemas.withdrawal import WithdrawalNotice

Texts = list[dict[str, Any]]

_PLACES = {"image", "id", "source", "file_path", "source_file_path", "contrast.anchor"}
"""Columns that identify the image of a row or its position, and are not compared."""
_FIELDS = [
    (column.name, part)
    for column in COLUMNS
    if not column.is_list and column.name not in _PLACES
    for part in [one.name for one in column.parts] or [""]
    if f"{column.name}.{part}" not in _PLACES
]
"""The compared columns; nested columns by part."""
_CAPTIONS = {
    "text": "captions",
    "entity_id": "caption_entity_ids",
    "author": "caption_authors",
    "origin": "caption_origins",
    "reviewed": "caption_reviewed",
}
_COARSE = {"text": "coarse_captions", "entity_id": "coarse_caption_entity_ids"}

ANCHOR = "contrast.anchor"
"""The anchor, named by its path in its source, because the names of files may change."""
TOLD_FIELDS = frozenset(
    (
        *("image_entity_id", "creator", "source_url", "contrast.anchor_entity_id"),
        *("crop.score", "crop.video_entity_id", "crop.tracklet_entity_id"),
    )
)
"""Fields that state the origin of a row instead of its content."""
SAID_VALUES = ("language", "of", "text")
"""The content of a text; its other values state its origin."""


class ComparableRow(NamedTuple):
    """A row of a release, identified by the path of its image in its source.

    `anchor_entity_id` is that of its anchor, for contrastive benchmarks. `texts` are the lists of
    captions, coarse captions and translations; empty lists are left out.
    """

    source: str
    source_file_path: str
    place: RowPlace
    fields: dict[str, Any]
    texts: dict[str, Texts]
    anchor_entity_id: str | None


def comparable_row(row: Mapping[str, Any], licences: Mapping[str, str]) -> ComparableRow:
    """A row, given by its columns, in comparable form.

    `licences` are those of sources: a release in which no image has its own terms has no column for
    them.

    Raises:
        ValueError: if the row is not complete.
    """
    fields: dict[str, Any] = {}
    for name, part in _FIELDS:
        value = row.get(name)
        if part:
            fields[f"{name}.{part}"] = value and value[part]
        else:
            fields[name] = value
    if "licence" not in row:
        fields["licence"] = licences.get(row["source"])
    contrast = row.get("contrast")
    texts = {
        "captions": _text_columns(row, _CAPTIONS),
        "coarse_captions": _text_columns(row, _COARSE) if "coarse_captions" in row else [],
        "translations": [_translation(row, one) for one in row.get("translations") or ()],
    }
    return ComparableRow(
        source=row["source"],
        source_file_path=row["source_file_path"],
        place=RowPlace(
            id=row["id"],
            file_path=row["file_path"],
            split=row["split"],
            entity_id=row["image_entity_id"],
        ),
        fields={name: value for name, value in fields.items() if value is not None},
        texts={name: listed for name, listed in texts.items() if listed},
        anchor_entity_id=contrast and contrast["anchor_entity_id"],
    )


def _text_columns(row: Mapping[str, Any], names: Mapping[str, str]) -> Texts:
    columns = (row[column] for column in names.values())
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _translation(row: Mapping[str, Any], one: Mapping[str, Any]) -> dict[str, Any]:
    """A translation, with the translated caption instead of its index."""
    values = {name: value for name, value in one.items() if name != "caption"}
    if not 0 <= one["caption"] < len(row["captions"]):
        raise ValueError(f"{row['file_path']} has a translation of a caption that does not exist")
    return {**values, "of": row["captions"][one["caption"]]}


_ADVICE = "run `loupe release verify` for all problems"
_IMAGES = "images/"


class OpenedRelease(NamedTuple):
    """A release whose manifest matches its id; `files` are all but images, by path."""

    folder: Path
    manifest: Manifest
    files: dict[str, ReleasedFile]
    columns: tuple[str, ...]

    def digest(self, path: str) -> str | None:
        """The SHA-256 of a file; None if the release has no such file."""
        file = self.files.get(path)
        return None if file is None else file.sha256

    def rows(self) -> Iterator[ComparableRow]:
        """The rows in comparable form, with few in memory at a time.

        Raises:
            IntegrityError: if they cannot be read.
        """
        licences = {source.name: source.licence for source in self.manifest.sources}
        for shard in shards_among(self.files):
            try:
                for row in read_parquet_rows(self.folder / shard, columns=BESIDE_IMAGES):
                    yield comparable_row(row, licences)
            except (ValueError, TypeError, KeyError) as error:
                raise IntegrityError(f"{self.folder / shard}: {error}; {_ADVICE}") from error


def open_release(folder: Path) -> OpenedRelease:
    """Open the release in `folder`.

    Its manifest is checked against its id, and its files except images against the listed sizes;
    digests are checked by `release.verify`.

    Raises:
        UsageError: if `folder` is not a release.
        IntegrityError: if the manifest or a needed file was changed.
    """
    manifest, listed = read_listed(folder)
    files = {path: file for path, file in listed.items() if not path.startswith(_IMAGES)}
    for file in files.values():
        check_file(folder, file, digest=False)
    return OpenedRelease(folder, manifest, files, _columns(folder, files))


def _columns(folder: Path, files: dict[str, ReleasedFile]) -> tuple[str, ...]:
    shards = shards_among(files)
    if not shards:
        return ()
    try:
        with opened_parquet(folder / shards[0]) as file:
            return tuple(file.schema_arrow.names)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise IntegrityError(f"{folder / shards[0]}: it cannot be read as Parquet") from error


WITHHELD = "(withdrawn)"
"""Replaces the words of a withdrawn text."""


class Withdrawn(NamedTuple):
    """Entity ids of withdrawn images, and of withdrawn texts of other images."""

    images: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()

    @classmethod
    def of(cls, notices: Iterable[WithdrawalNotice]) -> "Withdrawn":
        """All items named in notices."""
        rows = [row for notice in notices for row in notice.rows]
        return cls(
            frozenset(row.entity_id for row in rows if row.is_whole),
            frozenset(text for row in rows for text in row.texts),
        )

    def takes_row(self, place: RowPlace, texts: Mapping[str, Iterable[Mapping[str, Any]]]) -> bool:
        """Whether a row is withdrawn with its image, or because all of its captions are."""
        captions = [one["entity_id"] for one in texts.get("captions", ())]
        return place.entity_id in self.images or bool(captions and self.texts.issuperset(captions))

    def named(self, change: TextChange) -> TextChange:
        """The change of a text, marked as withdrawn if it was removed for that reason."""
        gone = change.before if change.kind == "removed" else None
        if gone is None or gone.values["entity_id"] not in self.texts:
            return change
        return change.model_copy(update={"kind": "withdrawn"})

    def withheld(self, difference: RowDifference) -> RowDifference:
        """The difference without the content of withdrawn rows and texts."""
        places = [one for one in (difference.before, difference.after) if one is not None]
        gone = any(one.entity_id in self.images for one in places)

        def words(values: Mapping[str, Any]) -> dict[str, Any]:
            is_hidden = gone or values["entity_id"] in self.texts
            return {**values, "text": WITHHELD} if is_hidden else dict(values)

        def placed(text: PlacedText | None) -> PlacedText | None:
            return text and text.model_copy(update={"values": words(text.values)})

        texts = [
            one.model_copy(update={"before": placed(one.before), "after": placed(one.after)})
            for one in difference.texts
        ]
        update: dict[str, Any] = {"texts": tuple(texts)}
        if gone:
            update["fields"] = ()
        if (row := difference.row) is not None:
            shown = {field: list(map(words, many)) for field, many in row["texts"].items()}
            update["row"] = {**row, "fields": {} if gone else row["fields"], "texts": shown}
        return difference.model_copy(update=update)


def stated_withdrawals(release: OpenedRelease) -> list[WithdrawalNotice]:
    """The withdrawals from any earlier release that a release states.

    Raises:
        IntegrityError: if its list of withdrawals cannot be read.
    """
    if WITHDRAWALS not in release.files:
        return []
    return list(read_notices(release.folder / WITHDRAWALS).notices)


def known_withdrawals(release: OpenedRelease) -> list[WithdrawalNotice]:
    """The withdrawals that a release states, including the mark in its folder.

    Raises:
        IntegrityError: if a list of withdrawals, or a mark, cannot be read.
    """
    mark = read_mark(release.folder)
    return [*stated_withdrawals(release), *(mark.notices if mark else ())]
