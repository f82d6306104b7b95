from pathlib import Path

import pytest
import torch

from loupe.retrieval.cfam.network.checkpoints import Checkpoints
from loupe.schemas.cfam import BestCheckpoint, TrainingProgress
from loupe.schemas.errors import IntegrityError

ADAM = {"exp_avg/a.weight": torch.arange(6.0).reshape(2, 3), "step/a.weight": torch.tensor(3.0)}


def progress(step: int, best: int | None = None) -> TrainingProgress:
    chosen = None if best is None else BestCheckpoint(step=best, epoch=0, metrics={"mAP": 1.0})
    return TrainingProgress(step=step, settings="s", images="i", best=chosen)


def save(checkpoints: Checkpoints, step: int, best: int | None = None) -> None:
    checkpoints.save(progress(step, best), ADAM, lambda folder: (folder / "model").touch())


def names(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "checkpoints").iterdir())


def test_only_the_last_and_best_checkpoints_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.load() is None
    for step, best in ((1, 1), (2, 2), (3, 2), (4, 2)):
        save(checkpoints, step, best)
    assert names(tmp_path) == ["00000002", "00000004"]
    assert checkpoints.last.readlink() == Path("checkpoints/00000004")
    assert checkpoints.best.readlink() == Path("checkpoints/00000002")
    assert checkpoints.load() == progress(4, 2)
    loaded = checkpoints.load_optimizer()
    assert loaded.keys() == ADAM.keys()
    assert all(torch.equal(loaded[name], ADAM[name]) for name in ADAM)


def test_an_interrupted_save_keeps_the_last_checkpoint(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 1, 1)

    def cut_off(folder: Path) -> None:
        (folder / "model").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        checkpoints.save(progress(2, 2), ADAM, cut_off)
    assert checkpoints.load() == progress(1, 1)
    checkpoints.tidy(checkpoints.load())
    assert names(tmp_path) == ["00000001"]
    save(checkpoints, 2, 2)
    assert checkpoints.load() == progress(2, 2)


def test_a_checkpoint_without_a_link_is_ignored(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 1, 1)
    (tmp_path / "checkpoints/00000002").mkdir()
    assert checkpoints.load() == progress(1, 1)
    assert names(tmp_path) == ["00000001", "00000002"], "load() must not delete checkpoints"
    checkpoints.tidy(progress(1, 1))
    assert names(tmp_path) == ["00000001"]


def test_the_state_of_the_loss_scale_keeps_its_types() -> None:
    state = {"scale": 1024.0, "growth_interval": 2000}  # torch wants a whole interval
    written = progress(1).model_copy(update={"loss_scale": state}).model_dump_json()
    assert type(TrainingProgress.model_validate_json(written).loss_scale["growth_interval"]) is int


def test_tidy_sets_the_best_link_from_the_last_checkpoint(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 1, 1)
    save(checkpoints, 2, 1)
    checkpoints.best.unlink()
    checkpoints.best.symlink_to("checkpoints/00000002")
    checkpoints.tidy(checkpoints.load())
    assert checkpoints.best.readlink() == Path("checkpoints/00000001")


def test_without_a_last_checkpoint_all_are_removed(tmp_path: Path) -> None:
    (tmp_path / "checkpoints/00000001").mkdir(parents=True)
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.load() is None
    checkpoints.tidy(None)
    assert not (tmp_path / "checkpoints").exists()


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 1)
    for name in ("progress.json", "optimizer.safetensors"):
        (checkpoints.last / name).write_bytes(b"{")
    with pytest.raises(IntegrityError, match=r"progress\.json is damaged"):
        checkpoints.load()
    with pytest.raises(IntegrityError, match=r"optimizer\.safetensors is damaged"):
        checkpoints.load_optimizer()
