"""Read and write the rows of a release: JSON and Parquet.

A release is read from its folder alone. Everything is checked against the manifest first, and
reading stops at the first fault. `loupe.release.verify` checks all of a release and lists every
problem.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, Self, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from loupe.release.format.files import DigestingFile, content_fault
from loupe.release.format.findings import ADVICE, Findings, TooManyProblemsError
from loupe.release.format.manifest import (
    MANIFEST,
    opened_json,
    read_manifest,
    require_release,
    verify_manifest,
)
from loupe.release.format.parquet import TYPES, WRITING, bounded_batches, opened_parquet
from loupe.release.format.rows import (
    BESIDE_IMAGES,
    COLUMNS,
    PLAIN,
    SPLITS,
    Column,
    ReleaseRow,
    RowFaults,
    RowForm,
    columns_of,
    form_of,
    number_in,
    own_names,
    published_row,
    translated,
)
from loupe.release.format.scratch import Scratch
from loupe.release.withdrawn.files import erasure_of
from loupe.schemas.base import Split
from loupe.schemas.errors import IntegrityError, UsageError
from loupe.schemas.json_stream import stream_list
from loupe.schemas.licences import permits_release
from loupe.schemas.processes import ordered_map
from loupe.schemas.release import Manifest, ReleasedFile
from loupe.schemas.taxonomy import DifferenceType

T = TypeVar("T")


class RowsText(NamedTuple):
    """How rows are written to a text file: each line, and the text around the lines."""

    line: Callable[[Mapping[str, Any]], bytes]
    opening: bytes
    between: bytes
    ending: bytes

    def row(self, columns: Mapping[str, Any], *, is_first: bool) -> bytes:
        """The text of a row with these columns, with the preceding separator."""
        return (self.opening if is_first else self.between) + self.line(columns)


def _published_line(columns: Mapping[str, Any]) -> bytes:
    return json.dumps(published_row(columns), ensure_ascii=False).encode()


_PUBLISHED_TEXT = RowsText(_published_line, b"[\n", b",\n", b"\n]\n")
"""`<dataset>.json`."""


def read_json_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a published JSON file, one at a time.

    Raises:
        ValueError: if it is not a JSON list (on the first faulty row).
    """
    with opened_json(path) as cursor:
        for element in stream_list(cursor):
            if not isinstance(element.value, dict):
                raise ValueError(f"its entries must be objects; got {element.value!r:.200}")  # noqa: TRY004 - a fault of the file
            yield element.value


CCD_LINES = "ccd.jsonl"

_SPELLED = {
    DifferenceType.ENTITY_RELATION: "Entity Relationship",
    DifferenceType.EVENT_TYPE: "Event Category",
    DifferenceType.EVENT_ATTRIBUTE: "Event Element",
    DifferenceType.STYLE: "Style and Presentation",
}
"""Types that are spelled differently in the authors' files and in their paper."""


def _ccd_line(row: Mapping[str, Any]) -> bytes:
    details: dict[str, Any] = {
        "image": PurePosixPath(row["file_path"]).name,
        "captions": row["captions"],
    }
    if contrast := row["contrast"]:
        details["ori_image"] = PurePosixPath(contrast["anchor"]).name
        details["contrastive_aspect"] = spelled(DifferenceType(contrast["difference"]))
        details["contrastive_detail"] = contrast["detail"]
        details["contrastive_strategy"] = contrast["plan"]
        details["method"] = contrast["method"]
    if row["coarse_captions"]:
        details["coarse_captions"] = row["coarse_captions"]
    details |= {f"captions_{language}": texts for language, texts in translated(row).items()}
    if row["creator"] or row["source_url"] or permits_release(row["licence"]):
        details |= {name: row[name] for name in ("licence", "creator", "source_url") if row[name]}
    return json.dumps(details, ensure_ascii=False).encode()


_CCD_TEXT = RowsText(_ccd_line, b"", b"\n", b"\n")
"""`ccd.jsonl`, for rows with contrasts, which also have terms."""


