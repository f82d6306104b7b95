"""`loupe shards`: work on millions of records before people see any."""

from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.options import ProfileOption
from flows.cli.output import JsonOption, err, out, print_json, print_table

if TYPE_CHECKING:
    from flows.engine.context import RunContext
    from schemas.profile import Profile

app = typer.Typer(
    help="Work on millions of records, in files of 10,000, before people see any.",
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
)
SourceArgument = Annotated[str, typer.Argument(help="Name of a source imported with --shards.")]


def _opened(source: str, profile: str | None = None) -> "tuple[RunContext, Profile]":
    """Open the installation, which must have shards of `source`."""
    from flows.cli.options import opened_store
    from flows.engine.context import open_context
    from flows.engine.report import ConsoleProgress
    from flows.shards.files import require_shards
    from models.profiles.loader import load_profile
    from models.profiles.settings import load_settings

    with opened_store() as store:
        require_shards(store, source)
    settings = load_settings()
    return (
        open_context(settings, progress=ConsoleProgress(err)),
        load_profile(profile or settings.profile),
    )


@app.command("list")
def list_(as_json: JsonOption = False) -> None:
    """List shards by source and step, with their records and rejections."""
    from collections import Counter

    from db.entities import LIVE, datasets_of, find
    from flows.cli.options import opened_store
    from schemas.records import Shard

    counts: dict[tuple[str, str], Counter[str]] = {}
    with opened_store() as store:
        for dataset in datasets_of(store):
            for entity in find(store, dataset, Shard.kind, states=LIVE):
                shard = entity.record(Shard)
                count = counts.setdefault((shard.source, shard.step), Counter())
                count.update(shards=1, records=shard.records, rejected=sum(shard.rejected.values()))
    columns = ("shards", "records", "rejected")
    if as_json:
        rows = [{"source": name, "step": step, **one} for (name, step), one in counts.items()]
        print_json(rows)
        return
    print_table(
        "Shards",
        ("source", "step", *columns),
        [(*names, *(one[column] for column in columns)) for names, one in counts.items()],
    )


@app.command()
def rewrite(source: SourceArgument, profile: ProfileOption = None) -> None:
    """Rewrite all captions with the models of the profile, and check the rewrites."""
    from flows.shards.steps import rewrite_shards

    context, chosen = _opened(source, profile)
    rewrite_shards(context, source, chosen)


@app.command()
def embed(source: SourceArgument, profile: ProfileOption = None) -> None:
    """Embed all images with the embedder of the profile's [captioning] table."""
    from flows.shards.steps import embed_shards

    context, chosen = _opened(source, profile)
    embed_shards(context, source, chosen.captioning.embedder)


@app.command()
def duplicates(
    source: SourceArgument, profile: ProfileOption = None, as_json: JsonOption = False
) -> None:
    """Find near-duplicates among all images; builds draw one image of each content.

    Embeddings are compared as well if all images have one.
    """
    from flows.shards.steps import find_shard_duplicates

    context, chosen = _opened(source, profile)
    found = find_shard_duplicates(context, source, chosen.captioning.near_duplicates)
    if as_json:
        print_json(found.model_dump(mode="json", exclude_none=True))
        return
    out.print(
        f"{found.images:,} images, {found.kept:,} of them different; pairs in doubt: "
        f"{found.doubtful:,}"
    )


@app.command()
def promote(
    source: SourceArgument,
    records: Annotated[
        list[str], typer.Argument(help="Numbers of records from 0, or SHA-256 of their images.")
    ],
) -> None:
    """Make entities of records, for example to withdraw them; builds do it with what they draw.

    Exit code 1 if a record was rejected or withdrawn.
    """
    from flows.shards.promotion import find_records, promote_records

    context, _ = _opened(source)
    if promote_records(context, source, find_records(context, source, records)).rejected:
        err.print(f"show the reasons with: loupe quarantine {source}")
        raise typer.Exit(1)


@app.command()
def verify(source: SourceArgument) -> None:
    """Compare all shards with their Merkle roots, and the proofs of promoted records.

    Exit code 1 if something is wrong.
    """
    from flows.shards.promotion import damaged_shards

    context, _ = _opened(source)
    wrong = list(damaged_shards(context, source))
    for sentence in wrong:
        out.print(sentence, markup=False, soft_wrap=True)
    if wrong:
        raise typer.Exit(1)
    out.print(f"all shards of {source} match their Merkle roots", markup=False)
