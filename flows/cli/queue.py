"""`loupe queue`: items that wait for people, and the exchange with Label Studio."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from loupe.flows.cli.commands import command, group
from loupe.flows.cli.options import (
    QueueArgument,
    QueuesArgument,
    opened_queues,
    opened_store,
    settings,
)
from loupe.flows.cli.output import Answer, Note, Table, first, note, print_lines, silence
from loupe.flows.cli.queue_audit import audit, errors
from loupe.flows.cli.queue_items import accept, assign, hours, prioritize, reopen, search
from loupe.flows.cli.queue_items import app as gold
from loupe.schemas.errors import LoupeError

if TYPE_CHECKING:
    from loupe.annotate.backend import Desks
    from loupe.annotate.pull import PullReport
    from loupe.annotate.push import PushReport
    from loupe.annotate.queues import Queue
    from loupe.annotate.received import Notice
    from loupe.db.store import Store
    from loupe.flows.continuing import Continuation
    from loupe.flows.notifying import Messages


T = TypeVar("T")

app = group("Push review tasks, pull answers, show statistics.")
for one in (accept, assign, audit, errors, hours, prioritize, reopen, search):
    command(app)(one)
app.add_typer(gold, name="gold")

# The pause after a pull and push is at least so many seconds, and so many times their duration.
_PAUSE_SECONDS = 3.0
_PAUSE_FACTOR = 4.0
_STATES = {
    "proposed": "proposed",
    "accepted": "accepted",
    "rejected": "rejected",
    "edited": "superseded",
}
"""The states of the items of a queue, as its columns."""
_SHOWN_NOTICES = 10
_NOTHING = "nothing to review yet"


@command(app)
def list_() -> Answer:
    """List the queues in use.

    Shows the policy, decisions, tasks and unclear answers of each.
    """
    from loupe.db.annotations import unclear_annotations
    from loupe.db.reviews import WAITING, count_states, count_tasks, gate_counts
    from loupe.flows.watched import used_policy

    store, queues = opened_queues(None)
    tasks = count_tasks(store)
    used = gate_counts(store)
    rows = []
    for queue in queues:
        counts = count_states(store, queue.kind, queue.left_out).get(queue.dataset, {})
        rows.append(
            {
                "queue": queue.name,
                "interface": queue.interface,
                "policy": used_policy(used, queue),
                "answers each": queue.overlap,
                **{name: counts.get(state, 0) for name, state in _STATES.items()},
                "open": sum(tasks.get((queue.name, state), 0) for state in WAITING),
                "answered": tasks.get((queue.name, "answered"), 0),
                "unclear": len(unclear_annotations(store, queue.name)),
            }
        )
    return Answer(rows, [Table.of("Queues", [*rows[0]], rows) if rows else _NOTHING])


@command(app)
def push(queue: QueuesArgument = None, *, policy: str | None = None) -> Answer:
    """Send the items that need review to Label Studio.

    Items that are already there are not sent again. Each item goes to as many annotators as the
    queue declares, each in their own workspace; conflicts go to an adjudicator. If there are no
    annotators, tasks go to the account of Loupe itself.

    Args:
        policy: Review policy of this push: required, sample:RATE[:SEED] or auto (default: that of
            the queue).
    """
    from loupe.annotate.push import push as push_queue
    from loupe.flows.engine.desks import images_url, open_desks
    from loupe.services.label_studio import label_studio_address

    store, queues = opened_queues(queue, policy)
    desks, images = open_desks(settings(), store), images_url(settings())
    reports = [push_queue(store, desks, chosen, images) for chosen in queues]
    address = label_studio_address(settings())
    return _reported(reports, lambda report: _push_lines(report, address))


@command(app)
def pull(queue: QueuesArgument = None) -> Answer:
    """Fetch answers from Label Studio and turn them into decisions.

    Exit code 1 if an answer is unclear, or if a workspace could not be read.
    """
    from loupe.annotate.pull import pull as pull_queue

    reports = _read(pull_queue, queue, "loupe queue pull")
    failed = any(report.unclear or report.unreached for report in reports)
    return _reported(reports, _pull_lines, failed)


@command(app)
def reconcile(queue: QueuesArgument = None) -> Answer:
    """Compare the tasks and answers in the store with Label Studio.

    Exit code 1 if a task is missing, or if a workspace could not be read.
    """
    from loupe.annotate.pull import reconcile as reconcile_queue

    reports = _read(reconcile_queue, queue, "loupe queue reconcile")
    failed = any(report.missing or report.unreached for report in reports)
    return _reported(reports, _reconcile_lines, failed)


def _read(
    read: "Callable[[Store, Desks, Queue, str, str], PullReport]", name: str | None, flow_run: str
) -> "list[PullReport]":
    from loupe.flows.engine.desks import open_desks
    from loupe.flows.engine.software import code_revision

    store, queues = opened_queues(name)
    desks = open_desks(settings(), store)
    return [read(store, desks, queue, code_revision(), flow_run) for queue in queues]


def _reported(
    reports: "Sequence[T]", lines: "Callable[[T], Iterable[str]]", failed: bool = False
) -> Answer:
    shown = [line for report in reports for line in lines(report)]
    return Answer(reports, shown or [Note(_NOTHING)], failed)


@command(app)
def discard(queue: QueueArgument, annotations: list[int]) -> Answer:
    """Discard unclear or quarantined answers.

    The items are reviewed again. Discarded answers stay in the store but are no longer reported. If
    the task has no other answer, it is removed from Label Studio and the next push sends it again.

    Args:
        annotations: Annotation numbers, as `loupe queue stats` shows them.
    """
    from loupe.annotate.pull import discard as discard_answers
    from loupe.flows.engine.desks import open_desks

    store, (chosen,) = opened_queues(queue)
    discarded = discard_answers(store, open_desks(settings(), store), chosen, annotations)
    return Answer(discarded, [f"{queue}: {len(discarded):,} answers discarded"])


@command(app)
def watch(
    queue: QueuesArgument = None,
    *,
    every: Annotated[float, typer.Option(min=1)] = 60,
    webhook_port: Annotated[int | None, typer.Option(min=1, max=65535)] = None,
) -> None:
    """Pull answers and push tasks in a loop until Ctrl+C.

    `loupe up` runs this as a service. When all items of a dataset are decided, its paused run in
    the Prefect of `loupe up` is resumed, and a build that `loupe run` started is started again.
    What needs the lead is sent to the addresses of LOUPE_NOTIFY_URLS.

    Without QUEUE, watches the queues that a build or `loupe queue push` opened, with the policy
    used last, and those in the queues file. The Label Studio of `loupe up` reports new answers by
    webhook; in an external one, add a webhook that posts to the printed address, with the header
    `Authorization: Bearer KEY` and the desk key of `loupe status --show-credentials`.

    Args:
        every: Seconds between two pulls.
        webhook_port: Port for webhooks, which start a pull at once (default: any free port).
    """
    from loupe.flows.continuing import Continuation
    from loupe.flows.engine.desks import Webhooks, webhook_server
    from loupe.flows.lead_desk import LeadDesk
    from loupe.flows.notifying import Messages
    from loupe.services.credentials import desk_key

    webhooks, problems = Webhooks(), dict[str, str]()
    builds, messages = Continuation(), Messages()
    own = settings()
    key = desk_key(own.home)
    lead = LeadDesk(own, webhooks.receive)
    with webhook_server(webhooks, key, webhook_port, lead.answer) as address:
        note(f"pulling every {every:g} s, and when a webhook posts to {address}")
        with suppress(KeyboardInterrupt), silence():
            while True:
                started = time.monotonic()
                _pull_and_push(queue, problems, builds, messages, webhooks.take_asking())
                # further answers arrive meanwhile, and the processor is for those who work
                time.sleep(max(_PAUSE_SECONDS, _PAUSE_FACTOR * (time.monotonic() - started)))
                webhooks.wait(every)


def _pull_and_push(
    name: str | None,
    problems: dict[str, str],
    builds: "Continuation",
    messages: "Messages",
    asking: Sequence[int],
) -> None:
    """Pull and push once, and continue builds that can go on; the next round retries what failed.

    The accounts `asking` have no task left.

    A problem of a queue (for example too few people), or of all, is printed when it is new;
    `problems` holds the known ones, by queue.
    """
    from loupe.annotate.pull import pull as pull_queue
    from loupe.annotate.push import push as push_queue
    from loupe.db.reviews import note_asked
    from loupe.flows.engine.desks import images_url, open_desks
    from loupe.flows.engine.software import code_revision
    from loupe.flows.watched import watched
    from loupe.services.label_studio import label_studio_address, label_studio_name

    with _new_problem_printed(problems, ""), opened_store() as store:
        own = settings()
        desks = open_desks(own, store)
        note_asked(store, label_studio_name(own), asking, datetime.now(UTC))
        for chosen in watched(own, store, name):
            with _new_problem_printed(problems, chosen.name):
                pulled = pull_queue(store, desks, chosen, code_revision(), "loupe queue watch")
                news = pulled.answers + pulled.decided
                if news:
                    builds.note_answers(chosen.dataset)
                if news or pulled.unreached:
                    print_lines(_pull_lines(pulled))
                if chosen.policy.policy != "auto":
                    pushed = push_queue(store, desks, chosen, images_url(own))
                    if pushed.pushed or pushed.moved or pushed.closed or pushed.sent_back:
                        print_lines(_push_lines(pushed, label_studio_address(own)))
        with _new_problem_printed(problems, "builds"):
            for sentence in builds.resume(own, store, watched(own, store, name)):
                print_lines([sentence])
                messages.add(sentence)
        with _new_problem_printed(problems, "messages"):
            messages.send(own, store, watched(own, store, name))


@contextmanager
def _new_problem_printed(problems: dict[str, str], queue: str) -> Iterator[None]:
    problem = ""
    try:
        yield
    except LoupeError as error:
        problem = str(error)
    if problem and problems.get(queue) != problem:
        note(f"{problem}; trying again later")
    problems[queue] = problem


def _push_lines(report: "PushReport", url: str) -> Iterator[str]:
    yield f"{report.queue}: {report.summary}"
    for assignee, project_id in report.projects:
        yield f"  {assignee or 'here'}: {url}/projects/{project_id}/data"


def _pull_lines(report: "PullReport") -> Iterator[str]:
    yield f"{report.queue}: {report.summary}"
    yield from _notices("unclear", report.unclear)
    yield from _notices("interpreted", report.remarks)
    yield from _notices("late", report.late)
    yield from _troubles(report)


def _reconcile_lines(report: "PullReport") -> Iterator[str]:
    yield (
        f"{report.queue}: {report.on_desk:,} tasks in Label Studio, {report.adopted:,} recovered, "
        f"{report.duplicates:,} duplicates removed, {report.answers:,} answers recovered, "
        f"{report.decided:,} items decided, {len(report.missing):,} tasks missing (the next push "
        f"sends them)"
    )
    yield from _troubles(report)


def _troubles(report: "PullReport") -> Iterator[Note]:
    yield from _notices("deleted there", report.deleted)
    if report.foreign:
        yield Note(f"  {len(report.foreign):,} tasks in that project were not created by Loupe")
    yield from (Note(f"  not read: {sentence}") for sentence in report.unreached)


def _notices(title: str, notices: "Sequence[Notice]") -> Iterator[Note]:
    """Yield the first few, for standard error; `--json` includes all."""
    details = [
        f"{one.detail} (annotation {one.annotation_id}, entity {one.entity_id[:12]})"
        for one in notices
    ]
    for line in first(details, _SHOWN_NOTICES, "{:,} more, see --json"):
        yield Note(f"  {title}: {line}")
