"""The scores of parts of the queries, model by model: the tables of a leaderboard by group."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from db.evaluations import StoredEvaluation
from schemas.evaluation import (
    CONTRAST_METRICS,
    DIRECTIONS,
    METRICS,
    Direction,
    EvaluationResult,
    GroupResult,
)
from schemas.retrieval_task import RetrievalTask

_TASKS = tuple(task.value for task in RetrievalTask)
_OF_PAIRS = ("difference", "aspect")
_RECALLS = 3  # of the metrics; those of contrastive pairs stand after them
_NOTES = {
    "difference": "Pairs of an anchor and an image that differs from it in one detail, in both "
    "orders, by the type of that detail; ties are errors. FG-CDE is 100 − FG-CDA.",
    "aspect": "The same pairs, types of one aspect pooled.",
    "setting": "Original samples ask. original: coarse captions, original images; + fine captions: "
    "fine ones in their place; + contrastive images: coarse captions, and contrastive images among "
    "what is found; both: fine captions and contrastive images, as in the table above. Contrastive "
    "images have no coarse captions, so that image to text has no such setting.",
}


class GroupRow(NamedTuple):
    """A model's scores in each group of a table; None where it was not scored on one."""

    name: str
    cells: tuple[GroupResult | None, ...]


class GroupTable(NamedTuple):
    """One metric by model and by group of queries, in one direction."""

    dimension: str
    direction: Direction
    metric: str
    groups: tuple[str, ...]
    queries: tuple[int, ...]
    rows: tuple[GroupRow, ...]

    @property
    def counted(self) -> str:
        """What `queries` are: queries, or contrastive pairs."""
        return "pairs" if self.dimension in _OF_PAIRS else "queries"

    @property
    def note(self) -> str:
        """What has to be known to read the table; empty where it is plain."""
        return _NOTES.get(self.dimension, "")


def ordered_metrics(metrics: Iterable[str]) -> tuple[str, ...]:
    """Metrics in the order in which they are always shown, unknown ones last, by name."""
    order = (*METRICS[:_RECALLS], *CONTRAST_METRICS, *METRICS[_RECALLS:])
    known = {metric: place for place, metric in enumerate(order)}
    return tuple(sorted(metrics, key=lambda metric: (known.get(metric, len(known)), metric)))


def group_tables(
    evaluations: Sequence[StoredEvaluation], names: dict[str, str]
) -> Iterable[GroupTable]:
    """A table for each direction and dimension, in the order in which they were scored."""
    results = [one.result for one in evaluations]
    for direction in DIRECTIONS:
        found = [one for result in results for one in result.groups if one.direction == direction]
        for dimension in dict.fromkeys(one.dimension for one in found):
            chosen = [one for one in found if one.dimension == dimension]
            yield _group_table(chosen, results, names)


def _group_table(
    chosen: Sequence[GroupResult], results: Sequence[EvaluationResult], names: dict[str, str]
) -> GroupTable:
    dimension, direction = chosen[0].dimension, chosen[0].direction
    groups = {one.group: one.queries for one in sorted(chosen, key=_place)}
    metric = ordered_metrics({metric for one in chosen for metric in one.scores})[0]
    rows = []
    for result in results:
        cells = {
            one.group: one
            for one in result.groups
            if (one.dimension, one.direction) == (dimension, direction)
        }
        rows.append(GroupRow(names[result.id], tuple(cells.get(group) for group in groups)))
    rows.sort(key=lambda row: [-_value(cell, metric) for cell in row.cells])
    return GroupTable(
        dimension, direction, metric, tuple(groups), tuple(groups.values()), tuple(rows)
    )


def _place(result: GroupResult) -> int:
    """Tasks stand in the paper's order, all else as it was scored."""
    is_task = result.dimension == "task" and result.group in _TASKS
    return _TASKS.index(result.group) if is_task else len(_TASKS)


def _value(cell: GroupResult | None, metric: str) -> float:
    return cell.scores[metric].value if cell and metric in cell.scores else 0.0
