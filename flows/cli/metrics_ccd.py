"""`loupe metrics ccd`: the scores of a contrastive benchmark."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.output import JsonOption, out, print_json, print_table

if TYPE_CHECKING:
    from retrieval.contrastive import (
        ContrastAccuracy,
        ContrastiveSamples,
        ContrastiveScores,
        SimilaritySpread,
        Told,
    )
    from retrieval.distractors import BenchmarkDistractors


ImagesOption = Annotated[
    Path,
    typer.Option("--image-embeddings", help="A row for each sample, .npy of shape (n, d)."),
]
TextsOption = Annotated[
    Path,
    typer.Option("--text-embeddings", help="Row 5·i + j is caption j of image i, .npy (5n, d)."),
]
SamplesOption = Annotated[
    Path,
    typer.Option("--samples", help='A JSON list of {"image", "group", "contrastive_type"}.'),
]
DistractorsOption = Annotated[
    bool,
    typer.Option("--distractors", help="Also measure how near the nearest other samples are."),
]


def ccd(
    image_embeddings: ImagesOption,
    text_embeddings: TextsOption,
    samples: SamplesOption,
    distractors: DistractorsOption = False,
    as_json: JsonOption = False,
) -> None:
    """Score a contrastive benchmark (CCD): R@1 and R@5 in three settings, FG-CDA by type.

    The anchor of a group is its sample with the contrastive_type null. All in percent; ties are
    errors.
    """
    from retrieval.contrastive import contrastive_samples, score_contrastive
    from retrieval.distractors import benchmark_distractors
    from retrieval.embeddings import read_array
    from retrieval.sample_list import read_list

    listed = contrastive_samples(read_list(samples), str(samples))
    names = str(image_embeddings), str(text_embeddings)
    images, texts = read_array(image_embeddings), read_array(text_embeddings)
    scores = score_contrastive(images, texts, listed, names=names)
    near = None
    if distractors:
        near = benchmark_distractors(images, texts, listed.image_of_text, names)
    if as_json:
        print_json(_as_json(listed, scores, near))
    else:
        _show(listed, scores, near)


def _as_json(
    samples: "ContrastiveSamples",
    scores: "ContrastiveScores",
    distractors: "BenchmarkDistractors | None",
) -> dict[str, Any]:
    from retrieval.contrastive import DEPTHS

    def by_type(value: "Callable[[Told], object]") -> dict[str, dict[str, object]]:
        return {
            direction: {name: value(told) for name, told in _types(accuracy)}
            for direction, accuracy in scores.accuracy.items()
        }

    recall = {
        f"R@{depth}": {
            direction: {str(setting): found.percent[depth] for setting, found in settings.items()}
            for direction, settings in scores.recall.items()
        }
        for depth in DEPTHS
    }
    return {
        **recall,
        "FG-CDA": by_type(lambda told: told.accuracy),
        "FG-CDE": by_type(lambda told: told.error),
        "comparisons": by_type(lambda told: told.comparisons),
        "similarities": {str(k): _spread(one) for k, one in scores.similarity.items()},
        **({"distractors": _near(distractors)} if distractors else {}),
        "samples": len(samples),
        "originals": int(samples.is_original.sum()),
        "seconds": round(scores.seconds, 3),
    }


def _types(accuracy: "ContrastAccuracy") -> "Iterator[tuple[str, Told]]":
    """Each type by its name, each aspect by its own ("Style & Presentation" is both), and all."""
    for kind, told in accuracy.secondary.items():
        yield str(kind), told
    for aspect, told in accuracy.primary.items():
        yield str(aspect), told
    yield "overall", accuracy.overall


def _near(distractors: "BenchmarkDistractors") -> dict[str, Any]:
    from retrieval.distractors import NEAREST

    return {
        "nearest": NEAREST,
        "images": distractors.images.mean,
        "texts": distractors.texts.mean,
        "seconds": round(distractors.seconds, 3),
    }


def _spread(one: "SimilaritySpread") -> dict[str, Any]:
    quantiles = {f"{share:g}": value for share, value in one.quantiles.items()}
    histogram = {"low": -1.0, "high": 1.0, "counts": one.histogram}
    return {"pairs": one.pairs, "mean": one.mean, "quantiles": quantiles, "histogram": histogram}


def _show(
    samples: "ContrastiveSamples",
    scores: "ContrastiveScores",
    distractors: "BenchmarkDistractors | None",
) -> None:
    columns = ("direction", "queries → candidates", "queries", "candidates", "R@1", "R@5")
    rows = [
        (direction, _words(setting), found.queries, found.candidates, *found.percent.values())
        for direction, settings in scores.recall.items()
        for setting, found in settings.items()
    ]
    print_table("Recall, percent", columns, rows)
    print_table(
        "FG-CDA of contrastive pairs, percent, and the cosine of their images",
        ("type", "pairs", *scores.accuracy, "cosine", "5 %", "95 %"),
        _type_rows(scores),
    )
    if distractors:
        near = _near(distractors)
        means = (f"{side} {near[side]:.3f}" for side in ("images", "texts") if near[side])
        what = f"mean cosine with the {near['nearest']} nearest other samples"
        out.print(f"{what}: {', '.join(means) or '–'} ({near['seconds']:.1f} s)")
    groups = int(samples.is_original.sum())
    out.print(f"{len(samples):,} samples in {groups:,} groups, {scores.seconds:.1f} s")


def _words(setting: str) -> str:
    return setting.replace("_to_", " → ")


def _type_rows(scores: "ContrastiveScores") -> Iterator[tuple[object, ...]]:
    """A row for each aspect with the rows of its types below, and the row of all."""
    from retrieval.contrastive import COMPARISONS

    found = scores.accuracy.values()
    pairs = next(iter(COMPARISONS.items()))
    first = scores.accuracy[pairs[0]]
    for aspect, told in first.primary.items():
        kinds = [kind for kind in first.secondary if kind.primary is aspect]
        if len(kinds) > 1:
            accuracies = [one.primary[aspect].accuracy for one in found]
            yield str(aspect), told.comparisons // pairs[1], *accuracies, None, None, None
        for kind in kinds:
            spread = scores.similarity[kind]
            indent = "  " if len(kinds) > 1 else ""
            quantiles = [spread.quantiles.get(share) for share in (0.05, 0.95)]
            accuracies = [one.secondary[kind].accuracy for one in found]
            yield f"{indent}{kind}", spread.pairs, *accuracies, spread.mean, *quantiles
    count = first.overall.comparisons // pairs[1]
    yield "overall", count, *(one.overall.accuracy for one in found), None, None, None
