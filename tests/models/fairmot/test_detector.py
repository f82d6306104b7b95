import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from loupe.models.fairmot.detector import FairMOTPersonDetector, Size, letterbox, network_input
from loupe.models.registry import build_detector
from loupe.models.tracking.detector import Detections, Frame, PersonDetector
from loupe.schemas.errors import ModelError
from loupe.schemas.tracking import FairMOTDetector
from tests.models.fairmot.reference import checkpoint, filled_weights


@pytest.fixture(scope="module")
def saved_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of the filled network, with a bias that makes boxes wide enough."""
    weights = filled_weights()
    path = tmp_path_factory.mktemp("fairmot") / "fairmot_dla34.pth"
    torch.save(checkpoint(weights | {"wh.2.bias": weights["wh.2.bias"] + 2}), path)
    return path


def spec_of(path: Path, **changes: Any) -> FairMOTDetector:
    values = {"device": "cpu", "input_width_px": 96, "input_height_px": 64, **changes}
    return FairMOTDetector(provider="fairmot", checkpoint=path, **values)


@pytest.fixture(scope="module")
def detector(saved_checkpoint: Path) -> PersonDetector:
    digest = hashlib.sha256(saved_checkpoint.read_bytes()).hexdigest()
    return build_detector(spec_of(saved_checkpoint, checkpoint_sha256=digest))


@pytest.fixture(scope="module")
def found(detector: PersonDetector) -> Detections:
    """Detections in an image of noise."""
    return detector.detect(noise())


@pytest.fixture(scope="module")
def all_boxes(saved_checkpoint: Path) -> Detections:
    """Detections in the same image without suppression of overlaps."""
    return build_detector(spec_of(saved_checkpoint, overlap_threshold=1)).detect(noise())


def noise(height: int = 120, width: int = 210, seed: int = 0) -> Frame:
    draw = np.random.default_rng(seed)
    return Frame(0, 0.0, draw.integers(0, 256, (height, width, 3), np.uint8))


def literal_detections(path: Path, frame: Frame, threshold: float) -> NDArray[np.float64]:
    """Reference: (n, 5) box and score of every peak, unordered, without suppression."""
    with torch.inference_mode():
        maps = FairMOTPersonDetector(spec_of(path)).network(
            torch.from_numpy(network_input(letterbox(frame.pixels, Size(96, 64))))
        )
    scores = 1 / (1 + np.exp(-maps.centres[0, 0].double().numpy()))
    extents, offsets = maps.extents[0].double().numpy(), maps.offsets[0].double().numpy()
    height, width = frame.pixels.shape[:2]
    scale = max(width / 24, height / 16)
    rows = []
    for y, x in np.ndindex(16, 24):
        around = scores[max(y - 1, 0) : y + 2, max(x - 1, 0) : x + 2]
        if scores[y, x] == around.max() > threshold:
            centre = np.array([x, y]) + offsets[:, y, x] - (12, 8)
            near, far = centre - extents[:2, y, x], centre + extents[2:, y, x]
            middle = np.array([width, height]) / 2
            rows.append([*(middle + scale * near), *(middle + scale * far), scores[y, x]])
    return np.array(rows)


def test_detections_equal_a_literal_reference(
    saved_checkpoint: Path, all_boxes: Detections
) -> None:
    wanted = literal_detections(saved_checkpoint, noise(), threshold=0.3)
    wanted = wanted[np.argsort(-wanted[:, 4])]
    assert len(wanted) > 20
    np.testing.assert_allclose(all_boxes.scores, wanted[:, 4], atol=1e-5)
    np.testing.assert_allclose(all_boxes.boxes_xyxy, wanted[:, :4], atol=1e-2)


def test_detections_are_sorted_by_score_and_have_unit_embeddings(found: Detections) -> None:
    assert_detections(found)
    assert found
    assert (found.scores > 0.3).all()


def assert_detections(found: Detections) -> None:
    count = len(found.scores)
    assert found.boxes_xyxy.shape == (count, 4)
    assert found.embeddings is not None
    assert found.embeddings.shape == (count, 128)
    assert {part.dtype for part in (*found[:2], found.embeddings)} == {np.dtype(np.float32)}
    assert (np.diff(found.scores) <= 0).all()
    assert (found.boxes_xyxy[:, :2] < found.boxes_xyxy[:, 2:]).all()
    np.testing.assert_allclose(np.linalg.norm(found.embeddings, axis=1), 1, atol=1e-6)


def test_overlapping_boxes_are_suppressed(found: Detections, all_boxes: Detections) -> None:
    assert 0 < len(found.scores) < len(all_boxes.scores)
    assert set(found.scores.tolist()) < set(all_boxes.scores.tolist())
    assert found.scores[0] == all_boxes.scores[0]


def test_thresholds_and_limits_of_the_settings_apply(saved_checkpoint: Path) -> None:
    strict = build_detector(
        spec_of(saved_checkpoint, score_threshold=0.55, most_people=3, overlap_threshold=1)
    ).detect(noise())
    assert len(strict.scores) == 3
    nothing = build_detector(spec_of(saved_checkpoint, score_threshold=1)).detect(noise(1, 1))
    assert not nothing
    assert_detections(nothing)


def test_frames_are_processed_independently(detector: PersonDetector, found: Detections) -> None:
    detector.detect(noise(seed=1))
    for before, after in zip(found, detector.detect(noise()), strict=True):
        np.testing.assert_array_equal(before, after)


def test_an_unknown_device_is_named(saved_checkpoint: Path) -> None:
    with pytest.raises(ModelError, match="'abacus' cannot be used"):
        build_detector(spec_of(saved_checkpoint, device="abacus"))


def test_the_detectors_of_all_videos_share_one_network(saved_checkpoint: Path) -> None:
    first = FairMOTPersonDetector(spec_of(saved_checkpoint))
    second = FairMOTPersonDetector(spec_of(saved_checkpoint, score_threshold=0.9))
    assert second.network is first.network


def test_other_weights_under_the_same_name_are_loaded(tmp_path: Path) -> None:
    path = tmp_path / "weights.pth"
    weights = filled_weights()
    torch.save(checkpoint(weights), path)
    first = FairMOTPersonDetector(spec_of(path))
    torch.save(checkpoint(weights | {"wh.2.bias": weights["wh.2.bias"] + 2}), path)
    second = FairMOTPersonDetector(spec_of(path))
    assert second.network is not first.network
