"""Asks a chat model about the inputs of a chunk, and says what becomes of those without answer."""

from collections.abc import Iterable, Iterator

from db.entities import StoredEntity
from db.work import WorkResult
from flows.ledger import RecordedChatModel
from flows.report import Deferred, StageReport, StageResult
from schemas.chat import ChatFailure, ChatOutcome, ChatRequest, ModelRef
from schemas.errors import ModelError
from schemas.records import Rejection

_SERVER_IS_GONE = ("unreachable", "misconfigured")
_SHOWN_CHARACTERS = 10_000  # in quarantine, of what a server sent; all of it is with the call
_SETTINGS_ARE_WRONG = ("misconfigured", "out_of_memory")


def ask(model: RecordedChatModel, requests: Iterable[ChatRequest]) -> dict[int, ChatOutcome]:
    """The outcomes by position; once the server is gone, the rest is not asked."""
    outcomes: dict[int, ChatOutcome] = {}

    def while_reachable() -> Iterator[ChatRequest]:
        for request in requests:
            if any(_is_gone(outcome) for outcome in outcomes.values()):
                return
            yield request

    for position, outcome in model.answer(while_reachable()):
        outcomes[position] = outcome  # noqa: PERF403 - `while_reachable` watches it grow
    return outcomes


def without_answer(input_: StoredEntity, stage: str, failure: ChatFailure | None) -> StageResult:
    """What becomes of an input that was not asked about (None), or whose call failed."""
    if failure is None:
        return Deferred(input_.seq, "not_asked")
    if failure.retriable:
        return Deferred(input_.seq, failure.reason, failure.detail)
    rejection = Rejection(
        stage=stage,
        reason=failure.reason,
        detail=failure.detail,
        context={"raw": failure.raw[:_SHOWN_CHARACTERS]},
    )
    return WorkResult(input_.seq, rejection=rejection)


def require_answers(model: ModelRef, report: StageReport) -> None:
    """Stops the run where a model left inputs without an answer.

    Raises:
        ModelError: it did; what came back is stored.
    """
    if error := left_unanswered(model, report):
        raise error


def left_unanswered(model: ModelRef, report: StageReport) -> ModelError | None:
    """What to say where a model left inputs without an answer; None where it left none.

    It names what was said last of each reason, and what helps: to run again, or other settings.
    """
    if not report.deferred:
        return None
    reasons = ", ".join(f"{n} {reason}" for reason, n in sorted(report.deferred.items()))
    told = "".join(f"; {reason}: {detail}" for reason, detail in sorted(report.details.items()))
    is_wrong = any(reason in report.deferred for reason in _SETTINGS_ARE_WRONG)
    helps = "mend the settings and run again" if is_wrong else "run again when it answers"
    return ModelError(
        f"{model} did not answer ({reasons}){told}; what came back is stored, {helps}"
    )


def _is_gone(outcome: ChatOutcome) -> bool:
    return isinstance(outcome, ChatFailure) and outcome.reason in _SERVER_IS_GONE
