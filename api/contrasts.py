"""What is to be different in another image: the record between `propose_contrasts` and `edit`."""

from pydantic import Field

from loupe.api.records import Record
from loupe.schemas.taxonomy import DifferenceType


class Contrast(Record, kind="proposed_contrast"):
    """One detail in which another image is to differ from the image."""

    detail: str = Field(description="the detail of the image, as it is")
    difference: DifferenceType = Field(description="the type of the difference")
    plan: str = Field(description="how the detail becomes different")
    text: str = Field(description="the caption of the other image")
    instruction: str = Field(description="the instruction to an editor of images")
