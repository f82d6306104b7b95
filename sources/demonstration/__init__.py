"""A world of drawn people whose every attribute is known, in three published annotation formats."""

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
