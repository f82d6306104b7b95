"""Several processes learn what one does with the same batch."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from retrieval.cfam.network.gathering import gathered
from retrieval.cfam.network.training import train
from tests.retrieval.cfam.network.small_training import Notes, tiny_settings, tiny_splits

ROOT = Path(__file__).parents[4]
TRAIN = """
import sys
from pathlib import Path
from retrieval.cfam.network.training import train
from tests.retrieval.cfam.network.small_training import Notes, tiny_settings, tiny_splits
folder = Path(sys.argv[1])
settings = tiny_settings(folder / "settings", schedule={"epochs": 1})
train(settings, tiny_splits(folder / "people", settings), folder / "shared", Notes())
"""


def test_rows_of_one_process_are_themselves() -> None:
    rows = torch.eye(3)
    assert gathered(rows) is rows


@pytest.mark.slow
def test_two_processes_learn_what_one_does(tmp_path: Path) -> None:
    settings = tiny_settings(tmp_path / "settings", schedule={"epochs": 1})
    splits = tiny_splits(tmp_path / "people", settings)
    alone = Notes()
    train(settings, splits, tmp_path / "alone", alone)
    script = tmp_path / "train.py"
    script.write_text(TRAIN, encoding="utf-8")
    subprocess.run(
        [
            *(sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "2"),
            *("--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"),
            *("--num_cpu_threads_per_process", "1", "--main_process_port", "0"),
            *(str(script), str(tmp_path)),
        ],
        cwd=ROOT,
        check=True,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"},
        timeout=500,
    )
    one = load_file(tmp_path / "alone" / "last" / "model.safetensors")
    two = load_file(tmp_path / "shared" / "last" / "model.safetensors")
    assert one.keys() == two.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, rtol=1e-3, atol=1e-4, msg=name)
