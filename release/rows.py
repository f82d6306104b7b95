"""The rows of a release: one image with its captions, and where each of them comes from."""

from typing import Any, Literal, NamedTuple

from schemas.proposals import Box
from schemas.records import Split
from schemas.retrieval_task import RetrievalTask, Tier

CaptionOrigin = Literal[
    "source",
    "written",
    "drafted",
    "edited_draft",
    "confirmed_draft",
    "edited",
    "rewrite",
    "edited_rewrite",
]
"""Given by the source; written here by a person; drafted by a model; begun as a model's draft and
changed by a person, or left as it was; made by a person out of another text; a model's rewrite; a
person's edit of one."""


class ReleasedCaption(NamedTuple):
    """A text that describes an image. The author of what a source gave is the source.

    `drafter` is the model whose draft a person's description began as.
    """

    entity_id: str
    text: str
    author: str
    reviewed: bool
    origin: CaptionOrigin
    drafter: str = ""

    @property
    def is_rewrite(self) -> bool:
        """Whether it says another caption in another way."""
        return self.origin in ("rewrite", "edited_rewrite")


class ReleasedCrop(NamedTuple):
    """Where an image was cut out: the video, the frame, the person's box, the detector's score."""

    video: str
    video_sha256: str
    video_entity_id: str
    tracklet_entity_id: str
    frame: int
    time_seconds: float
    box_xyxy: Box
    score: float


class ReleaseRow(NamedTuple):
    """An image with its captions. `number` counts rows and `id` persons, both from 1.

    `task` and `tier` are those of the image, for benchmarks of tasks.
    """

    number: int
    id: int
    source: str
    identity: str
    split: Split
    file_path: str
    source_file_path: str
    captions: tuple[ReleasedCaption, ...]
    image_entity_id: str
    sha256: str
    media_type: str
    width_px: int
    height_px: int
    crop: ReleasedCrop | None = None
    task: RetrievalTask | None = None
    tier: Tier | None = None

    def published(self, *, with_tasks: bool = False) -> dict[str, Any]:
        """The row in the published JSON format: UFine6926's for what was cut from a video.

        Else UFine3C's, which tells the source too; `with_tasks` tells task and tier beside it.
        """
        place: dict[str, Any] = {"split": self.split, "id": self.id}
        if self.crop is None:
            tasks = {"task": self.task, "tier": self.tier} if with_tasks else {}
            place = {"id": self.id, "source": self.source, **tasks, "split": self.split}
        return {
            **place,
            "file_path": self.file_path,
            "captions": [caption.text for caption in self.captions],
        }

    def entity_ids(self) -> list[str]:
        """The entities that stand in the row: image, tracklet if any, captions in order."""
        tracklet = [self.crop.tracklet_entity_id] if self.crop else []
        return [
            self.image_entity_id,
            *tracklet,
            *(caption.entity_id for caption in self.captions),
        ]