def texts_of(dataset: str, form: RowForm) -> dict[str, RowsText]:
    """The text files of a release's rows by name, with their formats."""
    texts = {f"{dataset}.json": _PUBLISHED_TEXT}
    if form.contrasts:
        texts[CCD_LINES] = _CCD_TEXT
    return texts


def spelled(difference: DifferenceType) -> str:
    """The type as the authors' files spell it."""
    return _SPELLED.get(difference, difference.value)


_SHARD_BYTES = 500_000_000
_GROUP_ROWS = 100  # the page size of the Hugging Face viewer
_GROUP_BYTES = 32_000_000
_READ_ROWS = 32
_BATCH_BYTES = 4_000_000
_RANK: dict[str, int] = {split: rank for rank, split in enumerate(SPLITS)}
_SHARD = re.compile(r"data/(train|val|test)-([0-9]{5})-of-[0-9]{5}\.parquet")


@cache
def schema_of(form: RowForm) -> pa.Schema:
    """The schema of columns, with the features that `datasets` reads."""
    columns = columns_of(form)
    features = {one.name: _feature(one) for one in columns}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    return pa.schema([(one.name, _arrow_type(one)) for one in columns], metadata=metadata)


def _arrow_type(column: Column) -> pa.DataType:
    if column.parts:
        inner = pa.struct([(one.name, _arrow_type(one)) for one in column.parts])
    else:
        inner = TYPES[column.type or "string"]
    return pa.list_(inner) if column.is_list else inner


def _feature(column: Column) -> Any:
    if column.type == "image":
        return {"_type": "Image"}
    inner: dict[str, Any] = {"dtype": column.type, "_type": "Value"}
    if column.parts:
        inner = {one.name: _feature(one) for one in column.parts}
    return [inner] if column.is_list else inner


def _leaves(columns: Iterable[Column], above: str = "") -> Iterator[tuple[str, bool]]:
    """The paths of all values in a Parquet file, and whether they repeat."""
    for one in columns:
        path = f"{above}{one.name}" + (".list.element" if one.is_list else "")
        if one.parts:
            yield from _leaves(one.parts, f"{path}.")
        else:
            yield path, one.repeating


@cache
def _writer_of(form: RowForm) -> dict[str, Any]:
    """The settings for writing rows of a form."""
    leaves = dict(_leaves((*COLUMNS, *form.own)))
    return {
        **WRITING,
        # images are compressed already
        "compression": {leaf: "NONE" if leaf == "image.bytes" else "ZSTD" for leaf in leaves},
        "compression_level": {leaf: 3 for leaf in leaves if leaf != "image.bytes"},
        "use_dictionary": [leaf for leaf, repeats in leaves.items() if repeats],
        "write_statistics": [leaf for leaf in leaves if leaf != "image.bytes"],
    }


_NAMES_OF_TYPES = {type_: name for name, type_ in TYPES.items()}


def own_columns(schema: pa.Schema) -> tuple[Column, ...]:
    """The columns of a file that are a dataset's own, by their types.

    Raises:
        ValueError: if one is no list of records of plain fields.
    """
    return tuple(_own_column(schema.field(name)) for name in own_names(schema.names))


def _own_column(field: pa.Field) -> Column:
    if not (pa.types.is_list(field.type) and pa.types.is_struct(field.type.value_type)):
        raise ValueError(f"its column {field.name!r} must be a list of records")
    parts = []
    for part in field.type.value_type:
        is_list = pa.types.is_list(part.type)
        inner = part.type.value_type if is_list else part.type
        if inner not in _NAMES_OF_TYPES:
            raise ValueError(f"its column {field.name}.{part.name} has the type {part.type}")
        parts.append(Column(part.name, _NAMES_OF_TYPES[inner], is_list=is_list))
    return Column(field.name, is_list=True, parts=tuple(parts))


