"""`loupe metrics`: scores of embeddings in `.npy` files."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.commands import command, declare, group
from flows.cli.output import Figure, JsonOption, out, print_json, print_table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from retrieval.contrastive import (
        ContrastAccuracy,
        ContrastiveSamples,
        ContrastiveScores,
        RightCount,
        SampleRecall,
    )
    from retrieval.distractors import BenchmarkDistractors
    from retrieval.ranking import RetrievalScores
    from retrieval.recos import RecosSamples, RecosScores, TaskRecall
    from schemas.evaluation import PairSimilarities


Limits = dict[str, tuple[float, float]]
"""The two bounds of an interval, by metric."""

ImagesOption = Annotated[Path, typer.Option(help="One row per sample, .npy of shape (n, d).")]
app = group("Score embeddings from .npy files.")


def metrics(
    context: typer.Context,
    *,
    queries: Path | None = None,
    gallery: Path | None = None,
    query_ids: Path | None = None,
    gallery_ids: Path | None = None,
    intervals: bool = False,
    memory_mib: Annotated[int, typer.Option(min=1)] = 256,
    as_json: JsonOption = False,
) -> None:
    """Score embeddings from .npy files.

    Without a command: retrieval by identity. Prints R@k, mAP, mSD and mINP in percent, and the
    median rank. All four arrays are required. For the other direction, swap queries and gallery.

    Args:
        queries: Embeddings of the queries, .npy of shape (n, d).
        gallery: Embeddings of the gallery, .npy of shape (m, d).
        query_ids: Integer identity of each query, .npy.
        gallery_ids: Integer identity of each gallery item, .npy.
        intervals: Also 95 % intervals (bootstrap over identities).
        memory_mib: Working memory in MiB, without the embeddings.
    """
    from schemas.errors import UsageError

    given = {
        "--queries": queries,
        "--gallery": gallery,
        "--query-ids": query_ids,
        "--gallery-ids": gallery_ids,
    }
    if context.invoked_subcommand is not None:
        if too_many := [name for name, path in given.items() if path is not None]:
            raise UsageError(f"{', '.join(too_many)} cannot be used with a command")
        return
    if missing := [name for name, path in given.items() if path is None]:
        raise UsageError(f"missing {', '.join(missing)} (or a command; see loupe metrics --help)")
    from retrieval.embeddings import read_array
    from retrieval.ranking import load_kernels, score_retrieval

    files = [path for path in given.values() if path is not None]
    first, second, first_ids, second_ids = (read_array(path) for path in files)
    load_kernels()
    started = time.perf_counter()  # excludes loading, imports and compiling
    scores = score_retrieval(
        first,
        second,
        first_ids,
        second_ids,
        memory_mib=memory_mib,
        names=(str(queries), str(gallery), str(query_ids), str(gallery_ids)),
    )
    seconds = time.perf_counter() - started
    limits = None
    if intervals:
        from retrieval.ranking import bootstrap_means

        means = bootstrap_means(scores.by_query, first_ids)
        limits = {name: (one.low, one.high) for name, one in means.items()}
    if as_json:
        print_json(_scores_as_json(scores, limits, seconds))
    else:
        _show_scores(scores, limits, seconds)


app.callback(invoke_without_command=True, help=declare(metrics))(metrics)


def _scores_as_json(
    scores: "RetrievalScores", limits: Limits | None, seconds: float
) -> dict[str, Any]:
    released = scores.similarity_distribution_released[scores.matches > 0]
    return {
        **scores.means(),
        "mSD_released": 100 * float(released.mean()),
        **({} if limits is None else {"intervals": limits}),
        **_facts(scores, seconds),
    }


def _facts(scores: "RetrievalScores", seconds: float) -> dict[str, Any]:
    return {
        "queries": scores.queries,
        "unmatched": scores.unmatched,
        "gallery": scores.gallery,
        "seconds": round(seconds, 3),
    }


def _show_scores(scores: "RetrievalScores", limits: Limits | None, seconds: float) -> None:
    from flows.evaluation.leaderboard import column_title, interval_text, score_text
    from schemas.evaluation import Score

    columns = ["metric", "value"] if limits is None else ["metric", "value", "95 %"]
    rows: list[list[object]] = []
    for name, value in scores.means().items():
        low, high = (limits or {}).get(name, (None, None))
        score = Score(value=value, low=low, high=high)
        figure = Figure(score_text(score, name))
        rows.append([column_title(name), figure, interval_text(score, name)])
    rows += [[name, value, ""] for name, value in _facts(scores, seconds).items()]
    print_table("Retrieval by identity", columns, [row[: len(columns)] for row in rows])


@command(app)
def ccd(
    *,
    image_embeddings: ImagesOption,
    text_embeddings: Path,
    samples: Path,
    distractors: bool = False,
    as_json: JsonOption = False,
) -> None:
    """Score a contrastive benchmark (CCD): R@1, R@5 and FG-CDA.

    Recall is computed in three settings, FG-CDA by type, all in percent; ties count as errors. The
    anchor of a group is its sample with contrastive_type null.

    Args:
        text_embeddings: Row 5·i + j is caption j of image i, .npy of shape (5n, d).
        samples: JSON list of {"image", "group", "contrastive_type"}.
        distractors: Also measure the similarity of the nearest other samples.
    """
    from retrieval.contrastive import contrastive_samples, read_list, score_contrastive
    from retrieval.distractors import benchmark_distractors

    listed = contrastive_samples(read_list(samples), str(samples))
    images, texts, names = _read(image_embeddings, text_embeddings)
    scores = score_contrastive(images, texts, listed, names=names)
    near = None
    if distractors:
        near = benchmark_distractors(images, texts, listed.image_of_text, names)
    if as_json:
        print_json(_ccd_as_json(listed, scores, near))
    else:
        _show_ccd(listed, scores, near)


def _read(
    images: Path, texts: Path
) -> "tuple[NDArray[np.generic], NDArray[np.generic], tuple[str, str]]":
    """Return both arrays, and their names for messages."""
    from retrieval.embeddings import read_array

    return read_array(images), read_array(texts), (str(images), str(texts))


def _ccd_as_json(
    samples: "ContrastiveSamples",
    scores: "ContrastiveScores",
    distractors: "BenchmarkDistractors | None",
) -> dict[str, Any]:
    from retrieval.contrastive import DEPTHS

    def by_type(value: "Callable[[RightCount], object]") -> dict[str, dict[str, object]]:
        return {
            direction: {name: value(counts) for name, counts in _types(accuracy)}
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
        "FG-CDA": by_type(lambda counts: counts.accuracy),
        "FG-CDE": by_type(lambda counts: counts.error),
        "comparisons": by_type(lambda counts: counts.comparisons),
        "similarities": {str(one.difference): _spread(one) for one in scores.similarity},
        **({"distractors": _near(distractors)} if distractors else {}),
        "samples": len(samples),
        "originals": int(samples.is_original.sum()),
        "seconds": round(scores.seconds, 3),
    }


def _types(accuracy: "ContrastAccuracy") -> "Iterator[tuple[str, RightCount]]":
    """Yield the counts of each type, of each aspect and of all, by name."""
    for kind, counts in accuracy.secondary.items():
        yield str(kind), counts
    for aspect, counts in accuracy.primary.items():
        yield str(aspect), counts
    yield "overall", accuracy.overall


def _near(distractors: "BenchmarkDistractors") -> dict[str, Any]:
    from retrieval.distractors import NEAREST

    return {
        "nearest": NEAREST,
        "images": distractors.images,
        "texts": distractors.texts,
        "seconds": round(distractors.seconds, 3),
    }


def _spread(one: "PairSimilarities") -> dict[str, Any]:
    quantiles = {f"{share:g}": value for share, value in one.quantiles}
    histogram = {"low": -1.0, "high": 1.0, "counts": one.histogram}
    return {"pairs": one.pairs, "mean": one.mean, "quantiles": quantiles, "histogram": histogram}


def _show_ccd(
    samples: "ContrastiveSamples",
    scores: "ContrastiveScores",
    distractors: "BenchmarkDistractors | None",
) -> None:
    columns = ("direction", "queries → candidates", "queries", "candidates", "R@1", "R@5")
    rows = [
        (
            direction,
            setting.replace("_to_", " → "),
            found.queries,
            found.candidates,
            *found.percent.values(),
        )
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


def _type_rows(scores: "ContrastiveScores") -> Iterator[tuple[object, ...]]:
    """Yield a row for each aspect, followed by the rows of its types, and a row for all."""
    from retrieval.contrastive import COMPARISONS

    found = scores.accuracy.values()
    pairs = next(iter(COMPARISONS.items()))
    first = scores.accuracy[pairs[0]]
    spreads = {one.difference: one for one in scores.similarity}
    for aspect, counts in first.primary.items():
        kinds = [kind for kind in first.secondary if kind.primary is aspect]
        if len(kinds) > 1:
            accuracies = [one.primary[aspect].accuracy for one in found]
            yield str(aspect), counts.comparisons // pairs[1], *accuracies, None, None, None
        for kind in kinds:
            spread = spreads[kind]
            indent = "  " if len(kinds) > 1 else ""
            quantiles = [dict(spread.quantiles).get(share) for share in (0.05, 0.95)]
            accuracies = [one.secondary[kind].accuracy for one in found]
            yield f"{indent}{kind}", spread.pairs, *accuracies, spread.mean, *quantiles
    count = first.overall.comparisons // pairs[1]
    yield "overall", count, *(one.overall.accuracy for one in found), None, None, None


@command(app)
def recos(
    *,
    image_embeddings: ImagesOption,
    text_embeddings: Path,
    samples: Path,
    as_json: JsonOption = False,
) -> None:
    """Score a benchmark of tasks (ReCoS): R@1, R@5 and R@10 by task.

    In percent; ties count as errors. Images without captions are candidates only; if there are any,
    as in version 2, only text to image is scored.

    Args:
        text_embeddings: One row per caption, image by image, .npy of shape (m, d).
        samples: JSON list of {"image", "task", "captions": count}.
    """
    from retrieval.contrastive import read_list
    from retrieval.recos import recos_samples, score_recos

    listed = recos_samples(read_list(samples), str(samples))
    images, texts, names = _read(image_embeddings, text_embeddings)
    scores = score_recos(images, texts, listed, names=names)
    if as_json:
        print_json(_recos_as_json(listed, scores))
    else:
        _show_recos(listed, scores)


def _recos_as_json(samples: "RecosSamples", scores: "RecosScores") -> dict[str, Any]:
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
    """Yield the recall of all queries, then of each task, by name."""
    yield "overall", recall.overall
    for task, found in recall.tasks.items():
        yield str(task), found


def _show_recos(samples: "RecosSamples", scores: "RecosScores") -> None:
    for direction, found in scores.recall.items():
        if found is None:
            out.print(f"{direction} is not scored: some images have no caption")
            continue
        columns = ("task", "queries", "R@1", "R@5", "R@10")
        named = (part for part in _parts(found) if part[1].queries)
        rows = [(name, one.queries, *one.percent.values()) for name, one in named]
        print_table(f"Recall {direction}, percent", columns, rows)
    captions = int(samples.captions.sum())
    out.print(f"{len(samples):,} images, {captions:,} captions, {scores.seconds:.1f} s")
