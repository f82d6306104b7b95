"""Synchronize which entities are active with the current settings and decisions."""

from collections.abc import Callable, Sequence

from db.decisions import set_active
from db.entities import LIVE, StoredEntity, find, pages, parents_of
from flows.engine.context import RunContext
from schemas.provenance import Role

_PAGE = 500


def sync_active(
    context: RunContext,
    dataset: str,
    kind: str,
    is_active: Callable[[StoredEntity], bool | None],
    states: Sequence[str] = ("proposed",),
) -> None:
    """Deactivate entities in `states` that are no longer needed; reactivate needed ones.

    Entities for which `is_active` returns None are left as they are. A reactivated entity returns
    to its previous state.
    """
    for page in pages(find(context.store, dataset, kind, states=(*states, "inactive")), _PAGE):
        called_for = {one.id: is_active(one) for one in page}
        for active in (False, True):
            ids = [one.id for one in page if called_for[one.id] is active]
            set_active(context.store, ids, context.software, active=active)


def sync_active_edits(
    context: RunContext, dataset: str, kind: str, is_active: Callable[[str], bool | None]
) -> None:
    """Do the same for entities that people edit: an edit is active if its original is.

    `is_active` is called with the id of the proposed entity.
    """
    entities = [one.id for one in find(context.store, dataset, kind)]
    edited = parents_of(context.store, entities, Role.EDITED_FROM)

    def follows(entity: StoredEntity) -> bool | None:
        first = entity.id
        while first in edited:
            first = edited[first][0]
        return is_active(first)

    sync_active(context, dataset, kind, follows, (*LIVE, "superseded"))
