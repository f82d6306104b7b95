"""Several processes learn what one does with the same batch."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import distributed

from retrieval.cfam.network.model import _GatheredRows, gathered
from retrieval.cfam.network.training import train
from schemas.cfam import StepLine
from tests.retrieval.cfam.network.small_training import Notes, tiny_settings, tiny_splits

ROOT = Path(__file__).parents[4]
TRAIN = """
import sys
from pathlib import Path
import torch
from retrieval.cfam.network.training import train
from tests.retrieval.cfam.network.small_training import Notes, tiny_settings, tiny_splits
folder = Path(sys.argv[1])
settings = tiny_settings(folder / "settings", schedule={"epochs": 1})
train(settings, tiny_splits(folder / "people", settings), folder / "shared", Notes())
assert torch.distributed.get_world_size() == 2
"""


def test_rows_of_one_process_are_themselves() -> None:
    rows = torch.eye(3)
    assert gathered(rows) is rows


def test_the_gradient_that_flows_back_is_not_changed(tmp_path: Path) -> None:
    """Others may use it too: autograd gives one tensor to all that ask for it."""
    distributed.init_process_group("gloo", f"file://{tmp_path / 'meeting'}", rank=0, world_size=1)
    try:
        context, flowing = SimpleNamespace(), torch.ones(2, 3)
        back = _GatheredRows.backward(context, flowing)
    finally:
        distributed.destroy_process_group()
    assert back.data_ptr() != flowing.data_ptr()
    assert torch.equal(back, flowing)


@pytest.mark.slow
def test_two_processes_learn_what_one_does(tmp_path: Path) -> None:
    """Losses and gradients, step by step, not weights: Adam blows the rounding of zeros up."""
    settings = tiny_settings(tmp_path / "settings", schedule={"epochs": 1})
    splits = tiny_splits(tmp_path / "people", settings)
    train(settings, splits, tmp_path / "alone", Notes())
    script = tmp_path / "train.py"
    script.write_text(TRAIN, encoding="utf-8")
    launch = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2")
    environment = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"}
    subprocess.run(
        [*launch, str(script), str(tmp_path)], cwd=ROOT, check=True, env=environment, timeout=500
    )
    one, two = steps(tmp_path / "alone"), steps(tmp_path / "shared")
    assert len(one) == len(two) == 6
    for alone, shared in zip(one, two, strict=True):
        assert shared.losses == pytest.approx(alone.losses, rel=1e-3)
        assert shared.gradient_norm == pytest.approx(alone.gradient_norm, rel=1e-3)


def steps(home: Path) -> list[StepLine]:
    lines = (home / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [StepLine.model_validate_json(line) for line in lines if '"step"' in line[:16]]
