"""Progress output: lines without a terminal, a transient bar with one."""

import io
import threading

import pytest
from rich.console import Console

from loupe.db.entities import WorkResult
from loupe.flows.engine.context import BuildReport
from loupe.flows.engine.report import (
    Deferred,
    LineProgress,
    Progress,
    StageReport,
    console_progress,
)
from loupe.schemas.records import Rejection


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
        "3 items of people wait for people (1 in b, 2 in c); run again when they have decided in "
        "Label Studio (loupe status shows the address, and loupe annotator adds people)"
    )
    report.goes_on = True
    assert "the queue watcher of loupe up continues this run when they have" in report.sentence
    assert "run again" not in report.sentence
    assert report.as_json()["release"] is None
    assert "| check | 2 done" in report.markdown


def test_after_eight_seconds_of_silence_a_line_says_how_far_it_is_and_what_is_waited_for() -> None:
    lines: list[str] = []
    now = 0.0
    progress = LineProgress(lines.append, clock=lambda: now)
    progress.start("rewrite", 400)
    progress.advance("rewrite", 40)
    assert lines == []
    with progress.waits.on("to ask again (status 429)"), progress.waits.on(lambda: "for 4 answers"):
        for now in (7.0, 20.0, 25.0, 31.0, 51.0, 300.0):  # noqa: B007 - read by the clock
            progress.look()
    waiting = "waiting to ask again (status 429); for 4 answers"
    assert lines == [
        f"rewrite: 40 of 400; 2.0 per second, 3 min left; {waiting}",
        f"rewrite: 40 of 400; 1.3 per second, 5 min left; {waiting}",
        f"rewrite: 40 of 400; 47.1 per minute, 8 min left; {waiting}",
        f"rewrite: 40 of 400; 8.0 per minute, 45 min left; {waiting}",
    ]
    progress.end(report_of())


def test_lines_become_rarer_while_nothing_changes() -> None:
    lines: list[str] = []
    now = 0.0
    progress = LineProgress(lines.append, clock=lambda: now)
    progress.start("rewrite", None)
    for now in range(1, 301):  # noqa: B007 - read by the clock
        progress.look()
    assert lines == ["rewrite: 0"] * 7  # after 8, 24, 56, 116, 176, 236 and 296 seconds
    progress.end(report_of())


def test_a_sentence_is_said_once_a_run() -> None:
    class Said(Progress):
        def __init__(self) -> None:
            self.sentences: list[str] = []

        def say(self, sentence: str) -> None:
            self.sentences.append(sentence)

    progress = Said()
    for sentence in ("one", "other", "one"):
        progress.say_once(sentence)
    assert progress.sentences == ["one", "other"]
