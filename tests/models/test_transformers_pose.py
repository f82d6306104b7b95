from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from loupe.models.registry import build_pose_model
from loupe.models.tracking.detector import Pixels, PoseModel
from loupe.schemas import tracking
from loupe.schemas.errors import ModelError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=[1, 2], ids=["ViTPose", "ViTPose+"])
def tiny_vitpose(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny random pose model, with one expert or two."""
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("tiny-vitpose")
    backbone = transformers.VitPoseBackboneConfig(
        image_size=[64, 48],
        patch_size=[16, 16],
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_experts=request.param,
        part_features=8 if request.param > 1 else 0,
        out_indices=[1],
    )
    config = transformers.VitPoseConfig(
        backbone_config=backbone, num_labels=17, initializer_range=0.5
    )
    transformers.VitPoseForPoseEstimation(config).save_pretrained(folder)
    size = {"height": 64, "width": 48}
    transformers.VitPoseImageProcessor(size=size).save_pretrained(folder)
    return folder


def model_of(folder: Path, visible_score: float = 0.3) -> PoseModel:
    return build_pose_model(
        tracking.ViTPoseModel(
            name=str(folder), revision="main", device="cpu", visible_score=visible_score
        )
    )


def crops() -> list[Pixels]:
    noise = np.random.default_rng(0).integers(0, 256, (80, 100, 3), np.uint8)
    return [noise[5:60, 5:30].copy(), noise[10:55, 40:60].copy(), noise, noise[3:8, 20:22].copy()]


def scores_of(folder: Path) -> NDArray[Any]:
    """Return the scores of the post-processing in transformers, crop by crop; shape (4, 17)."""
    import torch
    import transformers

    processor = transformers.VitPoseImageProcessor.from_pretrained(folder)
    model = transformers.VitPoseForPoseEstimation.from_pretrained(folder)
    scores = []
    for crop in crops():
        boxes = [[[0, 0, crop.shape[1], crop.shape[0]]]]
        inputs = processor(crop, boxes=boxes, return_tensors="pt")
        with torch.no_grad():
            outputs = model(**inputs, dataset_index=torch.tensor([0]))
        [[person]] = processor.post_process_pose_estimation(outputs, boxes=boxes)
        scores.append(person["scores"].numpy())
    return np.array(scores)


def test_keypoints_above_the_score_threshold_are_counted(tiny_vitpose: Path) -> None:
    scores = scores_of(tiny_vitpose)
    assert scores.shape == (4, 17)
    ordered = np.sort(scores.ravel())
    threshold = float(np.clip((ordered[33] + ordered[34]) / 2, 0, 1))
    model = model_of(tiny_vitpose, threshold)
    counts = [model.body(crop).keypoints for crop in crops()]
    assert counts == (scores >= threshold).sum(axis=1).tolist()
    assert len(set(counts)) > 1 or 0 < counts[0] < 17


def test_a_model_of_another_class_is_refused(tiny_qwen3: Path) -> None:
    with pytest.raises(ModelError, match="'qwen3'; wanted a 'vitpose'"):
        model_of(tiny_qwen3)


def test_pickled_weights_are_not_loaded(tiny_vitpose: Path, tmp_path: Path) -> None:
    for name in ("config.json", "preprocessor_config.json"):
        (tmp_path / name).write_bytes((tiny_vitpose / name).read_bytes())
    (tmp_path / "pytorch_model.bin").write_bytes(b"anything")
    with pytest.raises(ModelError, match="safetensors"):
        model_of(tmp_path)


def test_a_missing_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=tmp_path.name):
        model_of(tmp_path)
