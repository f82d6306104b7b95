"""Commands of `loupe queue` for the lead: find, accept, prioritize and reopen items; hours."""

import csv
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.options import QueueArgument, QueuesArgument, opened_queue
from flows.cli.output import JsonOption, out, print_json, print_table

if TYPE_CHECKING:
    from annotate.queues import Queue
    from db.store import Store

IdsArgument = Annotated[
    list[str] | None, typer.Argument(help="The ids of the items; - reads them from standard input.")
]
DayOption = Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="First day (UTC).")]
UntilOption = Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="Last day (UTC).")]


def reopen(
    queue: QueueArgument,
    entities: IdsArgument = None,
    found_wrong: Annotated[
        bool, typer.Option(help="All accepted items that an audit found wrong.")
    ] = False,
    reason: Annotated[str, typer.Option(help="Why, for the record.")] = "the lead asks again",
    as_json: JsonOption = False,
) -> None:
    """Reopen items that people decided, so that others decide them.

    The answers stay in the store but no longer count. The next push asks people who have not seen
    the items, or an adjudicator.
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
    words: Annotated[str, typer.Argument(help="What the record of an item contains.")] = "",
    state: Annotated[
        list[str] | None, typer.Option(help="Only items in this state, such as proposed.")
    ] = None,
    suspect: Annotated[
        bool | None,
        typer.Option("--suspect/--faithful", help="Only undecided items that are (not) flagged."),
    ] = None,
    ids: Annotated[bool, typer.Option("--ids", help="Print only ids, one per line.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Find items of a queue, to look at, prioritize, reopen or accept.

    Other commands read ids from standard input: loupe queue search … --ids | loupe queue accept
    QUEUE - --reason "…"
    """
    from annotate.candidates import search_items

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
        out.print(f"{len(found):,} items")


def accept(
    queue: QueueArgument,
    entities: IdsArgument = None,
    reason: Annotated[str, typer.Option(help="Why, for the record.")] = ...,  # type: ignore[assignment]
    as_json: JsonOption = False,
) -> None:
    """Accept undecided items in bulk, as the lead.

    The card of a release counts them apart, under "lead". The next push removes their tasks.
    """
    from annotate.candidates import accept_items

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
    priority: Annotated[
        int, typer.Option(min=0, help="Items with a higher number come first; 0: normal priority.")
    ] = 1,
    as_json: JsonOption = False,
) -> None:
    """Hand out these items of a queue before others."""
    from db.reviews import set_priorities

    store, chosen = opened_queue(queue)
    ids = _ids(entities)
    _check(store, chosen, ids)
    set_priorities(store, chosen.name, ids, priority)
    if as_json:
        print_json({"queue": chosen.name, "items": len(set(ids)), "priority": priority})
    else:
        out.print(f"{chosen.name}: {len(set(ids)):,} items have priority {priority}")


def hours(
    queue: QueuesArgument = None,
    since: DayOption = None,
    until: UntilOption = None,
    longest: Annotated[
        float, typer.Option(min=0.1, help="Maximum minutes counted per answer.")
    ] = 15,
    names: Annotated[bool, typer.Option(help="Show names instead of pseudonyms.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Write CSV.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the hours of each annotator by day and queue, for a timesheet.

    The time of an answer is Label Studio's: from opening its task until it is saved. Skipped tasks
    have none.
    """
    from annotate.statistics import TimesheetRow, timesheet
    from db.store import Store
    from flows.engine.gates import chosen_queues, declared_queues
    from models.profiles.settings import load_settings

    settings = load_settings()
    store = Store.open_existing(settings.database_url)
    queues = [one.name for one in chosen_queues(store, declared_queues(settings), queue)]
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
