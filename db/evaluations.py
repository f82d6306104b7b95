"""Evaluations: what models scored on releases. They are added, never changed."""

from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import select

from db.engine import insert_new
from db.store import Store
from db.tables import Evaluation
from schemas.evaluation import EvaluationResult
from schemas.records import Split


class StoredEvaluation(NamedTuple):
    """An evaluation, and when it was stored."""

    result: EvaluationResult
    evaluated_at: datetime


class Stored(NamedTuple):
    """The evaluation as the store has it, and whether it is new there."""

    evaluation: StoredEvaluation
    is_new: bool


def store_evaluation(store: Store, result: EvaluationResult) -> Stored:
    """Stores an evaluation; of equal ones (`EvaluationResult.id`) the first stands."""
    now = datetime.now(UTC)
    row = {
        "id": result.id,
        "release_id": result.release.id,
        "split": result.split,
        "result": result.model_dump(mode="json"),
        "evaluated_at": now,
    }
    query = select(Evaluation.result, Evaluation.evaluated_at).where(Evaluation.id == result.id)
    with store.write() as connection:
        is_new = connection.execute(query).one_or_none() is None
        insert_new(connection, Evaluation, [row])
        stored = _stored(*connection.execute(query).one())
    return Stored(stored, is_new)


def evaluations_of(
    store: Store, release_id: str, split: Split | None = None
) -> list[StoredEvaluation]:
    """The evaluations on a release (or on one split of it), the oldest first."""
    query = select(Evaluation.result, Evaluation.evaluated_at).where(
        Evaluation.release_id == release_id
    )
    if split is not None:
        query = query.where(Evaluation.split == split)
    query = query.order_by(Evaluation.evaluated_at, Evaluation.id)
    with store.read() as connection:
        return [_stored(*row) for row in connection.execute(query)]


def _stored(result: dict[str, Any], evaluated_at: datetime) -> StoredEvaluation:
    return StoredEvaluation(EvaluationResult.model_validate(result), evaluated_at)
