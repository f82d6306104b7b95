"""`loupe cost`, `loupe quarantine` and `loupe store check`."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from loupe.flows.cli.commands import command, group
from loupe.flows.cli.options import (
    chosen_profile,
    opened_store,
    progress_bar,
    require_dataset,
    settings,
)
from loupe.flows.cli.output import Answer, Figure, Line, Note, Table
from loupe.schemas.errors import UsageError
from loupe.schemas.wording import many

if TYPE_CHECKING:
    from loupe.db.calls import CostRow
    from loupe.db.quarantine import Superseded
    from loupe.db.store import Store
    from loupe.schemas.records import Rejection


def cost(
    dataset: str | None = None, *, config: Path | None = None, profile: str | None = None
) -> Answer:
    """Show model calls and their cost.

    Lists calls, tokens, searches, seconds and cost by model.

    Args:
        dataset: A dataset (default: all).
        config: Also forecast the remaining calls of a run of this build file (build-ufine3c only).
        profile: Profile for the forecast.
    """
    from loupe.db.calls import CostRow, cost_rows
    from loupe.flows.engine.pipeline import load_build
    from loupe.flows.ufine3c.forecast import forecast, plan_calls
    from loupe.schemas.build import UFine3CBuild

    with opened_store() as store:
        require_dataset(store, dataset)
        spent = cost_rows(store, dataset)
        ahead = []
        if config is not None:
            build = load_build(config, UFine3CBuild)
            ahead = forecast(store, plan_calls(build.dataset, chosen_profile(profile)))
    columns = [name.replace("_", " ") for name in CostRow._fields]
    lines: list[Line] = ["no model calls or searches yet"]
    if spent:
        lines = [Table("Calls of models and searches", columns, map(_cost_row, spent))]
    if ahead:
        columns = ["model", "calls to make", "tokens in", "tokens out", "cost", "currency"]
        lines.append(Table("Forecast", columns, ahead))
    rows, forecasts = ([row._asdict() for row in one] for one in (spent, ahead))
    return Answer({"spent": rows, "forecast": forecasts}, lines)


def _cost_row(row: "CostRow") -> tuple[object, ...]:
    """Format a row; its sums say how many calls have unknown usage."""
    from loupe.flows.engine.report import known_sum

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
    superseded: bool = False,
) -> Answer:
    """Show quarantined records.

    Prints counts by reason, and for one dataset also the records. A dataset includes the sources
    that were imported for it, and the items that its gates dropped without people. Rejections by an
    earlier version of a step or source of a pipeline are left out.

    Args:
        dataset: A source or dataset (default: all).
        reason: Only records with this reason.
        limit: Show at most this many records, the first of each stage.
        retry: Let the next run retry the records of DATASET with this --reason.
        superseded: Also show what earlier versions of steps and sources refused.
    """
    from loupe.annotate.queues import dropped_by_gates
    from loupe.api.parts import STEP_PREFIX
    from loupe.db.quarantine import (
        LEFT_OUT,
        NOTHING,
        QuarantineCount,
        dropped_counts,
        imported_for,
        left_out_images,
        quarantine_counts,
        quarantined,
    )
    from loupe.db.reviews import DROPPED

    with opened_store() as store:
        if retry and (dataset is None or reason is None):
            raise UsageError("--retry needs a dataset and a --reason")
        require_dataset(store, dataset)
        names = [dataset, *imported_for(store, dataset)] if dataset else [None]
        others = NOTHING if superseded else _superseded(store, dataset)
        if retry:
            return _retried(store, list(filter(None, names)), str(reason), others)
        counts: list[QuarantineCount] = []
        stages: list[list[Rejection]] = []
        for name in names:
            counts += quarantine_counts(store, name, reason, others)
            if reason in (None, DROPPED):
                counts += dropped_counts(store, name)
            if reason in (None, LEFT_OUT):
                found = left_out_images(store, STEP_PREFIX, name)
                left_out = Counter((of, one.stage) for of, one in found)
                for (of, stage), items in sorted(left_out.items()):
                    counts.append(QuarantineCount(of, stage, LEFT_OUT, items))
        for name in filter(None, names):
            of_stages = quarantine_counts(store, name, reason, others)
            stages += [
                list(quarantined(store, name, reason, limit, stage, others))
                for stage in dict.fromkeys(one.stage for one in of_stages)
            ]
            if reason in (None, DROPPED):
                stages.append(dropped_by_gates(store, name, limit))
            if reason in (None, LEFT_OUT):
                stages.append([one for _, one in left_out_images(store, STEP_PREFIX, name, limit)])
    records = _first_of_each(stages, limit)
    document = {"counts": [row._asdict() for row in counts], "records": records}
    if not counts:
        return Answer(document, ["nothing is quarantined"])
    table = Table("Quarantine", ["dataset", "stage", "reason", "inputs"], counts)
    lines: list[Line] = [table, *map(_rejection_text, records)]
    left = sum(one.inputs for one in counts) - len(records)
    if dataset and left > 0:
        lines.append(f"… and {left:,} more: --limit {len(records) + left}")
    return Answer(document, lines)


def _superseded(store: "Store", dataset: str | None) -> "Superseded":
    """Return which rejections no longer hold, of a dataset with its sources or of all."""
    from loupe.api.superseded import superseded
    from loupe.db.entities import datasets_of
    from loupe.db.quarantine import NOTHING, Superseded, other_imports

    if dataset is not None:
        others = Superseded(tuple(other_imports(store, dataset)))
        return superseded(store, dataset).plus(others)
    found = NOTHING
    for name in datasets_of(store):
        found = found.plus(superseded(store, name))
    return found


def _first_of_each(stages: Sequence[Sequence["Rejection"]], limit: int) -> list["Rejection"]:
    """Return at most so many records: as many of each stage as there is room for."""
    room, shares = limit, [0] * len(stages)
    while room and any(map(_has_more, stages, shares)):
        for place, records in enumerate(stages):
            if room and _has_more(records, shares[place]):
                shares[place] += 1
                room -= 1
    found: list[Rejection] = []
    for records, share in zip(stages, shares, strict=True):
        found += records[:share]
    return found


def _has_more(records: Sequence["Rejection"], taken: int) -> bool:
    return taken < len(records)


def _retried(store: "Store", datasets: Sequence[str], reason: str, without: "Superseded") -> Answer:
    from loupe.db.quarantine import put_back, quarantine_counts
    from loupe.db.reviews import DROPPED

    dataset = datasets[0]
    inputs = sum(put_back(store, name, reason, without) for name in datasets)
    if not inputs and reason == DROPPED:
        raise UsageError(
            f"records with the reason {reason} were dropped at a gate; to let people decide on "
            f"them, set this gate of {dataset} to required or sample:RATE, and run again"
        )
    if not inputs:
        found = {
            row.reason
            for name in datasets
            for row in quarantine_counts(store, name, without=without)
        }
        others = f"the reasons are {', '.join(sorted(found))}" if found else "it has none at all"
        raise UsageError(f"{dataset} has no quarantined records with the reason {reason}; {others}")
    line = f"{many(inputs, 'record')} released from quarantine: the next run of {dataset} retries"
    return Answer({"dataset": dataset, "reason": reason, "put_back": inputs}, [line])


def _rejection_text(record: "Rejection") -> str:
    where = ", ".join(
        f"{key} {record.context[key]}"
        for key in ("file", "index", "field", "instruction")
        if record.context.get(key) not in (None, "")
    )
    lines = [f"{record.reason} {where}".rstrip(), record.detail]
    if said := record.context.get("rewrite") or record.context.get("text"):
        lines.append(_quoted(said))
    if answered := record.context.get("answer") or record.context.get("raw"):
        lines.append(f"the model answered: {_quoted(answered)}")
    return "\n  ".join(lines)


def _quoted(text: object) -> str:
    return repr(str(text)[:_SHOWN_CHARACTERS])


_SHOWN_CHARACTERS = 200
T = TypeVar("T")

app = group("Check and repair what is stored.")

_LISTED = 10_000
"""Items listed of each kind at most, to limit memory; all are counted."""
_SHOWN = 20


@command(app)
def check(
    *,
    repair: bool = False,
    from_: Annotated[list[Path] | None, typer.Option(exists=True, file_okay=False)] = None,
    orphans: bool = False,
) -> Answer:
    """Check the database, and every file against its digest.

    With --repair, missing and damaged files are copied from a release, a backup or their source, or
    made again (crops of videos, drawings, edited images); only bytes with the right digest are
    stored. Shards are copied from a backup; importing their source again also makes them again.
    Exit code 1 if something is still wrong.

    Args:
        repair: Restore missing and damaged files.
        from_: Folder with source files, videos or a backup of the blob store; can be given several
            times.
        orphans: Also list files that no entity refers to; none is removed.
    """
    from loupe.db.blob_check import BlobCheck
    from loupe.db.database_check import check_database
    from loupe.flows.blob_repair import repair_blobs
    from loupe.flows.engine.context import open_context
    from loupe.flows.shards.files import files_in_shards

    if from_ and not repair:
        raise UsageError("--from needs --repair")
    context = open_context(settings(), flow_run="loupe store check")
    problems = list(islice(check_database(context.store), _LISTED))
    shards = files_in_shards(context.store, context.blobs)
    with BlobCheck(context.store, context.blobs, shards) as found:
        with progress_bar("reading files") as advance:
            checked = found.run(advance)
        repairs = repair_blobs(context, found, from_ or ()) if repair else ()
        count_repaired, repaired = _counted(repairs)
        count, faulty = _counted(found.faulty())
        unnamed, paths = _counted(found.orphans() if orphans else ())
    context.store.close()
    document: dict[str, Any] = {
        "checked": checked,
        "faulty": count,
        "faults": [
            {**one.blob._asdict(), "fault": one.fault, "entity_id": one.entity_id} for one in faulty
        ],
        "repaired": count_repaired,
        "repairs": [{"sha256": one.blob.sha256, "from": one.origin} for one in repaired],
        "database": problems,
    }
    lines = [
        *(f"✗ database: {one}" for one in problems[:_SHOWN]),
        *(Note(f"{one.blob.sha256[:12]} restored: {one.origin}") for one in repaired[:_SHOWN]),
        *(
            f"{one.fault}: {one.blob.sha256} ({one.blob.media_type}), "
            f"loupe lineage {one.entity_id[:12]}"
            for one in faulty[:_SHOWN]
        ),
        *(f"orphan: {path}" for path in paths[:_SHOWN]),
        _summary(checked, count_repaired, count, repair),
    ]
    if orphans:
        document |= {"orphans": unnamed, "orphan_paths": paths}
        lines.append(f"{unnamed:,} orphaned files; none was removed")
    return Answer(document, lines, failed=bool(count or problems))


def _counted(found: Iterable[T]) -> tuple[int, list[T]]:
    """Return how many there are, and the first of them."""
    first: list[T] = []
    count = 0
    for count, one in enumerate(found, start=1):
        if count <= _LISTED:
            first.append(one)
    return count, first


def _summary(checked: int, repaired: int, left: int, repair: bool) -> str:
    restored = f", {repaired:,} restored" if repair else ""
    result = f"{checked:,} files checked{restored}, {left:,} missing, damaged or unreadable"
    if not left:
        return f"✓ {result}"
    if not repair:
        return f"✗ {result}: loupe store check --repair"
    return (
        f"✗ {result}: pass the folder of their source, videos or a backup with --from, or run the "
        "build (or the import into shards) again, which makes missing files, and check again"
    )
