"""`loupe quality choices`: can people tell each sample from the five that are most like it?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.output import JsonOption, err, out, print_json, print_table

if TYPE_CHECKING:
    from annotate.audits import ChoiceResult


app = typer.Typer(help="Tests by choices of six, in both directions.", no_args_is_help=True)

DatasetArgument = Annotated[str, typer.Argument(help="The dataset, like 'mscoco-ccd'.")]


@app.command()
def draw(
    dataset: DatasetArgument,
    size: Annotated[int, typer.Option(min=1, help="How many samples; two tests each.")] = 400,
    seed: Annotated[int, typer.Option(help="Another seed is another sample.")] = 0,
    text_embeddings: Annotated[
        Path | None,
        typer.Option(help="A .npy file, a row for each released caption (default: their words)."),
    ] = None,
    image_embeddings: Annotated[
        Path | None,
        typer.Option(
            help="A .npy file, a row for each released image (default: their captions' words)."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make the tests from what would be released; the next push sends them to testers.

    Rows of embeddings are in the order of the released rows: images as they are numbered, captions
    image by image.
    """
    from db.store import Store
    from flows.ccd.choice_test import draw_and_store, released_samples, similarities
    from flows.engine.context import code_revision, software
    from profiles.settings import load_settings

    store = Store.open(load_settings().database_url)
    samples = released_samples(store, dataset)
    found_by = similarities(samples, text_embeddings, image_embeddings)
    drawn = draw_and_store(
        store, dataset, size, seed, found_by, samples, software(), code_revision()
    )
    if as_json:
        print_json(
            {
                "queue": f"{dataset}-choices",
                "tests": [test.id for test in drawn.tests],
                "lonely": drawn.lonely,
                "image_similarity": found_by.images.name,
                "caption_similarity": found_by.captions.name,
            }
        )
        return
    out.print(
        f"{dataset}: {len(drawn.tests):,} choice tests; send them with: "
        f"loupe queue push {dataset}-choices\n"
        f"  images alike by {found_by.images.name}, captions by {found_by.captions.name}",
        soft_wrap=True,
        markup=False,
    )
    if drawn.lonely:
        err.print(f"  {len(drawn.lonely):,} samples have no five others to be told from")


@app.command()
def result(dataset: DatasetArgument, as_json: JsonOption = False) -> None:
    """Show how often testers picked right. Exit code 1 if one is below what the authors expect."""
    from annotate.audits import EXPECTED, PUBLISHED, choice_results
    from db.store import Store
    from flows.engine.gates import declared_queues
    from profiles.settings import load_settings
    from schemas.errors import UsageError

    settings = load_settings()
    queue = declared_queues(settings).queue(dataset, "choices")
    results = choice_results(Store.open(settings.database_url), queue)
    if not results:
        raise UsageError(
            f"nobody has answered a choice test of {dataset!r} yet; make some with: "
            f"loupe quality choices draw {dataset}"
        )
    below = [one for one in results if one.share < EXPECTED]
    if as_json:
        print_json([_as_json(one, PUBLISHED[one.direction]) for one in results])
    else:
        rows = [_row(one, PUBLISHED[one.direction]) for one in results]
        columns = ("direction", "tester", "right", "of", "%", "95 % interval", "published")
        print_table(f"Choices of six, {dataset}", columns, rows)
        for one in below:
            err.print(
                f"{one.tester} is below {100 * EXPECTED:.0f} % in {one.direction}", markup=False
            )
    if below:
        raise typer.Exit(1)


def _as_json(one: "ChoiceResult", published: tuple[float, float]) -> dict[str, object]:
    return {
        **one._asdict(),
        "share": one.share,
        "interval": one.interval,
        "published": published,
    }


def _row(one: "ChoiceResult", published: tuple[float, float]) -> list[object]:
    lower, upper = one.interval
    interval = f"{100 * lower:.1f}–{100 * upper:.1f}"
    theirs = " / ".join(f"{100 * share:.1f}" for share in published)
    return [one.direction, one.tester, one.correct, one.total, 100 * one.share, interval, theirs]
