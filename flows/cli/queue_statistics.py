"""`loupe queue stats`: progress and problems of the review, with the figures behind them."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.options import QueuesArgument
from flows.cli.output import JsonOption, err, out, print_json, print_table

if TYPE_CHECKING:
    from annotate.agreement import Estimate, Fact, OwnChoiceAgreement, Share
    from annotate.overview import Overview
    from annotate.statistics import AnnotatorStatistics, GoldAccuracy, QueueStatistics, Work


def stats(
    queue: QueuesArgument = None,
    *,
    as_json: JsonOption = False,
    html: Annotated[Path | None, typer.Option(dir_okay=False)] = None,
    names: Annotated[bool | None, typer.Option("--names/--pseudonyms")] = None,
    hourly_rate: Annotated[float | None, typer.Option(min=0)] = None,
) -> None:
    """Show what builds wait for, what is wrong, and the work left, over all queues.

    With QUEUE also its tables: throughput, lead times, agreement and accuracy; --json and --html
    have those of all queues. Pipes, JSON and HTML use pseudonyms unless --names is given.

    Args:
        html: Write a page with charts to this file.
        names: Show names or pseudonyms (default: names on a terminal only).
        hourly_rate: Cost of an hour of an annotator, to estimate the remaining cost.
    """
    from datetime import UTC, datetime

    from annotate.overview import overview
    from annotate.queues import chosen_queues, load_queues
    from db.store import Store
    from models.profiles.settings import load_settings

    settings = load_settings()
    store = Store.open_existing(settings.database_url)
    shown = names if names is not None else sys.stdout.isatty() and not as_json and html is None
    found = overview(
        store,
        chosen_queues(store, load_queues(settings.queues_file), queue),
        datetime.now(UTC),
        names=shown,
        facts=stated_facts,
        hourly_rate=hourly_rate,
    )
    store.close()
    if html is not None:
        _write_page(html, found)
    if as_json:
        print_json(found.model_dump(mode="json"))
    elif not found.queues:
        out.print("nothing to review yet")
    else:
        from services.label_studio import label_studio_address

        _show_overview(found)
        for one in found.queues:
            if queue is not None:
                show(one)
            _show_unclear(one, label_studio_address(settings))


def _show_overview(found: "Overview") -> None:
    """Print the overview in sentences."""
    for title, rows in (
        ("Builds that wait for people", found.blocked),
        ("Queues that need you", found.problems),
        ("Answers that differ", found.findings),
        ("Compared", found.compared),
        ("Work left", found.left),
        ("Cost of an accepted item", found.costs),
    ):
        if rows:
            out.print(f"[bold]{title}[/bold]")
            for one in rows:
                out.print(f"  {one.sentence}", markup=False, soft_wrap=True)


def stated_facts(text: str) -> "frozenset[Fact]":
    """Return the facts that a text states about a person, for comparing texts."""
    from models.builtin.person.parser import extract_facts

    return frozenset((fact.subject, fact.attribute, fact.value) for fact in extract_facts(text))


def _write_page(path: Path, found: "Overview") -> None:
    from annotate.statistics_page import render_page
    from schemas.errors import UsageError

    try:
        path.write_text(render_page(found), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"the page cannot be written to {path}: {error.strerror}") from error
    err.print(f"wrote {path}", markup=False, soft_wrap=True)


def show(statistics: "QueueStatistics") -> None:
    """Print the statistics of a queue as tables to the terminal."""
    items, plan = statistics.items, statistics.forecast
    out.print(f"\n[bold]{statistics.queue}[/bold]  policy {statistics.policy}, ", end="")
    out.print(f"{statistics.overlap} {'answers' if statistics.overlap > 1 else 'answer'} each")
    out.print(
        f"{items.waiting:,} waiting, {items.open:,} open, {items.answered:,} partly answered, "
        f"{items.conflicting:,} conflicting, {items.decided:,} decided ({items.accepted:,} "
        f"accepted, {items.edited:,} edited, {items.rejected:,} rejected); {items.suspect:,} of "
        "the undecided are suspect"
    )
    out.print(f"{plan.answers_needed:,} answers still needed: {forecast_sentence(statistics)}")
    _show_work(statistics)
    _show_quality(statistics)
    _show_agreement(statistics)


def forecast_sentence(statistics: "QueueStatistics") -> str:
    """Say when the work will be done, or why this cannot be estimated."""
    plan = statistics.forecast
    if plan.answers_needed == 0:
        return "all done"
    if plan.earliest is None or plan.latest is None:
        return plan.reason
    return (
        f"done between {plan.earliest} and {plan.latest}, at {plan.per_day:,.1f} a day over the "
        f"last {plan.days} days"
    )


def _show_work(statistics: "QueueStatistics") -> None:
    columns = ("annotator", "answers", "settled", "open", "skipped", "returned", "median", "90 %")
    people = [(_who(one), one.work) for one in statistics.annotators]
    rows = [[who, *_work_cells(work)] for who, work in [*people, ("all", statistics.work)]]
    print_table("", columns, rows)


def _work_cells(work: "Work") -> list[Any]:
    return [
        work.answers,
        work.adjudications,
        work.waiting,
        work.skipped,
        work.returned,
        _seconds(work.lead_time.median_seconds),
        _seconds(work.lead_time.p90_seconds),
    ]


def _show_quality(statistics: "QueueStatistics") -> None:
    columns = ("annotator", "accepted", "edited", "rejected", "gold accuracy", "kappa")
    rows = [
        [_who(one), *_quality_cells(one.work, one.gold), _kappa(one.agreement.main)]
        for one in statistics.annotators
    ]
    rows.append(["all", *_quality_cells(statistics.work, statistics.gold), "–"])
    print_table("", columns, rows)


def _quality_cells(work: "Work", gold: "GoldAccuracy") -> list[str]:
    verdicts = work.verdicts
    shares = (verdicts.accepted, verdicts.edited, verdicts.rejected, gold.accuracy)
    return [_percent(one) for one in shares]


def _who(one: "AnnotatorStatistics") -> str:
    return one.name or one.annotator


def _show_agreement(statistics: "QueueStatistics") -> None:
    agreement = statistics.agreement
    rows = [
        [
            choice.control,
            choice.observed.items,
            *map(_estimate, (choice.observed, choice.cohen, choice.fleiss, choice.krippendorff)),
        ]
        for choice in agreement.choices
    ]
    if rows:
        columns = ("choices", "items", "equal", "Cohen", "Fleiss", "Krippendorff")
        print_table("", columns, rows)
    texts = [
        [
            text.control,
            text.similarity.items,
            _estimate(text.similarity),
            _estimate(text.attributes),
        ]
        for text in agreement.texts
    ]
    if texts:
        print_table("", ("texts", "items", "similarity", "attributes"), texts)
    if not agreement.items:
        out.print("no agreement: no item has two answers")


def _show_unclear(statistics: "QueueStatistics", label_studio_url: str) -> None:
    """Print answers that are ignored until corrected, or discarded with `loupe queue discard`.

    The URL of a task is shown if the lead can open it: in the workspace of Loupe's own account.
    """
    people = {one.annotator: _who(one) for one in statistics.annotators}
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
        columns = ("annotation", "entity", "task of", "state", "problem", "answer")
        print_table("", columns, rows)
    for one in statistics.unclear:
        if label_studio_url and one.task_id is not None and not one.assignee:
            place = f"{label_studio_url}/projects/{one.project_id}/data?task={one.task_id}"
            out.print(f"  {one.annotation_id}: {place}", soft_wrap=True)


def _kappa(agreement: "OwnChoiceAgreement | None") -> str:
    return "–" if agreement is None else _estimate(agreement.kappa)


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


def _seconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds:.0f} s"
