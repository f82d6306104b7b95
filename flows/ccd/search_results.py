"""What a search found for requests: its hits, their images, and why others have none."""

from collections import Counter
from collections.abc import Sequence

from db.entities import StoredEntity, children_of, fetch
from db.store import Store
from db.work import rejections_of, worked_inputs
from flows.ccd.downloading import DOWNLOADED_FROM, Found
from flows.ccd.searching import FOUND_FOR
from schemas.contrast_records import FoundPicture


class ResultsOfSearch:
    """The results of one search for some orders; read once.

    Args:
        store: where they lie.
        searched: the search.
        orders: that it was made for.
    """

    def __init__(self, store: Store, searched: Found, orders: Sequence[StoredEntity]) -> None:
        self._store = store
        self._search_plan, self._download_plan = searched.plans
        self._contents = searched.contents
        below = children_of(store, [one.id for one in orders], FOUND_FOR)
        stored = fetch(store, {id_ for many in below.values() for id_ in many})
        self._hits = {
            order: [stored[id_] for id_ in many if stored[id_].group == searched.search]
            for order, many in below.items()
        }
        every = [hit for many in self._hits.values() for hit in many]
        self._answered = worked_inputs(store, self._search_plan, [one.seq for one in orders])
        self._looked_at = worked_inputs(store, self._download_plan, [hit.seq for hit in every])
        got = children_of(store, [hit.id for hit in every], DOWNLOADED_FROM)
        pictures = fetch(store, {id_ for many in got.values() for id_ in many})
        self._pictures = {
            hit: [pictures[id_] for id_ in many if self._counts(pictures[id_])]
            for hit, many in got.items()
        }

    def is_answered(self, order: StoredEntity) -> bool:
        """Whether the service has answered its query."""
        return order.seq in self._answered

    def hits(self, order: StoredEntity) -> list[StoredEntity]:
        """What the service named."""
        return self._hits.get(order.id, [])

    def is_looked_at(self, order: StoredEntity) -> bool:
        """Whether each of its hits was downloaded or refused."""
        return all(hit.seq in self._looked_at for hit in self.hits(order))

    def pictures(self, order: StoredEntity) -> list[StoredEntity]:
        """What was downloaded as is wanted now, by rank: of each hit what came last."""
        found = [
            max(pictures, key=lambda one: one.seq)
            for hit in self.hits(order)
            if (pictures := self._pictures.get(hit.id))
        ]
        return sorted(found, key=lambda one: one.record(FoundPicture).found.hit.rank)

    def refusals(self, order: StoredEntity) -> dict[str, int]:
        """How many of its hits were refused, by reason."""
        hits = [hit.seq for hit in self.hits(order)]
        refused = rejections_of(self._store, self._download_plan, hits)
        return dict(Counter(one.reason for one in refused.values()))

    def _counts(self, picture: StoredEntity) -> bool:
        return picture.record(FoundPicture).contents == self._contents
