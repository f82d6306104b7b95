"""`loupe queue stats`: progress and problems of the review, with the figures behind them."""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from loupe.flows.cli.options import QueuesArgument, opened_queues, settings
from loupe.flows.cli.output import Answer, Line, PageOption, Table, write_page

if TYPE_CHECKING:
    from loupe.annotate.statistics.agreement import ChoiceAgreement, Estimate, Share
    from loupe.annotate.statistics.overview import Overview
    from loupe.annotate.statistics.queue import QueueStatistics, Work


def stats(
    queue: QueuesArgument = None,
    *,
    html: PageOption = None,
    names: Annotated[bool | None, typer.Option("--names/--pseudonyms")] = None,
    hourly_rate: Annotated[float | None, typer.Option(min=0)] = None,
) -> Answer:
    """Show what builds wait for, problems, and the remaining work.

    With QUEUE, also prints its tables: throughput, lead times, agreement and accuracy; --json and
    --html always include the tables. Piped output and HTML pages show pseudonyms unless --names is
    given.

    Args:
        html: Write a page with charts to this file.
        names: Show names or pseudonyms (default: names on a terminal only).
        hourly_rate: Cost of an annotator per hour, to estimate the remaining cost.
    """
    from loupe.annotate.statistics.overview import overview
    from loupe.annotate.statistics.page import render_page
    from loupe.flows.continuing import ready_to_continue
    from loupe.flows.watched import facts_of
    from loupe.services.label_studio import adding_people

    store, queues = opened_queues(queue)
    found = overview(
        store,
        queues,
        datetime.now(UTC),
        names=names if names is not None else sys.stdout.isatty() and html is None,
        facts=partial(facts_of, store),
        hourly_rate=hourly_rate,
        ready=ready_to_continue(settings(), store, queues) if queue is None else (),
        adding=adding_people(settings()),
    )
    store.close()
    if html is not None:
        write_page(html, render_page(found))
    return Answer(found, _lines(found, with_tables=queue is not None))


def _lines(found: "Overview", *, with_tables: bool) -> Iterator[Line]:
    from loupe.services.label_studio import label_studio_address

    if not found.queues:
        yield "nothing to review yet"
        return
    if found.ready:
        yield "Ready to continue"
        yield from (f"  {sentence}" for sentence in found.ready)
    label_studio_url = label_studio_address(settings())
    for title, rows in (
        ("Builds that wait for people", found.blocked),
        ("Queues that need you", found.problems),
        ("Answers that differ", found.findings),
        ("Compared", found.compared),
        ("Work left", found.left),
        ("Cost of an accepted item", found.costs),
    ):
        if rows:
            yield title
            yield from (f"  {one.sentence}{_place(one, label_studio_url)}" for one in rows)
    for one in found.queues:
        people = {person.annotator: person.name or person.annotator for person in one.annotators}
        if with_tables:
            yield from _queue(one, people)
        yield from _unclear(one, people, label_studio_url)


def _place(row: object, label_studio_url: str) -> str:
    """Return where Loupe's account answers what waits there; empty for rows about others."""
    project = getattr(row, "project", None)
    return f": {label_studio_url}/projects/{project}/data?labeling=1" if project else ""


def _queue(statistics: "QueueStatistics", people: dict[str, str]) -> Iterator[Line]:
    """Yield the figures of a queue."""
    items, plan, agreement = statistics.items, statistics.forecast, statistics.agreement
    answers = "answers" if statistics.overlap > 1 else "answer"
    yield (
        f"\n{statistics.queue}  policy {statistics.policy}, {statistics.overlap} {answers} each\n"
        f"{items.waiting:,} waiting, {items.open:,} open, {items.answered:,} partly answered, "
        f"{items.conflicting:,} conflicting, {items.decided:,} decided ({items.accepted:,} "
        f"accepted, {items.edited:,} edited, {items.rejected:,} rejected); {items.suspect:,} of "
        "the undecided are suspect"
    )
    when = "all done" if plan.answers_needed == 0 else plan.reason
    if plan.answers_needed and plan.earliest is not None and plan.latest is not None:
        when = (
            f"done between {plan.earliest} and {plan.latest}, at {plan.per_day:,.1f} a day over "
            f"the last {plan.days} days"
        )
    yield f"{plan.answers_needed:,} answers still needed: {when}"
    columns = ["answers", "settled", "open", "skipped", "returned", "median", "90 %"]
    rows = [
        *([people[one.annotator], *_work(one.work)] for one in statistics.annotators),
        ["all", *_work(statistics.work)],
    ]
    yield Table("", ["annotator", *columns], rows)
    columns = ["accepted", "edited", "rejected", "gold accuracy", "kappa"]
    rows = [
        [people[one.annotator], *_quality(one.work, one.gold), _kappa(one.agreement.main)]
        for one in statistics.annotators
    ]
    rows.append(["all", *_quality(statistics.work, statistics.gold), None])
    yield Table("", ["annotator", *columns], rows)
    if agreement.choices:
        columns = ["choices", "items", "equal", "Cohen", "Fleiss", "Krippendorff"]
        rows = [
            [
                one.control,
                one.observed.items,
                *map(_estimate, (one.observed, one.cohen, one.fleiss, one.krippendorff)),
            ]
            for one in agreement.choices
        ]
        yield Table("", columns, rows)
    if agreement.texts:
        rows = [
            [one.control, one.similarity.items, *map(_estimate, (one.similarity, one.attributes))]
            for one in agreement.texts
        ]
        yield Table("", ("texts", "items", "similarity", "attributes"), rows)
    if not agreement.items:
        yield "no agreement: no item has two answers"


def _work(work: "Work") -> list[object]:
    time = work.lead_time
    seconds = (one and f"{one:.0f} s" for one in (time.median_seconds, time.p90_seconds))
    counts = (work.answers, work.adjudications, work.waiting, work.skipped, work.returned)
    return [*counts, *seconds]


def _quality(work: "Work", gold: "Share") -> list[str]:
    verdicts = work.verdicts
    shares = (verdicts.accepted, verdicts.edited, verdicts.rejected, gold)
    return [_percent(one) for one in shares]


def _unclear(
    statistics: "QueueStatistics", people: dict[str, str], label_studio_url: str
) -> Iterator[Line]:
    """Yield answers that are ignored until corrected, or discarded with `loupe queue discard`.

    The URL of a task is shown if the lead can open it: in the workspace of Loupe's own account.
    """
    rows = [
        [
            str(one.annotation_id),
            one.entity_id[:12],
            people.get(one.assignee, one.assignee) or "Loupe",
            one.state,
            one.problem,
            one.given,
        ]
        for one in statistics.unclear
    ]
    if rows:
        yield Table("", ("annotation", "entity", "task of", "state", "problem", "answer"), rows)
    for one in statistics.unclear:
        if label_studio_url and one.task_id is not None and not one.assignee:
            place = f"{label_studio_url}/projects/{one.project_id}/data?task={one.task_id}"
            yield f"  {one.annotation_id}: {place}"


def _kappa(agreement: "ChoiceAgreement | None") -> str | None:
    return None if agreement is None else _estimate(agreement.cohen)


def _estimate(estimate: "Estimate") -> str:
    if estimate.value is None:
        return "not defined" if estimate.items else "–"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.2f}"
    return f"{estimate.value:.2f} ({estimate.low:.2f}–{estimate.high:.2f})"


def _percent(share: "Share") -> str:
    if share.value is None or share.low is None or share.high is None:
        return "–"
    return f"{share.value:.0%} ({share.low:.0%}–{share.high:.0%})"
