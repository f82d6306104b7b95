"""What is recorded of the work on a whole video, beside the tracks that it gave."""

from typing import Any, ClassVar

from pydantic import Field

from schemas.base import EntityRecord
from schemas.records import Sha256


class StageSettings(EntityRecord):
    """What a stage was set to. What it made derives from this, too.

    So results of other settings are other entities, and it can be told which are of those in force.
    """

    kind: ClassVar[str] = "settings"
    stage: str
    version: str
    values: dict[str, Any]


class TrackedVideo(EntityRecord):
    """What came of following the people of one video: a summary of its tracks.

    `frames` were looked at and gave `tracks`. `notices` say what is wrong with the video (it breaks
    off, say) or with single tracks: what was found before stands.
    """

    kind: ClassVar[str] = "tracked_video"
    source: str
    video: str
    video_sha256: Sha256
    frames: int = Field(ge=0)
    tracks: int = Field(ge=0)
    notices: tuple[str, ...] = ()
