"""Parquet files with images in them, or with their paths."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from loupe.schemas.errors import FormatError
from loupe.sources.annotations import FieldError, bad_row
from loupe.sources.columns import UNREAD, Columns, Found, Shards, folded, split_of
from loupe.sources.files import files_of, name_below
from loupe.sources.records import BadRow, ReadOptions
from loupe.sources.tables import refuse_repeated

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_ROWS: Final = 32  # a batch, of which images are in memory
_BUFFER_BYTES: Final = 1 << 20


class ParquetImporter(Shards):
    """Reads images in Parquet: bytes, objects of `bytes` and `path`, or paths, and their columns.

    Classes of Hugging Face (`ClassLabel`) are read by their names. A file whose name states a split
    (`train-00000-of-00002.parquet`) is that split, unless there is a column `split`.
    """

    suffixes: tuple[str, ...] = (".parquet",)

    def records(self, path: Path, options: ReadOptions) -> Iterator[Found | BadRow]:
        """Yield the rows of all files, few in memory; what follows a damaged place is one bad row.

        Raises:
            FormatError: the only file is no Parquet file, or the first lacks a column.
        """
        files = files_of(path, self.suffixes)
        for number, file in enumerate(files):
            name, read = name_below(path, file), 0
            try:
                for read, fields in enumerate(self._read(file, options), start=1):
                    yield Found(name, read - 1, fields, split=split_of(path, file))
            except FormatError as fault:
                if number == 0:
                    raise
                yield _lost(name, read, str(fault))
            except (OSError, ValueError) as fault:  # of Arrow, such as ArrowInvalid
                what = f"{name} cannot be read after {read:,} rows: {_said(fault)}"
                if read == 0 and len(files) == 1:
                    raise self.stranger(path, f": {_said(fault)}") from fault
                yield _lost(name, read, what)

    def names(self, path: Path) -> list[str]:
        """Return the names of all columns of the first file.

        Raises:
            FormatError: it is no Parquet file.
        """
        import pyarrow.parquet as pq

        file = files_of(path, self.suffixes)[0]
        try:
            names = list(map(_folded, pq.read_schema(file).names))
        except (OSError, ValueError) as fault:
            raise self.stranger(file, f": {_said(fault)}") from fault
        return list(dict.fromkeys(names))

    def byte_columns(self, path: Path) -> list[str]:
        """Return the names of the columns of the first file that hold bytes.

        Raises:
            FormatError: it is no Parquet file.
        """
        import pyarrow.parquet as pq

        file = files_of(path, self.suffixes)[0]
        try:
            schema = pq.read_schema(file)
        except (OSError, ValueError) as fault:
            raise self.stranger(file, f": {_said(fault)}") from fault
        return [_folded(one.name) for one in schema if _is_bytes(one.type)]

    def _read(self, file: Path, options: ReadOptions) -> Iterator[dict[str, Any]]:
        import pyarrow.parquet as pq

        with pq.ParquetFile(file, buffer_size=_BUFFER_BYTES, pre_buffer=False) as opened:
            yield from self._rows_of(file, opened, options)

    def _rows_of(
        self, file: Path, opened: "pq.ParquetFile", options: ReadOptions
    ) -> Iterator[dict[str, Any]]:
        schema = opened.schema_arrow
        names = {_folded(name): name for name in schema.names}
        columns = Columns.of(self, file, list(names), options.columns)
        refuse_repeated((one for one in map(_folded, schema.names) if one in columns.used), file)
        used = [names[one] for one in columns.used]
        image = names[columns.image] if columns.image is not None else None
        labels = label_names(schema.metadata)
        left_out = image is not None and not options.images and _is_bytes(schema.field(image).type)
        if left_out:
            used.remove(str(image))
        for batch in opened.iter_batches(_ROWS, columns=used or [schema.names[0]]):
            lists = {name: batch.column(name).to_pylist() for name in used}
            for row in range(batch.num_rows):
                fields = {name: values[row] for name, values in lists.items()}
                if left_out:
                    fields[str(image)] = UNREAD
                yield folded(named_labels(fields, labels))


def _folded(name: str) -> str:
    return name.strip().casefold()


def label_names(metadata: Mapping[bytes, bytes] | None) -> dict[str, Sequence[str]]:
    """Return the names of classes by column, as Hugging Face keeps them in an Arrow schema."""
    try:
        features = json.loads((metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
        return {name: one["names"] for name, one in features.items() if "names" in one}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def named_labels(fields: dict[str, Any], labels: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return a record with the names of its classes instead of their numbers."""
    for name, names in labels.items():
        number = fields.get(name)
        if isinstance(number, int) and 0 <= number < len(names):
            fields[name] = names[number]
    return fields


def _is_bytes(kind: "pa.DataType") -> bool:
    """Tell whether a column holds images themselves."""
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return any(_is_bytes(kind.field(place).type) for place in range(kind.num_fields))
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _lost(name: str, read: int, what: str) -> BadRow:
    fault = FieldError("", "unreadable_shard", f"{what}; the other files are read")
    return bad_row(fault, name, read, "", "file")


def _said(fault: Exception) -> str:
    return (str(fault).strip() or type(fault).__name__).splitlines()[0]
