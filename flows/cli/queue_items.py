"""Commands of `loupe queue` for the lead: items, gold items, priorities and hours."""

import csv
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.commands import command, group
from flows.cli.options import QueueArgument, QueuesArgument, opened_queue
from flows.cli.output import JsonOption, err, out, print_json, print_table

if TYPE_CHECKING:
    from annotate.gold import AddedGold
    from annotate.queues import Queue
    from db.store import Store

_SHOWN = 20

IdsArgument = Annotated[
    list[str] | None, typer.Argument(help="The ids of the items; - reads them from standard input.")
]


def reopen(
    queue: QueueArgument,
    entities: IdsArgument = None,
    *,
    found_wrong: Annotated[bool, typer.Option("--found-wrong/--no-found-wrong")] = False,
    reason: str = "the lead asks again",
    as_json: JsonOption = False,
) -> None:
    """Reopen items that people decided, so that others decide them.

    The answers stay in the store but no longer count. The next push asks people who have not seen
    the items, or an adjudicator.

    Args:
        found_wrong: Reopen all accepted items that an audit found wrong.
        reason: Why, for the record.
    """
    from db.entities import AgentRef
    from db.gold import reopen_items
    from db.review_audits import wrong_in_audits

    store, chosen = opened_queue(queue)
    ids = _ids(entities)
    if found_wrong:
        ids += wrong_in_audits(store, chosen.name)
        reason = "an audit found it wrong"
    _check(store, chosen, ids)
    work = reopen_items(store, chosen.name, ids, AgentRef("software", f"lead:{queue}"), reason)
    if as_json:
        print_json({"queue": chosen.name, "asked": len(set(ids)), **work._asdict()})
    else:
        out.print(
            f"{chosen.name}: {work.reopened:,} of {len(set(ids)):,} items are open again, "
            f"{work.tasks:,} answers no longer count"
        )


def search(
    queue: QueueArgument,
    words: str = "",
    *,
    state: list[str] | None = None,
    suspect: Annotated[bool | None, typer.Option("--suspect/--faithful")] = None,
    ids: bool = False,
    as_json: JsonOption = False,
) -> None:
    """Find items of a queue, to look at, prioritize, reopen or accept.

    Other commands read ids from standard input: loupe queue search … --ids | loupe queue accept
    QUEUE - --reason "…"

    Args:
        words: Words that the record of an item contains.
        state: Only items in this state, such as proposed.
        suspect: Only undecided items that are (not) flagged.
        ids: Print only ids, one per line.
    """
    from annotate.queues import search_items

    store, chosen = opened_queue(queue)
    found = list(search_items(store, chosen, words, state, suspect=suspect))
    if as_json:
        print_json([one.model_dump(mode="json") for one in found])
    elif ids:
        for one in found:
            print(one.entity)  # noqa: T201 - for another command
    else:
        for one in found:
            mark = " (flagged)" if one.suspect else ""
            out.print(f"{one.entity} {one.state}{mark}: {one.text[:100]}", markup=False)
        out.print(f"{len(found):,} item{'' if len(found) == 1 else 's'}")


def accept(
    queue: QueueArgument,
    entities: IdsArgument = None,
    *,
    reason: str,
    as_json: JsonOption = False,
) -> None:
    """Accept undecided items in bulk, as the lead.

    The card of a release counts them separately, as "lead". The next push removes their tasks.

    Args:
        reason: Why, for the record.
    """
    from annotate.queues import accept_items

    store, chosen = opened_queue(queue)
    ids = _ids(entities)
    _check(store, chosen, ids)
    accepted = accept_items(store, chosen, ids, reason)
    if as_json:
        print_json({"queue": chosen.name, "asked": len(set(ids)), "accepted": accepted})
    else:
        out.print(f"{chosen.name}: {accepted:,} of {len(set(ids)):,} items accepted")


def prioritize(
    queue: QueueArgument,
    entities: IdsArgument = None,
    *,
    priority: Annotated[int, typer.Option(min=0)] = 1,
    as_json: JsonOption = False,
) -> None:
    """Hand out these items of a queue before others.

    Args:
        priority: Items with a higher number come first; 0: normal priority.
    """
    from db.reviews import set_priorities

    store, chosen = opened_queue(queue)
    ids = _ids(entities)
    _check(store, chosen, ids)
    set_priorities(store, chosen.name, ids, priority)
    if as_json:
        print_json({"queue": chosen.name, "items": len(set(ids)), "priority": priority})
    else:
        out.print(f"{chosen.name}: priority {priority} for {len(set(ids)):,} of its items")


def acceptance(queue: QueueArgument, *, as_json: JsonOption = False) -> None:
    """Predict which items people will accept unchanged, with the error of the prediction.

    The model is fitted on the decided items of the queue. It decides nothing.
    """
    from annotate.acceptance import acceptance as fitted

    store, chosen = opened_queue(queue)
    found = fitted(store, chosen)
    if as_json:
        print_json({**found.error.model_dump(mode="json"), "open": found.open})
        return
    out.print(found.error.sentence, markup=False, soft_wrap=True)
    rows = sorted(found.open.items(), key=lambda one: one[1])[:_SHOWN]
    if rows and found.error.is_better:
        print_table("Least probably accepted", ("entity", "probability"), rows)


