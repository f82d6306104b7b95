"""Commands of `loupe queue` for the lead: items, gold items, priorities and hours."""

import sys
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from loupe.flows.cli.commands import command, group
from loupe.flows.cli.options import (
    QueueArgument,
    QueuesArgument,
    opened_queue,
    opened_queues,
    settings,
)
from loupe.flows.cli.output import Answer, Figure, Note, Table, first
from loupe.schemas.errors import UsageError
from loupe.schemas.wording import many

if TYPE_CHECKING:
    from loupe.annotate.gold import AddedGold
    from loupe.annotate.queues import Queue
    from loupe.db.store import Store

_SHOWN = 20
_STATES_IN_WORDS = {"undecided": "proposed", "edited": "superseded"}
"""The states as pages and reports call them."""

IdsArgument = Annotated[
    list[str] | None, typer.Argument(help="Ids of the items; - reads them from standard input.")
]


def reopen(
    queue: QueueArgument,
    entities: IdsArgument = None,
    *,
    found_wrong: bool = False,
    reason: str | None = None,
) -> Answer:
    """Reopen decided items for review by people.

    People are asked whatever the policy. The answers stay in the store but no longer count. The
    next push asks people who have not seen the items, or an adjudicator.

    Args:
        found_wrong: Also reopen all accepted items that an audit found wrong.
        reason: Reason, stored with the decision (default: "the lead asks again", or "an audit found
            it wrong").
    """
    from loupe.db.review_audits import wrong_in_audits
    from loupe.flows.lead_actions import COMMAND_LINE
    from loupe.flows.lead_actions import reopen as reopen_items

    store, chosen = opened_queue(queue)
    more: list[str] = []
    if found_wrong:
        more = wrong_in_audits(store, chosen.name)
        if not more and not entities:
            raise UsageError(f"no audit found an accepted item of {chosen.name} wrong")
    ids = _ids(store, chosen, entities, more)
    reason = reason or ("an audit found it wrong" if found_wrong else "the lead asks again")
    done = reopen_items(store, chosen, ids, reason, COMMAND_LINE)
    return Answer({"queue": chosen.name, **done._asdict()}, [done.sentence(chosen.name)])


def search(
    queue: QueueArgument,
    words: str = "",
    *,
    state: list[str] | None = None,
    suspect: Annotated[bool | None, typer.Option("--suspect/--faithful")] = None,
    ids: bool = False,
) -> Answer:
    """Find items of a queue.

    Pipe the ids to another command: loupe queue search … --ids | loupe queue accept QUEUE -
    --reason "…"

    Args:
        words: Text that the record of an item contains; case is ignored.
        state: Only items in this state: undecided (proposed), accepted, rejected, edited
            (superseded), inactive or withdrawn; repeatable.
        suspect: Only undecided items that the automatic check flagged, or did not flag.
        ids: Print only ids, one per line.
    """
    from loupe.annotate.queues import search_items
    from loupe.schemas.provenance import State

    known = (*get_args(State), *_STATES_IN_WORDS)
    for unknown in (one for one in state or () if one not in known):
        raise UsageError(f"--state must be one of {', '.join(known)}; got {unknown!r}")
    states = [_STATES_IN_WORDS.get(one, one) for one in state or ()] or None
    store, chosen = opened_queue(queue)
    found = list(search_items(store, chosen, words, states, suspect=suspect))
    if ids:
        return Answer(found, [one.entity for one in found])
    lines = [
        f"{one.entity} {one.state}{' (flagged)' if one.suspect else ''}: {one.text[:100]}"
        for one in found
    ]
    return Answer(found, [*lines, many(len(found), "item")])


def accept(queue: QueueArgument, entities: IdsArgument = None, *, reason: str) -> Answer:
    """Accept undecided items in bulk, as the lead.

    The dataset card of a release counts them separately, as "lead". The next push removes their
    tasks.

    Args:
        reason: Reason, stored with the decision.
    """
    from loupe.flows.lead_actions import COMMAND_LINE
    from loupe.flows.lead_actions import accept as accept_items

    store, chosen = opened_queue(queue)
    ids = _ids(store, chosen, entities)
    accepted, asked = accept_items(store, chosen, ids, reason, COMMAND_LINE), len(set(ids))
    return Answer(
        {"queue": chosen.name, "asked": asked, "accepted": accepted},
        [f"{chosen.name}: {accepted:,} of {asked:,} items accepted"],
    )


