"""`loupe shards`: work on millions of records before people see any."""

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from loupe.flows.cli.commands import command, group
from loupe.flows.cli.options import ProfileOption, chosen_profile, opened_run, opened_store
from loupe.flows.cli.output import Answer, Table, note, say

if TYPE_CHECKING:
    from loupe.flows.engine.context import RunContext
    from loupe.schemas.profile import Profile

app = group("Process millions of records, in shards of 10,000.")
SourceArgument = Annotated[str, typer.Argument(help="Name of a source imported with --shards.")]


def _opened(source: str, profile: str | None = None) -> "tuple[RunContext, Profile]":
    """Open the installation, which must have shards of `source`."""
    from loupe.flows.shards.files import require_shards

    with opened_store() as store:
        require_shards(store, source)
    return opened_run(), chosen_profile(profile)


@command(app)
def list_() -> Answer:
    """List shards, with counts of records and rejections."""
    from loupe.db.entities import LIVE, datasets_of, find
    from loupe.schemas.records import Shard

    counts: dict[tuple[str, str], Counter[str]] = {}
    with opened_store() as store:
        for dataset in datasets_of(store):
            for entity in find(store, dataset, Shard.kind, states=LIVE):
                shard = entity.record(Shard)
                count = counts.setdefault((shard.source, shard.step), Counter())
                count.update(shards=1, records=shard.records, rejected=sum(shard.rejected.values()))
    rows = [{"source": name, "step": step, **one} for (name, step), one in counts.items()]
    columns = ("source", "step", "shards", "records", "rejected")
    return Answer(rows, [Table.of("Shards", columns, rows)])


@command(app)
def rewrite(source: SourceArgument, *, profile: ProfileOption = None) -> None:
    """Rewrite all captions, and check the rewrites.

    Uses the models of [rewrite] in the profile.
    """
    from loupe.flows.shards.steps import rewrite_shards

    context, chosen = _opened(source, profile)
    rewrite_shards(context, source, chosen)


@command(app)
def embed(source: SourceArgument, *, profile: ProfileOption = None) -> None:
    """Embed all images with the embedder of [captioning]."""
    from loupe.flows.shards.steps import embed_shards

    context, chosen = _opened(source, profile)
    embed_shards(context, source, chosen.captioning.embedder)


@command(app)
def duplicates(source: SourceArgument, *, profile: ProfileOption = None) -> Answer:
    """Find near-duplicates among all images.

    Builds use only one image of each group of duplicates. Embeddings are also compared if all
    shards have them.
    """
    from loupe.flows.shards.steps import find_shard_duplicates

    context, chosen = _opened(source, profile)
    found = find_shard_duplicates(context, source, chosen.captioning.near_duplicates)
    sentence = (
        f"{found.images:,} images, {found.kept:,} of them different; pairs in doubt: "
        f"{found.doubtful:,}"
    )
    return Answer(found.model_dump(mode="json", exclude_none=True), [sentence])


@command(app)
def promote(source: SourceArgument, records: list[str]) -> None:
    """Create entities from records, for example to withdraw them.

    Builds do this for the records that they draw. Exit code 1 if a record was rejected or
    withdrawn.

    Args:
        records: Numbers of records (from 0), or SHA-256 digests of their images.
    """
    from loupe.flows.shards.promotion import find_records, promote_records

    context, _ = _opened(source)
    if promote_records(context, source, find_records(context, source, records)).rejected:
        note(f"show the reasons with: loupe quarantine {source}")
        raise typer.Exit(1)


@command(app)
def verify(source: SourceArgument) -> None:
    """Verify all shards, and the proofs of promoted records.

    Both are compared with their Merkle roots. Exit code 1 if something is wrong.
    """
    from loupe.flows.shards.promotion import damaged_shards

    context, _ = _opened(source)
    wrong = list(damaged_shards(context, source))
    for sentence in wrong:
        say(sentence)
    if wrong:
        raise typer.Exit(1)
    say(f"all shards of {source} match their Merkle roots")
