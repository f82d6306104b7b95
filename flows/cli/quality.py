"""`loupe quality`: audit samples and forced-choice tests."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.commands import command, group
from flows.cli.options import QueueArgument, opened_queue, require_dataset
from flows.cli.output import JsonOption, err, out, print_json, print_table

if TYPE_CHECKING:
    from annotate.audits import ChoiceResult
    from db.store import Store
    from schemas.quality import AuditedDraw


app = group("Measure quality: audit samples and forced-choice tests.")
choices = group("Forced-choice tests (6-AFC), in both directions.")
app.add_typer(choices, name="choices")


OfOption = Annotated[
    str | None, typer.Option("--of", help="Only what this annotator answered, by name.")
]


@command(app)
def draw(
    queue: QueueArgument,
    *,
    size: Annotated[int, typer.Option(min=1)],
    seed: int = 0,
    by: str = "split,source,verdict",
    of: OfOption = None,
    as_json: JsonOption = False,
) -> None:
    """Draw an audit sample of accepted items, of all people or of one.

    The sample is stratified. The next push sends it to people who did not review those items.

    Args:
        size: Number of items in the sample.
        seed: Seed of the sample.
        by: Stratify by any of: split, source, verdict.
    """
    from annotate.audits import draw_audit_sample, wanted

    store, chosen = opened_queue(queue)
    names = tuple(name.strip() for name in by.split(",") if name.strip())
    drawn = draw_audit_sample(store, chosen, size, seed, names, _pseudonym(store, of))
    waiting = len(wanted(store, chosen))
    if as_json:
        print_json({"queue": chosen.name, **drawn._asdict(), "waiting": waiting})
        return
    what = "drawn" if drawn.is_new else "were drawn before"
    out.print(
        f"{chosen.name}: {drawn.drawn:,} of {sum(drawn.strata.values()):,} accepted items {what}; "
        f"{waiting:,} wait for an audit (loupe queue push {chosen.name})",
        soft_wrap=True,
    )


@command(app)
def estimate(queue: QueueArgument, *, of: OfOption = None, as_json: JsonOption = False) -> None:
    """Estimate the error rate of accepted items, with a 95 % interval."""
    from db.review_audits import audited_draws
    from schemas.errors import UsageError
    from schemas.quality import summarise

    store, chosen = opened_queue(queue)
    annotator = _pseudonym(store, of)
    with store.read() as connection:
        draws = audited_draws(connection, chosen.dataset, chosen.name, annotator)
    if not draws:
        raise UsageError(
            f"no item of {chosen.name!r} has been audited yet; draw a sample with: "
            f"loupe quality draw {chosen.name} --size 200, then push and pull the queue"
        )
    (audit,) = draws
    found = summarise(audit)
    if as_json:
        strata = {name: stratum._asdict() for name, stratum in audit.strata.items()}
        wrong = {"wrong_items": audit.wrong_items}
        print_json({**found.model_dump(mode="json"), "strata": strata, **wrong})
        return
    out.print(f"{chosen.name}: audit: {found}", soft_wrap=True, markup=False)
    _show_strata(audit)
    for entity_id in audit.wrong_items:
        out.print(f"  wrong: {entity_id}", markup=False)
    if audit.wrong_items:
        out.print(f"  to review them again: loupe queue reopen {chosen.name} --found-wrong")


def _pseudonym(store: "Store", name: str | None) -> str:
    from db.reviews import annotator_named

    return "" if name is None else annotator_named(store, name).pseudonym


def _show_strata(audit: "AuditedDraw") -> None:
    if len(audit.strata) > 1:
        rows = [(name, *stratum) for name, stratum in audit.strata.items()]
        print_table("", (" · ".join(audit.by), "accepted", "audited", "wrong"), rows)


DatasetArgument = Annotated[str, typer.Argument(help="The dataset, like 'mscoco-ccd'.")]


@command(choices, "draw")
def draw_choices(
    dataset: DatasetArgument,
    *,
    size: Annotated[int, typer.Option(min=1)] = 400,
    seed: int = 0,
    text_embeddings: Path | None = None,
    image_embeddings: Path | None = None,
    as_json: JsonOption = False,
) -> None:
    """Create forced-choice tests from the samples of the next release.

    The next push sends the tests to testers. Rows of embeddings are in the order of the release:
    images by number, captions image by image.

    Args:
        size: Number of samples; each gets two tests.
        seed: Seed of the sample.
        text_embeddings: A .npy file with one row per released caption (default: compare words).
        image_embeddings: A .npy file with one row per released image (default: compare caption
            words).
    """
    from db.store import Store
    from flows.ccd.choice_test import draw_and_store, released_samples, similarities
    from flows.engine.software import code_revision, software
    from models.profiles.settings import load_settings

    store = Store.open_existing(load_settings().database_url)
    require_dataset(store, dataset)
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
        f"{dataset}: {len(drawn.tests):,} forced-choice tests; send them with: "
        f"loupe queue push {dataset}-choices\n"
        f"  image similarity: {found_by.images.name}, caption similarity: {found_by.captions.name}",
        soft_wrap=True,
        markup=False,
    )
    if drawn.lonely:
        err.print(
            f"  {len(drawn.lonely):,} samples skipped: fewer than five others to compare with"
        )


@command(choices)
def result(dataset: DatasetArgument, *, as_json: JsonOption = False) -> None:
    """Show the accuracy of each tester in forced-choice tests.

    Exit code 1 if a tester is below 95 % in a direction.
    """
    from annotate.audits import EXPECTED, PUBLISHED, choice_results
    from annotate.queues import load_queues
    from db.store import Store
    from models.profiles.settings import load_settings
    from schemas.errors import UsageError

    settings = load_settings()
    queue = load_queues(settings.queues_file).queue(dataset, "choices")
    results = choice_results(Store.open_existing(settings.database_url), queue)
    if not results:
        raise UsageError(
            f"no forced-choice test of {dataset!r} has been answered yet; draw and push some: "
            f"loupe quality choices draw {dataset}"
        )
    below = [one for one in results if one.share < EXPECTED]
    if as_json:
        print_json([_result_as_json(one, PUBLISHED[one.direction]) for one in results])
    else:
        rows = [_result_row(one, PUBLISHED[one.direction]) for one in results]
        columns = ["direction", "tester", "correct", "total", "%", "95 % interval"]
        columns += ["several fit", "published"]
        print_table(f"Forced-choice tests (6-AFC), {dataset}", columns, rows)
        for one in below:
            err.print(
                f"{one.tester} is below {100 * EXPECTED:.0f} % in {one.direction}", markup=False
            )
    if below:
        raise typer.Exit(1)


def _result_as_json(one: "ChoiceResult", published: tuple[float, float]) -> dict[str, object]:
    return {
        **one._asdict(),
        "share": one.share,
        "interval": one.interval,
        "several_interval": one.several_interval,
        "published": published,
    }


def _result_row(one: "ChoiceResult", published: tuple[float, float]) -> list[object]:
    lower, upper = one.interval
    interval = f"{100 * lower:.1f}–{100 * upper:.1f}"
    theirs = " / ".join(f"{100 * share:.1f}" for share in published)
    low, high = one.several_interval
    several = f"{100 * one.several / one.total:.1f} % ({100 * low:.1f}–{100 * high:.1f})"
    counts = (one.correct, one.total, 100 * one.share)
    return [one.direction, one.tester, *counts, interval, several, theirs]
