"""Training in several processes equals training in one with the same batch."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import distributed

from loupe.retrieval.cfam.network.model import _GatheredRows, gathered
from loupe.retrieval.cfam.network.training import train
from loupe.schemas.cfam import StepLine
from loupe.services.process import free_port
from tests.retrieval.cfam.network.small_training import (
    Notes,
    forked,
    tiny_settings,
    tiny_splits,
    train_as,
)

pytestmark = pytest.mark.xdist_group("cfam_training")  # its fork server has imported torch


def test_rows_of_a_single_process_are_returned_unchanged() -> None:
    rows = torch.eye(3)
    assert gathered(rows) is rows


def test_backward_does_not_modify_the_incoming_gradient(tmp_path: Path) -> None:
    """Autograd may share one gradient tensor between several consumers."""
    distributed.init_process_group("gloo", f"file://{tmp_path / 'meeting'}", rank=0, world_size=1)
    try:
        context, flowing = SimpleNamespace(), torch.ones(2, 3)
        back = _GatheredRows.backward(context, flowing)
    finally:
        distributed.destroy_process_group()
    assert back.data_ptr() != flowing.data_ptr()
    assert torch.equal(back, flowing)


@pytest.mark.slow
def test_two_processes_train_like_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare losses and gradient norms of each step; Adam amplifies rounding in the weights.

    This process is the first of two, with the environment variables of torchrun.
    """
    settings = tiny_settings(tmp_path / "settings", schedule={"epochs": 1})
    splits = tiny_splits(tmp_path / "people", settings)
    train(settings, splits, tmp_path / "alone", Notes())
    launched = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    launched |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    other = forked(train_as, {**launched, "RANK": "1", "LOCAL_RANK": "1"}, tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**launched, "RANK": "0", "LOCAL_RANK": "0"}.items():
            patch.setenv(name, value)
        train(settings, splits, tmp_path / "shared", Notes())
        assert distributed.get_world_size() == 2
        distributed.destroy_process_group()
    other.join(500)
    assert other.exitcode == 0
    one, two = steps(tmp_path / "alone"), steps(tmp_path / "shared")
    assert len(one) == len(two) == 6
    for alone, shared in zip(one, two, strict=True):
        assert shared.losses == pytest.approx(alone.losses, rel=1e-3)
        assert shared.gradient_norm == pytest.approx(alone.gradient_norm, rel=1e-3)


def steps(home: Path) -> list[StepLine]:
    lines = (home / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [StepLine.model_validate_json(line) for line in lines if '"step"' in line[:16]]
