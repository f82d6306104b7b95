"""`loupe recos`: measurements for building a benchmark of tasks (ReCoS)."""

from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from loupe.flows.cli.commands import command, group
from loupe.flows.cli.output import Answer, Line, Table, note
from loupe.schemas.errors import UsageError

if TYPE_CHECKING:
    from loupe.retrieval.discriminability import CaptionScores


app = group("Measure captions of a ReCoS benchmark.")


@app.callback()
def recos() -> None:
    """Measure captions of a ReCoS benchmark."""


@command(app)
def discriminability(
    *,
    text_embeddings: Path,
    image_embeddings: Path,
    targets: Path,
    k: Annotated[int, typer.Option(min=2)] = 10,
    eta: float = 0.8,
    temperature: float | None = None,
) -> Answer:
    """Score how well captions identify their images.

    The score dis is the entropy of softmax(cosines / temperature) over the k images most similar to
    the caption, excluding its own: from 0 to log k. A caption is over-detailed below
    (1 - eta)/2 log k and under-detailed above (1 + eta)/2 log k.

    Args:
        text_embeddings: One row per caption, .npy of shape (n, d).
        image_embeddings: One row per image, .npy of shape (m, d).
        targets: The row of each caption's image, integer .npy of shape (n,).
        k: Number of other images that a caption is compared with.
        eta: Share of the range from 0 to log k that passes, between 0 and 1.
        temperature: Temperature of the softmax (default: calibrated on these captions).
    """
    from loupe.retrieval.discriminability import degeneracy_text, load_kernels, score_captions
    from loupe.retrieval.embeddings import read_array
    from loupe.schemas.recos import DiscriminabilitySettings

    if not 0 < eta < 1:
        raise UsageError(f"--eta must be between 0 and 1, both excluded; got {eta:g}")
    if temperature is not None and not 0 < temperature < float("inf"):
        raise UsageError(f"--temperature must be above 0 and finite; got {temperature:g}")
    settings = DiscriminabilitySettings(k=k, eta=eta, temperature=temperature)
    files = text_embeddings, image_embeddings, targets
    texts, images, own = (read_array(path) for path in files)
    load_kernels()
    names = str(files[0]), str(files[1]), str(files[2])
    started = perf_counter()
    scores = score_captions(texts, images, own, settings, names)
    seconds = perf_counter() - started
    lower, upper = scores.interval
    document = {
        "temperature": scores.temperature,
        "k": k,
        "eta": eta,
        "lower": lower,
        "upper": upper,
        "share_passing": scores.share_passing,
        "degenerate": scores.is_degenerate,
        "texts": [
            {"dis": dis, "lower": lower, "upper": upper, "verdict": str(verdict)}
            for dis, verdict in zip(scores.dis.tolist(), scores.verdicts, strict=True)
        ],
        "seconds": round(seconds, 3),
    }
    if scores.is_degenerate:
        note(f"DEGENERATE: {degeneracy_text(scores.dis.tolist(), settings, scores.temperature)}")
    how = "as given" if temperature else "calibrated: the median of dis is log(k)/2"
    return Answer(document, _lines(scores, how, seconds))


def _lines(scores: "CaptionScores", how: str, seconds: float) -> Iterator[Line]:
    from loupe.retrieval.discriminability import dis_histogram
    from loupe.schemas.recos import CaptionVerdict

    lower, upper = scores.interval
    verdicts = scores.verdicts
    ranges = {
        CaptionVerdict.OVER_DETAILED: f"below {lower:.4f}",
        CaptionVerdict.PASS: f"{lower:.4f} to {upper:.4f}",
        CaptionVerdict.UNDER_DETAILED: f"above {upper:.4f}",
    }
    rows = [
        (str(one), dis, verdicts.count(one), 100 * verdicts.count(one) / len(verdicts))
        for one, dis in ranges.items()
    ]
    yield Table("Discriminability of captions", ("verdict", "dis", "captions", "%"), rows)
    yield dis_histogram(scores.dis.tolist(), scores.nearest.places.shape[1], scores.interval)
    yield f"temperature {scores.temperature:g} ({how})"
    yield f"{len(verdicts):,} captions, {seconds:.1f} s"
