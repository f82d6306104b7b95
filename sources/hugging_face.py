"""Datasets of Hugging Face: saved ones, caches, and folders as they are on the hub."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from loupe.schemas.errors import LoupeError
from loupe.schemas.extras import needs_extra
from loupe.sources.annotations import FieldError, Importer, bad_row, split_in_name
from loupe.sources.columns import UNREAD, Found, RecordImporter, folded
from loupe.sources.files import digest_of_files
from loupe.sources.records import BadRow, ReadOptions

_ALL: Final = "all"
"""Stands for the split of a dataset that was saved without one."""
_SAVED: Final = ("dataset_dict.json", "state.json")


class HuggingFaceImporter(RecordImporter):
    """Reads a folder of a dataset with the library of Hugging Face, split by split.

    It may be one that `save_to_disk` wrote, the cache of `load_dataset`, or one that `load_dataset`
    loads: Parquet, CSV, JSON lines, images with `metadata.jsonl`, `.csv` or `.parquet`, tar shards.
    No code of a dataset is run. Classes (`ClassLabel`) are read by their names.
    """

    def digest(self, path: Path) -> str:
        """Return the digest of the names and digests of all its files.

        Raises:
            FormatError: one cannot be read, or it is no folder.
        """
        return digest_of_files(path, _files(self, path))

    def records(self, path: Path, options: ReadOptions) -> Iterator[Found | BadRow]:
        """Yield the rows of all splits; what follows a damaged place of a split is one bad row.

        Raises:
            FormatError: the library cannot load it.
            MissingExtraError: the library is not installed.
        """
        _files(self, path)
        for name, split in _loaded(self, path).items():
            index, named = -1, split_in_name(name) or name
            labels = _labels(split)
            try:
                for index, row in enumerate(_rows(split, options)):
                    by_name = {key: _named(one, labels.get(key)) for key, one in row.items()}
                    fields = folded(_relative(by_name, path))
                    yield Found(name, index, fields, split=None if name == _ALL else named)
            except LoupeError:
                raise
            except Exception as fault:  # noqa: BLE001 - of any reader of the library
                what = f"the split {name} breaks after {index + 1:,} rows: {_said(fault)}"
                yield bad_row(FieldError("", "unreadable_split", what), name, index + 1, "", "file")


def _files(importer: Importer, path: Path) -> list[Path]:
    if not path.is_dir():
        raise importer.stranger(path, ": it is not a folder; name the folder of the dataset")
    found = []
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(one for one in folders if not one.startswith("."))
        found += [Path(folder, one) for one in names if not one.startswith(".")]
    return sorted(found)


def _loaded(importer: Importer, path: Path) -> Mapping[str, Any]:
    """Return the splits of a folder, by name.

    Raises:
        FormatError: the library cannot load it.
    """
    with needs_extra(f"reading the dataset {path.name!r} of Hugging Face", "hf"):
        import datasets
    was_shown = datasets.utils.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        if any((path / name).is_file() for name in _SAVED):
            saved = datasets.load_from_disk(str(path))
        elif cached := sorted(path.glob("*.arrow")):
            saved = _cached(cached)
        else:
            saved = datasets.load_dataset(str(path), streaming=True)
    except Exception as fault:
        raise importer.stranger(path, f": {_said(fault)}") from fault
    finally:
        if not was_shown:
            datasets.enable_progress_bars()
    return saved if isinstance(saved, dict) else {str(saved.split or _ALL): saved}


def _cached(files: Iterable[Path]) -> dict[str, Any]:
    """Return the splits of a cache, whose files are called `NAME-SPLIT[-00000-of-00002].arrow`."""
    import datasets

    of_splits: dict[str, list[Any]] = {}
    for file in files:
        split = split_in_name(file.stem) or "train"
        of_splits.setdefault(split, []).append(datasets.Dataset.from_file(str(file)))
    return {name: datasets.concatenate_datasets(parts) for name, parts in of_splits.items()}


def _rows(split: Any, options: ReadOptions) -> Iterator[dict[str, Any]]:
    """Yield the rows of a split, with their images as they are stored."""
    import datasets

    held = []
    for name, feature in (split.features or {}).items():
        if isinstance(feature, datasets.Image):
            split = split.cast_column(name, datasets.Image(decode=False))
            held.append(name)
    for row in split:
        for name in held if not options.images else ():
            if row[name] and row[name].get("bytes") is not None:
                row[name] = UNREAD
        yield row


def _relative(row: dict[str, Any], root: Path) -> dict[str, Any]:
    """Return a row whose images are named below the folder of the dataset."""
    for name, value in row.items():
        if not isinstance(value, dict) or value.get("bytes") is not None:
            continue
        place = value.get("path")
        if isinstance(place, str) and Path(place).is_relative_to(root.absolute()):
            row[name] = {**value, "path": str(Path(place).relative_to(root.absolute()))}
    return row


def _labels(split: Any) -> dict[str, Any]:
    import datasets

    features = (split.features or {}).items()
    return {name: one for name, one in features if isinstance(one, datasets.ClassLabel)}


def _named(value: Any, label: Any) -> Any:
    return label.int2str(value) if label is not None and isinstance(value, int) else value


def _said(fault: Exception) -> str:
    lines = [line for line in str(fault).splitlines() if line.strip()]
    return f"{type(fault).__name__}: {lines[0]}" if lines else type(fault).__name__