def assign(queue: QueueArgument, entity: str, name: str) -> Answer:
    """Give an undecided item to a person who has not had it yet.

    If the item is a conflict, it moves to this adjudicator. Otherwise the person gives one of the
    answers. If enough people have the item, the person replaces one who has not opened the task.

    Args:
        entity: The id of the item.
        name: Name of the annotator (not the pseudonym).
    """
    from loupe.flows.engine.desks import open_desks, wake_watcher
    from loupe.flows.lead_actions import COMMAND_LINE
    from loupe.flows.lead_actions import assign as assign_item

    store, chosen = opened_queue(queue)
    desks = open_desks(settings(), store)
    said = assign_item(store, desks, chosen, entity, name, COMMAND_LINE)
    wake_watcher(settings())
    return Answer({"queue": chosen.name, "entity": entity, "name": name}, [said])


def prioritize(
    queue: QueueArgument,
    entities: IdsArgument = None,
    *,
    priority: Annotated[int, typer.Option(min=0)] = 1,
) -> Answer:
    """Send items to annotators before others.

    They come right after the tasks that are on a screen or already loaded there.

    Args:
        priority: Items with a higher number come first; 0: normal priority.
    """
    from loupe.db.reviews import set_priorities
    from loupe.flows.engine.desks import wake_watcher
    from loupe.flows.lead_actions import COMMAND_LINE, log_about_items

    store, chosen = opened_queue(queue)
    ids = _ids(store, chosen, entities)
    set_priorities(store, chosen.name, ids, priority)
    wake_watcher(settings())
    items = len(set(ids))
    said = f"{chosen.name}: {items:,} items now have priority {priority}"
    log_about_items(store, chosen, ids, said, COMMAND_LINE)
    return Answer({"queue": chosen.name, "items": items, "priority": priority}, [said])


def hours(
    queue: QueuesArgument = None,
    *,
    since: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"])] = None,
    until: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"])] = None,
    names: bool = False,
) -> Answer:
    """Show the hours of each annotator by day and queue.

    The time of an answer is as Label Studio measures it: from opening the task until the answer is
    saved, at most 15 minutes. Skipped tasks have no time.

    Args:
        since: First day (UTC).
        until: Last day (UTC).
        names: Show names instead of pseudonyms.
    """
    from loupe.annotate.statistics.hours import hours_worked

    store, queues = opened_queues(queue)
    of_queues = [one.name for one in queues]
    first, last = since and since.date(), until and until.date()
    rows = hours_worked(store, of_queues, first, last, names=names)
    if not rows:
        return Answer(rows, ["no answers in this period"])
    columns = ("day", "annotator", "queue", "answers", "hours", "untimed")
    cells = (
        dict(row) | {"annotator": row.name or row.annotator, "hours": Figure(f"{row.hours:.2f}")}
        for row in rows
    )
    total = f"{sum(row.hours for row in rows):.2f} hours in total"
    return Answer(rows, [Table.of("", columns, cells), total])


def _ids(
    store: "Store", queue: "Queue", entities: list[str] | None, more: list[str] | None = None
) -> list[str]:
    """Return the ids of items of the queue that were given, on standard input for `-`, and `more`.

    Raises:
        UsageError: there are none, or some are not items of the queue.
    """
    from loupe.annotate.queues import without_left_out
    from loupe.db.entities import fetch

    given = sys.stdin.read().split() if entities == ["-"] else entities or []
    ids = [*given, *(more or [])]
    if not ids:
        raise UsageError(f"no items were given; pass the ids of items of {queue.name}")
    found = without_left_out(store, queue, fetch(store, ids).values())
    known = {one.id for one in found if (one.dataset, one.kind) == (queue.dataset, queue.kind)}
    if wrong := [id_ for id_ in ids if id_ not in known]:
        raise UsageError(
            f"items of {queue.name} must be ids of a {queue.kind} of {queue.dataset}"
            f"{' that no other queue decides' if queue.left_out else ''}; got "
            f"{', '.join(wrong[:3])}{' …' if len(wrong) > 3 else ''}"
        )
    return ids


