"""What a training says of itself as it goes: JSON lines to be computed with, TensorBoard to see."""

import json
import os
from pathlib import Path
from typing import Self

from torch.utils.tensorboard import SummaryWriter

from schemas.training import StepLine, ValidationLine

LINES = "metrics.jsonl"
TENSORBOARD = "tensorboard"


class Journal:
    """Writes the lines of a training from `step` on; to be used in a `with`.

    What a killed training wrote after the checkpoint that it is taken up from is taken back.
    """

    def __init__(self, home: Path, step: int = 0) -> None:
        path = home / LINES
        _take_back(path, step)
        self._lines = path.open("a", encoding="utf-8")
        self._board = SummaryWriter(str(home / TENSORBOARD), purge_step=step + 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        self._board.close()

    def step(self, line: StepLine) -> None:
        """Writes what a step came to."""
        self._write(line)
        scalars = {f"loss/{name}": value for name, value in line.losses.items()}
        scalars |= {
            "loss/total": line.loss,
            "learning_rate/pretrained": line.learning_rate,
            "learning_rate/new": line.new_learning_rate,
            "pairs_per_second": line.pairs_per_second,
        }
        if line.gradient_norm is not None:
            scalars["gradient_norm"] = line.gradient_norm
        self._show(scalars, line.step)

    def validation(self, line: ValidationLine) -> None:
        """Writes what a validation came to."""
        self._write(line)
        scalars = {f"validation/{name}": value for name, value in line.metrics.items()}
        self._show(scalars, line.step)
        self._board.flush()

    def _write(self, line: StepLine | ValidationLine) -> None:
        self._lines.write(line.model_dump_json() + "\n")
        self._lines.flush()

    def _show(self, scalars: dict[str, float], step: int) -> None:
        for name, value in scalars.items():
            self._board.add_scalar(name, value, step)


def _take_back(path: Path, step: int) -> None:
    """Removes the lines after `step`, and a line that was not finished."""
    if not path.exists():
        return
    unfinished = path.with_name(f".{path.name}")
    with path.open(encoding="utf-8") as lines, unfinished.open("w", encoding="utf-8") as kept:
        for line in lines:
            if not line.endswith("\n") or json.loads(line)["step"] > step:
                break
            kept.write(line)
        kept.flush()
        os.fsync(kept.fileno())
    unfinished.replace(path)
