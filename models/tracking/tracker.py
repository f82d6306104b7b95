"""`PersonTracker`: a detector and an association for one video."""

import numpy as np

from models.tracking.association import Association, TrackedFrame, as_bytes, from_bytes
from models.tracking.detector import Frame, PersonDetector
from schemas.chat import ModelRef
from schemas.tracking import AssociationSettings


class PersonTracker:
    """Follows the people of one video; every video needs a tracker of its own.

    The detector may have seen other videos, which it forgets.

    Its state can be saved after any frame and restored into a new tracker with the same settings,
    which then continues exactly as this one would have.
    """

    def __init__(
        self, detector: PersonDetector, settings: AssociationSettings, frame_rate: float
    ) -> None:
        detector.reset()
        self._detector = detector
        self._association = Association(settings, frame_rate)

    @property
    def ref(self) -> ModelRef:
        """The detector that people are found with, for provenance."""
        return self._detector.ref

    def follow(self, frame: Frame) -> TrackedFrame:
        """Return the people in the next frame."""
        detections = self._detector.detect(frame)
        people = self._association.update(detections)
        boxes = detections.boxes_xyxy.astype(np.float64)
        return TrackedFrame(people, self._association.alive, boxes)

    def state(self) -> bytes:
        """Return the complete state."""
        parts = {"detector": self._detector.state(), "association": self._association.state()}
        return as_bytes({name: np.frombuffer(part, np.uint8) for name, part in parts.items()})

    def restore(self, state: bytes) -> None:
        """Restore the state of another tracker.

        Raises:
            IntegrityError: `state` is not that of a tracker.
        """
        parts = from_bytes(state, "detector", "association")
        self._detector.restore(parts["detector"].tobytes())
        self._association.restore(parts["association"].tobytes())
