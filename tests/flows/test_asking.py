"""What is said where a model leaves inputs without an answer."""

import pytest

from db.work import WorkResult
from flows.engine.model_step import left_unanswered, require_answers
from flows.engine.report import Deferred, StageReport
from schemas.chat import ModelRef
from schemas.errors import ModelError

MODEL = ModelRef(name="service", revision="v1")


def report_of(*left: Deferred) -> StageReport:
    report = StageReport("search images", may_stall=False)
    report.add([WorkResult(1), *left])
    return report


def test_where_all_is_answered_nothing_is_said() -> None:
    assert left_unanswered(MODEL, report_of()) is None
    require_answers(MODEL, report_of())


def test_the_last_word_of_each_reason_is_reported() -> None:
    report = report_of(
        Deferred(2, "timeout", "first"), Deferred(3, "timeout", "last"), Deferred(4, "not_asked")
    )
    with pytest.raises(ModelError) as message:
        require_answers(MODEL, report)
    assert str(message.value) == (
        "service@v1 did not answer (1 not_asked, 2 timeout); timeout: last; the answers "
        "received are stored, run again when it answers"
    )


def test_what_no_waiting_mends_is_not_to_be_waited_for(subtests: pytest.Subtests) -> None:
    cases: list[str] = [
        "misconfigured",
        "out_of_memory",
    ]
    for reason in cases:
        with subtests.test(reason=reason):
            message = str(left_unanswered(MODEL, report_of(Deferred(2, reason, "status 401"))))
            assert f"{reason}: status 401" in message
            assert message.endswith("fix the settings and run again")


def test_what_was_answered_after_all_is_not_reported() -> None:
    report = report_of(Deferred(2, "timeout", "slow"))
    report.add([WorkResult(2)])
    assert report.details == {}
    assert left_unanswered(MODEL, report) is None
