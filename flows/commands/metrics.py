"""`loupe metrics`: the scores of embeddings that are there already, straight from `.npy` files."""

from pathlib import Path
from typing import Annotated

import typer

from flows.commands.metrics_ccd import ccd
from flows.commands.metrics_recos import recos
from flows.commands.output import JsonOption

app = typer.Typer(
    help="Score embeddings from .npy files: retrieval by identity, or a benchmark's own metrics.",
    context_settings={"help_option_names": ["-h", "--help"]},
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
    Path | None, typer.Option("--gallery-ids", help="An integer identity for each gallery row.")
]


@app.callback(invoke_without_command=True)
def metrics(
    context: typer.Context,
    queries: QueriesOption = None,
    gallery: GalleryOption = None,
    query_ids: QueryIdsOption = None,
    gallery_ids: GalleryIdsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Score a retrieval of identities: R@k, mAP, mSD, mINP and the median rank, in percent."""
    from schemas.errors import UsageError

    given = (queries, gallery, query_ids, gallery_ids)
    if context.invoked_subcommand is not None:
        return
    raise UsageError(f"not there yet: {given} {as_json}")
