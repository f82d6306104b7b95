"""Withdraws what was proposed under other settings, and restores it when they return."""

from collections.abc import Callable, Sequence

from annotate.items import EDITED_FROM
from db.decisions import (
    PROPOSED_AGAIN,
    RETIRED,
    NewDecision,
    Verdict,
    append_decisions,
    last_reasons,
)
from db.entities import LIVE, StoredEntity, find, pages, parents_of
from flows.engine.context import RunContext

_PAGE = 500


def reconcile_superseded(
    context: RunContext,
    dataset: str,
    kind: str,
    is_current: Callable[[StoredEntity], bool | None],
    states: Sequence[str] = ("proposed",),
) -> None:
    """Rejects the entities in `states` that are not current; reopens those that are again.

    What `is_current` says nothing of (None) is left as it is: it is others' to decide on.
    """
    for page in pages(find(context.store, dataset, kind, states=states), _PAGE):
        stale = [one.id for one in page if is_current(one) is False]
        _decide(context, stale, "reject", RETIRED)
    for page in pages(find(context.store, dataset, kind, states=("rejected",)), _PAGE):
        reasons = last_reasons(context.store, [one.id for one in page if is_current(one)])
        back = [entity_id for entity_id, reason in reasons.items() if reason == RETIRED]
        _decide(context, back, "reopen", PROPOSED_AGAIN)


def reconcile_edits(
    context: RunContext, dataset: str, kind: str, is_current: Callable[[str], bool | None]
) -> None:
    """Does so with entities that people edit: each edit goes, and comes, with what it was made of.

    What people had answered counts again once what they were shown is proposed again; their edits
    are put back with that, and not here. `is_current` is asked of the id of what was proposed.
    """
    edited = parents_of(
        context.store, [one.id for one in find(context.store, dataset, kind)], EDITED_FROM
    )

    def stands(entity: StoredEntity) -> bool | None:
        first = entity.id
        while first in edited:
            first = edited[first][0]
        is_so = is_current(first)
        return None if is_so and entity.id in edited else is_so

    reconcile_superseded(context, dataset, kind, stands, (*LIVE, "superseded"))


def _decide(context: RunContext, ids: Sequence[str], verdict: Verdict, reason: str) -> None:
    decisions = [NewDecision(one, verdict, context.software, reason) for one in ids]
    if decisions:
        with context.store.write() as connection:
            append_decisions(connection, decisions)
