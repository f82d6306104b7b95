"""Exports of FiftyOne: a folder with `samples.json` and the images in `data/`."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from loupe.schemas.json_stream import stream_sections
from loupe.sources.annotations import SPLIT_NAMES, FieldError, bad_row, checked_object
from loupe.sources.columns import Found, RecordImporter, folded
from loupe.sources.files import digest_file
from loupe.sources.records import BadRow, ReadOptions

_FILE: Final = "samples.json"


class FiftyOneImporter(RecordImporter):
    """Reads a dataset of FiftyOne (`FiftyOneDataset`) with its own fields.

    The label of a classification is the value of its field. A tag that names a split is the split.
    """

    def digest(self, path: Path) -> str:
        """Return the digest of its list of samples.

        Raises:
            FormatError: it cannot be read.
        """
        return digest_file(self._file(path))

    def records(self, path: Path, options: ReadOptions) -> Iterator[Found | BadRow]:
        """Yield the samples.

        Raises:
            FormatError: there is no list of samples.
        """
        file = self._file(path)
        sections = {"samples": frozenset({"filepath"})}
        for element in self.elements(file, stream_sections, sections, options):
            if isinstance(element, BadRow):
                yield element
                continue
            try:
                sample = checked_object(element.value)
            except FieldError as fault:
                yield bad_row(fault, _FILE, element.index, element.value)
                continue
            fields = {name: _plain(one) for name, one in sample.items()}
            tags = fields.get("tags") or ()
            split = next((one for one in tags if str(one).casefold() in SPLIT_NAMES), None)
            yield Found(_FILE, element.index, folded(fields), split=split)

    def _file(self, path: Path) -> Path:
        file = path / _FILE if path.is_dir() else path
        if not file.is_file():
            raise self.stranger(path, f": it has no {_FILE}")
        return file


def _plain(value: Any) -> Any:
    """Return the label of a classification, or the labels of several; else the value itself."""
    if not isinstance(value, Mapping):
        return value
    if "label" in value:
        return value["label"]
    several = value.get("classifications")
    return [one.get("label") for one in several] if isinstance(several, list) else value
