"""From a profile's words to a detector that finds people."""

from typing import assert_never

from models.tracking.detector import PersonDetector
from schemas.tracking import BuiltinDetector, DetectorSpec, FairMOTDetector


def build_detector(spec: DetectorSpec) -> PersonDetector:
    """The detector that `spec` describes, loaded; only its own libraries are imported.

    A detector may remember what it saw: every video wants one of its own.

    Raises:
        MissingExtraError: the extra that the provider needs is not installed.
        ModelError: the model could not be loaded.
    """
    match spec:
        case BuiltinDetector():
            from models.builtin.pedestrians.detector import BuiltinPedestrianDetector

            return BuiltinPedestrianDetector(spec)
        case FairMOTDetector():
            from models.fairmot.detector import FairMOTPersonDetector

            return FairMOTPersonDetector(spec)
        case _:
            assert_never(spec)
