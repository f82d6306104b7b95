"""`loupe quality`: audit samples and forced-choice tests."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loupe.flows.cli.commands import command, group
from loupe.flows.cli.options import (
    QueueArgument,
    opened,
    opened_queue,
    opened_run,
    require_dataset,
)
from loupe.flows.cli.output import Answer, Line, Note, Table
from loupe.schemas.errors import UsageError

if TYPE_CHECKING:
    from loupe.annotate.audits import ChoiceResult
    from loupe.db.store import Store


app = group("Measure quality: audit samples and forced-choice tests.")
choices = group("Forced-choice tests (6-AFC), in both directions.")
app.add_typer(choices, name="choices")


OfOption = Annotated[
    str | None, typer.Option("--of", help="Only items that this annotator (by name) answered.")
]


@command(app)
def draw(
    queue: QueueArgument,
    *,
    size: Annotated[int, typer.Option(min=1)],
    seed: int = 0,
    by: str = "split,source,verdict",
    of: OfOption = None,
) -> Answer:
    """Draw an audit sample of accepted items.

    The sample is stratified, and covers all annotators or one (--of). The next push sends it to
    people who did not review those items.

    Args:
        size: Number of items in the sample.
        seed: Seed of the sample.
        by: Stratify by any of: split, source, verdict, doubt (more of the most doubtful).
    """
    from loupe.annotate.audits import DOUBT, draw_audit_sample, wanted
    from loupe.annotate.statistics.label_errors import doubts_of

    store, chosen = opened_queue(queue)
    names = tuple(name.strip() for name in by.split(",") if name.strip())
    doubts = doubts_of(store, chosen) if DOUBT in names else None
    drawn = draw_audit_sample(store, chosen, size, seed, names, _pseudonym(store, of), doubts)
    waiting = len(wanted(store, chosen))
    what = "drawn" if drawn.is_new else "were already drawn"
    sentence = (
        f"{chosen.name}: {drawn.drawn:,} of {sum(drawn.strata.values()):,} accepted items {what}; "
        f"{waiting:,} wait for an audit (loupe queue push {chosen.name})"
    )
    return Answer({"queue": chosen.name, **drawn._asdict(), "waiting": waiting}, [sentence])


@command(app)
def estimate(queue: QueueArgument, *, of: OfOption = None) -> Answer:
    """Estimate the error rate of accepted items, with a 95 % interval."""
    from loupe.db.review_audits import audited_draws
    from loupe.schemas.quality import summarise

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
    found, wrong = summarise(audit), audit.wrong_items
    strata = {name: stratum._asdict() for name, stratum in audit.strata.items()}
    lines: list[Line] = [f"{chosen.name}: audit: {found}"]
    if len(strata) > 1:
        rows = [(name, *stratum) for name, stratum in audit.strata.items()]
        lines.append(Table("", (" · ".join(audit.by), "accepted", "audited", "wrong"), rows))
    lines += [f"  wrong: {entity_id}" for entity_id in wrong]
    if wrong:
        lines.append(f"  to review them again: loupe queue reopen {chosen.name} --found-wrong")
    document = {**found.model_dump(mode="json"), "strata": strata, "wrong_items": wrong}
    return Answer(document, lines)


def _pseudonym(store: "Store", name: str | None) -> str:
    from loupe.db.reviews import annotator_named

    return "" if name is None else annotator_named(store, name).pseudonym


WORDS = "words"
EmbedderOption = Annotated[
    str | None,
    typer.Option(
        help="Model: builtin or PROVIDER:NAME@REVISION (default: the first that the profile "
        "evaluates). To draw, also 'words': compare captions by their words."
    ),
]
DatasetArgument = Annotated[str, typer.Argument(help="The dataset, e.g. mscoco-ccd.")]


@command(choices, "draw")
def draw_choices(
    dataset: DatasetArgument,
    *,
    size: Annotated[int, typer.Option(min=1)] = 400,
    seed: int = 0,
    embedder: EmbedderOption = None,
    text_embeddings: Path | None = None,
    image_embeddings: Path | None = None,
) -> Answer:
    """Create forced-choice tests from the samples of the next release.

    The other options of a test are the most similar images and captions by a model's vectors, which
    are stored and reused. The next push sends the tests to testers.

    Args:
        size: Number of samples; each gets two tests.
        seed: Seed of the sample.
        text_embeddings: A .npy file with one row per released caption, to find similar captions
            instead (without --image-embeddings, images are then compared by words of captions).
        image_embeddings: A .npy file with one row per released image, to find similar images
            instead (without --text-embeddings, captions are then compared by their words).
    """
    from loupe.flows.ccd.choice_test import (
        draw_and_store,
        released_samples,
        sample_vectors,
        similarities,
    )

    _, store = opened()
    require_dataset(store, dataset)
    samples = released_samples(store, dataset)
    by_files = text_embeddings is not None or image_embeddings is not None
    if by_files and embedder is not None:
        raise UsageError("use --embedder or files of embeddings, not both")
    if by_files or embedder == WORDS:
        found_by = similarities(samples, text_embeddings, image_embeddings)
    else:
        found_by = sample_vectors(opened_run(), samples, embedder).similarities()
    drawn = draw_and_store(store, dataset, size, seed, found_by, samples)
    by_images, by_captions = found_by.images.name, found_by.captions.name
    document = {
        "queue": f"{dataset}-choices",
        "tests": [test.id for test in drawn.tests],
        "lonely": drawn.lonely,
        "image_similarity": by_images,
        "caption_similarity": by_captions,
    }
    push = f"loupe queue push {dataset}-choices"
    lines = [
        f"{dataset}: {len(drawn.tests):,} forced-choice tests; send them with: {push}",
        f"  image similarity: {by_images}, caption similarity: {by_captions}",
    ]
    if drawn.lonely:
        lonely = f"{len(drawn.lonely):,} samples without both tests"
        lines.append(Note(f"  {lonely}: fewer than five others to compare with"))
    return Answer(document, lines)


@command(choices)
def embed(dataset: DatasetArgument, *, out: Path, embedder: EmbedderOption = None) -> Answer:
    """Write the vectors of the next release as .npy files.

    Their rows are in the order of the release: images by number, captions image by image.

    Args:
        out: Folder for images.npy and captions.npy.
    """
    import numpy as np

    from loupe.flows.ccd.choice_test import released_samples, sample_vectors

    _, store = opened()
    require_dataset(store, dataset)
    found = sample_vectors(opened_run(), released_samples(store, dataset), embedder)
    out.mkdir(parents=True, exist_ok=True)
    files = {"images": out / "images.npy", "captions": out / "captions.npy"}
    np.save(files["images"], found.images)
    np.save(files["captions"], found.captions)
    counts = f"{len(found.images):,} images and {len(found.captions):,} captions"
    return Answer(
        {"embedder": found.model, **{name: str(file) for name, file in files.items()}},
        [f"{found.model}: vectors of {counts} of {dataset} are in {out}"],
    )


@command(choices)
def result(dataset: DatasetArgument) -> Answer:
    """Show the accuracy of each tester in forced-choice tests.

    Exit code 1 if the accuracy of a tester is below 95 % in a direction.
    """
    from loupe.annotate.audits import EXPECTED, PUBLISHED, choice_results
    from loupe.annotate.queues import load_queues

    own, store = opened()
    results = choice_results(store, load_queues(own.queues_file).queue(dataset, "choices"))
    if not results:
        raise UsageError(
            f"no forced-choice test of {dataset!r} has been answered yet; draw and push some: "
            f"loupe quality choices draw {dataset}"
        )
    below = [one for one in results if one.share < EXPECTED]
    document = [
        {
            **one._asdict(),
            "share": one.share,
            "interval": one.interval,
            "several_interval": one.several_interval,
            "published": PUBLISHED[one.direction],
        }
        for one in results
    ]
    columns = ["direction", "tester", "correct", "total", "%", "95 % interval"]
    rows = [_row(one, PUBLISHED[one.direction]) for one in results]
    table = Table(
        f"Forced-choice tests (6-AFC), {dataset}", [*columns, "several fit", "published"], rows
    )
    notes = (
        Note(f"{one.tester} is below {100 * EXPECTED:.0f} % in {one.direction}") for one in below
    )
    return Answer(document, [table, *notes], failed=bool(below))


def _row(one: "ChoiceResult", published: tuple[float, float]) -> list[object]:
    lower, upper = one.interval
    interval = f"{100 * lower:.1f}–{100 * upper:.1f}"
    theirs = " / ".join(f"{100 * share:.1f}" for share in published)
    low, high = one.several_interval
    several = f"{100 * one.several / one.total:.1f} % ({100 * low:.1f}–{100 * high:.1f})"
    counts = (one.correct, one.total, 100 * one.share)
    return [one.direction, one.tester, *counts, interval, several, theirs]
