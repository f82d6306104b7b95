"""`loupe queue`: what waits for people, and the exchange with Label Studio."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from flows.commands.output import JsonOption, err, out, print_json, print_table

if TYPE_CHECKING:
    from annotate.queues import Queue
    from annotate.received import Notice
    from db.reviews import ReviewerRow
    from db.store import Store

app = typer.Typer(help="Review by people: what waits, push, pull, reconcile.", no_args_is_help=True)

_COLUMNS = ("queue", "proposed", "accepted", "rejected", "edited", "open", "answered")
_STATES = ("proposed", "accepted", "rejected", "superseded")
_SHOWN_NOTICES = 10

QueueArgument = Annotated[
    str | None, typer.Argument(help="The queue, like 'ufine3c-rewrites' [all queues].")
]
PolicyOption = Annotated[
    str, typer.Option(help="Who looks: required, sample:RATE[:SEED], or auto (nobody).")
]


@app.command("list")
def list_(as_json: JsonOption = False) -> None:
    """Show the queues: what became of their entities, and their open and answered tasks."""
    from annotate.queues import rewrite_queue
    from db.reviews import count_states, count_tasks
    from db.store import Store
    from profiles.settings import load_settings
    from schemas.records import Rewrite

    store = Store.open(load_settings().database_url)
    states = count_states(store, Rewrite.kind)
    tasks = count_tasks(store)
    rows = []
    for dataset, counts in states.items():
        name = rewrite_queue(dataset).name
        by_state = [counts.get(state, 0) for state in _STATES]
        rows.append(
            [name, *by_state, tasks.get((name, "open"), 0), tasks.get((name, "answered"), 0)]
        )
    if as_json:
        print_json([dict(zip(_COLUMNS, row, strict=True)) for row in rows])
    elif rows:
        print_table("Queues", _COLUMNS, rows)
    else:
        out.print("there is nothing to review yet")


@app.command()
def stats(
    queue: QueueArgument = None, policy: PolicyOption = "required", as_json: JsonOption = False
) -> None:
    """Show what waits in a queue and what each reviewer did; reviewers go by pseudonym."""
    from db.store import Store
    from profiles.settings import load_settings

    store = Store.open(load_settings().database_url)
    results = [_stats(store, chosen) for chosen in _queues(store, queue, policy)]
    if as_json:
        print_json(
            [
                {**result._asdict(), "reviewers": [row._asdict() for row in result.reviewers]}
                for result in results
            ]
        )
        return
    for result in results:
        out.print(
            f"{result.queue}: {result.waiting:,} wait for people, {result.suspect:,} of them "
            "suspect"
        )
        if result.reviewers:
            columns = ["reviewer", "verdict", "answers", "seconds each"]
            print_table("", columns, result.reviewers)


@app.command()
def push(
    queue: QueueArgument = None, policy: PolicyOption = "required", as_json: JsonOption = False
) -> None:
    """Send to Label Studio what waits for people. Again: sends only what is not there yet.

    What a flow's policy has decided no longer waits, so that `required` sends just the rest.
    """
    from annotate.sync import push as push_queue
    from db.store import Store
    from flows.desk import images_url, open_desk
    from profiles.settings import load_settings

    settings = load_settings()
    store = Store.open(settings.database_url)
    desk = open_desk(settings)
    reports = [
        push_queue(store, desk, chosen, images_url(settings))
        for chosen in _queues(store, queue, policy)
    ]
    if as_json:
        print_json([report.model_dump() for report in reports])
        return
    for report in reports:
        out.print(
            f"{report.queue}: {report.pushed:,} tasks sent, {report.known:,} were there, "
            f"{report.duplicates:,} duplicates removed"
        )
        if report.project_id is not None:
            out.print(f"  {desk.url}/projects/{report.project_id}/data")


@app.command()
def pull(queue: QueueArgument = None, as_json: JsonOption = False) -> None:
    """Fetch what people answered and turn it into decisions. Exit code 1 if some are unclear."""
    from annotate.sync import pull as pull_queue
    from db.store import Store
    from flows.context import code_revision
    from flows.desk import open_desk
    from profiles.settings import load_settings

    settings = load_settings()
    store = Store.open(settings.database_url)
    desk = open_desk(settings)
    reports = [
        pull_queue(store, desk, chosen, code_revision(), "loupe queue pull")
        for chosen in _queues(store, queue)
    ]
    if as_json:
        print_json([report.model_dump() for report in reports])
    else:
        for report in reports:
            out.print(
                f"{report.queue}: {report.accepted:,} accepted, {report.edited:,} edited, "
                f"{report.rejected:,} rejected; {report.known:,} known, {report.skipped:,} skipped"
            )
            _show_notices("unclear, still open", report.unclear)
            _show_notices("understood otherwise", report.remarks)
            _show_notices("deleted there", report.deleted)
            _show_notices("too late", report.too_late)
            _show_foreign(report.foreign)
    if any(report.unclear for report in reports):
        raise typer.Exit(1)


@app.command()
def reconcile(queue: QueueArgument = None, as_json: JsonOption = False) -> None:
    """Compare our tasks with Label Studio's. Exit code 1 if some are missing there."""
    from annotate.sync import reconcile as reconcile_queue
    from db.store import Store
    from flows.desk import open_desk
    from profiles.settings import load_settings

    settings = load_settings()
    store = Store.open(settings.database_url)
    desk = open_desk(settings)
    reports = [reconcile_queue(store, desk, chosen) for chosen in _queues(store, queue)]
    if as_json:
        print_json([report.model_dump() for report in reports])
    else:
        for report in reports:
            out.print(
                f"{report.queue}: {report.on_desk:,} tasks in Label Studio, {report.adopted:,} "
                f"found again, {report.duplicates:,} duplicates removed, "
                f"{len(report.missing):,} missing (the next push sends them)"
            )
            _show_foreign(report.foreign)
    if any(report.missing for report in reports):
        raise typer.Exit(1)


