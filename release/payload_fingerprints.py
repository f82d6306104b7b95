"""Hashes of lineage payloads, which are compared with the rows of a release.

Two hashes are kept per entity: one of the field with its content (the bytes of an image, the words
of a text), and one of the other facts that its row repeats. The hash function is Python's own,
which is keyed differently in every process, so that collisions cannot be prepared.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic_core import from_json

from release.lineage.ids import array_of, numbers_in, truths_in
from release.publishable import published_name

_CONTENT = {"image": "sha256", "caption": "text", "rewrite": "text"}
_AUTHORED = frozenset({"caption", "rewrite", "strategy", "track"})
"""Kinds whose records name the model, tracker or person that made them."""
_IMAGE = ("source", "identity", "split", "file_path", "width_px", "height_px", "task", "tier")
_CONTRAST = ("difference", "detail", "plan", "way", "anchor_id")
_ROW_IMAGE = (
    *("source", "identity", "split", "source_file_path", "width_px", "height_px", "task", "tier"),
)
_ROW_CONTRAST = ("difference", "detail", "plan", "way", "anchor_entity_id")
_CROP = ("tracklet_entity_id", "frame", "time_seconds", "score")
_UNSTATED = 0
_MOST_AUTHORS = 100_000
_Numbers = NDArray[np.int64]


class PayloadFingerprints:
    """Reads payloads; `authors` are those of all texts and strategies.

    `licences` maps sources to licences. An image under the licence of its source states no terms of
    its own.
    """

    def __init__(self, licences: Mapping[str, set[str]]) -> None:
        self._licences = licences
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

    def of_rows(self, rows: Sequence[Mapping[str, Any]]) -> _Numbers:
        """The hashes of what rows state of their images, comparable with the second of `of`."""
        return numbers_of(map(self._facts_of_row, rows))

    def of(self, kinds: pa.DictionaryArray, payloads: pa.Array) -> tuple[_Numbers, _Numbers]:
        """Two hashes of each of these entities; 0 if its kind states nothing that rows repeat.

        The first is that of an image's digest or of a text, the second that of its other facts.

        Raises:
            ValueError: if a payload is not a JSON object with the fields of its kind.
        """
        content = np.full(len(payloads), _UNSTATED, np.int64)
        facts = np.full(len(payloads), _UNSTATED, np.int64)
        indices = numbers_in(kinds.indices)
        for index, kind in enumerate(kinds.dictionary.to_pylist()):
            if kind not in _CONTENT and kind not in _AUTHORED:
                continue
            places = np.flatnonzero(indices == index)
            places = places[truths_in(payloads.take(array_of(places)).is_valid())]
            texts = payloads.take(array_of(places)).to_pylist()
            content[places], facts[places] = self._hashes(kind, texts)
        return content, facts

    def _hashes(self, kind: str, payloads: Sequence[str]) -> tuple[list[int], list[int]]:
        """The hashes of payloads of a kind: of their content and of other facts."""
        content, facts = [], []
        field = _CONTENT.get(kind)
        facts_of = self._author_of if kind in _AUTHORED else self._facts_of_image
        for payload in payloads:
            try:
                values = from_json(payload)
                content.append(hash(values[field]) if field else _UNSTATED)
                facts.append(facts_of(values))
            except (KeyError, TypeError, AttributeError, ValueError) as error:
                raise ValueError(
                    f"a payload must be the record of a {kind}; got {payload!r:.100}"
                ) from error
        return content, facts

    def _author_of(self, values: Mapping[str, Any]) -> int:
        name = published_name(values.get("author") or values["source"])
        if len(self.authors) < _MOST_AUTHORS:
            self.authors.add(name)
        return hash(name)

    def _facts_of_image(self, values: Mapping[str, Any]) -> int:
        contrast, own = values.get("contrast"), values.get("attribution") or {}
        facts = (
            *map(values.get, _IMAGE),
            *(map(contrast.get, _CONTRAST) if contrast else ()),
            *self._terms(values["source"], own),
        )
        return hash(facts)

    def _facts_of_row(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        contrast = row.get("contrast")
        return (
            *map(row.get, _ROW_IMAGE),
            *(map(contrast.get, _ROW_CONTRAST) if contrast else ()),
            *self._terms(row["source"], row),
        )

    def _terms(self, source: str, own: Mapping[str, Any]) -> tuple[Any, ...]:
        licence, creator, page = map(own.get, ("licence", "creator", "source_url"))
        if creator is None and page is None and licence in self._licences.get(source, ()):
            licence = None
        return licence, creator, page


def hash_of_crop(crop: Mapping[str, Any], sha256: str) -> int:
    """The hash of the facts of an image that was cut from a video."""
    return hash((sha256, *map(crop.get, _CROP), *crop["box_xyxy"]))


def numbers_of(values: Iterable[Any]) -> _Numbers:
    """The hashes of values of rows."""
    return np.fromiter(map(hash, values), np.int64)


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
