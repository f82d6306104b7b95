"""Ids in the lineage of a release, and hashes of its payloads for comparison with the rows.

Two hashes are kept per entity: one of the field with its content (the bytes of an image, the words
of a text), and one of the other facts that its row repeats. The hash function is Python's own,
which is keyed differently in every process, so that collisions cannot be prepared.
"""

import binascii
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic_core import from_json

from loupe.release.lineage import LineageTable
from loupe.release.parquet import bounded_batches, opened_parquet
from loupe.release.publishable import published_name
from loupe.release.rows import Column, own_values
from loupe.schemas.base import canonical_json

# Ids as bytes: a million of them take 16 MB, and are looked up without a loop.

_DIGITS = 32
_ID = np.dtype("S16")
Ids = NDArray[np.bytes_]
"""Ids of 128 bits as bytes, shape (n,)."""


def numbers_in(values: pa.Array) -> NDArray[np.int64]:
    """Integers without nulls, or booleans as 0 and 1.

    `to_numpy` would import pandas, which takes 40 MB and half a second.
    """
    return np.from_dlpack(values.cast(pa.int64())).astype(np.int64, copy=False)


def truths_in(values: pa.Array) -> NDArray[np.bool_]:
    """Booleans without nulls."""
    return numbers_in(values).astype(bool)


def text_array(texts: Sequence[str]) -> pa.StringArray:
    """An array of texts; unlike `pa.array`, it does not import pandas."""
    encoded = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(
        len(encoded), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))
    )


def text_scalar(text: str) -> pa.StringScalar:
    """A text scalar for kernels, which would convert a `str` using pandas."""
    return text_array([text])[0]


def array_of(numbers: NDArray[np.int64]) -> pa.Array:
    """An array of numbers, made without pandas."""
    held = pa.py_buffer(np.ascontiguousarray(numbers))
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, held])


def ids_of(texts: Sequence[str]) -> Ids:
    """Convert valid ids of 32 hex digits."""
    return np.frombuffer(bytes.fromhex("".join(texts)), _ID)


def ids_in(texts: pa.Array) -> Ids:
    """Convert and check a column of ids of 32 hex digits each.

    Raises:
        ValueError: if a value is something else, or null.
    """
    if isinstance(texts, pa.DictionaryArray):
        return ids_in(texts.dictionary)[numbers_in(texts.indices)]
    if not len(texts):
        return np.empty(0, _ID)
    if texts.null_count:
        raise ValueError("an id is missing")
    _, offsets, digits = texts.buffers()
    ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    digits = digits[int(ends[0]) : int(ends[-1])].to_pybytes()
    if np.any(np.diff(ends) != _DIGITS) or digits != digits.lower():
        raise ValueError(f"an id must have {_DIGITS} lower-case hex digits")
    try:
        return np.frombuffer(binascii.unhexlify(digits), _ID)
    except binascii.Error as error:
        raise ValueError(f"an id must have {_DIGITS} hex digits ({error})") from error


def hex_of(id_: bytes) -> str:
    """An id as hex digits; NumPy strips zeros at its end."""
    return id_.ljust(_ID.itemsize, b"\0").hex()


def framed_column(texts: pa.Array) -> pa.Array:
    """Each text preceded by its length, as in `loupe.schemas.base.framed`."""
    lengths = pc.binary_length(texts).cast(pa.string())
    return pc.binary_join_element_wise(lengths, texts, text_scalar(":"))