def _queues(store: "Store", name: str | None, policy: str = "required") -> "list[Queue]":
    """The queue with that name, or those of all datasets in the store."""
    from annotate.queues import parse_policy, queue_named, rewrite_queue
    from db.reviews import count_states
    from schemas.errors import UsageError
    from schemas.records import Rewrite

    chosen = parse_policy(policy)
    datasets = list(count_states(store, Rewrite.kind))
    if name is None:
        return [rewrite_queue(dataset, chosen) for dataset in datasets]
    queue = queue_named(name)
    if queue.dataset not in datasets:
        known = ", ".join(rewrite_queue(dataset).name for dataset in datasets) or "none"
        raise UsageError(f"there is no queue {name!r}; there are: {known}")
    return [rewrite_queue(queue.dataset, chosen)]


class _Stats(NamedTuple):
    queue: str
    waiting: int
    suspect: int
    reviewers: "list[ReviewerRow]"


def _stats(store: "Store", queue: "Queue") -> _Stats:
    from annotate.queues import candidates, goes_to_people
    from db.reviews import reviewer_rows

    waiting = [found for found in candidates(store, queue) if goes_to_people(queue, found)]
    suspect = sum(found.suspect for found in waiting)
    return _Stats(queue.name, len(waiting), suspect, reviewer_rows(store, queue.name))


def _show_notices(title: str, notices: Sequence["Notice"]) -> None:
    """The first few on standard error; `--json` has all."""
    for notice in notices[:_SHOWN_NOTICES]:
        err.print(
            f"  {title}: {notice.detail} (annotation {notice.annotation_id}, "
            f"entity {notice.entity_id[:12]})",
            markup=False,
        )
    if len(notices) > _SHOWN_NOTICES:
        err.print(f"  {title}: {len(notices) - _SHOWN_NOTICES:,} more, see --json", markup=False)


def _show_foreign(task_ids: Sequence[int]) -> None:
    if task_ids:
        err.print(f"  {len(task_ids):,} tasks in that project are none of ours", markup=False)
