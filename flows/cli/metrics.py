"""`loupe metrics`: scores of embeddings in `.npy` files."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.commands import command, declare, group
from flows.cli.output import Answer, Figure, JsonOption, Line, Table, show
from schemas.errors import UsageError

if TYPE_CHECKING:
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
    limits: dict[str, tuple[float, float]] = {}
    if intervals:
        from retrieval.ranking import bootstrap_means

        means = bootstrap_means(scores.by_query, first_ids)
        limits = {name: (one.low, one.high) for name, one in means.items()}
    released = scores.similarity_distribution_released[scores.matches > 0]
    facts = {
        "queries": scores.queries,
        "unmatched": scores.unmatched,
        "gallery": scores.gallery,
        "seconds": round(seconds, 3),
    }
    document = {
        **scores.means(),
        "mSD_released": 100 * float(released.mean()),
        **({"intervals": limits} if intervals else {}),
        **facts,
    }
    show(Answer(document, [_identity_table(scores, limits, facts)]), as_json=as_json)


app.callback(invoke_without_command=True, help=declare(metrics))(metrics)


def _identity_table(
    scores: "RetrievalScores", limits: dict[str, tuple[float, float]], facts: dict[str, Any]
) -> Table:
    from flows.evaluation.leaderboard import column_title, interval_text, score_text
    from schemas.evaluation import Score

    rows: list[list[object]] = []
    for name, value in scores.means().items():
        low, high = limits.get(name, (None, None))
        score = Score(value=value, low=low, high=high)
        figure = Figure(score_text(score, name))
        rows.append([column_title(name), figure, interval_text(score, name)])
    rows += [[name, value, ""] for name, value in facts.items()]
    columns = ["metric", "value", "95 %"] if limits else ["metric", "value"]
    return Table("Retrieval by identity", columns, [row[: len(columns)] for row in rows])


@command(app)
def ccd(
    *,
    image_embeddings: ImagesOption,
    text_embeddings: Path,
    samples: Path,
    distractors: bool = False,
) -> Answer:
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
    from retrieval.embeddings import read_array

    listed = contrastive_samples(read_list(samples), str(samples))
    images, texts = read_array(image_embeddings), read_array(text_embeddings)
    names = str(image_embeddings), str(text_embeddings)
    scores = score_contrastive(images, texts, listed, names=names)
    near = None
    if distractors:
        near = benchmark_distractors(images, texts, listed.image_of_text, names)
    return Answer(_ccd_document(listed, scores, near), _ccd_lines(listed, scores, near))


def _ccd_document(
    samples: "ContrastiveSamples",
    scores: "ContrastiveScores",
    distractors: "BenchmarkDistractors | None",
) -> dict[str, Any]:
    from retrieval.contrastive import DEPTHS
    from retrieval.distractors import NEAREST

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
    similarities = {
        str(one.difference): {
            "pairs": one.pairs,
            "mean": one.mean,
            "quantiles": {f"{share:g}": value for share, value in one.quantiles},
            "histogram": {"low": -1.0, "high": 1.0, "counts": one.histogram},
        }
        for one in scores.similarity
    }
    near = {"distractors": {"nearest": NEAREST, **distractors._asdict()}} if distractors else {}
    return {
        **recall,
        "FG-CDA": by_type(lambda counts: counts.accuracy),
        "FG-CDE": by_type(lambda counts: counts.error),
        "comparisons": by_type(lambda counts: counts.comparisons),
        "similarities": similarities,
        **near,
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


def _ccd_lines(
    samples: "ContrastiveSamples",
    scores: "ContrastiveScores",
    distractors: "BenchmarkDistractors | None",
) -> Iterator[Line]:
    from retrieval.distractors import NEAREST

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
    columns = ("direction", "queries → candidates", "queries", "candidates", "R@1", "R@5")
    yield Table("Recall, percent", columns, rows)
    yield Table(
        "FG-CDA of contrastive pairs, percent, and the cosine of their images",
        ("type", "pairs", *scores.accuracy, "cosine", "5 %", "95 %"),
        _type_rows(scores),
    )
    if distractors:
        sides = {"images": distractors.images, "texts": distractors.texts}
        means = ", ".join(f"{side} {mean:.3f}" for side, mean in sides.items() if mean)
        yield f"mean cosine with the {NEAREST} nearest other samples: {means or '–'}"
    groups = int(samples.is_original.sum())
    yield f"{len(samples):,} samples in {groups:,} groups, {scores.seconds:.1f} s"


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
) -> Answer:
    """Score a benchmark of tasks (ReCoS): R@1, R@5 and R@10 by task.

    In percent; ties count as errors. Images without captions are candidates only; if there are any,
    as in version 2, only text to image is scored.

    Args:
        text_embeddings: One row per caption, image by image, .npy of shape (m, d).
        samples: JSON list of {"image", "task", "captions": count}.
    """
    from retrieval.contrastive import read_list
    from retrieval.embeddings import read_array
    from retrieval.recos import DEPTHS, recos_samples, score_recos

    listed = recos_samples(read_list(samples), str(samples))
    images, texts = read_array(image_embeddings), read_array(text_embeddings)
    names = str(image_embeddings), str(text_embeddings)
    scores = score_recos(images, texts, listed, names=names)

    def by_task(value: "Callable[[SampleRecall], object]") -> dict[str, dict[str, object] | None]:
        return {
            direction: found and {name: value(one) for name, one in _parts(found)}
            for direction, found in scores.recall.items()
        }

    document = {
        **{f"R@{depth}": by_task(partial(_percent, depth)) for depth in DEPTHS},
        "queries": by_task(lambda one: one.queries),
        "images": len(listed),
        "captions": int(listed.captions.sum()),
        "seconds": round(scores.seconds, 3),
    }
    return Answer(document, _recos_lines(listed, scores))


def _percent(depth: int, recall: "SampleRecall") -> float | None:
    return recall.percent[depth]


def _parts(recall: "TaskRecall") -> "Iterator[tuple[str, SampleRecall]]":
    """Yield the recall of all queries, then of each task, by name."""
    yield "overall", recall.overall
    for task, found in recall.tasks.items():
        yield str(task), found


def _recos_lines(samples: "RecosSamples", scores: "RecosScores") -> Iterator[Line]:
    for direction, found in scores.recall.items():
        if found is None:
            yield f"{direction} is not scored: some images have no caption"
            continue
        columns = ("task", "queries", "R@1", "R@5", "R@10")
        named = (part for part in _parts(found) if part[1].queries)
        rows = [(name, one.queries, *one.percent.values()) for name, one in named]
        yield Table(f"Recall {direction}, percent", columns, rows)
    captions = int(samples.captions.sum())
    yield f"{len(samples):,} images, {captions:,} captions, {scores.seconds:.1f} s"
