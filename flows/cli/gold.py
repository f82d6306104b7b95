"""`loupe queue gold`: items with a known answer, for measuring annotators."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.options import QueueArgument, opened_queue
from flows.cli.output import JsonOption, err, out, print_json, print_table

if TYPE_CHECKING:
    from annotate.gold import AddedGold


app = typer.Typer(
    help="Gold items: known answers to measure annotators with.",
    no_args_is_help=True,
)

_SHOWN_PROBLEMS = 20


@app.command()
def draw(
    queue: QueueArgument,
    count: Annotated[int, typer.Option(min=1, help="Number of items.")],
    seed: Annotated[int, typer.Option(help="Seed of the sample.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Draw gold items from adjudicated items, stratified by verdict."""
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
    """Add gold items from a file. Exit code 1 if a line cannot be used."""
    from annotate.gold import add_gold_file

    store, chosen = opened_queue(queue)
    added = add_gold_file(store, chosen, file)
    _show_added(added, as_json)
    if added.problems:
        raise typer.Exit(1)


@app.command("list")
def list_(queue: QueueArgument, as_json: JsonOption = False) -> None:
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


@app.command()
def remove(
    queue: QueueArgument,
    entities: Annotated[list[str], typer.Argument(help="The ids of the items.")],
    as_json: JsonOption = False,
) -> None:
    """Remove gold items; answers to them are kept. Exit code 1 if an id is no gold item."""
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
