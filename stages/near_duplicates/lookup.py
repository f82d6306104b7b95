"""Which images have the content of given ones, without comparing all with all."""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from schemas.near_duplicates import NearDuplicateSettings
from stages.near_duplicates.collection import Embeddings, Fingerprints, Places, collect
from stages.near_duplicates.pairs import pairs_of

_ASKED_AT_ONCE = 512


class AlikeImages(Mapping[str, frozenset[str]]):
    """For each image that has any the images of the same content, those in doubt among them.

    An image is compared with all others when it is first asked for; to ask for many at once by
    `look_up` is faster. What is known is kept as places, a few bytes for each pair.
    """

    def __init__(
        self,
        images: Fingerprints,
        settings: NearDuplicateSettings,
        embeddings: Embeddings | None = None,
        contents: Mapping[str, str] | None = None,
    ) -> None:
        """Takes a collection.

        Args:
            images: fingerprints by id.
            settings: when two images have the same content.
            embeddings: one row for each image, of shape (n, d).
            contents: what images are known to show: two of which that differs are not alike,
                whatever they look like.
        """
        self._settings = settings
        self._collection = collect(images, embeddings)
        self._places = {name: place for place, name in enumerate(images)}
        firsts = self._collection.firsts
        self._copies = np.argsort(firsts, kind="stable")
        self._starts = np.searchsorted(firsts[self._copies], np.arange(len(firsts) + 1))
        self._contents = _numbered([(contents or {}).get(name) for name in images])
        self._known: dict[int, Places] = {}

    def look_up(self, names: Iterable[str]) -> None:
        """Compares images with all others, those that are not of the collection left out."""
        firsts = self._collection.firsts
        places = {int(firsts[self._places[name]]) for name in names if name in self._places}
        open_ = np.array(sorted(places - self._known.keys()), np.int64)
        for start in range(0, len(open_), _ASKED_AT_ONCE):
            self._compare(open_[start : start + _ASKED_AT_ONCE])

    def __getitem__(self, name: str) -> frozenset[str]:
        self.look_up([name])
        place = self._places[name]
        first = int(self._collection.firsts[place])
        found = [self._with_bytes_of(one) for one in (first, *self._known[first].tolist())]
        names = self._collection.names
        others = frozenset(names[one] for one in np.concatenate(found)) - {name}
        if not others:
            raise KeyError(name)
        return others

    def __iter__(self) -> Iterator[str]:
        self.look_up(self._places)
        return (name for name in self._places if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _compare(self, places: Places) -> None:
        rows = pairs_of(self._collection, self._settings, places)
        contents = self._contents[rows["first"]], self._contents[rows["second"]]
        rows = rows[(contents[0] == contents[1]) | (contents[0] < 0) | (contents[1] < 0)]
        own = np.concatenate((rows["first"], rows["second"]))
        others = np.concatenate((rows["second"], rows["first"]))
        order = np.argsort(own, kind="stable")
        bounds = np.searchsorted(own[order], np.stack((places, places + 1)))
        for place, start, stop in zip(places.tolist(), *bounds.tolist(), strict=True):
            self._known[place] = others[order[start:stop]].copy()

    def _with_bytes_of(self, first: int) -> Places:
        return self._copies[self._starts[first] : self._starts[first + 1]]


def _numbered(contents: list[str | None]) -> Places:
    """A number for each content, the same for the same; -1 where it is not known."""
    numbers: dict[str, int] = {}
    return np.array(
        [-1 if one is None else numbers.setdefault(one, len(numbers)) for one in contents],
        np.int64,
    )
