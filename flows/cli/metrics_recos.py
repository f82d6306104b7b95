"""`loupe metrics recos`: the scores of a benchmark of tasks."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.output import JsonOption, out, print_json, print_table

if TYPE_CHECKING:
    from retrieval.contrastive import SampleRecall
    from retrieval.recos import RecosSamples, RecosScores, TaskRecall


ImagesOption = Annotated[
    Path,
    typer.Option("--image-embeddings", help="A row for each sample, .npy of shape (n, d)."),
]
TextsOption = Annotated[
    Path,
    typer.Option("--text-embeddings", help="A row for each caption, image by image, .npy (m, d)."),
]
SamplesOption = Annotated[
    Path,
    typer.Option("--samples", help='A JSON list of {"image", "task", "captions": how many}.'),
]


def recos(
    image_embeddings: ImagesOption,
    text_embeddings: TextsOption,
    samples: SamplesOption,
    as_json: JsonOption = False,
) -> None:
    """Score a benchmark of tasks (ReCoS): R@1, R@5 and R@10, overall and task by task.

    Images without captions are candidates only; where there are any, as in version 2, only text to
    image is scored. All in percent; ties are errors.
    """
    from retrieval.embeddings import read_array
    from retrieval.recos import recos_samples, score_recos
    from retrieval.sample_list import read_list

    listed = recos_samples(read_list(samples), str(samples))
    names = str(image_embeddings), str(text_embeddings)
    images, texts = read_array(image_embeddings), read_array(text_embeddings)
    scores = score_recos(images, texts, listed, names=names)
    if as_json:
        print_json(_as_json(listed, scores))
    else:
        _show(listed, scores)


def _as_json(samples: "RecosSamples", scores: "RecosScores") -> dict[str, Any]:
    from retrieval.recos import DEPTHS

    recall = {
        f"R@{depth}": {
            direction: found and {name: one.percent[depth] for name, one in _parts(found)}
            for direction, found in scores.recall.items()
        }
        for depth in DEPTHS
    }
    return {
        **recall,
        "queries": {
            direction: found and {name: one.queries for name, one in _parts(found)}
            for direction, found in scores.recall.items()
        },
        "images": len(samples),
        "captions": int(samples.captions.sum()),
        "seconds": round(scores.seconds, 3),
    }


def _parts(recall: "TaskRecall") -> "Iterator[tuple[str, SampleRecall]]":
    """What all queries come to, then those of each task, by name."""
    yield "overall", recall.overall
    for task, found in recall.tasks.items():
        yield str(task), found


def _show(samples: "RecosSamples", scores: "RecosScores") -> None:
    for direction, found in scores.recall.items():
        if found is None:
            out.print(f"{direction} is not scored: some images have no caption")
            continue
        columns = ("task", "queries", "R@1", "R@5", "R@10")
        rows = [(name, one.queries, *one.percent.values()) for name, one in _parts(found)]
        print_table(f"Recall {direction}, percent", columns, rows)
    captions = int(samples.captions.sum())
    out.print(f"{len(samples):,} images, {captions:,} captions, {scores.seconds:.1f} s")
