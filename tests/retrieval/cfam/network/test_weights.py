import json
from pathlib import Path

import pytest
import torch

from loupe.retrieval.cfam.network.checkpoints import SETTINGS, WEIGHTS, load_model, save_model
from loupe.retrieval.cfam.network.model import Cfam
from loupe.schemas.base import sha256_of
from loupe.schemas.errors import ModelError
from tests.retrieval.cfam.small_clip import small_training


@pytest.fixture
def model(tmp_path: Path) -> Cfam:
    return Cfam(small_training(tmp_path), 5)


@pytest.fixture
def folder(model: Cfam, tmp_path: Path) -> Path:
    folder = tmp_path / "runs" / "checkpoint"
    save_model(folder, model, model.settings, 5)
    return folder


def test_a_saved_model_is_loaded_unchanged(model: Cfam, folder: Path) -> None:
    loaded = load_model(folder)
    assert not loaded.training
    assert loaded.settings == model.settings
    assert loaded.identities == 5
    state = loaded.state_dict()
    assert state.keys() == model.state_dict().keys()
    for name, value in model.state_dict().items():
        assert torch.equal(state[name], value), name


def test_a_checkpoint_does_not_need_the_input_files_of_the_training(
    model: Cfam, folder: Path
) -> None:
    assert model.settings.backbone.architecture_file is not None
    model.settings.backbone.architecture_file.unlink()
    settings = model.settings.backbone.model_copy(update={"weights": "none-such"})
    save_model(folder, model, model.settings.model_copy(update={"backbone": settings}), 5)
    assert torch.equal(
        load_model(folder).backbone.clip.visual.proj, model.backbone.clip.visual.proj
    )


def test_saving_is_deterministic(model: Cfam, folder: Path, tmp_path: Path) -> None:
    save_model(tmp_path / "again", model, model.settings, 5)
    for name in (WEIGHTS, SETTINGS):
        again, first = (tmp_path / "again" / name).read_bytes(), (folder / name).read_bytes()
        assert sha256_of(again) == sha256_of(first)


def test_a_missing_or_damaged_file_is_refused(folder: Path) -> None:
    for name in (WEIGHTS, SETTINGS):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: len(content) // 2])
        with pytest.raises(ModelError, match=name):
            load_model(folder)
        (folder / name).unlink()
        with pytest.raises(ModelError, match=name):
            load_model(folder)
        (folder / name).write_bytes(content)


def test_files_of_two_trainings_are_refused(folder: Path) -> None:
    description = json.loads((folder / SETTINGS).read_text())
    description["settings"]["seed"] = 99
    (folder / SETTINGS).write_text(json.dumps(description))
    with pytest.raises(ModelError, match="were not written together"):
        load_model(folder)


def test_settings_of_a_later_version_are_refused(folder: Path) -> None:
    description = json.loads((folder / SETTINGS).read_text())
    (folder / SETTINGS).write_text(json.dumps(description | {"format": 2}))
    with pytest.raises(ModelError, match="format"):
        load_model(folder)