app = group("Manage gold items, whose known answers measure annotators.")


@command(app)
def draw(
    queue: QueueArgument, *, count: Annotated[int, typer.Option(min=1)], seed: int = 0
) -> Answer:
    """Draw gold items from adjudicated items, stratified by verdict.

    Args:
        count: Number of items.
        seed: Seed of the sample.
    """
    from loupe.annotate.gold import draw_gold

    store, chosen = opened_queue(queue)
    return _added(store, chosen, draw_gold(store, chosen, count, seed))


@command(app)
def add(queue: QueueArgument, file: Path) -> Answer:
    """Add gold items from a file. Exit code 1 if a line cannot be used.

    The known answer decides an undecided item, as the lead, if it says accept or reject.

    Args:
        file: JSON Lines file: {"entity": "ID", "answer": {"verdict": "accept", …}}.
    """
    from loupe.annotate.gold import add_gold_file
    from loupe.annotate.interfaces.registry import interface_of

    store, chosen = opened_queue(queue)
    return _added(store, chosen, add_gold_file(store, chosen, interface_of(chosen), file))


@command(app)
def list_(queue: QueueArgument) -> Answer:
    """List the gold items of a queue and how often each was answered."""
    from loupe.db.gold import all_checks, gold_items

    store, chosen = opened_queue(queue)
    answered: Counter[str] = Counter()
    correct: Counter[str] = Counter()
    for checks in all_checks(store, chosen.name).values():
        answered.update(check.entity_id for check in checks)
        correct.update(check.entity_id for check in checks if check.correct)
    rows = [
        {
            "entity": item.entity_id,
            "verdict": item.answer["verdict"],
            "origin": item.origin,
            "answered": answered[item.entity_id],
            "correct": correct[item.entity_id],
            "answer": item.answer,
        }
        for item in gold_items(store, chosen.name).values()
    ]
    if not rows:
        hint = f"loupe queue gold draw {chosen.name} --count 50"
        sentence = f"{chosen.name} has no gold items; draw some from adjudicated items with: {hint}"
        return Answer(rows, [sentence])
    columns = ("entity", "verdict", "origin", "answered", "correct")
    return Answer(rows, [Table.of(f"Gold items of {chosen.name}", columns, rows)])


@command(app)
def remove(queue: QueueArgument, entities: list[str]) -> Answer:
    """Remove gold items; answers to them are kept. Exit code 1 if an id is not a gold item.

    Args:
        entities: The ids of the items.
    """
    from loupe.db.gold import gold_items, remove_gold_items
    from loupe.flows.lead_actions import COMMAND_LINE, log_about_items

    store, chosen = opened_queue(queue)
    unknown = sorted(set(entities) - gold_items(store, chosen.name).keys())
    removed = remove_gold_items(store, chosen.name, entities)
    said = f"{chosen.name}: {removed:,} gold items removed"
    if removed:
        known = sorted(set(entities).difference(unknown))
        log_about_items(store, chosen, known, said, COMMAND_LINE)
    lines = [said]
    lines += _notes([f"not a gold item: {one}" for one in unknown])
    document = {"queue": chosen.name, "removed": removed, "unknown": unknown}
    return Answer(document, lines, failed=bool(unknown))


def _added(store: "Store", queue: "Queue", added: "AddedGold") -> Answer:
    from loupe.flows.lead_actions import COMMAND_LINE, log_about_items

    sentence = f"{added.queue}: {added.added:,} gold items added, {added.known:,} already existed"
    if added.decided:
        sentence += f"; {many(added.decided, 'undecided item')} decided by the known answer"
    if added.added:
        log_about_items(store, queue, added.items, sentence, COMMAND_LINE)
    notes = _notes([f"line {found.line}: {found.problem}" for found in added.problems])
    return Answer(added, [sentence, *notes], failed=bool(added.problems))


def _notes(lines: list[str]) -> list[Note]:
    """Return the first few, for standard error; `--json` includes all."""
    return [Note(f"  {line}") for line in first(lines, _SHOWN, "{:,} more, see --json")]