class SortedIds:
    """Unique ids in ascending order."""

    def __init__(self, pieces: Sequence[Ids] = ()) -> None:
        self.ids: Ids = np.concatenate([np.empty(0, _ID), *pieces])
        self._first = _first_half(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    def places(self, ids: Ids) -> NDArray[np.int64]:
        """The position of each of these ids, -1 for missing ones; shape (n,)."""
        if not len(self):
            return np.full(len(ids), -1, np.int64)
        wanted = _first_half(ids)
        order = np.argsort(wanted)  # looking up sorted ids is three times as fast
        places = np.empty(len(ids), np.int64)
        places[order] = np.searchsorted(self._first, wanted[order])
        places[places == len(self)] = 0
        # only manipulated ids have equal first halves
        tied = (self.ids[places] != ids) & (self._first[places] == wanted)
        places[tied] = np.searchsorted(self.ids, ids[tied])
        places[places == len(self)] = 0
        return np.where(self.ids[places] == ids, places, -1)


def _first_half(ids: Ids) -> NDArray[np.uint64]:
    """The first 64 bits of each id, which are compared faster than bytes."""
    return ids.view(">u8")[::2].astype(np.uint64)


# Reads tables one piece at a time.

PIECE_ROWS = 1 << 14
READING_FAULTS = (
    *(pa.ArrowException, ValueError, OSError, KeyError, IndexError, TypeError),
    *(OverflowError, MemoryError, RuntimeError),
)
"""The exceptions that pyarrow raises for damaged files."""


def pieces(folder: Path, table: LineageTable) -> Iterator[pa.RecordBatch]:
    """The columns of a table in non-empty pieces, repeating ones as dictionaries.

    All values are checked against their types (text is UTF-8, indices of dictionaries are valid),
    and nulls occur only in columns that allow them.

    Raises:
        Exception: one of `READING_FAULTS` if it is not such a table, or damaged.
    """
    path, encoded = folder / table.path, table.repeating
    wanted = pa.schema(
        (one.name, pa.dictionary(pa.int32(), one.type) if one.name in encoded else one.type)
        for one in table.schema
    )
    with opened_parquet(path, read_dictionary=set(encoded) & set(table.schema.names)) as file:
        if not file.schema_arrow.equals(wanted):
            names = file.schema_arrow.names
            raise ValueError(f"its columns must be {table.schema.names}; got {names}")
        for piece in bounded_batches(file, path, PIECE_ROWS):
            if piece.num_rows:
                _check(table, piece)
                yield piece
            # otherwise Arrow keeps up to four times as much memory
            pa.default_memory_pool().release_unused()


def _check(table: LineageTable, piece: pa.RecordBatch) -> None:
    piece.validate(full=True)
    for name in piece.schema.names:
        column = piece[name]
        is_empty = column.null_count > 0
        if isinstance(column, pa.DictionaryArray):
            is_empty |= column.dictionary.null_count > 0 and name not in table.nullable
        if pa.types.is_list(column.type):
            is_empty |= column.flatten().null_count > 0
        if is_empty and name not in table.nullable:
            raise ValueError(f"there is a row without {name}")


_CONTENT = {"image": "sha256", "caption": "text", "rewrite": "text"}
_AUTHORED = frozenset({"caption", "rewrite", "strategy", "track"})
"""Kinds whose records name the model, tracker or person that made them."""
_IMAGE = ("source", "identity", "split", "width_px", "height_px", "task", "tier")
_CONTRAST = ("difference", "detail", "plan", "method")
_CROP = ("tracklet_entity_id", "frame", "time_seconds", "score")
_UNSTATED = 0
_MOST_AUTHORS = 100_000
_Numbers = NDArray[np.int64]


class PayloadFingerprints:
    """Reads payloads; `authors` are those of all texts and strategies.

    `licences` maps sources to licences. An image under the licence of its source states no terms of
    its own. `own` are the columns of the dataset's own records, by kind.
    """

    def __init__(
        self, licences: Mapping[str, set[str]], own: Mapping[str, Column] = MappingProxyType({})
    ) -> None:
        self._licences = licences
        self._own = own
        self.authors: set[str] = set()

    def of_crops(self, payload: str | None, tracklet: str) -> Iterator[int]:
        """The hashes of the frames of a tracklet, comparable with those of `hash_of_crop`.

        Raises:
            ValueError: if the payload is not a tracklet.
        """
        try:
            for frame in from_json(payload)["frames"] if payload is not None else ():
                crop = {**frame, "tracklet_entity_id": tracklet}
                yield hash_of_crop(crop, frame["crop"]["sha256"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{tracklet} must be a tracklet; got {payload!r:.100}") from error

    def of_row(self, row: Mapping[str, Any]) -> int:
        """The hash of what a row states of its image, comparable with the second of `of`."""
        return self._facts(row, "source_file_path", "anchor_entity_id", row)

    def of(self, kinds: pa.DictionaryArray, payloads: pa.Array) -> tuple[_Numbers, _Numbers]:
        """Two hashes of each of these entities; 0 if its kind states nothing that rows repeat.

        The first is that of an image's digest or of a text, the second that of its other facts.

        Raises:
            ValueError: if a payload is not a JSON object with the fields of its kind.
        """
        words, indices = kinds.dictionary.to_pylist(), kinds.indices.to_pylist()
        payload = zip(indices, payloads.to_pylist(), strict=True)
        hashes = np.array([self._hashes(words[index], text) for index, text in payload], np.int64)
        return hashes[:, 0], hashes[:, 1]

    def _hashes(self, kind: str, payload: str | None) -> tuple[int, int]:
        if payload is not None and kind in self._own:
            values = own_values(self._own[kind], _object(payload))
            return hash(canonical_json(values)), _UNSTATED
        if payload is None or (kind not in _CONTENT and kind not in _AUTHORED):
            return _UNSTATED, _UNSTATED
        try:
            values = from_json(payload)
            content = hash(values[_CONTENT[kind]]) if kind in _CONTENT else _UNSTATED
            own = self._author_of(values) if kind in _AUTHORED else self._facts_of_image(values)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            what = f"a payload must be the record of a {kind}; got {payload!r:.100}"
            raise ValueError(what) from error
        return content, own

    def _author_of(self, values: Mapping[str, Any]) -> int:
        name = published_name(values.get("author") or values["source"])
        if len(self.authors) < _MOST_AUTHORS:
            self.authors.add(name)
        return hash(name)

    def _facts_of_image(self, values: Mapping[str, Any]) -> int:
        return self._facts(values, "file_path", "anchor_id", values.get("attribution") or {})

    def _facts(
        self, values: Mapping[str, Any], path: str, anchor: str, own: Mapping[str, Any]
    ) -> int:
        """The hash of the facts of an image; `path` and `anchor` are the names of two of them."""
        contrast = values.get("contrast")
        licence, creator, page = map(own.get, ("licence", "creator", "source_url"))
        licences = self._licences.get(values["source"], ())
        if creator is None and page is None and licence in licences:
            licence = None
        facts = (
            *map(values.get, (*_IMAGE, path)),
            *(map(contrast.get, (*_CONTRAST, anchor)) if contrast else ()),
            *(licence, creator, page),
        )
        return hash(facts)


def _object(payload: str) -> dict[str, Any]:
    values = from_json(payload)
    if not isinstance(values, dict):
        raise ValueError(f"a payload must be a JSON object; got {payload!r:.100}")  # noqa: TRY004 - a fault of the file
    return values


def hash_of_crop(crop: Mapping[str, Any], sha256: str) -> int:
    """The hash of the facts of an image that was cut from a video."""
    return hash((sha256, *map(crop.get, _CROP), *crop["box_xyxy"]))


def images_of(links: _Numbers, is_image: NDArray[np.bool_]) -> _Numbers:
    """The position of the image that each entity describes; -1 if it describes none.

    `links` are the positions of texts and of their parents, shape (2, n). `is_image` has one more
    element at its end, as has the result.
    """
    described = np.full(len(is_image), -1, np.int64)
    below, above = links
    count = -1
    while count != (count := int(np.count_nonzero(described >= 0))):
        reached = np.where(is_image[above], above, described[above])
        new = (reached >= 0) & (described[below] < 0)
        described[below[new]] = reached[new]
    return described
