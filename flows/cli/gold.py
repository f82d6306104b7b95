"""`loupe queue gold`: items whose answer is known, to measure annotators with."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.output import JsonOption, err, out, print_json, print_table
from flows.cli.queue_opening import QueueArgument, opened_queue

if TYPE_CHECKING:
    from annotate.gold import AddedGold
    from db.store import Store


app = typer.Typer(help="Items whose answer is known, mixed in to measure by.", no_args_is_help=True)

_SHOWN_PROBLEMS = 20


@app.command()
def draw(
    queue: QueueArgument,
    count: Annotated[int, typer.Option(min=1, help="How many items.")],
    seed: Annotated[int, typer.Option(help="Another seed is another draw.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Make gold of items that an adjudicator settled, of each verdict in its proportion."""
    from annotate.gold import draw_gold

    store, chosen = opened_queue(queue)
    _show_added(draw_gold(store, chosen, count, seed), as_json)


@app.command()
def add(
    queue: QueueArgument,
    file: Annotated[
        Path,
        typer.Argument(help='JSON lines: {"entity": "ID", "answer": {"verdict": "accept", …}}.'),
    ],
    as_json: JsonOption = False,
) -> None:
    """Make gold of items with known answers. Exit code 1 if some lines cannot be used."""
    from annotate.gold import add_gold_file

    store, chosen = opened_queue(queue)
    added = add_gold_file(store, chosen, file)
    _show_added(added, as_json)
    if added.problems:
        raise typer.Exit(1)


@app.command("list")
def list_(queue: QueueArgument, as_json: JsonOption = False) -> None:
    """List the gold items of a queue, with what is known of each and how often it was answered."""
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
            f"{chosen.name} has no gold items; draw some from what was settled with: "
            f"loupe queue gold draw {chosen.name} --count 50",
            soft_wrap=True,
        )


@app.command()
def remove(
    queue: QueueArgument,
    entities: Annotated[list[str], typer.Argument(help="The ids of the items.")],
    as_json: JsonOption = False,
) -> None:
    """Make items gold no more; answers to them stay. Exit code 1 if one is none."""
    from db.gold import gold_items, remove_gold_items

    store, chosen = opened_queue(queue)
    unknown = sorted(set(entities) - gold_items(store, chosen.name).keys())
    removed = remove_gold_items(store, chosen.name, entities)
    if as_json:
        print_json({"queue": chosen.name, "removed": removed, "unknown": unknown})
    else:
        out.print(f"{chosen.name}: {removed:,} are gold no more")
        _show("no gold item", unknown)
    if unknown:
        raise typer.Exit(1)


def reinstate(store: "Store", queue: str, pseudonym: str) -> int:
    """Lets an annotator work in a queue again whose work had returned; how many returns it lifts.

    Raises:
        UsageError: nothing stands against that annotator in that queue.
    """
    from db.gold import reinstate_annotator
    from schemas.errors import UsageError

    lifted = reinstate_annotator(store, queue, pseudonym)
    if not lifted:
        raise UsageError(f"no return of {pseudonym}'s work is in force in the queue {queue!r}")
    return lifted


def _show_added(added: "AddedGold", as_json: bool) -> None:
    if as_json:
        print_json(added.model_dump(mode="json"))
        return
    out.print(f"{added.queue}: {added.added:,} new gold items, {added.known:,} were gold already")
    _show("", [f"line {found.line}: {found.problem}" for found in added.problems])


def _show(title: str, lines: Sequence[str]) -> None:
    """The first few on standard error; `--json` has all."""
    for line in lines[:_SHOWN_PROBLEMS]:
        err.print(f"  {title}: {line}" if title else f"  {line}", markup=False, soft_wrap=True)
    if len(lines) > _SHOWN_PROBLEMS:
        err.print(f"  {len(lines) - _SHOWN_PROBLEMS:,} more, see --json")
