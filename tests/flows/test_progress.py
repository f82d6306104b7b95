"""Progress output: lines without a terminal, a transient bar with one."""

import io
import threading

import pytest
from rich.console import Console

from db.entities import WorkResult
from flows.engine.context import BuildReport
from flows.engine.report import Deferred, StageReport, console_progress
from schemas.records import Rejection


def report_of(done: int = 2) -> StageReport:
    report = StageReport("check")
    report.add([WorkResult(number) for number in range(done)])
    rejection = Rejection(stage="check", reason="refusal", detail="no")
    report.add([WorkResult(10, rejection=rejection), Deferred(11, "timeout")])
    return report


def test_the_summary_is_printed_permanently(subtests: pytest.Subtests) -> None:
    cases: list[bool] = [
        False,
        True,
    ]
    for is_terminal in cases:
        with subtests.test(is_terminal=is_terminal):
            text = io.StringIO()
            progress = console_progress(
                Console(file=text, force_terminal=is_terminal, width=120, highlight=False)
            )
            progress.start("check", 4)
            threads = [
                threading.Thread(target=progress.advance, args=("check", 1)) for _ in range(4)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            progress.end(report_of())
            progress.say("now [this]")
            assert "2 done, 1 rejected (1 refusal), 1 left for later (1 timeout)" in text.getvalue()
            assert "now [this]" in text.getvalue()
            if not is_terminal:
                assert "\x1b" not in text.getvalue()


def test_a_report_counts_the_outcome_of_every_input() -> None:
    report = report_of()
    assert (report.done, report.finished, report.stalled) == (2, 3, False)
    assert report.as_json()["rejected"] == {"refusal": 1}
    assert report.as_json()["deferred"] == {"timeout": 1}
    report.add([Deferred(11, "rate_limited")])
    assert dict(report.deferred) == {"rate_limited": 1}
    assert report.stalled
    report.add([WorkResult(11)])
    assert dict(report.deferred) == {}


def test_a_build_report_names_the_queues_it_waits_for() -> None:
    report = BuildReport("people", stages=[report_of()], waiting_in={"b": 1, "c": 2})
    assert report.sentence == (
        "3 items of people wait for people (1 in b, 2 in c); run again when they have decided"
    )
    assert report.as_json()["release"] is None
    assert "| check | 2 done" in report.markdown
