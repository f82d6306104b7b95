"""`loupe quality`: how much of what was accepted is wrong, by people who look again."""

from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.choices import app as choices
from flows.cli.output import JsonOption, out, print_json, print_table
from flows.cli.queue_opening import QueueArgument, opened_queue

if TYPE_CHECKING:
    from schemas.quality import LookedDraw


app = typer.Typer(help="Second looks and choice tests: how good the data is.", no_args_is_help=True)
app.add_typer(choices, name="choices")


@app.command()
def draw(
    queue: QueueArgument,
    size: Annotated[int, typer.Option(min=1, help="How many items to look at again.")],
    seed: Annotated[int, typer.Option(help="Another seed is another sample.")] = 0,
    by: Annotated[
        str, typer.Option(help="What to stratify by: any of split, source, verdict.")
    ] = "split,source,verdict",
    as_json: JsonOption = False,
) -> None:
    """Draw a stratified sample of accepted items; the next push asks people who had no part."""
    from annotate.audits import draw_second_look, wanted

    store, chosen = opened_queue(queue)
    names = tuple(name.strip() for name in by.split(",") if name.strip())
    drawn = draw_second_look(store, chosen, size, seed, names)
    waiting = len(wanted(store, chosen))
    if as_json:
        print_json({"queue": chosen.name, **drawn._asdict(), "waiting": waiting})
        return
    what = "drawn" if drawn.is_new else "were drawn before"
    out.print(
        f"{chosen.name}: {drawn.drawn:,} of {sum(drawn.strata.values()):,} accepted items {what}; "
        f"{waiting:,} wait for a second look (loupe queue push {chosen.name})",
        soft_wrap=True,
    )


@app.command()
def estimate(queue: QueueArgument, as_json: JsonOption = False) -> None:
    """Estimate the error rate of what a queue accepted, with a 95 % interval."""
    from db.review_audits import looked_draws
    from schemas.errors import UsageError
    from schemas.quality import summarise

    store, chosen = opened_queue(queue)
    with store.read() as connection:
        draws = looked_draws(connection, chosen.dataset, chosen.name)
    if not draws:
        raise UsageError(
            f"nobody has looked at items of {chosen.name!r} again yet; draw some with: "
            f"loupe quality draw {chosen.name} --size 200, then push and pull the queue"
        )
    (looked,) = draws
    found = summarise(looked)
    if as_json:
        strata = {name: stratum._asdict() for name, stratum in looked.strata.items()}
        wrong = {"wrong_items": looked.wrong_items}
        print_json({**found.model_dump(mode="json"), "strata": strata, **wrong})
        return
    out.print(f"{chosen.name}: second look: {found}", soft_wrap=True, markup=False)
    _show_strata(looked)
    for entity_id in looked.wrong_items:
        out.print(f"  wrong: {entity_id}", markup=False)


def _show_strata(looked: "LookedDraw") -> None:
    if len(looked.strata) > 1:
        rows = [(name, *stratum) for name, stratum in looked.strata.items()]
        print_table("", (" · ".join(looked.by), "accepted", "looked at", "wrong"), rows)
