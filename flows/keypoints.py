"""Has a pose model count the keypoints that show on the crops of tracks."""

import io
from collections.abc import Callable

import numpy as np
from PIL import Image

from db.agents import AgentRef
from db.blobs import BlobStore
from models.pose import PoseModel, build_pose_model
from schemas import tracking
from schemas.video import Observation, Track
from stages.tracklets.pool import with_keypoints

PoseModelMaker = Callable[[tracking.PoseModel], PoseModel]


class KeypointCounter:
    """Counts on stored crops; without a pose model tracks stay as they are."""

    def __init__(
        self,
        blobs: BlobStore,
        spec: tracking.PoseModel | None,
        make: PoseModelMaker = build_pose_model,
    ) -> None:
        self._blobs = blobs
        self._model = make(spec) if spec else None

    @property
    def agents(self) -> tuple[AgentRef, ...]:
        """The pose model, if there is one."""
        return (AgentRef.of_model(self._model.ref),) if self._model else ()

    def counted(self, track: Track) -> Track:
        """The track with the visible keypoints of each observation."""
        if self._model is None:
            return track
        counts = {one.frame: self._count(self._model, one) for one in track.observations}
        return with_keypoints(track, counts)

    def _count(self, model: PoseModel, observation: Observation) -> int:
        crop = observation.crop
        with Image.open(io.BytesIO(self._blobs.read(crop.sha256, crop.media_type))) as picture:
            pixels = np.asarray(picture.convert("RGB"))
        whole = np.array([[0, 0, crop.width_px, crop.height_px]], np.float64)
        return model.visible_keypoints(pixels, whole)[0]
