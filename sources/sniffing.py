"""What a file or folder of annotations is, and how Loupe would read it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from loupe.schemas.columns import TableColumns
from loupe.schemas.errors import FormatError
from loupe.sources.columns import CAPTIONS, Found, RecordImporter
from loupe.sources.images import is_file_below
from loupe.sources.importer import IMPORTERS, importer_for, likely_formats
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
_TERMS: Final = '# licence = "CC-BY-4.0"   # the terms of the images: a release needs them'


class Sniffed(NamedTuple):
    """How Loupe would read a source.

    Attributes:
        format: the format.
        columns: the columns that a source should state.
        fields: all that records hold, if columns can be stated.
        rows: the first rows, with these columns.
        images: the folder of the images, if it is another than that of the annotations.
    """

    format: str
    columns: Mapping[str, str | list[str]]
    fields: Sequence[str]
    rows: Sequence[Row]
    images: Path | None = None

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
        elif IMPORTERS[self.format].homepage is None:
            lines.append(
                '# licence = "CC-BY-4.0"   # the terms of the images: a release needs them'
            )
        more = "…" if len(self.fields) > _MOST_FIELDS else ""
        fields = ", ".join(self.fields[:_MOST_FIELDS])
        comment = f"# fields: {fields}{more}\n" if fields else ""
        return comment + "\n".join(["[[sources]]", *lines]) + "\n"


def sniff(path: Path) -> Sniffed:
    """Return how Loupe would read a file or folder.

    Raises:
        FormatError: it is in no format that is known, or cannot be read.
    """
    name = format_of(path)
    importer = importer_for(name)
    columns: dict[str, str | list[str]] = {}
    fields: list[str] = []
    if isinstance(importer, RecordImporter):
        names = importer.names(path) if isinstance(importer, ParquetImporter) else ()
        looked = TableColumns(captions=tuple(names)) if names else None
        found = importer.records(path, ReadOptions(columns=looked, images=False))
        first = [one for one in islice(found, _LOOKED_AT) if isinstance(one, Found)]
        columns, fields = _proposed(first), _fields_of(first)
    stated = ReadOptions(columns=TableColumns(**columns) if columns else None, images=False)
    rows = list(islice(importer.rows(path, stated), SHOWN_ROWS))
    return Sniffed(name, columns, fields, rows, _images_of(path, rows))


def _images_of(path: Path, rows: Sequence[Row]) -> Path | None:
    """Return the folder near annotations that has the image of the first row.

    None if that is the folder of the annotations, or no folder has it.
    """
    root = path if path.is_dir() else path.parent
    named = next((one for one in rows if isinstance(one, SourceRow) and not one.is_held), None)
    if named is None:
        return None
    inner = [one for one in root.iterdir() if one.is_dir()]
    nearest = [root, *sorted(inner)[:_MOST_FOLDERS], root.parent]
    beside = [one for one in root.parent.iterdir() if one.is_dir()]
    for folder in [*nearest, *sorted(beside)[:_MOST_FOLDERS]]:
        if any(is_file_below(folder, one) for one in (named.file_path, *named.other_paths)):
            return None if folder == root else folder
    return None


def format_of(path: Path) -> str:
    """Return the format of a file or folder.

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
    for name in ("json", "image-list", "csv"):
        try:
            first = next(importer_for(name).rows(path), None)
        except FormatError:
            continue
        if isinstance(first, SourceRow):
            return name
    raise FormatError(f"{path} is in no format that is known; {_SEE}")


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


def _proposed(records: Sequence[Found]) -> dict[str, str | list[str]]:
    """Return the columns to state: those that are not found by their names anyway."""
    names = _fields_of(records)
    columns: dict[str, str | list[str]] = {}
    identity = next((one for one in _IDENTITIES if one in names), None)
    if identity not in (None, "identity"):
        columns["identity"] = str(identity)
    if not any(one in names for one in CAPTIONS):
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
