"""Seeded videos of a street in which known people walk, with the complete truth about them."""

from sources.demonstration.street.truth import (
    Fault,
    FaultKind,
    StreetTruth,
    StreetWorld,
    TruePerson,
    TrueSighting,
    TrueVideo,
    TrueVisit,
    load_street_truth,
)
from sources.demonstration.street.writing import write_street_world

__all__ = [
    "Fault",
    "FaultKind",
    "StreetTruth",
    "StreetWorld",
    "TruePerson",
    "TrueSighting",
    "TrueVideo",
    "TrueVisit",
    "load_street_truth",
    "write_street_world",
]
