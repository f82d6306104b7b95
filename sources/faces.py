"""Make the faces of an image unrecognisable, before it is stored.

Both methods cover an ellipse around the box of a face, with the forehead, the ears and the chin.
`blur` keeps the mean colours of 3 × 3 cells around it and nothing else: the cells are averaged,
scaled up again and blurred with a Gaussian of a cell. `replace` paints the ellipse in one colour,
its mean. Neither can be reversed: nine colours, or one, are all that is left of a face.
"""

from threading import local
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from loupe.schemas.base import sha256_of
from loupe.schemas.chat import ModelRef
from loupe.schemas.decoders import as_rgb
from loupe.schemas.face_detection import MediaPipeFaceDetector
from loupe.schemas.faces import (
    FaceMethod,
    Faces,
    FaceTreatment,
    TreatedFaces,
)
from loupe.sources.decoding import UPRIGHT, ImageRefusedError, decoded, encoded_upright
from loupe.sources.images import ImageLimits, ImageProblem, InspectedImage

if TYPE_CHECKING:
    from loupe.models.faces import Face, MediaPipeFaces

VERSION: Final = "2"
_DETECTOR: Final = MediaPipeFaceDetector()
_CELLS: Final = 3
_WIDER: Final = 1.7  # the ellipse, in widths and heights of the box of a face
_HIGHER: Final = 2.0
_RAISED: Final = 0.1  # of the height: the box of the model ends below the hair
_KEPT_MODES: Final = frozenset({"L", "RGB", "RGBA"})


class TreatedImage(NamedTuple):
    """Encoded bytes (those given if no face was found), and what was done to them."""

    data: bytes
    faces: TreatedFaces | None


def treatment_of(faces: Faces) -> FaceTreatment | None:
    """Return how faces are treated; None if they are kept."""
    if faces == "keep":
        return None
    return FaceTreatment(method=faces, model=str(face_model()), version=VERSION)


def face_model() -> ModelRef:
    """The model that finds faces."""
    return _DETECTOR.ref


def require_face_model(faces: Faces) -> None:
    """Raise, before anything is stored, if faces are to be treated and cannot be found.

    Raises:
        MissingExtraError: the extra `vision` is not installed.
    """
    if faces != "keep":
        _detector()


def treat_faces(faces: Faces, data: bytes) -> TreatedImage:
    """Return an encoded, upright image with its faces treated. Thread-safe.

    Only an image with a face is encoded again, in its own format and without metadata.

    Raises:
        ImageRefusedError: the image cannot be decoded or encoded.
        MissingExtraError: the extra `vision` is not installed.
    """
    treatment = treatment_of(faces)
    if treatment is None:
        return TreatedImage(data, None)
    picture = decoded(data, ImageLimits().max_pixels)
    found = _detector().find(np.asarray(as_rgb(picture)))
    treated = TreatedFaces(**treatment.model_dump(), count=len(found))
    if not found:
        return TreatedImage(data, treated)
    mode = picture.mode
    if mode not in _KEPT_MODES or "transparency" in picture.info:
        mode = "RGBA" if picture.has_transparency_data else "RGB"
    editable = picture if mode == picture.mode else _converted(picture, mode)
    hidden = Image.fromarray(hide(np.asarray(editable), found, treatment.method))
    hidden.format = picture.format
    if editable is picture and "icc_profile" in picture.info:
        hidden.info["icc_profile"] = picture.info["icc_profile"]
    encoded, _ = encoded_upright(hidden, UPRIGHT)
    return TreatedImage(encoded, treated)


def without_faces(
    faces: Faces, image: InspectedImage | ImageProblem
) -> InspectedImage | ImageProblem:
    """Return an image of a source with its faces treated; `source_sha256` stays."""
    if faces == "keep" or isinstance(image, ImageProblem):
        return image
    try:
        treated = treat_faces(faces, image.data)
    except ImageRefusedError as refusal:
        detail = f"image {image.file_path!r} {refusal.what}"
        return ImageProblem(file_path=image.file_path, reason=refusal.reason, detail=detail)
    digest = sha256_of(treated.data)
    return image._replace(data=treated.data, sha256=digest, faces=treated.faces)


def _converted(picture: Image.Image, mode: str) -> Image.Image:
    return picture.convert(mode) if mode == "RGBA" else as_rgb(picture)


def hide(pixels: NDArray[np.uint8], faces: list["Face"], method: FaceMethod) -> NDArray[np.uint8]:
    """Return a copy of an image with these faces made unrecognisable.

    Args:
        pixels: of shape (height, width) or (height, width, channels).
        faces: the boxes of the faces.
        method: how.
    """
    hidden = pixels.copy()
    for face in faces:
        _hide_one(hidden, face, method)
    return hidden


def _hide_one(pixels: NDArray[np.uint8], face: "Face", method: FaceMethod) -> None:
    """Change the ellipse around a face in place."""
    height, width = pixels.shape[:2]
    face_width, face_height = face.right - face.left, face.bottom - face.top
    centre_x = (face.left + face.right) / 2
    centre_y = (face.top + face.bottom) / 2 - _RAISED * face_height
    half_x = max(2.0, _WIDER * face_width / 2)
    half_y = max(2.0, _HIGHER * face_height / 2)
    left, right = max(0, int(centre_x - half_x)), min(width, int(centre_x + half_x) + 1)
    top, bottom = max(0, int(centre_y - half_y)), min(height, int(centre_y + half_y) + 1)
    if left >= right or top >= bottom:
        return
    part = pixels[top:bottom, left:right]
    x = (np.arange(left, right) + 0.5 - centre_x) / half_x
    y = (np.arange(top, bottom) + 0.5 - centre_y) / half_y
    is_face = x[None] ** 2 + y[:, None] ** 2 <= 1
    new = _blurred(part) if method == "blur" else part[is_face].mean(axis=0).round()
    colours = part.shape[2] if part.ndim == 3 else 1
    if colours == 4:  # transparency is kept
        part, new = part[..., :3], new[..., :3]
    part[is_face] = new[is_face] if method == "blur" else new.astype(np.uint8)


def _blurred(part: NDArray[np.uint8]) -> NDArray[np.uint8]:
    import cv2

    height, width = part.shape[:2]
    cells = cv2.resize(part, (_CELLS, _CELLS), interpolation=cv2.INTER_AREA)
    large = cv2.resize(cells, (width, height), interpolation=cv2.INTER_NEAREST)
    sigma_x, sigma_y = width / _CELLS, height / _CELLS
    blurred = cv2.GaussianBlur(large, (0, 0), sigmaX=sigma_x, sigmaY=sigma_y)
    return np.asarray(blurred, np.uint8)


_own = local()


def _detector() -> "MediaPipeFaces":
    """Return the detector of this thread; a network must not be used by two at once."""
    from loupe.models.faces import MediaPipeFaces

    if not hasattr(_own, "detector"):
        _own.detector = MediaPipeFaces(_DETECTOR)
    detector: MediaPipeFaces = _own.detector
    return detector