class ParquetRows:
    """Writes rows one at a time to `data/<split>-<shard>-of-<shards>.parquet`.

    Use it in a `with` statement.
    """

    def __init__(self, folder: Path, form: RowForm = PLAIN) -> None:
        self._folder = folder
        self._schema = schema_of(form)
        self._settings = _writer_of(form)
        self._shards: dict[Split, list[DigestingFile]] = {}
        self._writer: pq.ParquetWriter | None = None
        self._group: list[dict[str, Any]] = []
        self._group_bytes = 0
        self._shard_size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._group = []
        self._end_shard()

    def write(self, columns: Mapping[str, Any], image: bytes) -> None:
        """Append a row by its columns and its image; rows of a split must be consecutive."""
        if self._group and self._group[0]["split"] != columns["split"]:
            self._end_shard()
        self._group.append({"image": {"bytes": image, "path": columns["file_path"]}, **columns})
        self._group_bytes += len(image)
        if len(self._group) >= _GROUP_ROWS or self._group_bytes >= _GROUP_BYTES:
            self._write_group()
        if self._shard_size >= _SHARD_BYTES:
            self._end_shard()

    def finish(self) -> list[ReleasedFile]:
        """Finish the last shard and rename all shards to their published names."""
        self._end_shard()
        released = []
        for split, shards in self._shards.items():
            for number, shard in enumerate(shards):
                path = f"data/{split}-{number:05d}-of-{len(shards):05d}.parquet"
                self._unfinished(split, number).rename(self._folder / path)
                released.append(shard.as_released(path))
        return released

    def _write_group(self) -> None:
        if not self._group:
            return
        if self._writer is None:
            split = self._group[0]["split"]
            shards = self._shards.setdefault(split, [])
            shards.append(DigestingFile(self._unfinished(split, len(shards))))
            self._writer = pq.ParquetWriter(
                pa.PythonFile(shards[-1], "w"), self._schema, **self._settings
            )
        table = pa.Table.from_pylist(self._group, self._schema)
        self._writer.write_table(table, row_group_size=len(self._group))
        self._shard_size += self._group_bytes
        self._group, self._group_bytes = [], 0

    def _end_shard(self) -> None:
        self._write_group()
        if self._writer is not None:
            self._writer.close()
            next(reversed(self._shards.values()))[-1].close()
        self._writer, self._shard_size = None, 0

    def _unfinished(self, split: Split, number: int) -> Path:
        return self._folder / f"data/{split}-{number:05d}.unfinished"


def shards_among(paths: Iterable[str]) -> list[str]:
    """Those of `paths` that are Parquet files of a release, in the order of their rows."""
    shards = [match for match in map(_SHARD.fullmatch, paths) if match]
    return [one[0] for one in sorted(shards, key=lambda one: (_RANK[one[1]], one[2]))]


class RowBatch(NamedTuple):
    """Consecutive rows without their images, with the images separately.

    `images` are views of the bytes in Arrow's buffers (None for a null), `paths` their names.
    """

    rows: list[dict[str, Any]]
    images: list[memoryview | None]
    paths: list[str | None]


