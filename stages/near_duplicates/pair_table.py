"""Pairs of images in columns: millions of them take tens of bytes each, and no objects."""

from collections.abc import Iterator, Sequence
from operator import eq
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from schemas.near_duplicates import AlikePair, Sameness

NONE_BITS = 255
"""Stands for the bits of hashes that were not near; a hash has 64."""

COLUMNS = np.dtype(
    [
        ("first", np.int32),
        ("second", np.int32),
        ("doubtful", np.bool_),
        ("exact", np.bool_),
        ("mirrored", np.bool_),
        ("hash_bits", np.uint8),
        ("spectrum_distance", np.float64),
        ("embedding_distance", np.float64),
    ]
)
"""A row of the table: places of two images, and the fields of `AlikePair`; NaN is None."""

Rows = NDArray[np.void]
"""Rows of `COLUMNS`, of shape (p,)."""


def empty_rows(count: int) -> Rows:
    """Rows that say nothing yet: no two images, and nothing measured."""
    rows = np.zeros(count, COLUMNS)
    rows["hash_bits"] = NONE_BITS
    rows["spectrum_distance"] = rows["embedding_distance"] = np.nan
    return rows


class AlikePairs(Sequence[AlikePair]):
    """Pairs of images, in order of the first and then of the second; records are made as asked for.

    Attributes:
        names: the ids of all images, in their order.
        rows: the pairs, of shape (p,); see `COLUMNS`.
    """

    def __init__(self, names: Sequence[str], rows: Rows) -> None:
        self.names = names
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, place: int) -> AlikePair: ...
    @overload
    def __getitem__(self, place: slice) -> "AlikePairs": ...
    def __getitem__(self, place: int | slice) -> "AlikePair | AlikePairs":
        if isinstance(place, slice):
            return AlikePairs(self.names, self.rows[place])
        return self._record(self.rows[place].item())

    def __iter__(self) -> Iterator[AlikePair]:
        for start in range(0, len(self.rows), 4096):
            yield from map(self._record, self.rows[start : start + 4096].tolist())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AlikePairs):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment] # rows can be written

    def of(self, sameness: Sameness) -> "AlikePairs":
        """The pairs that are sure, or those that are in doubt."""
        return AlikePairs(
            self.names, self.rows[self.rows["doubtful"] == (sameness is Sameness.DOUBTFUL)]
        )

    def _record(self, row: tuple[Any, ...]) -> AlikePair:
        first, second, doubtful, exact, mirrored, bits, spectrum, embedding = row
        return AlikePair(
            first=self.names[first],
            second=self.names[second],
            sameness=Sameness.DOUBTFUL if doubtful else Sameness.SAME,
            exact=exact,
            mirrored=mirrored,
            hash_bits=None if bits == NONE_BITS else bits,
            spectrum_distance=_value(spectrum),
            embedding_distance=_value(embedding),
        )


def _value(number: float) -> float | None:
    return None if np.isnan(number) else number
