"""Errors when a model leaves inputs without an answer."""

import pytest

from db.entities import WorkResult
from flows.engine.model_step import left_unanswered, require_answers
from flows.engine.report import Deferred, StageReport
from schemas.chat import ModelRef
from schemas.errors import ModelError

MODEL = ModelRef(name="service", revision="v1")


def report_of(*left: Deferred) -> StageReport:
    report = StageReport("search images", may_stall=False)
    report.add([WorkResult(1), *left])
    return report


def test_no_error_if_all_inputs_were_answered() -> None:
    assert left_unanswered(MODEL, report_of()) is None
    require_answers(MODEL, report_of())


def test_the_last_detail_of_each_reason_is_reported() -> None:
    report = report_of(
        Deferred(2, "timeout", "first"), Deferred(3, "timeout", "last"), Deferred(4, "not_asked")
    )
    with pytest.raises(ModelError) as message:
        require_answers(MODEL, report)
    assert str(message.value) == (
        "service@v1 did not answer (1 not_asked, 2 timeout); timeout: last; the answers "
        "received are stored, run again when it answers"
    )


def test_permanent_faults_ask_to_fix_the_settings(subtests: pytest.Subtests) -> None:
    cases: list[str] = [
        "misconfigured",
        "out_of_memory",
    ]
    for reason in cases:
        with subtests.test(reason=reason):
            message = str(left_unanswered(MODEL, report_of(Deferred(2, reason, "status 401"))))
            assert f"{reason}: status 401" in message
            assert message.endswith("fix the settings and run again")


def test_an_input_answered_later_is_not_reported() -> None:
    report = report_of(Deferred(2, "timeout", "slow"))
    report.add([WorkResult(2)])
    assert report.details == {}
    assert left_unanswered(MODEL, report) is None
