"""The leaderboard for machines: every figure that the page shows."""

from typing import Any

from flows.leaderboard import Board, Leaderboard
from flows.leaderboard_contrasts import nearest_lines
from flows.leaderboard_groups import GroupTable


def leaderboard_document(board: Leaderboard) -> dict[str, Any]:
    """All tables, and the evaluations behind them in full."""
    manifest = board.manifest
    evaluations = {
        row.evaluation.result.id: row.evaluation
        for one in board.boards
        for row in one.models
        if row.evaluation is not None
    }
    return {
        "dataset": manifest.dataset,
        "version": manifest.version,
        "release_id": manifest.id,
        "demonstration": manifest.demonstration,
        "split": board.split,
        "like": board.like,
        "unscored": board.unscored,
        "boards": [_board_document(one) for one in board.boards],
        "tables": [_table_document(one) for one in board.tables],
        "nearest": [one._asdict() for one in nearest_lines(board.contrasts)],
        "evaluations": [
            {
                "id": id_,
                "evaluated_at": evaluated_at.isoformat(),
                **result.model_dump(mode="json"),
            }
            for id_, (result, evaluated_at) in evaluations.items()
        ],
    }


def _board_document(board: Board) -> dict[str, Any]:
    return {
        "direction": board.direction,
        "queries": board.queries,
        "gallery": board.gallery,
        "unmatched": board.unmatched,
        "metrics": list(board.metrics),
        "rows": [
            {
                "kind": row.kind,
                "name": row.name,
                "evaluation": row.evaluation.result.id if row.evaluation else None,
                "scores": {name: one.model_dump() for name, one in row.scores.items()},
            }
            for row in board.rows
        ],
        "published": [table.model_dump(mode="json") for table in board.published],
    }


def _table_document(table: GroupTable) -> dict[str, Any]:
    return {
        "dimension": table.dimension,
        "direction": table.direction,
        "metric": table.metric,
        "groups": dict(zip(table.groups, table.queries, strict=True)),
        "rows": [
            {
                "name": row.name,
                "scores": {
                    group: cell.scores[table.metric].model_dump()
                    for group, cell in zip(table.groups, row.cells, strict=True)
                    if cell is not None and table.metric in cell.scores
                },
            }
            for row in table.rows
        ],
    }
