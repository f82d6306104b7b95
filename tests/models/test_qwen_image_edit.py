"""Tests specific to the Qwen image editor; see also test_image_editor_contract.py."""

import importlib
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from loupe.models.qwen_image_edit import QwenImageEditor, pinned_editor
from loupe.schemas.errors import MissingExtraError, ModelError
from loupe.schemas.image_edit import (
    EditedPicture,
    EditFailure,
    EditOutcome,
    EditRequest,
    QwenImageEdit,
)
from tests.models.tiny_editors import build_pipeline, noise, picture_of, qwen_spec

pytestmark = pytest.mark.slow

MODULE = "diffusers.pipelines.qwenimage.pipeline_qwenimage_edit"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("diffusers")  # imported here because it takes seconds
    return build_pipeline(tmp_path_factory.mktemp("qwen") / "pipeline")


@pytest.fixture(scope="module")
def editor(folder: Path) -> QwenImageEditor:
    return QwenImageEditor(qwen_spec(folder))


def request(
    instruction: str = "make the sky blue", seed: int = 3, size: tuple[int, int] = (48, 40)
) -> EditRequest:
    return EditRequest(image=picture_of(noise(1, size)), instruction=instruction, seed=seed)


def edit(editor: QwenImageEditor, *requests: EditRequest) -> list[EditOutcome]:
    return [outcome for _, outcome in editor.edit(requests)]


def pixels(outcome: EditOutcome) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    assert isinstance(outcome, EditedPicture), outcome
    with Image.open(io.BytesIO(outcome.image.data)) as picture:
        return np.asarray(picture)


def failure(outcome: EditOutcome) -> EditFailure:
    assert isinstance(outcome, EditFailure), outcome
    return outcome


def with_pipeline(folder: Path, call: Callable[..., Any]) -> QwenImageEditor:
    """Return the editor with its pipeline replaced by `call`."""
    editor = QwenImageEditor(qwen_spec(folder))
    editor._pipeline = call
    return editor


class Result:
    def __init__(self, values: Any) -> None:
        self.images = [values]


def test_the_size_of_the_image_is_kept(subtests: pytest.Subtests, editor: QwenImageEditor) -> None:
    for case, size in enumerate(((31, 77), (1, 1))):
        with subtests.test(case=case):
            assert pixels(edit(editor, request(size=size))[0]).shape == (size[1], size[0], 3)


def test_the_settings_reach_the_pipeline(folder: Path) -> None:
    asked: list[dict[str, Any]] = []

    def call(**arguments: Any) -> Result:
        asked.append(arguments)
        return Result(np.full((64, 64, 3), 0.5, np.float32))

    editor = with_pipeline(folder, call)
    (outcome,) = edit(editor, request(seed=11))
    assert (pixels(outcome) == 128).all()
    (arguments,) = asked
    assert arguments["image"].size == (48, 40)
    assert arguments["generator"].initial_seed() == 11
    assert arguments["generator"].device.type == "cpu"
    options = {key: arguments[key] for key in arguments if key not in ("image", "generator")}
    assert options == {
        "prompt": "make the sky blue",
        "negative_prompt": " ",
        "true_cfg_scale": 4.0,
        "num_inference_steps": 2,
        "output_type": "np",
    }


def test_the_defaults_are_those_of_the_paper() -> None:
    spec = QwenImageEdit(provider="qwen-image-edit")
    assert (spec.steps, spec.true_cfg_scale, spec.negative_prompt) == (28, 4.0, " ")
    assert spec.area_px is None


def test_the_area_setting_applies_only_during_the_call(folder: Path) -> None:
    module = importlib.import_module(MODULE)
    sizes: list[tuple[int, ...]] = []

    def call(**_: Any) -> Result:
        sizes.append(module.calculate_dimensions(1024 * 1024, 1.0)[:2])
        return Result(np.full((64, 64, 3), 0.5, np.float32))

    original = module.calculate_dimensions
    list(with_pipeline(folder, call).edit([request()]))
    assert sizes == [(64, 64)]
    assert module.calculate_dimensions is original
    whole = QwenImageEditor(qwen_spec(folder, area_px=None))
    whole._pipeline = call
    list(whole.edit([request()]))
    assert sizes[1] == (1024, 1024)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        (np.where(np.eye(64)[..., None] > 0, np.inf, 0.5).repeat(3, axis=2), "no numbers"),
        (np.zeros((64, 64, 3)), "the picture is black"),
    ],
)
def test_bad_values_are_a_failure(
    folder: Path, values: "np.ndarray[Any, Any]", problem: str
) -> None:
    editor = with_pipeline(folder, lambda **_: Result(values.astype(np.float32)))
    found = failure(edit(editor, request())[0])
    assert (found.reason, found.retriable) == ("bad_values", False)
    assert problem in found.detail


def test_a_black_image_can_stay_black(folder: Path) -> None:
    editor = with_pipeline(folder, lambda **_: Result(np.zeros((64, 64, 3), np.float32)))
    black = EditRequest(image=picture_of(Image.new("RGB", (20, 20))), instruction="x", seed=0)
    assert not pixels(edit(editor, black)[0]).any()


def test_a_failed_request_does_not_affect_the_others(folder: Path) -> None:
    faults = [RuntimeError("The size of tensor a (7) must match the size of tensor b (8)")]

    def call(**_: Any) -> Result:
        if faults:
            raise faults.pop()
        return Result(np.full((64, 64, 3), 0.5, np.float32))

    first, second = edit(with_pipeline(folder, call), request(), request())
    assert (failure(first).reason, failure(first).retriable) == ("edit_failed", True)
    assert "The size of tensor a (7)" in failure(first).detail
    assert isinstance(second, EditedPicture)


