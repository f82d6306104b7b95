"""What a file or folder of annotations is, and how Loupe would read it."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from loupe.schemas.columns import TableColumns
from loupe.schemas.errors import FormatError, UsageError
from loupe.sources.columns import CAPTIONS, IMAGES, Found, RecordImporter
from loupe.sources.files import exported_licence
from loupe.sources.images import is_file_below
from loupe.sources.importer import IMPORTERS, importer_for, likely_formats, parsing_formats
from loupe.sources.parquet import ParquetImporter
from loupe.sources.records import ReadOptions, Row, SourceRow

SHOWN_ROWS: Final = 3
_LOOKED_AT: Final = 50
_IDENTITIES: Final = (
    *("identity", "person_id", "person", "pid", "identity_id", "product_id", "sku", "item_id"),
    *("object_id", "class", "label", "category"),
)
"""The columns that may say what an image shows, in the order in which they are proposed."""
_OTHER_CAPTIONS: Final = ("description", "title", "name", "prompt", "alt", "alt_text", "label")
_SPLITS: Final = ("split", "subset", "fold", "partition", "set")
_OF_SUFFIXES: Final = {
    ".parquet": "parquet",
    ".tar": "webdataset",
    ".tgz": "webdataset",
    ".csv": "csv",
    ".tsv": "tsv",
}
_LEAST_WORDS: Final = 3
_MOST_FIELDS: Final = 12
_MOST_FOLDERS: Final = 100
_SEE: Final = "docs/sources.md shows what each format looks like"


class Sniffed(NamedTuple):
    """How Loupe would read a source.

    Attributes:
        format: the format.
        columns: the columns that a source should state.
        fields: all that records hold, if columns can be stated.
        rows: the first rows, with these columns.
        images: the folder of the images, if it is another than that of the annotations.
        lacks_images: whether images are called after their identity, and no such file is there.
        repeated: a column that may say what the image shows, if none is known to.
        licence: that of the exported release that it is, if it is one.
    """

    format: str
    columns: Mapping[str, str | list[str]]
    fields: Sequence[str]
    rows: Sequence[Row]
    images: Path | None = None
    lacks_images: bool = False
    repeated: str | None = None
    licence: str | None = None

    def table(
        self, annotations: str, name: str, licence: str | None = None, images: str | None = None
    ) -> str:
        """Return the `[[sources]]` of a build file; paths are as it states them."""
        keys: dict[str, str | list[str]] = {
            "name": name,
            "format": self.format,
            "annotations": annotations,
        }
        keys |= {"images": images} if images else {}
        keys |= self.columns
        lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in keys.items()]
        if licence is not None:
            lines.append(f"licence = {json.dumps(licence, ensure_ascii=False)}")
        elif self.licence is not None:
            lines.append(f"# licence: that of the exported release, {self.licence} (export.json)")
        elif IMPORTERS[self.format].homepage is None:
            lines.append(
                '# licence = "CC-BY-4.0"   # the terms of the images: a release needs them'
            )
        if self.repeated is not None:
            lines.append(
                f"# identity = {json.dumps(self.repeated, ensure_ascii=False)}"
                f"   # what the image shows, if images of one value show the same"
            )
        more = "…" if len(self.fields) > _MOST_FIELDS else ""
        fields = ", ".join(self.fields[:_MOST_FIELDS])
        comment = f"# fields: {fields}{more}\n" if fields else ""
        return comment + "\n".join(["[[sources]]", *lines]) + "\n"


def sniff(path: Path, stated: TableColumns | None = None) -> Sniffed:
    """Return how Loupe would read a file or folder, with the columns that are stated.

    Raises:
        FormatError: it is in no format that is known, or cannot be read.
        UsageError: columns are stated, and its format has none.
    """
    name = format_of(path, stated)
    importer = importer_for(name)
    columns: dict[str, str | list[str]] = {}
    fields: list[str] = []
    first: list[Found] = []
    is_named_by_identity = False
    if isinstance(importer, RecordImporter):
        columns = stated.model_dump(mode="json", exclude_defaults=True) if stated else {}
        columns |= _byte_column(importer, path, columns)
        found = importer.records(path, _everything(importer, path, columns))
        first = [one for one in islice(found, _LOOKED_AT) if isinstance(one, Found)]
        fields = _fields_of(first)
        columns |= _file_column(path, first, columns)
        columns = _proposed(first, columns) | columns
        is_named_by_identity = not _has_image(fields, columns)
    elif stated:
        keys = ", ".join(stated.model_dump(exclude_defaults=True))
        raise UsageError(f"{path} is {name}, whose fields have fixed names; do not state {keys}")
    options = ReadOptions(columns=TableColumns(**columns) if columns else None, images=False)
    rows = list(islice(importer.rows(path, options), SHOWN_ROWS))
    folder = _folder_of(path, rows)
    root = path if path.is_dir() else path.parent
    images = None if folder == root else folder
    lacks_images = is_named_by_identity and folder is None
    repeated = None if _has_identity(fields, columns) else _repeated(first, columns)
    licence = exported_licence(path)
    return Sniffed(name, columns, fields, rows, images, lacks_images, repeated, licence)


def _has_identity(fields: Iterable[str], columns: Mapping[str, Any]) -> bool:
    return "identity" in columns or "identity" in fields


def _repeated(records: Sequence[Found], columns: Mapping[str, Any]) -> str | None:
    """Return the column of short texts with the most values, of which some are repeated."""
    taken = {*CAPTIONS, *IMAGES, *_SPLITS}
    for value in columns.values():
        taken.update([value] if isinstance(value, str) else value)
    counts: dict[str, int] = {}
    for name in _fields_of(records):
        values = [one.fields.get(name) for one in records]
        texts = [one for one in values if isinstance(one, str) and one.strip()]
        if name not in taken and not _is_text(records, name) and 1 < len(set(texts)) < len(texts):
            counts[name] = len(set(texts))
    return max(counts, key=counts.__getitem__, default=None)


def _has_image(fields: Iterable[str], columns: Mapping[str, Any]) -> bool:
    return "image" in columns or not frozenset(fields).isdisjoint(IMAGES)


def _byte_column(
    importer: RecordImporter, path: Path, columns: Mapping[str, Any]
) -> dict[str, str]:
    """Return the column that holds images if it is the only one of bytes, and none is named."""
    if not isinstance(importer, ParquetImporter) or _has_image(importer.names(path), columns):
        return {}
    of_bytes = importer.byte_columns(path)
    return {"image": of_bytes[0]} if len(of_bytes) == 1 else {}


def _everything(importer: RecordImporter, path: Path, columns: Mapping[str, Any]) -> ReadOptions:
    """Return the options with which all fields of records are read."""
    looked = dict(columns)
    if isinstance(importer, ParquetImporter):  # reads only the columns that are stated
        names = importer.names(path)
        looked["captions"] = tuple(names)
        if not _has_image(names, columns):
            looked.setdefault("identity", names[0])
    return ReadOptions(columns=TableColumns(**looked) if looked else None, images=False)


def _file_column(
    path: Path, records: Sequence[Found], columns: Mapping[str, Any]
) -> dict[str, str]:
    """Return the column that names files that exist, if none is named as one of images."""
    fields = _fields_of(records)
    if _has_image(fields, columns):
        return {}
    for name in fields:
        values = [one.fields.get(name) for one in records]
        texts = [one for one in values if isinstance(one, str) and one.strip()]
        if texts and _folder_with(path, texts[:1]) is not None:
            return {"image": name}
    return {}


def _folder_of(path: Path, rows: Sequence[Row]) -> Path | None:
    """Return the folder of annotations, or near them, that has the image of the first row."""
    named = next((one for one in rows if isinstance(one, SourceRow) and not one.is_held), None)
    if named is None:
        return None
    return _folder_with(path, (named.file_path, *named.other_paths))


def _folder_with(path: Path, names: Sequence[str]) -> Path | None:
    """Return the folder of annotations, or near them, that has a file of one of the names."""
    root = path if path.is_dir() else path.parent
    if not root.is_dir():  # a pattern of folders
        return None
    inner = [one for one in root.iterdir() if one.is_dir()]
    nearest = [root, *sorted(inner)[:_MOST_FOLDERS], root.parent]
    beside = [one for one in root.parent.iterdir() if one.is_dir()]
    for folder in [*nearest, *sorted(beside)[:_MOST_FOLDERS]]:
        if any(is_file_below(folder, one) for one in names):
            return folder
    return None


def format_of(path: Path, stated: TableColumns | None = None) -> str:
    """Return the format of a file or folder, whose columns may be stated.

    Raises:
        FormatError: it is in none that is known.
    """
    if path.is_dir():
        return _format_of_folder(path)
    names = "".join(path.suffixes[-2:]).removesuffix(".gz")
    for suffix, name in _OF_SUFFIXES.items():
        if names.endswith(suffix):
            return name
    if not path.exists():
        raise FormatError(f"there is no {path}")
    if likely := likely_formats(path):
        return likely[0]
    options = ReadOptions(columns=stated, images=False)
    for name in parsing_formats(path, ("json", "image-list", "csv"), options):
        return name
    raise FormatError(
        f"the format of {path} is not known; if its fields have names of their own, state that of "
        f"the image (--image); {_SEE}"
    )


def _format_of_folder(path: Path) -> str:
    there = list(islice(_names_below(path), 10_000))

    def has(*ends: str) -> bool:
        return any(name.endswith(ends) for name in there)

    if has("dataset_dict.json", "state.json", "metadata.jsonl", "metadata.csv", "metadata.parquet"):
        return "hf"
    if "samples.json" in there:
        return "fiftyone"
    if has("_stats.json"):
        return "img2dataset"
    if has(".tar", ".tar.gz", ".tgz"):
        return "webdataset"
    if has(".arrow"):
        return "hf"
    if has(".parquet"):
        return "parquet"
    if has(".jpg", ".jpeg", ".png", ".webp", ".bmp", ".JPG", ".JPEG", ".PNG"):
        return "folder"
    raise FormatError(f"{path} holds neither images nor files with images; {_SEE}")


def _names_below(path: Path) -> Iterator[str]:
    for one in path.rglob("*"):
        if one.is_file():
            yield one.relative_to(path).as_posix()


def _fields_of(records: Sequence[Found]) -> list[str]:
    names: dict[str, None] = {}
    for one in records:
        names |= dict.fromkeys(one.fields)
    return [name for name in names if name]


def _proposed(records: Sequence[Found], stated: Mapping[str, Any]) -> dict[str, str | list[str]]:
    """Return the columns to state besides: those that are not found by their names anyway."""
    names = [one for one in _fields_of(records) if one != stated.get("image")]
    columns: dict[str, str | list[str]] = {}
    identity = stated.get("identity") or next((one for one in _IDENTITIES if one in names), None)
    if identity not in (None, "identity"):
        columns["identity"] = str(identity)
    if "captions" not in stated and not any(one in names for one in CAPTIONS):
        taken = {identity, *CAPTIONS}
        usual: list[str] = [one for one in _OTHER_CAPTIONS if one in names and one not in taken]
        texts = usual[:1] or [one for one in names if one not in taken and _is_text(records, one)]
        if texts:
            columns["captions"] = texts
    split = next((one for one in _SPLITS if one in names), None)
    if split not in (None, "split"):
        columns["split_column"] = str(split)
    return columns


def _is_text(records: Sequence[Found], name: str) -> bool:
    """Tell whether a field holds sentences."""
    values = [one.fields.get(name) for one in records]
    texts: list[Any] = [one for one in values if isinstance(one, str) and one.strip()]
    return bool(texts) and sum(len(one.split()) for one in texts) >= _LEAST_WORDS * len(texts)
