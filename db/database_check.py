"""Check the database itself: its file, its references, and the ids of its entities."""

from collections.abc import Iterator

from sqlalchemy import select, text

from loupe.db.entities import pages, scan
from loupe.db.store import Store
from loupe.db.tables import Derivation, Entity, ParentEntity
from loupe.schemas.grouping import grouped
from loupe.schemas.provenance import is_id_of
from loupe.schemas.wording import many

_PAGE = 1000
_RESTORE = "restore the database from a backup"


def check_database(store: Store) -> Iterator[str]:
    """Yield a sentence for each problem: damaged pages, broken references, entities that changed.

    Raises:
        ServiceError: the database is so damaged that it cannot be read on.
    """
    if store.engine.dialect.name == "sqlite":
        yield from _damage(store)
    yield from _changed_entities(store)


def _damage(store: Store) -> Iterator[str]:
    """Yield what SQLite finds; PostgreSQL has its own tools, and always enforces references."""
    with store.read() as connection:
        for (found,) in connection.execute(text("PRAGMA integrity_check")):
            if found != "ok":
                yield f"the file is damaged: {' '.join(found.split())}; {_RESTORE}"
        broken: dict[tuple[str, str], int] = {}
        for table, _, parent, _ in connection.execute(text("PRAGMA foreign_key_check")):
            broken[table, parent] = broken.get((table, parent), 0) + 1
    for (table, parent), count in broken.items():
        rows = many(count, "row")
        yield f"{rows} of the table {table} refer to rows of {parent} that are missing; {_RESTORE}"


def _changed_entities(store: Store) -> Iterator[str]:
    query = select(Entity.seq, Entity.id, Entity.dataset, Entity.kind, Entity.payload)
    for page in pages(scan(store, query, _PAGE), _PAGE):
        between = Derivation.child_seq.between(page[0].seq, page[-1].seq)
        linked = select(Derivation.child_seq, Derivation.role, ParentEntity.id).join(
            ParentEntity, ParentEntity.seq == Derivation.parent_seq
        )
        with store.read() as connection:
            links = connection.execute(linked.where(between))
            parents = grouped((child, (role, parent)) for child, role, parent in links)
        for seq, id_, dataset, kind, payload in page:
            if not is_id_of(id_, dataset, kind, payload, parents[seq]):
                yield (
                    f"the {kind} {id_} of {dataset} is not what it was stored as: its id is not "
                    f"the digest of its content and parents; {_RESTORE}"
                )
