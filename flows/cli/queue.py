"""`loupe queue`: items that wait for people, and the exchange with Label Studio."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from flows.cli.commands import command, group
from flows.cli.options import QueuesArgument
from flows.cli.output import JsonOption, err, out, print_json, print_table
from flows.cli.queue_items import accept, acceptance, hours, prioritize, reopen, search
from flows.cli.queue_items import app as gold
from flows.cli.queue_statistics import stats

if TYPE_CHECKING:
    from annotate.backend import Desks
    from annotate.pull import PullReport, ReconcileReport
    from annotate.push import PushReport
    from annotate.queues import Queue
    from annotate.received import Notice
    from db.reviews import GateCount
    from db.store import Store
    from models.profiles.settings import Settings


ReportT = TypeVar("ReportT", bound="PushReport | PullReport | ReconcileReport")

app = group("Push review tasks, pull answers, show statistics.")
command(app)(stats)
for one in (accept, acceptance, hours, prioritize, reopen, search):
    command(app)(one)
app.add_typer(gold, name="gold")

# The pause after a pull and push is at least so many seconds, and so many times their duration.
_PAUSE_SECONDS = 3.0
_PAUSE_FACTOR = 4.0
_COLUMNS = (
    "queue",
    "interface",
    "policy",
    "answers each",
    "proposed",
    "accepted",
    "rejected",
    "edited",
    "open",
    "answered",
    "unclear",
)
_STATES = ("proposed", "accepted", "rejected", "superseded")
_SHOWN_NOTICES = 10


@command(app)
def list_(*, as_json: JsonOption = False) -> None:
    """List the queues in use.

    Shows the policy, decisions, tasks and unclear answers of each.
    """
    from annotate.queues import load_queues, queues_in_use
    from db.annotations import unclear_annotations
    from db.reviews import WAITING, count_states, count_tasks, gate_counts

    settings, store = _open()
    tasks = count_tasks(store)
    used = gate_counts(store)
    rows = []
    for queue in queues_in_use(store, load_queues(settings.queues_file)):
        counts = count_states(store, queue.kind, queue.left_out).get(queue.dataset, {})
        rows.append(
            [
                queue.name,
                queue.interface,
                _used_policy([one for one in used if one.queue == queue.name], queue),
                queue.overlap,
                *(counts.get(state, 0) for state in _STATES),
                sum(tasks.get((queue.name, state), 0) for state in WAITING),
                tasks.get((queue.name, "answered"), 0),
                len(unclear_annotations(store, queue.name)),
            ]
        )
    if as_json:
        print_json([dict(zip(_COLUMNS, row, strict=True)) for row in rows])
    elif rows:
        print_table("Queues", _COLUMNS, rows)
    else:
        out.print("nothing to review yet")


def _used_policy(counts: "Sequence[GateCount]", queue: "Queue") -> str:
    """Return the policy that decided last, or the declared one if nothing is decided yet.

    If people decided last, it is the sample drawn before, or `required`.
    """
    newest = sorted((one.last, one.policy) for one in counts if one.policy != "lead")
    policies = [policy for _, policy in newest[-2:]]
    if policies[-1:] == [""] and policies[0].startswith("sample"):
        policies.pop()
    return (policies[-1] or "required") if policies else str(queue.policy)


@command(app)
def push(
    queue: QueuesArgument = None, *, policy: str | None = None, as_json: JsonOption = False
) -> None:
    """Send the items that need review to Label Studio.

    Items that are already there are not sent again. Each item goes to as many annotators as the
    queue declares, in their own workspaces; conflicts go to an adjudicator. Without annotators,
    tasks go to the account of Loupe itself.

    Args:
        policy: Policy of this push: required, sample:RATE[:SEED] or auto (default: as declared).
    """
    from annotate.push import push as push_queue
    from flows.engine.gates import images_url, open_desks

    settings, store = _open()
    desks = open_desks(settings, store)
    reports = [
        push_queue(store, desks, chosen, images_url(settings))
        for chosen in _queues(settings, store, queue, policy)
    ]
    _report(reports, lambda report: _show_push(report, desks("").url), as_json)


@command(app)
def pull(queue: QueuesArgument = None, *, as_json: JsonOption = False) -> None:
    """Fetch answers from Label Studio and turn them into decisions.

    Exit code 1 if an answer is unclear, or if a workspace could not be read.
    """
    from annotate.pull import pull as pull_queue

    reports = _read(pull_queue, queue, "loupe queue pull")
    _report(reports, _show_pull, as_json)
    if any(report.unclear or report.unreached for report in reports):
        raise typer.Exit(1)


@command(app)
def reconcile(queue: QueuesArgument = None, *, as_json: JsonOption = False) -> None:
    """Compare the tasks and answers in the store with Label Studio.

    Exit code 1 if a task is missing, or if a workspace could not be read.
    """
    from annotate.pull import reconcile as reconcile_queue

    reports = _read(reconcile_queue, queue, "loupe queue reconcile")
    _report(reports, _show_reconcile, as_json)
    if any(report.missing or report.unreached for report in reports):
        raise typer.Exit(1)


def _read(
    read: "Callable[[Store, Desks, Queue, str, str], ReportT]", name: str | None, flow_run: str
) -> "list[ReportT]":
    from flows.engine.gates import open_desks
    from flows.engine.software import code_revision

    settings, store = _open()
    desks = open_desks(settings, store)
    queues = _queues(settings, store, name)
    return [read(store, desks, queue, code_revision(), flow_run) for queue in queues]


def _report(reports: "Sequence[ReportT]", show: "Callable[[ReportT], None]", as_json: bool) -> None:
    if as_json:
        print_json([report.model_dump() for report in reports])
        return
    for report in reports:
        show(report)


@command(app)
def discard(queue: str, annotations: list[int], *, as_json: JsonOption = False) -> None:
    """Discard unclear or quarantined answers.

    The items are reviewed again. Discarded answers stay in the store but are no longer reported. If
    the task has no other answer, it is removed from Label Studio and the next push sends it again.

    Args:
        queue: The queue, as `loupe queue list` names it.
        annotations: Annotation numbers, as `loupe queue stats` shows them.
    """
    from annotate.pull import discard as discard_answers
    from flows.engine.gates import open_desks

    settings, store = _open()
    (chosen,) = _queues(settings, store, queue)
    discarded = discard_answers(store, open_desks(settings, store), chosen, annotations)
    if as_json:
        print_json([notice.model_dump() for notice in discarded])
    else:
        out.print(f"{queue}: {len(discarded):,} answers discarded")


@command(app)
def watch(
    queue: QueuesArgument = None,
    *,
    every: Annotated[float, typer.Option(min=1)] = 60,
    webhook_port: int | None = None,
) -> None:
    """Pull and push in a loop until Ctrl+C; `loupe up` runs this as a service.

    Without QUEUE: the queues that a build or `loupe queue push` has opened, under the policy of the
    build, and those that the queues file declares. Our Label Studio announces answers by itself;
    point a webhook of another one at the printed address.

    Args:
        every: Seconds between two pulls.
        webhook_port: Also pull when a webhook posts to this port.
    """
    from flows.engine.gates import Webhooks, webhook_server

    webhooks, problems = Webhooks(), dict[str, str]()
    with webhook_server(webhooks, webhook_port) as address:
        err.print(f"pulling every {every:g} s, and when a webhook posts to {address}")
        with suppress(KeyboardInterrupt):
            while True:
                started = time.monotonic()
                _pull_and_push(queue, problems)
                # further answers arrive meanwhile, and the processor is for those who work
                time.sleep(max(_PAUSE_SECONDS, _PAUSE_FACTOR * (time.monotonic() - started)))
                webhooks.wait(every)


def _pull_and_push(name: str | None, problems: dict[str, str]) -> None:
    """Pull and push once; the next round retries what failed.

    A problem of a queue (for example too few people) is printed when it is new; `problems` holds
    the known ones.
    """
    from annotate.pull import pull as pull_queue
    from annotate.push import push as push_queue
    from flows.engine.gates import images_url, open_desks
    from flows.engine.software import code_revision
    from schemas.errors import ServiceError, UsageError

    try:
        settings, store = _open()
    except UsageError:
        return  # nothing was built yet
    try:
        desks = open_desks(settings, store)
        for chosen in _watched(settings, store, name):
            problem = ""
            try:
                pulled = pull_queue(store, desks, chosen, code_revision(), "loupe queue watch")
                news = pulled.accepted + pulled.edited + pulled.rejected + pulled.decided
                if news or pulled.unreached:
                    _show_pull(pulled)
                if chosen.policy.policy != "auto":
                    pushed = push_queue(store, desks, chosen, images_url(settings))
                    if pushed.pushed or pushed.closed or pushed.sent_back:
                        _show_push(pushed, desks("").url)
            except (ServiceError, UsageError) as error:
                problem = str(error)
            if problem and problems.get(chosen.name) != problem:
                err.print(f"{problem}; trying again later", markup=False)
            problems[chosen.name] = problem
    finally:
        store.close()


def _watched(settings: "Settings", store: "Store", name: str | None) -> "list[Queue]":
    """Return the open queues with the policies that they were opened with.

    A queue without tasks may belong to a running build whose gate has not decided yet.
    """
    from annotate.queues import chosen_queues, load_queues, parse_policy
    from db.reviews import count_tasks, gate_counts

    declared = load_queues(settings.queues_file)
    if name is not None:
        return chosen_queues(store, declared, name)
    opened = {queue for queue, _ in count_tasks(store)} | set(declared.queues)
    counts = gate_counts(store)
    watched = []
    for queue in chosen_queues(store, declared, None):
        if queue.name in opened:
            used = _used_policy([one for one in counts if one.queue == queue.name], queue)
            watched.append(queue.model_copy(update={"policy": parse_policy(used)}))
    return watched


def _open() -> "tuple[Settings, Store]":
    from db.store import Store
    from models.profiles.settings import load_settings

    settings = load_settings()
    return settings, Store.open_existing(settings.database_url)


def _queues(
    settings: "Settings", store: "Store", name: str | None, policy: str | None = None
) -> "list[Queue]":
    from annotate.queues import chosen_queues, load_queues, parse_policy

    chosen = None if policy is None else parse_policy(policy)
    found = chosen_queues(store, load_queues(settings.queues_file), name, chosen)
    if not found:
        err.print("nothing to review yet")
    return found


def _show_push(report: "PushReport", url: str) -> None:
    out.print(f"{report.queue}: {report.summary}")
    for assignee, project_id in report.projects:
        out.print(f"  {assignee or 'here'}: {url}/projects/{project_id}/data", soft_wrap=True)


def _show_pull(report: "PullReport") -> None:
    out.print(f"{report.queue}: {report.summary}")
    _show_notices("unclear", report.unclear)
    _show_notices("interpreted", report.remarks)
    _show_notices("late", report.late)
    _show_troubles(report)


def _show_reconcile(report: "ReconcileReport") -> None:
    out.print(
        f"{report.queue}: {report.on_desk:,} tasks in Label Studio, {report.adopted:,} recovered, "
        f"{report.duplicates:,} duplicates removed, {report.recovered:,} answers recovered, "
        f"{report.decided:,} items decided, {len(report.missing):,} tasks missing (the next push "
        f"sends them)"
    )
    _show_troubles(report)


def _show_troubles(report: "PullReport | ReconcileReport") -> None:
    _show_notices("deleted there", report.deleted)
    if report.foreign:
        err.print(
            f"  {len(report.foreign):,} tasks in that project were not created by Loupe",
            markup=False,
        )
    for sentence in report.unreached:
        err.print(f"  not read: {sentence}", markup=False, soft_wrap=True)


def _show_notices(title: str, notices: Sequence["Notice"]) -> None:
    """Print the first few on standard error; `--json` includes all."""
    for notice in notices[:_SHOWN_NOTICES]:
        err.print(
            f"  {title}: {notice.detail} (annotation {notice.annotation_id}, "
            f"entity {notice.entity_id[:12]})",
            markup=False,
        )
    if len(notices) > _SHOWN_NOTICES:
        err.print(f"  {title}: {len(notices) - _SHOWN_NOTICES:,} more, see --json", markup=False)
