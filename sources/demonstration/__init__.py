"""A world of drawn people with known attributes, in three published annotation formats."""

from sources.demonstration.writing import (
    DemonstrationSource,
    DemonstrationWorld,
    Truth,
    load_truth,
    write_people_world,
)

__all__ = [
    "DemonstrationSource",
    "DemonstrationWorld",
    "Truth",
    "load_truth",
    "write_people_world",
]
