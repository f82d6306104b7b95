"""The tables of the provenance store, in the terms of W3C PROV.

Properties that are searched get a column; the rest of an entity is its payload, the record as JSON.
No row is updated, except for the caches `entity.state` and `review_task.state`, which are computed
from appended rows, for leases and for low-water marks.

Outside the store, entities are identified by their content-derived `id`. Tables with one or more
rows per entity (`derivation`, `work`) use the increasing number `seq` instead: an index over random
digests costs a page write per row, one over increasing numbers almost nothing.

Import tables from the module of their subject. Each import also imports this package, so that
foreign keys find their tables and the metadata of `Base` is complete.
"""

from db.tables import embeddings, provenance, releases, review, withdrawals, work
from db.tables.base import Base

__all__ = ["Base", "embeddings", "provenance", "releases", "review", "withdrawals", "work"]
