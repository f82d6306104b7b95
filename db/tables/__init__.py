"""The tables of the provenance store. Words are those of W3C PROV.

What is searched by gets a column; the rest of an entity is its payload, the record as JSON. Nothing
is ever updated but the caches `entity.state` and `review_task.state`, which are folds of appended
rows, leases and low-water marks.

Entities are known outside by their content-derived `id`; the tables that hold a row or more for
each of them (`derivation`, `work`) use the number `seq` instead, which grows: an index over random
digests costs a page write a row, one over growing numbers almost nothing.

Tables are imported from the module of their subject. Whichever is imported, this package comes with
it, so that foreign keys always find the tables they name, and the metadata of `Base` is whole.
"""

from db.tables import embeddings, provenance, releases, review, withdrawals, work
from db.tables.base import Base

__all__ = ["Base", "embeddings", "provenance", "releases", "review", "withdrawals", "work"]
