"""`loupe metrics`: the scores of embeddings that are there already, straight from `.npy` files."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.metrics_ccd import ccd
from flows.cli.metrics_recos import recos
from flows.cli.output import Figure, JsonOption, print_json, print_table

if TYPE_CHECKING:
    from retrieval.ranking import RetrievalScores


Limits = dict[str, tuple[float, float]]
"""The two ends of an interval, by metric."""

app = typer.Typer(
    help="Score embeddings from .npy files: retrieval by identity, or a benchmark's own metrics.",
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
)
app.command()(ccd)
app.command()(recos)

QueriesOption = Annotated[
    Path | None, typer.Option("--queries", help="Embeddings of the queries, .npy of shape (n, d).")
]
GalleryOption = Annotated[
    Path | None, typer.Option("--gallery", help="Embeddings of the gallery, .npy of shape (m, d).")
]
QueryIdsOption = Annotated[
    Path | None, typer.Option("--query-ids", help="An integer identity for each query, .npy.")
]
GalleryIdsOption = Annotated[
    Path | None, typer.Option("--gallery-ids", help="One for each item of the gallery, .npy.")
]
MemoryOption = Annotated[
    int, typer.Option("--memory-mib", min=1, help="Working memory beside the embeddings, in MiB.")
]

IntervalsOption = Annotated[
    bool, typer.Option("--intervals", help="Also 95 % intervals, by a bootstrap over identities.")
]


@app.callback(invoke_without_command=True)
def metrics(
    context: typer.Context,
    queries: QueriesOption = None,
    gallery: GalleryOption = None,
    query_ids: QueryIdsOption = None,
    gallery_ids: GalleryIdsOption = None,
    intervals: IntervalsOption = False,
    memory_mib: MemoryOption = 256,
    as_json: JsonOption = False,
) -> None:
    """Score a retrieval of identities: R@k, mAP, mSD and mINP in percent, and the median rank.

    All four arrays are needed. Embeddings are floats of any length, ids are integers. For the other
    direction, exchange queries and gallery. Or score a benchmark of its own form: see the commands.
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
            raise UsageError(f"{', '.join(too_many)} cannot be given together with a command")
        return
    missing = [name for name, path in given.items() if path is None]
    if missing:
        raise UsageError(f"give also {', '.join(missing)} (or a command; see loupe metrics --help)")
    files = [path for path in given.values() if path is not None]
    scores, seconds = _scored(files, memory_mib)
    limits = _intervals(scores, files[2]) if intervals else None
    if as_json:
        print_json(_as_json(scores, limits, seconds))
    else:
        _show(scores, limits, seconds)


def _scored(files: list[Path], memory_mib: int) -> tuple["RetrievalScores", float]:
    """The scores, and the seconds of computing: loading, imports and compiling are left out."""
    from retrieval.embeddings import read_array
    from retrieval.ranking import load_kernels, score_retrieval

    queries, gallery, query_ids, gallery_ids = (read_array(path) for path in files)
    names = (str(files[0]), str(files[1]), str(files[2]), str(files[3]))
    load_kernels()
    started = time.perf_counter()
    scores = score_retrieval(
        queries, gallery, query_ids, gallery_ids, memory_mib=memory_mib, names=names
    )
    return scores, time.perf_counter() - started


def _intervals(scores: "RetrievalScores", query_ids: Path) -> Limits:
    """The 95 % interval of each metric that is a mean over queries."""
    from retrieval.bootstrap import bootstrap_means
    from retrieval.embeddings import read_array

    means = bootstrap_means(scores.by_query, read_array(query_ids))
    return {name: (one.low, one.high) for name, one in means.items()}


def _as_json(scores: "RetrievalScores", limits: Limits | None, seconds: float) -> dict[str, Any]:
    return {
        **scores.means(),
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


def _show(scores: "RetrievalScores", limits: Limits | None, seconds: float) -> None:
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
