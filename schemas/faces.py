"""What is done to the faces in pictures, and what an image says of it."""

from typing import Annotated, Literal

from pydantic import Field

from loupe.schemas.base import NonBlank, Record

FaceMethod = Literal["blur", "replace"]
"""How a face is made unrecognisable; `loupe.sources.faces` has the parameters."""
Faces = Literal["keep", "blur", "replace"]
"""What is done to the faces of images before they are stored."""


class FaceTreatment(Record):
    """How faces are found and made unrecognisable.

    Attributes:
        method: what is done to them.
        model: what finds them, as `name@revision`.
        version: the version of `loupe.sources.faces`, increased when its pixels change.
    """

    method: FaceMethod
    model: NonBlank
    version: NonBlank


class TreatedFaces(FaceTreatment):
    """What was done to the faces of one image; `count` is the number found, which may be 0."""

    count: Annotated[int, Field(ge=0)]

    @property
    def treatment(self) -> FaceTreatment:
        """Return how, without the number."""
        return FaceTreatment(method=self.method, model=self.model, version=self.version)
