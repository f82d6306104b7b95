"""Writes what is explored to a Parquet file, which LightlyStudio's environment loads.

A row is an image: its place, its texts, its fields as JSON beside their types, its vector, and
whether it is gone. Rows are written in pages, so that memory does not grow with the dataset.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from loupe.db.embeddings import find_vectors
from loupe.db.entities import pages
from loupe.db.store import Store
from loupe.flows.exploring.items import Filter, Item, Items, Value
from loupe.flows.exploring.looks import Looks
from loupe.flows.exploring.vectors import ImageVectors, Neighbours
from loupe.schemas.errors import UsageError
from loupe.schemas.validation import nearest_hint

_PAGE = 1000
_TYPES: dict[type, str] = {bool: "boolean", int: "integer", float: "float", str: "string"}
_TEXT = pa.struct([("text_id", pa.string()), ("text", pa.string())])
_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("path", pa.string()),
        ("width", pa.int32()),
        ("height", pa.int32()),
        ("captions", pa.list_(_TEXT)),
        ("fields", pa.string()),
        ("types", pa.string()),
        ("vector", pa.list_(pa.float32())),
        ("gone", pa.bool_()),
    ]
)


class Compared:
    """The vectors of the images, their neighbours, and the space of the texts' vectors."""

    def __init__(
        self,
        store: Store | None,
        images: ImageVectors | None,
        near: Neighbours | None,
        text_space: str | None,
    ) -> None:
        self._store = store
        self._images = images
        self._near = near
        self._text_space = text_space

    def vector(self, item: Item) -> Sequence[float] | None:
        """Return the vector of an image, if there is one."""
        found = None if self._images is None else self._images.of(item.sha256)
        return None if found is None else found.tolist()

    def fields(self, items: Sequence[Item]) -> Iterator[dict[str, Value]]:
        """Return for each image: how near its texts, and the nearest other image, are."""
        vectors = {}
        if self._store is not None and self._text_space is not None:
            digests = {text.digest for item in items for text in item.texts}
            vectors = find_vectors(self._store, self._text_space, digests)
        for item in items:
            yield self._of(
                item, [vectors[one.digest] for one in item.texts if one.digest in vectors]
            )

    def _of(self, item: Item, texts: Sequence[np.ndarray]) -> dict[str, Value]:
        found: dict[str, Value] = {}
        if self._images is None or self._near is None:
            return found
        place = self._images.places.get(item.sha256)
        if place is None:
            return found
        image = self._images.rows[place]
        if texts and len(texts[0]) == len(image):
            cosines = [float(image @ one / (np.linalg.norm(one) or 1)) for one in texts]
            found["similarity"] = round(min(cosines), 4)
        distance = float(self._near.distances[place])
        if np.isfinite(distance):
            found["nearest_distance"] = round(distance, 4)
        if (group := int(self._near.groups[place])) >= 0:
            found["duplicates"] = f"group {group}"
        return found


NOTHING_COMPARED = Compared(None, None, None, None)


class Written(NamedTuple):
    """How many images are shown, and the fields that those in question have."""

    shown: int
    fields: frozenset[str]


def write_table(
    path: Path,
    items: Items,
    ids: Iterable[str],
    compared: Compared,
    filters: Sequence[Filter] = (),
    on_page: Callable[[int], None] = lambda _images: None,
    looks: Looks | None = None,
) -> Written:
    """Write the images that meet all filters; those that do not, or are no longer there, are gone.

    `on_page` is called with the number of images that were read. With `looks`, the fields that
    files tell are added.
    """
    shown, names = 0, set[str]()
    with pq.ParquetWriter(path, _SCHEMA) as writer:
        for page in pages(ids, _PAGE):
            kept, met = _kept(items, page, compared, filters, looks)
            names |= met
            rows = [_row(item, compared) for item in kept]
            left = set(page) - {item.id for item in kept}
            rows += [{"id": id_, "gone": True} for id_ in sorted(left)]
            writer.write_table(pa.Table.from_pylist(rows, _SCHEMA))
            shown += len(kept)
            on_page(len(page))
    return Written(shown, frozenset(names))


def require_fields(filters: Sequence[Filter], fields: Collection[str]) -> None:
    """Refuse filters by fields that no image has.

    Raises:
        UsageError: one names such a field.
    """
    for one in filters:
        if one.name not in fields:
            hint = nearest_hint(one.name, fields)
            raise UsageError(f"no image has a field {one.name!r}; {hint}")


def _kept(
    items: Items,
    page: Sequence[str],
    compared: Compared,
    filters: Sequence[Filter],
    looks: Looks | None,
) -> tuple[list[Item], set[str]]:
    """Return the images of a page that meet all filters, and the names of the fields that exist."""
    read = list(items.read(page))
    seen = looks.fields(read) if looks else repeat({}, len(read))
    kept, names = [], set[str]()
    for item, look, more in zip(read, seen, compared.fields(read), strict=True):
        fields = look | item.fields | more
        names |= fields.keys()
        if all(one.keeps(fields) for one in filters):
            kept.append(item._replace(fields=fields))
    return kept, names


def _row(item: Item, compared: Compared) -> dict[str, object]:
    types = {name: _TYPES[type(value)] for name, value in item.fields.items()}
    return {
        "id": item.id,
        "name": item.name,
        "path": item.path,
        "width": item.width_px,
        "height": item.height_px,
        "captions": [{"text_id": one.id, "text": one.shown} for one in item.texts],
        "fields": json.dumps(item.fields, ensure_ascii=False),
        "types": json.dumps(types),
        "vector": compared.vector(item),
        "gone": False,
    }
