"""Finds faces with the models of MediaPipe (BlazeFace, Bazarevsky et al. 2019).

The model is made for pictures of 128×128 pixels with one large face. OpenCV runs its convolutions
on pictures of any size, so a whole photograph is searched at once, at several scales. The model
then looks at each find again, alone in such a picture, in several sizes and mirrored: a face has
a high score in all of them, clutter only in some.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loupe.models.adapter import Adapter
from loupe.models.tracking.detector import Pixels
from loupe.models.weights import file_of_package
from loupe.schemas.face_detection import MediaPipeFaceDetector

_TRAINED_SIDE_PX: Final = 128
_LEAST_SEEN_PX: Final = 24  # a face in the scaled picture; smaller ones are found worse
_STEP: Final = 1.5  # between scales
_MULTIPLE_PX: Final = 32
_SMALLEST_SHARE: Final = 100  # of the longer side, for large images
_MOST_PIXELS: Final = 3_000_000  # of a scaled picture, which bounds memory
_SAME_FACE: Final = 0.3  # intersection over union
_STRIDES: Final = (8, 16)
_LOOKS_PX: Final = (20, 28, 40)  # sizes at which a find is looked at again
_LEAST_SCORE_OF_LOOKS: Final = 0.05
_OUTPUTS: Final = ["classificator_8", "regressor_8", "classificator_16", "regressor_16"]


class Face(NamedTuple):
    """A face: its box in pixels of the image, which may reach beyond it, and its score, 0 to 1."""

    left: float
    top: float
    right: float
    bottom: float
    score: float


_Boxes = NDArray[np.float64]
"""Boxes (left, top, right, bottom) with their scores, of shape (n, 5)."""


class MediaPipeFaces(Adapter[MediaPipeFaceDetector]):
    """Finds faces; not to be used by two threads at once.

    Raises:
        MissingExtraError: the package `mediapipe` is not installed.
    """

    def __init__(self, spec: MediaPipeFaceDetector) -> None:
        import cv2

        super().__init__(spec)
        folder = file_of_package(f"finding faces with {spec.name!r}", "mediapipe", "modules")
        weights = folder / "face_detection" / "face_detection_short_range.tflite"
        self._network = cv2.dnn.readNetFromTFLite(str(weights))

    def find(self, pixels: Pixels) -> list[Face]:
        """Return the faces of an RGB image of shape (height, width, 3), the surest first."""
        height, width = pixels.shape[:2]
        found = [self._boxes_at(pixels, scale) for scale in self._scales(width, height)]
        boxes = np.concatenate(found)
        faces = self._faces(boxes[np.argsort(-boxes[:, 4], kind="stable")])
        return [one for one in faces if self._is_confirmed(pixels, one)]

    def _scales(self, width: int, height: int) -> Iterator[float]:
        """Yield the scales to search at, from that of the smallest faces to the whole picture."""
        longest = max(width, height)
        least_face_px = max(self._spec.least_face_px, longest / _SMALLEST_SHARE)
        last = _TRAINED_SIDE_PX / longest
        most = (_MOST_PIXELS / (width * height)) ** 0.5
        scale = max(last, min(_LEAST_SEEN_PX / least_face_px, most))
        while scale > last:
            yield scale
            scale /= _STEP
        yield last

    def _boxes_at(self, pixels: Pixels, scale: float) -> _Boxes:
        """Return all boxes of a sufficient score at a scale."""
        import cv2

        height, width = pixels.shape[:2]
        columns, rows = max(1, round(width * scale)), max(1, round(height * scale))
        how = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
        scaled = cv2.resize(pixels, (columns, rows), interpolation=how)
        padded = np.zeros((_rounded_up(rows), _rounded_up(columns), 3), np.uint8)
        padded[:rows, :columns] = scaled
        found = self._boxes_in(padded, self._spec.score_threshold)
        found[:, [0, 2]] *= width / columns
        found[:, [1, 3]] *= height / rows
        return found

    def _boxes_in(self, picture: Pixels, least: float) -> _Boxes:
        """Return the boxes of a score of `least` or more; sides are multiples of 32 pixels."""
        import cv2

        self._network.setInput(cv2.dnn.blobFromImage(picture, 1 / 127.5, mean=(127.5,) * 3))
        outputs = [np.asarray(one[0], np.float64) for one in self._network.forward(_OUTPUTS)]
        boxes = [
            _decoded(outputs[2 * place], outputs[2 * place + 1], stride, least)
            for place, stride in enumerate(_STRIDES)
        ]
        return np.concatenate(boxes)

    def _faces(self, boxes: _Boxes) -> Iterator[Face]:
        """Yield the mean of boxes that overlap, if there are enough; `boxes` are sorted."""
        while len(boxes):
            is_same = _overlap(boxes[0], boxes) > _SAME_FACE
            is_same[0] = True
            same, boxes = boxes[is_same], boxes[~is_same]
            if len(same) >= self._spec.fewest_boxes:
                left, top, right, bottom = np.average(same[:, :4], axis=0, weights=same[:, 4])
                yield Face(left, top, right, bottom, same[0, 4])

    def _is_confirmed(self, pixels: Pixels, face: Face) -> bool:
        """Return whether a find has a high score on average when it is looked at again."""
        is_large = face.right - face.left >= self._spec.large_face_px
        least = self._spec.least_mean_score_large if is_large else self._spec.least_mean_score
        scores = []
        for size_px in _LOOKS_PX:
            seen = _window(pixels, face, size_px)
            scores += [self._score_of_middle(one, size_px) for one in (seen, seen[:, ::-1])]
        return bool(np.mean(scores) >= least)

    def _score_of_middle(self, seen: Pixels, size_px: int) -> float:
        """Return the best score of a box of this size in the middle of a picture, or 0."""
        boxes = self._boxes_in(np.ascontiguousarray(seen), _LEAST_SCORE_OF_LOOKS)
        middle, half = _TRAINED_SIDE_PX / 2, size_px / 2
        expected = np.array([middle - half, middle - half, middle + half, middle + half])
        scores = boxes[_overlap(expected, boxes) > _SAME_FACE, 4]
        return float(scores.max(initial=0.0))


def _decoded(logits: _Boxes, offsets: _Boxes, stride: int, least: float) -> _Boxes:
    """Return the boxes of one layer, in pixels of the scaled picture.

    Args:
        logits: (anchors, rows, columns).
        offsets: (anchors * 16, rows, columns); the first four of 16 are centre and size.
        stride: the distance of anchors in pixels.
        least: the least score.
    """
    scores = 1 / (1 + np.exp(-logits.clip(-50, 50)))
    anchors, rows, columns = np.nonzero(scores >= least)
    of_anchor = offsets.reshape(len(logits), 16, *logits.shape[1:])
    x, y, width, height = of_anchor[anchors, :4, rows, columns].T
    x += (columns + 0.5) * stride
    y += (rows + 0.5) * stride
    sides = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
    return np.stack([*sides, scores[anchors, rows, columns]], axis=1)


def _window(pixels: Pixels, face: Face, size_px: int) -> Pixels:
    """Return the picture that the model is made for, with a face of this size in the middle."""
    import cv2

    scale = size_px / max(face.right - face.left, face.bottom - face.top, 1.0)
    middle = _TRAINED_SIDE_PX / 2
    shift_x = middle - scale * (face.left + face.right) / 2
    shift_y = middle - scale * (face.top + face.bottom) / 2
    window = np.array([[scale, 0, shift_x], [0, scale, shift_y]])
    return np.asarray(cv2.warpAffine(pixels, window, (_TRAINED_SIDE_PX, _TRAINED_SIDE_PX)))


def _rounded_up(size: int) -> int:
    return -(-size // _MULTIPLE_PX) * _MULTIPLE_PX


def _overlap(box: NDArray[np.float64], others: _Boxes) -> NDArray[np.float64]:
    """Return the intersection over union of a box with others."""
    lower = np.maximum(box[:2], others[:, :2])
    upper = np.minimum(box[2:4], others[:, 2:4])
    shared = np.clip(upper - lower, 0, None).prod(axis=1)
    areas = (others[:, 2:4] - others[:, :2]).prod(axis=1)
    area = (box[2:4] - box[:2]).prod()
    overlap: NDArray[np.float64] = shared / np.maximum(area + areas - shared, 1e-9)
    return overlap
