"""The specification of the model that finds faces."""

from typing import Annotated, ClassVar

from pydantic import Field

from loupe.schemas.chat import NamedModel


class MediaPipeFaceDetector(NamedModel):
    """MediaPipe's model of faces (extra `vision`), which looks at each of its finds again.

    Small finds need little: a face that is missed is published, a small pattern that is taken for
    one is only blurred. Large ones need more, since real ones have it, and clutter would erase
    much of an image.

    Attributes:
        score_threshold: the least score of a box.
        fewest_boxes: the least number of overlapping boxes of a face, over positions and scales.
        least_mean_score: the least mean score of a find that is looked at again, in several sizes
            and mirrored.
        least_mean_score_large: the same for finds of `large_face_px` or more.
        large_face_px: the width from which a find is large.
        least_face_px: the width of the smallest faces that are looked for; larger images are
            searched for faces of a hundredth of their longer side.
    """

    determined_by: ClassVar[tuple[str, ...]] = (
        *("score_threshold", "fewest_boxes", "least_mean_score", "least_mean_score_large"),
        *("large_face_px", "least_face_px"),
    )
    name: str = "mediapipe-face-detection"
    revision: str = "0.10.21"
    score_threshold: Annotated[float, Field(gt=0, lt=1)] = 0.45
    fewest_boxes: Annotated[int, Field(gt=0)] = 2
    least_mean_score: Annotated[float, Field(ge=0, lt=1)] = 0.45
    least_mean_score_large: Annotated[float, Field(ge=0, lt=1)] = 0.6
    large_face_px: Annotated[float, Field(ge=0)] = 40
    least_face_px: Annotated[float, Field(ge=8)] = 10
