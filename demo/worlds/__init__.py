"""A world of drawn people with known attributes, in three published annotation formats."""

from loupe.demo.worlds.writing import DemonstrationWorld, load_truth, write_people_world

__all__ = ["DemonstrationWorld", "load_truth", "write_people_world"]