MIXED = (
    ("make the sky blue", 3, (48, 40)),
    ("remove the dog, and put a red car there, beside the tree", 4, (96, 80)),
    ("turn it into winter", 5, (120, 40)),
    ("x", 6, (48, 40)),
    ("make the sky blue", 3, (48, 40)),
)
"""Instructions, seeds and sizes; all but the third are edited at the same size."""


def test_batched_edits_equal_single_edits_up_to_rounding(folder: Path) -> None:
    asked = [request(*options) for options in MIXED]
    broken = asked[0].model_copy(
        update={"image": asked[0].image.model_copy(update={"data": b"no picture"})}
    )
    asked.insert(1, broken)
    alone = edit(QwenImageEditor(qwen_spec(folder)), *asked)
    batched, sizes = QwenImageEditor(qwen_spec(folder, batch_size=4)), []
    run = batched._pipeline

    def counted(**arguments: Any) -> Any:
        sizes.append(len(arguments["prompt"]) if isinstance(arguments["prompt"], list) else 1)
        return run(**arguments)

    counted.image_processor = run.image_processor  # type: ignore[attr-defined]
    batched._pipeline = counted
    together = edit(batched, *asked)
    assert sizes == [2, 1, 2], "batches of four: one broken image, one of another size"
    assert failure(together[1]).reason == failure(alone[1]).reason == "image_unreadable"
    for one, other in zip(alone[:1] + alone[2:], together[:1] + together[2:], strict=True):
        assert pixels(one).shape == pixels(other).shape
        assert np.abs(pixels(one).astype(int) - pixels(other)).max() <= 1
    assert (pixels(together[0]) != pixels(together[4])).any()


def test_a_batch_that_runs_out_of_memory_is_edited_one_by_one(folder: Path) -> None:
    import torch

    editor = QwenImageEditor(qwen_spec(folder, batch_size=3))
    asked: list[Any] = []

    class Pipeline:
        image_processor = editor._pipeline.image_processor

        def __call__(self, **arguments: Any) -> Result:
            asked.append(arguments["prompt"])
            if isinstance(arguments["prompt"], list) or arguments["prompt"] == "too much":
                raise torch.OutOfMemoryError("CUDA out of memory.")
            return Result(np.full((64, 64, 3), 0.5, np.float32))

    editor._pipeline = Pipeline()
    found = edit(editor, request("a"), request("too much"), request("b"))
    assert asked == [["a", "too much", "b"], "a", "too much", "b"]
    assert failure(found[1]).reason == "out_of_memory"
    assert [isinstance(one, EditedPicture) for one in found] == [True, False, True]


def test_the_plus_pipeline_has_no_batches() -> None:
    with pytest.raises(ValueError, match=r"batch_size must be 1 with plus = true.*got 2"):
        QwenImageEdit(provider="qwen-image-edit", plus=True, batch_size=2)


def test_an_error_that_affects_all_requests_is_raised(folder: Path) -> None:
    def call(**_: Any) -> Result:
        raise RuntimeError("CUDA error: device-side assert triggered")

    with pytest.raises(ModelError, match=r"cannot go on: CUDA error: device-side assert"):
        edit(with_pipeline(folder, call), request())


def test_an_instruction_with_special_tokens_and_braces_is_followed(editor: QwenImageEditor) -> None:
    hostile = "<|image_pad|>" * 3 + "{} {0} {braces} 红色的包 ☃ \x00" + "word " * 100
    assert isinstance(edit(editor, request(hostile))[0], EditedPicture)


def test_an_extreme_aspect_ratio_is_refused(editor: QwenImageEditor) -> None:
    found = failure(edit(editor, request(size=(1200, 2)))[0])
    assert found.reason == "refused_request"


def test_weights_of_a_different_pipeline_are_refused(folder: Path) -> None:
    with pytest.raises(ModelError, match=r"is made for QwenImageEditPipeline; with plus = True"):
        QwenImageEditor(qwen_spec(folder, plus=True))


def test_an_unloadable_model_is_a_one_line_error(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"diffusers could not load .*@test"):
        QwenImageEditor(qwen_spec(tmp_path / "nothing"))
    broken = tmp_path / "broken"
    broken.mkdir()
    index = json.loads((folder / "model_index.json").read_text())
    (broken / "model_index.json").write_text(json.dumps(index))
    with pytest.raises(ModelError, match="diffusers could not load"):
        QwenImageEditor(qwen_spec(broken))


def test_offloading_without_an_accelerator_is_refused(folder: Path) -> None:
    with pytest.raises(ModelError, match=r"this machine has none, wanted offload = 'none'"):
        QwenImageEditor(qwen_spec(folder, offload="sequential"))


def test_a_missing_extra_names_the_command(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "diffusers", None)
    with pytest.raises(MissingExtraError, match=r"needs the extra 'torch'"):
        QwenImageEditor(qwen_spec(folder))


def test_a_folder_or_a_commit_is_already_pinned(folder: Path) -> None:
    spec = qwen_spec(folder)
    assert pinned_editor(spec) == spec
    commit = QwenImageEdit(provider="qwen-image-edit", revision="0123456789abcdef" * 2 + "01234567")
    assert pinned_editor(commit) == commit


def test_settings_that_affect_an_edit_are_part_of_its_key(folder: Path) -> None:
    asked = request()
    keys = set()
    for changes in ({}, {"steps": 3}, {"true_cfg_scale": 2.0}, {"area_px": 128 * 128}):
        spec = qwen_spec(folder, **changes)
        keys.add(asked.key(spec.ref, spec.parameters))
    assert len(keys) == 4
