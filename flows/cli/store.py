"""`loupe cost`, `loupe quarantine` and `loupe store check`."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.markup import escape

from flows.cli.commands import command, group
from flows.cli.options import chosen_profile, opened_store, progress_bar, require_dataset
from flows.cli.output import Figure, JsonOption, answer, note, out, print_json, print_table, say

if TYPE_CHECKING:
    from db.blob_check import FaultyBlob
    from db.calls import CostRow
    from db.store import Store
    from schemas.records import Rejection


def cost(
    dataset: str | None = None,
    *,
    config: Path | None = None,
    profile: str | None = None,
    as_json: JsonOption = False,
) -> None:
    """Show model calls and their cost.

    Lists calls, tokens, searches, seconds and cost by model.

    Args:
        dataset: A dataset (default: all).
        config: Also forecast what a run of this build file would still use.
        profile: Profile for the forecast.
    """
    from db.calls import CostRow, cost_rows
    from flows.engine.pipeline import load_build
    from flows.ufine3c.rewriting import forecast
    from schemas.build import UFine3CBuild

    with opened_store() as store:
        require_dataset(store, dataset)
        spent = cost_rows(store, dataset)
        ahead = []
        if config is not None:
            ahead = forecast(store, load_build(config, UFine3CBuild), chosen_profile(profile))
    if as_json:
        rows = [row._asdict() for row in spent]
        print_json({"spent": rows, "forecast": [row._asdict() for row in ahead]})
        return
    if not spent:
        out.print("no model calls or searches yet")
    else:
        columns = [*(name.replace("_", " ") for name in CostRow._fields)]
        print_table("Calls of models and searches", columns, map(_cost_row, spent))
    if ahead:
        columns = ["model", "calls to make", "tokens in", "tokens out", "cost", "currency"]
        print_table("Forecast", columns, ahead)


def _cost_row(row: "CostRow") -> tuple[object, ...]:
    """Format a row; its sums say how many calls have unknown usage."""
    from flows.engine.report import known_sum

    unknown = row.unknown_usage
    sums = {
        "tokens_in": Figure(known_sum(row.tokens_in, unknown)),
        "tokens_out": Figure(known_sum(row.tokens_out, unknown)),
        "cost": Figure(known_sum(row.cost, unknown if row.currency else 0)),
    }
    return tuple((row._asdict() | sums).values())


def quarantine(
    dataset: str | None = None,
    *,
    reason: str | None = None,
    limit: Annotated[int, typer.Option(min=1)] = 20,
    retry: bool = False,
    as_json: JsonOption = False,
) -> None:
    """Show quarantined records.

    Prints counts by reason, and for one dataset also the records.

    Args:
        dataset: A source or dataset (default: all).
        reason: Only this reason.
        limit: Show at most this many records.
        retry: Let the next run retry the records of DATASET with this --reason.
    """
    from db.quarantine import quarantine_counts, quarantined
    from schemas.errors import UsageError

    with opened_store() as store:
        if retry and (dataset is None or reason is None):
            raise UsageError("--retry needs a dataset and a --reason")
        require_dataset(store, dataset)
        if retry:
            _retry(store, str(dataset), str(reason), as_json=as_json)
            return
        counts = quarantine_counts(store, dataset, reason)
        records = list(quarantined(store, dataset, reason, limit)) if dataset else []
    if as_json:
        rejections = [record.model_dump(mode="json") for record in records]
        print_json({"counts": [row._asdict() for row in counts], "records": rejections})
        return
    if not counts:
        out.print("nothing is quarantined")
        return
    print_table("Quarantine", ["dataset", "stage", "reason", "inputs"], counts)
    for record in records:
        _print_rejection(record)


def _retry(store: "Store", dataset: str, reason: str, *, as_json: bool) -> None:
    from db.quarantine import put_back, quarantine_counts
    from schemas.errors import UsageError

    inputs = put_back(store, dataset, reason)
    if not inputs:
        reasons = sorted({row.reason for row in quarantine_counts(store, dataset)})
        others = f"the reasons are {', '.join(reasons)}" if reasons else "it has none at all"
        raise UsageError(f"{dataset} has no quarantined records with the reason {reason}; {others}")
    records = "1 record" if inputs == 1 else f"{inputs:,} records"
    line = f"{records} released from quarantine: the next run of {dataset} retries"
    answer(as_json, {"dataset": dataset, "reason": reason, "put_back": inputs}, line)


def _print_rejection(record: "Rejection") -> None:
    where = ", ".join(
        f"{key} {record.context[key]}"
        for key in ("file", "index", "field")
        if record.context.get(key) not in (None, "")
    )
    out.print(f"[bold]{escape(record.reason)}[/bold] {escape(where)}", soft_wrap=True)
    say(f"  {record.detail}")


T = TypeVar("T")

app = group("Check and repair the blob store.")

_LISTED = 10_000
"""Items listed of each kind at most, to limit memory; all are counted."""
_SHOWN = 20


@command(app)
def check(
    *,
    repair: bool = False,
    from_: Annotated[list[Path] | None, typer.Option(exists=True, file_okay=False)] = None,
    orphans: bool = False,
    as_json: JsonOption = False,
) -> None:
    """Compare every file with its digest.

    With --repair, missing and damaged files are copied from a release or a backup, read from their
    source, cropped from their video, or drawn or edited again; only bytes with the right digest are
    stored. Exit code 1 if a file is still missing or damaged.

    Args:
        repair: Restore missing and damaged files.
        from_: Folder with source files, videos or a backup of the blob store; can be given several
            times.
        orphans: Also list files that no entity refers to; none is removed.
    """
    from db.blob_check import BlobCheck
    from flows.blob_repair import repair_blobs
    from flows.engine.context import open_context
    from flows.shards.files import digests_in_shards
    from models.profiles.settings import load_settings
    from schemas.errors import UsageError

    if from_ and not repair:
        raise UsageError("--from needs --repair")
    context = open_context(load_settings(), flow_run="loupe store check")
    with BlobCheck(context.store, context.blobs) as found:
        with progress_bar("reading files") as advance:
            checked = found.run(advance)
        repairs = repair_blobs(context, found, from_ or ()) if repair else ()
        count_repaired, repaired = _counted(repairs)
        count, faulty = _counted(found.faulty())
        others = digests_in_shards(context.store, context.blobs)
        unnamed, paths = _counted(found.orphans(others) if orphans else ())
    context.store.close()
    if as_json:
        document: dict[str, Any] = {
            "checked": checked,
            "faulty": count,
            "faults": [_as_json(one) for one in faulty],
            "repaired": count_repaired,
            "repairs": [{"sha256": one.blob.sha256, "from": one.origin} for one in repaired],
        }
        print_json(document | ({"orphans": unnamed, "orphan_paths": paths} if orphans else {}))
    else:
        for one in repaired[:_SHOWN]:
            note(f"{one.blob.sha256[:12]} restored: {one.origin}")
        for fault in faulty[:_SHOWN]:
            say(f"{fault.fault}: {_named(fault)}")
        for path in paths[:_SHOWN]:
            say(f"orphan: {path}")
        out.print(_summary(checked, count_repaired, count, repair), soft_wrap=True)
        if orphans:
            say(f"{unnamed:,} orphaned files; none was removed")
    if count:
        raise typer.Exit(1)


def _counted(found: Iterable[T]) -> tuple[int, list[T]]:
    """Return how many there are, and the first of them."""
    first: list[T] = []
    count = 0
    for count, one in enumerate(found, start=1):
        if count <= _LISTED:
            first.append(one)
    return count, first


def _as_json(one: "FaultyBlob") -> dict[str, Any]:
    return {
        "sha256": one.blob.sha256,
        "media_type": one.blob.media_type,
        "fault": one.fault,
        "entity_id": one.entity_id,
    }


def _named(one: "FaultyBlob") -> str:
    return f"{one.blob.sha256} ({one.blob.media_type}), loupe lineage {one.entity_id[:12]}"


def _summary(checked: int, repaired: int, left: int, repair: bool) -> str:
    restored = f", {repaired:,} restored" if repair else ""
    result = f"{checked:,} files checked{restored}, {left:,} missing or damaged"
    if not left:
        return f"[green]{result}[/]"
    if not repair:
        return f"[red]{result}[/]: loupe store check --repair"
    return (
        f"[red]{result}[/]: pass the folder of their source, videos or a backup with --from, or "
        "run the build again, which draws and downloads missing files, and check again"
    )
