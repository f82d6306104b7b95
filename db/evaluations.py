"""Evaluations: scores of models on releases. They are added and their scores never change.

The hardest queries are stored as examples. An example that shows a withdrawn item is not stored,
and is deleted where files are erased. Scores show no person and stay.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, select, update

from loupe.db.entities import rows_in
from loupe.db.store import reads, writes
from loupe.db.tables import Entity, Evaluation, insert_new
from loupe.schemas.base import Split
from loupe.schemas.evaluation import EvaluationResult, HardQuery


class StoredEvaluation(NamedTuple):
    """An evaluation and the time when it was stored."""

    result: EvaluationResult
    evaluated_at: datetime

    def as_json(self) -> dict[str, Any]:
        """Return the evaluation as it is printed for programs."""
        known = {"id": self.result.id, "evaluated_at": self.evaluated_at.isoformat()}
        return known | self.result.model_dump(mode="json")


class Stored(NamedTuple):
    """The evaluation in the store, and whether it is new."""

    evaluation: StoredEvaluation
    is_new: bool


@writes
def store_evaluation(connection: Connection, result: EvaluationResult) -> Stored:
    """Store an evaluation; of equal ones (`EvaluationResult.id`) the first is kept."""
    query = select(Evaluation.result, Evaluation.evaluated_at).where(Evaluation.id == result.id)
    row = {
        "id": result.id,
        "release_id": result.release.id,
        "split": result.split,
        "result": _without_withdrawn(result, _withdrawn(connection, result)).model_dump(
            mode="json"
        ),
        "evaluated_at": datetime.now(UTC),
    }
    is_new = connection.execute(query).one_or_none() is None
    insert_new(connection, Evaluation, [row])
    stored = _stored(*connection.execute(query).one())
    return Stored(stored, is_new)


@reads
def evaluations_of(
    connection: Connection, release_id: str, split: Split | None = None
) -> list[StoredEvaluation]:
    """Return the evaluations on a release, or on one split of it, oldest first."""
    query = select(Evaluation.result, Evaluation.evaluated_at).where(
        Evaluation.release_id == release_id
    )
    if split is not None:
        query = query.where(Evaluation.split == split)
    query = query.order_by(Evaluation.evaluated_at, Evaluation.id)
    return [_stored(*row) for row in connection.execute(query)]


@reads
def count_showing(connection: Connection, entity_ids: Iterable[str]) -> int:
    """Count the evaluations with an example that shows any of these entities."""
    return sum(1 for _ in _showing(connection, set(entity_ids)))


@writes
def forget_examples(connection: Connection, entity_ids: Iterable[str]) -> int:
    """Delete the examples that show any of these entities; return the number of evaluations."""
    changed = list(_showing(connection, set(entity_ids)))
    for id_, kept in changed:
        values = {"result": kept.model_dump(mode="json")}
        connection.execute(update(Evaluation).where(Evaluation.id == id_).values(values))
    return len(changed)


def _showing(connection: Connection, gone: set[str]) -> Iterator[tuple[str, EvaluationResult]]:
    """Return the evaluations whose examples show any of these entities, without those examples."""
    for id_, stored in connection.execute(select(Evaluation.id, Evaluation.result)):
        result = EvaluationResult.model_validate(stored)
        if (kept := _without_withdrawn(result, gone)) != result:
            yield id_, kept


def _withdrawn(connection: Connection, result: EvaluationResult) -> set[str]:
    """Return the ids of withdrawn entities that the examples show."""
    shown = {id_ for one in result.directions for hard in one.hardest for id_ in _shown(hard)}
    query = select(Entity.id).where(Entity.state == "withdrawn")
    return {id_ for (id_,) in rows_in(connection, query, Entity.id, sorted(shown))}


def _without_withdrawn(result: EvaluationResult, gone: set[str]) -> EvaluationResult:
    """Return the evaluation without the examples that show withdrawn entities."""
    directions = tuple(
        one.model_copy(
            update={"hardest": tuple(hard for hard in one.hardest if gone.isdisjoint(_shown(hard)))}
        )
        for one in result.directions
    )
    return result.model_copy(update={"directions": directions})


def _shown(hard: HardQuery) -> Iterator[str]:
    yield hard.query.entity_id
    yield from (one.item.entity_id for one in hard.retrieved)


def _stored(result: dict[str, Any], evaluated_at: datetime) -> StoredEvaluation:
    return StoredEvaluation(EvaluationResult.model_validate(result), evaluated_at)