def hours(
    queue: QueuesArgument = None,
    *,
    since: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"])] = None,
    until: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"])] = None,
    longest: Annotated[float, typer.Option(min=0.1)] = 15,
    names: Annotated[bool, typer.Option("--names/--no-names")] = False,
    as_csv: Annotated[bool, typer.Option("--csv")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the hours of each annotator by day and queue, for a timesheet.

    The time of an answer is Label Studio's: from opening its task until it is saved. Skipped tasks
    have none.

    Args:
        since: First day (UTC).
        until: Last day (UTC).
        longest: Maximum minutes counted per answer.
        names: Show names instead of pseudonyms.
        as_csv: Write CSV.
    """
    from annotate.queues import chosen_queues, load_queues
    from annotate.statistics import TimesheetRow, timesheet
    from db.store import Store
    from models.profiles.settings import load_settings

    settings = load_settings()
    store = Store.open_existing(settings.database_url)
    queues = [one.name for one in chosen_queues(store, load_queues(settings.queues_file), queue)]
    rows = timesheet(
        store,
        queues,
        since and since.date(),
        until and until.date(),
        longest_minutes=longest,
        names=names,
    )
    columns = tuple(TimesheetRow.model_fields)
    if as_json:
        print_json([row.model_dump(mode="json") for row in rows])
    elif as_csv:
        writer = csv.writer(sys.stdout)
        writer.writerow(columns)
        writer.writerows(
            [f"{value:.4f}" if name == "hours" else value for name, value in row] for row in rows
        )
    elif rows:
        shown = ("day", "annotator", "queue", "answers", "hours", "shortened", "untimed")
        cells = [
            [
                row.day,
                row.name or row.annotator,
                row.queue,
                row.answers,
                f"{row.hours:.2f}",
                row.shortened,
                row.untimed,
            ]
            for row in rows
        ]
        print_table("", shown, cells)
        out.print(f"{sum(row.hours for row in rows):.2f} hours in total")
    else:
        out.print("no answers in this period")


def _ids(entities: list[str] | None) -> list[str]:
    given = entities or []
    if given == ["-"]:
        return sys.stdin.read().split()
    return given


def _check(store: "Store", queue: "Queue", ids: list[str]) -> None:
    from db.entities import fetch
    from schemas.errors import UsageError

    if not ids:
        raise UsageError(f"name items of {queue.name} by their ids; none was found or given")
    found = fetch(store, ids)
    wrong = [
        one
        for one in ids
        if one not in found or (found[one].dataset, found[one].kind) != (queue.dataset, queue.kind)
    ]
    if wrong:
        raise UsageError(
            f"items of {queue.name} must be ids of a {queue.kind} of {queue.dataset}; got "
            f"{', '.join(wrong[:3])}{' …' if len(wrong) > 3 else ''}"
        )


app = group("Gold items: known answers to measure annotators with.")

_SHOWN_PROBLEMS = 20


@command(app)
def draw(
    queue: QueueArgument,
    *,
    count: Annotated[int, typer.Option(min=1)],
    seed: int = 0,
    as_json: JsonOption = False,
) -> None:
    """Draw gold items from adjudicated items, stratified by verdict.

    Args:
        count: Number of items.
        seed: Seed of the sample.
    """
    from annotate.gold import draw_gold

    store, chosen = opened_queue(queue)
    _show_added(draw_gold(store, chosen, count, seed), as_json)


@command(app)
def add(queue: QueueArgument, file: Path, *, as_json: JsonOption = False) -> None:
    """Add gold items from a file. Exit code 1 if a line cannot be used.

    Args:
        file: JSON lines: {"entity": "ID", "answer": {"verdict": "accept", …}}.
    """
    from annotate.gold import add_gold_file

    store, chosen = opened_queue(queue)
    added = add_gold_file(store, chosen, file)
    _show_added(added, as_json)
    if added.problems:
        raise typer.Exit(1)


@command(app)
def list_(queue: QueueArgument, *, as_json: JsonOption = False) -> None:
    """List the gold items of a queue and how often each was answered."""
    from db.gold import all_checks, gold_items

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
    if as_json:
        print_json(rows)
    elif rows:
        columns = ("entity", "verdict", "origin", "answered", "correct")
        print_table(
            f"Gold items of {chosen.name}", columns, [list(row.values())[:-1] for row in rows]
        )
    else:
        out.print(
            f"{chosen.name} has no gold items; draw some from adjudicated items with: "
            f"loupe queue gold draw {chosen.name} --count 50",
            soft_wrap=True,
        )


@command(app)
def remove(queue: QueueArgument, entities: list[str], *, as_json: JsonOption = False) -> None:
    """Remove gold items; answers to them are kept. Exit code 1 if an id is no gold item.

    Args:
        entities: The ids of the items.
    """
    from db.gold import gold_items, remove_gold_items

    store, chosen = opened_queue(queue)
    unknown = sorted(set(entities) - gold_items(store, chosen.name).keys())
    removed = remove_gold_items(store, chosen.name, entities)
    if as_json:
        print_json({"queue": chosen.name, "removed": removed, "unknown": unknown})
    else:
        out.print(f"{chosen.name}: {removed:,} gold items removed")
        _show("not a gold item", unknown)
    if unknown:
        raise typer.Exit(1)


def _show_added(added: "AddedGold", as_json: bool) -> None:
    if as_json:
        print_json(added.model_dump(mode="json"))
        return
    out.print(f"{added.queue}: {added.added:,} gold items added, {added.known:,} already existed")
    _show("", [f"line {found.line}: {found.problem}" for found in added.problems])


def _show(title: str, lines: Sequence[str]) -> None:
    """Print the first few on standard error; `--json` includes all."""
    for line in lines[:_SHOWN_PROBLEMS]:
        err.print(f"  {title}: {line}" if title else f"  {line}", markup=False, soft_wrap=True)
    if len(lines) > _SHOWN_PROBLEMS:
        err.print(f"  {len(lines) - _SHOWN_PROBLEMS:,} more, see --json")
