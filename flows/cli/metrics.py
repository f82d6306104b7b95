"""`loupe metrics`: scores of embeddings in `.npy` files."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loupe.flows.cli.commands import command, declare, group
from loupe.flows.cli.output import Answer, Figure, JsonOption, Line, Table, show
from loupe.schemas.errors import UsageError

if TYPE_CHECKING:
    from loupe.retrieval.contrastive import ContrastAccuracy, RightCount
    from loupe.retrieval.ranking import RetrievalScores
    from loupe.schemas.evaluation import PairSimilarities

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

    Without a command, scores retrieval by identity: R@k, mAP, mSD and mINP in percent, and the
    median rank. All four arrays are required. For the other direction, swap queries and gallery.

    Args:
        queries: Embeddings of the queries, .npy of shape (n, d).
        gallery: Embeddings of the gallery, .npy of shape (m, d).
        query_ids: Integer identity of each query, .npy.
        gallery_ids: Integer identity of each gallery item, .npy; items with -1 are left out.
        intervals: Also print 95 % confidence intervals (bootstrap over identities).
        memory_mib: Working memory in MiB, in addition to the embeddings.
    """
    given = {
        "--queries": queries,
        "--gallery": gallery,
        "--query-ids": query_ids,
        "--gallery-ids": gallery_ids,
    }
    if context.invoked_subcommand is not None:
        if too_many := [name for name, path in given.items() if path is not None]:
            raise UsageError(f"{', '.join(too_many)} cannot be combined with a subcommand")
        return
    if missing := [name for name, path in given.items() if path is None]:
        raise UsageError(f"missing {', '.join(missing)} (or a command; see loupe metrics --help)")
    from loupe.retrieval.embeddings import read_array
    from loupe.retrieval.ranking import load_kernels, score_retrieval

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
        from loupe.retrieval.ranking import bootstrap_means

        means = bootstrap_means(scores.by_query, first_ids)
        limits = {name: (one.low, one.high) for name, one in means.items()}
    released = scores.similarity_distribution_released[scores.matches > 0]
    facts = {
        "queries": scores.queries,
        "unmatched": scores.unmatched,
        "gallery": scores.gallery,
        "junk": len(second) - scores.gallery,
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
    from loupe.flows.evaluation.leaderboard import column_title, interval_text, score_text
    from loupe.schemas.evaluation import Score

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

    Recall is computed in three settings, FG-CDA per type of difference, all in percent; ties count
    as errors. The anchor of a group is its sample whose contrastive_type is null.

    Args:
        text_embeddings: Row 5·i + j is caption j of image i, .npy of shape (5n, d).
        samples: JSON list of {"image", "group", "contrastive_type"}.
        distractors: Also print the mean cosine with the nearest other samples.
    """
    from loupe.retrieval.contrastive import (
        DEPTHS,
        contrastive_samples,
        read_list,
        score_contrastive,
    )
    from loupe.retrieval.distractors import NEAREST, benchmark_distractors
    from loupe.retrieval.embeddings import read_array

    listed = contrastive_samples(read_list(samples), str(samples))
    images, texts = read_array(image_embeddings), read_array(text_embeddings)
    names = str(image_embeddings), str(text_embeddings)
    scores = score_contrastive(images, texts, listed, names=names)
    readings: dict[str, ContrastAccuracy | None] = dict(scores.accuracy.items())
    readings["image-to-text, k with k"] = scores.accuracy["image-to-text"].k_with_k
    counts: dict[str, dict[str, RightCount]] = {}
    for direction, found in readings.items():
        if found is not None:
            of_direction = found.secondary | found.primary
            counts[direction] = {str(kind): one for kind, one in of_direction.items()}
            counts[direction]["overall"] = found.overall
    similar = {str(one.difference): one for one in scores.similarity}
    anchors = int(listed.is_original.sum())
    document: dict[str, Any] = {f"R@{depth}": {} for depth in DEPTHS}
    recall: list[list[object]] = []
    for direction, settings in scores.recall.items():
        for depth in DEPTHS:
            percents = {str(setting): one.percent[depth] for setting, one in settings.items()}
            document[f"R@{depth}"][direction] = percents
        for setting, one in settings.items():
            asked = [direction, setting.replace("_to_", " → "), one.queries, one.candidates]
            recall.append([*asked, *one.percent.values()])
    for key, value in (("FG-CDA", "accuracy"), ("FG-CDE", "error"), ("comparisons", "comparisons")):
        document[key] = {}
        for direction, by_kind in counts.items():
            figures = {kind: getattr(one, value) for kind, one in by_kind.items()}
            document[key][direction] = figures
    document["similarities"] = {}
    for kind, cosines in similar.items():
        document["similarities"][kind] = cosines.model_dump(mode="json", exclude={"difference"})
    document |= {
        "samples": len(listed),
        "originals": anchors,
        "seconds": round(scores.seconds, 3),
    }
    columns = ["direction", "queries → candidates", "queries", "candidates", "R@1", "R@5"]
    lines: list[Line] = [Table("Recall, percent", columns, recall)]
    columns = ["type", "pairs", *counts, "cosine", "5 %", "95 %"]
    title = "FG-CDA of contrastive pairs, percent, and the cosine of their images"
    lines.append(Table(title, columns, _type_rows(counts, similar)))
    if distractors:
        near = benchmark_distractors(images, texts, listed.image_of_text, names)._asdict()
        document["distractors"] = {"nearest": NEAREST, **near}
        sides = {side: near[side] for side in ("images", "texts")}
        means = ", ".join(f"{side} {mean:.3f}" for side, mean in sides.items() if mean)
        lines.append(f"mean cosine with the {NEAREST} nearest other samples: {means or '–'}")
    lines.append(f"{len(listed):,} samples in {anchors:,} groups, {scores.seconds:.1f} s")
    return Answer(document, lines)


def _type_rows(
    counts: "dict[str, dict[str, RightCount]]", similar: "dict[str, PairSimilarities]"
) -> Iterator[tuple[object, ...]]:
    """Yield a row for each type, each aspect and all pairs; only types have cosines."""
    from loupe.retrieval.contrastive import COMPARISONS

    for name, first in counts["text-to-image"].items():
        pairs = first.comparisons // COMPARISONS["text-to-image"]
        accuracies = [found[name].accuracy for found in counts.values()]
        cosines = similar.get(name)
        quantiles = dict(cosines.quantiles) if cosines else {}
        spread = (cosines and cosines.mean, quantiles.get(0.05), quantiles.get(0.95))
        yield name, pairs, *accuracies, *spread


@command(app)
def recos(
    *,
    image_embeddings: ImagesOption,
    text_embeddings: Path,
    samples: Path,
) -> Answer:
    """Score a benchmark of tasks (ReCoS): R@1, R@5 and R@10 per task.

    Scores are in percent; ties count as errors. Images without captions are only candidates; if
    there are any, as in version 2, only text-to-image retrieval is scored.

    Args:
        text_embeddings: One row per caption, image by image, .npy of shape (m, d).
        samples: JSON list of {"image", "task", "captions": count}.
    """
    from loupe.retrieval.contrastive import read_list
    from loupe.retrieval.embeddings import read_array
    from loupe.retrieval.recos import DEPTHS, recos_samples, score_recos

    listed = recos_samples(read_list(samples), str(samples))
    images, texts = read_array(image_embeddings), read_array(text_embeddings)
    names = str(image_embeddings), str(text_embeddings)
    scores = score_recos(images, texts, listed, names=names)
    captions = int(listed.captions.sum())
    by_depth: dict[str, dict[str, Any]] = {f"R@{depth}": {} for depth in DEPTHS}
    queries: dict[str, Any] = {}
    lines: list[Line] = []
    for direction, found in scores.recall.items():
        if found is None:
            for figures in (*by_depth.values(), queries):
                figures[direction] = None
            lines.append(f"{direction} is not scored: some images have no caption")
            continue
        parts = {"overall": found.overall} | found.tasks
        for depth in DEPTHS:
            percents = {name: one.percent[depth] for name, one in parts.items()}
            by_depth[f"R@{depth}"][direction] = percents
        queries[direction] = {name: one.queries for name, one in parts.items()}
        rows = []
        for name, one in parts.items():
            if one.queries:
                rows.append((name, one.queries, *one.percent.values()))
        columns = ("task", "queries", "R@1", "R@5", "R@10")
        lines.append(Table(f"Recall {direction}, percent", columns, rows))
    document = {
        **by_depth,
        "queries": queries,
        "images": len(listed),
        "captions": captions,
        "seconds": round(scores.seconds, 3),
    }
    lines.append(f"{len(listed):,} images, {captions:,} captions, {scores.seconds:.1f} s")
    return Answer(document, lines)