def read_parquet_batches(path: Path) -> Iterator[RowBatch]:
    """The rows of a Parquet file with their images, about 4 MB at a time.

    Raises:
        ValueError: if it is not a Parquet file with our columns (on the first faulty rows).
    """
    with _opened(path) as file:
        for group in range(file.num_row_groups):
            facts = file.metadata.row_group(group)
            rows = max(1, _BATCH_BYTES * facts.num_rows // max(1, facts.total_byte_size))
            size = min(rows, facts.num_rows, _GROUP_ROWS)
            for batch in bounded_batches(file, path, size, row_groups=[group]):
                images, paths = batch.column("image").flatten()
                rest = batch.drop_columns(["image"])
                yield RowBatch(rest.to_pylist(), _views(images), paths.to_pylist())


def _views(values: pa.BinaryArray) -> list[memoryview | None]:
    """The values of an array without a copy, ten times as fast as via its scalars."""
    _, offsets, data = values.buffers()
    first, held = values.offset, memoryview(data or b"").cast("B")  # Arrow's bytes are signed
    places = memoryview(offsets).cast("i")[first : first + len(values) + 1].tolist()
    views: list[memoryview | None] = [held[start:end] for start, end in pairwise(places)]
    if values.null_count:
        for index, is_null in enumerate(values.is_null().to_pylist()):
            if is_null:
                views[index] = None
    return views


def read_parquet_rows(path: Path, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file as dictionaries, with few in memory at a time.

    `columns` selects columns (None: all).

    Raises:
        ValueError: if it is not a Parquet file with these columns (on the first faulty rows).
    """
    for page in read_parquet_pages(path, columns):
        yield from page


def built_rows(folder: Path, split: Split | None = None) -> Iterator[ReleaseRow]:
    """The rows of a release that is being built, of one split or all, without their images."""
    for shard in shards_among(f"data/{one.name}" for one in (folder / "data").glob("*.parquet")):
        if split is None or shard.startswith(f"data/{split}-"):
            yield from map(ReleaseRow.of, read_parquet_rows(folder / shard, BESIDE_IMAGES))


def read_parquet_pages(
    path: Path, columns: Sequence[str] | None = None
) -> Iterator[list[dict[str, Any]]]:
    """The rows of a Parquet file, a few at a time; see `read_parquet_rows`.

    Raises:
        ValueError: if it is not a Parquet file with these columns (on the first faulty rows).
    """
    with _opened(path) as file:
        for batch in bounded_batches(file, path, _READ_ROWS, columns=columns):
            yield batch.to_pylist()


@contextmanager
def _opened(path: Path) -> Iterator[pq.ParquetFile]:
    try:
        with opened_parquet(path, memory_map=False) as file:
            names = file.schema_arrow.names
            wanted = schema_of(RowForm.of(names, own_columns(file.schema_arrow)))
            if not file.schema_arrow.equals(wanted):
                raise ValueError(f"its columns must be {wanted.names}; got {names}")
            yield file
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"it cannot be read as Parquet ({error})") from error


def find_row(
    folder: Path, number: int, columns: list[str], file_path: str | None = None
) -> dict[str, Any]:
    """Columns of the row with this number (from 1); its image must be `file_path`, if given.

    Raises:
        UsageError: if the release has no such row.
        IntegrityError: if the rows cannot be read.
    """
    name = file_path or f"row {number}"
    columns = [*columns, "file_path"]
    try:
        row = _read_row(folder, number, columns)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise IntegrityError(f"the rows of {folder} cannot be read ({error}); {ADVICE}") from error
    if row is None:
        if number <= (count := read_manifest(folder).statistics.images):
            raise IntegrityError(
                f"{folder}: files with rows are missing, {name} among them; {ADVICE}"
            )
        raise UsageError(f"{folder} has no {name}: it holds {count:,} rows")
    if missing := [column for column in columns if _is_incomplete(row[column])]:
        raise IntegrityError(f"the rows of {folder} hold no {', '.join(missing)}; {ADVICE}")
    if file_path not in (None, row["file_path"]):
        raise UsageError(
            f"{folder} has no image {name}; that of row {number} is {row['file_path']}"
        )
    return row


def _is_incomplete(value: Any) -> bool:
    return value is None or (isinstance(value, list) and None in value)


def _read_row(folder: Path, number: int, columns: list[str]) -> dict[str, Any] | None:
    names = (f"data/{path.name}" for path in (folder / "data").glob("*.parquet"))
    for shard in shards_among(names):
        with _opened(folder / shard) as file:
            for group in range(file.num_row_groups):
                count = file.metadata.row_group(group).num_rows
                if number <= count:
                    rows = file.read_row_group(group, columns, use_threads=False)
                    row: dict[str, Any] = rows.slice(number - 1, 1).to_pylist()[0]
                    return row
                number -= count
    return None


class ListedRelease:
    """The release in `folder`, of which only the manifest is read, whose listed files are known."""

    def __init__(self, folder: Path) -> None:
        """Read the manifest.

        Raises:
            UsageError: if `folder` is not a release.
            IntegrityError: if its manifest cannot be read, or is not as it was written.
        """
        require_release(folder)
        self.folder = folder
        self.listed = Scratch()
        findings, verified = Findings(), None
        with suppress(TooManyProblemsError):
            verified = verify_manifest(folder, self.listed, findings)
        if verified is None or findings.problems:
            raise self._wrong(findings.problems[0].message)
        self.manifest = verified.manifest

    def digest(self, path: str) -> str | None:
        """The SHA-256 of a file; None if the release has no such file."""
        file = self.listed.listed_file(path)
        return None if file is None else file.sha256

    def shards(self, split: str | None = None) -> list[str]:
        """The Parquet files of all splits, or of one, in the order of their rows."""
        start = "data/" if split is None else f"data/{split}-"
        paths = (file.path for file in self.listed.listed_in("data"))
        return [path for path in shards_among(paths) if path.startswith(start)]

    def check(self, paths: Iterable[str], *, digests: bool = True) -> None:
        """Check listed files against their sizes and, with `digests`, their digests.

        Raises:
            IntegrityError: if one was changed, or is not listed.
        """

        def fault(path: str, file: ReleasedFile | None) -> str | None:
            if file is None:
                return f"{path} is in no file list of {MANIFEST}"
            try:
                what = content_fault(self.folder, file, digest=digests)
            except OSError as error:
                unread = f"{path} cannot be read ({error.strerror})"
                return erasure_of(self.folder, path) or unread
            return what and f"{path} {what}"

        files = ((path, self.listed.listed_file(path)) for path in paths)
        for what in filter(None, ordered_map(lambda one: fault(*one), files)):
            raise self._wrong(what)

    def rows(self, of: Callable[[dict[str, Any]], T], split: str | None = None) -> Iterator[T]:
        """The rows of all splits, or of one, without images, few at a time; `of` converts each.

        Raises:
            IntegrityError: if they cannot be read or converted, or have a fault (`RowFaults`).
        """
        for shard in self.shards(split):
            try:
                yield from map(of, self._sound_rows(shard))
            except (ValueError, TypeError, KeyError) as error:
                raise self._wrong(f"{shard}: {error}") from error

    def _sound_rows(self, shard: str) -> Iterator[dict[str, Any]]:
        faults = RowFaults(shard, frozenset(one.name for one in self.manifest.sources))
        own = [column.name for column in form_of(self.manifest).own]
        rows = read_parquet_rows(self.folder / shard, columns=[*BESIDE_IMAGES, *own])
        for place, row in enumerate(rows, 1):
            if fault := faults.first(number_in(row["file_path"]), row):
                raise ValueError(f"its row {place} {fault}")
            yield row

    def _wrong(self, what: str) -> IntegrityError:
        return IntegrityError(f"{self.folder}: {what}; {ADVICE}")


class ReadRelease(NamedTuple):
    """One split of a release, with its rows in order."""

    folder: Path
    manifest: Manifest
    split: Split
    rows: tuple[ReleaseRow, ...]


def read_release(
    folder: Path,
    split: str | None = None,
    *,
    check_images: bool = True,
) -> ReadRelease:
    """Read the rows of one split of the release in `folder`.

    Args:
        folder: the release.
        split: the name of the split; None for test, or for the only one.
        check_images: check the digest of every image; otherwise only its size.

    Raises:
        UsageError: if `folder` is not a release, or has no such split.
        IntegrityError: if the manifest or a needed file was changed.
    """
    release = ListedRelease(folder)
    split = chosen_split(release.manifest, split)
    release.check(release.shards(split))
    rows = tuple(release.rows(ReleaseRow.of, split))
    release.check((row.file_path for row in rows), digests=check_images)
    return ReadRelease(folder, release.manifest, split, rows)


def chosen_split(manifest: Manifest, wanted: str | None) -> Split:
    """The selected split: `wanted`, or test, or the only one.

    Raises:
        UsageError: if the release has no such split, or the choice is ambiguous.
    """
    splits = {one.split: one.split for one in manifest.statistics.splits}
    name = manifest.name
    if wanted is not None and wanted not in splits:
        raise UsageError(f"{name} has no split {wanted!r}; it has {', '.join(splits)}")
    if wanted is None and "test" not in splits and len(splits) != 1:
        raise UsageError(f"{name} has no split 'test'; say which of {', '.join(splits)} is meant")
    return splits[wanted or ("test" if "test" in splits else next(iter(splits)))]  # type: ignore[index]
