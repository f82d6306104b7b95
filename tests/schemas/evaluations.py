"""Small sample evaluations."""

from typing import Any

from loupe.schemas.evaluation import EvaluationResult


def evaluation(r1: float = 50.0, name: str = "model", **changes: Any) -> EvaluationResult:
    """Return an evaluation with one direction and one score."""
    scores = {"R@1": {"value": r1, "low": r1 - 10, "high": r1 + 10}}
    direction = {
        "direction": "text-to-image",
        "queries": 8,
        "gallery": 4,
        "unmatched": 0,
        "scores": scores,
    }
    values = {
        "release": {
            "dataset": "people",
            "version": "1.0.0",
            "id": "a" * 64,
            "demonstration": False,
        },
        "split": "test",
        "protocol": "retrieval",
        "model": {"ref": {"name": name, "revision": "1"}, "provider": "builtin"},
        "code_revision": "0" * 40,
        "hardware": {"processor": "a processor", "cores": 2, "memory_bytes": 1 << 30},
        "identities": 4,
        "images": 4,
        "captions": 8,
        "directions": [direction],
        "interval": "95 %",
        "seconds": 0.1,
        "embedding_seconds": 0.2,
    }
    return EvaluationResult.model_validate(values | changes)
