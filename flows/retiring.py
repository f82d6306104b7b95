"""Takes out of the way what was proposed under other settings, and puts it back when they return.

Nothing is deleted: what is not proposed any more is rejected with a reason that nobody else gives,
and what is proposed again is open again.
"""

from collections.abc import Callable, Sequence

from db.decisions import RETIRED, NewDecision, Verdict, append_decisions, last_reasons
from db.entities import StoredEntity, find, pages
from flows.context import RunContext

_PAGE = 500


def keep_current(
    context: RunContext,
    dataset: str,
    kind: str,
    is_current: Callable[[StoredEntity], bool],
    states: Sequence[str] = ("proposed",),
) -> None:
    """Rejects the entities in `states` that are not current; reopens those that are again."""
    for page in pages(find(context.store, dataset, kind, states=states), _PAGE):
        stale = [one.id for one in page if not is_current(one)]
        _decide(context, stale, "reject", RETIRED)
    for page in pages(find(context.store, dataset, kind, states=("rejected",)), _PAGE):
        reasons = last_reasons(context.store, [one.id for one in page if is_current(one)])
        back = [entity_id for entity_id, reason in reasons.items() if reason == RETIRED]
        _decide(context, back, "reopen", "proposed again")


def _decide(context: RunContext, ids: Sequence[str], verdict: Verdict, reason: str) -> None:
    decisions = [NewDecision(one, verdict, context.software, reason) for one in ids]
    if decisions:
        with context.store.write() as connection:
            append_decisions(connection, decisions)
