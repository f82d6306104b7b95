"""What rows and manifest say of entities against what `lineage/` tells of the same ones.

Of each entity one number is remembered: a hash of the field that is released in another place, too.
The hash is Python's own, keyed anew in every process, so that nobody can aim at it.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic_core import from_json

from release.lineage_ids import array_of, numbers_in

FIELDS = {
    "image": "sha256",
    "caption": "text",
    "rewrite": "text",
    "prompt": "text",
    "source": "licence",
}
"""What is held against other files, by the kind of an entity."""
_UNTOLD = 0
Numbers = NDArray[np.int64]
Places = NDArray[np.int64]


def told_by(kinds: pa.DictionaryArray, payloads: pa.Array) -> Numbers:
    """The number of each entity; 0 for one whose kind or payload says nothing of it.

    Raises:
        ValueError: a payload is no JSON object with the field of its kind.
    """
    numbers = np.full(len(payloads), _UNTOLD, np.int64)
    fields = [FIELDS.get(kind) for kind in kinds.dictionary.to_pylist()]
    indices = numbers_in(kinds.indices)
    for index, field in enumerate(fields):
        if field is None:
            continue
        places = np.flatnonzero(indices == index)
        texts = payloads.take(array_of(places)).to_pylist()
        numbers[places] = [_told(text, field) for text in texts]
    return numbers


def numbers_of(texts: Iterable[str]) -> Numbers:
    """The numbers of what rows or manifest say."""
    return np.fromiter(map(hash, texts), np.int64)


def images_of(derivations: Sequence[tuple[Places, Places]], is_image: NDArray[np.bool_]) -> Places:
    """The place of the image that each entity describes; -1 for those that describe none.

    `derivations` are places of texts and of what they were made of; `is_image` has one more at its
    end, as the result has.
    """
    described = np.full(len(is_image), -1, np.int64)
    nothing = np.empty(0, np.int64)
    below = np.concatenate([nothing, *(one for one, _ in derivations)])
    above = np.concatenate([nothing, *(one for _, one in derivations)])
    count = -1
    while count != (count := int(np.count_nonzero(described >= 0))):
        reached = np.where(is_image[above], above, described[above])
        new = (reached >= 0) & (described[below] < 0)
        described[below[new]] = reached[new]
    return described


def _told(payload: str | None, field: str) -> int:
    if payload is None:
        return _UNTOLD
    match from_json(payload):
        case {**values} if isinstance(told := values.get(field), str):
            return hash(told)
    raise ValueError(f"a payload must be a JSON object with {field}; got {payload!r:.100}")
