"""Checkpoints of a training: each is there as a whole or not at all, however the training ends.

::

    DIR/checkpoints/00000120/    model.safetensors, settings.json, optimizer.safetensors,
                                 progress.json
    DIR/last -> checkpoints/00000120
    DIR/best -> checkpoints/00000080

A checkpoint is written to a folder beside its own, flushed, renamed, and only then named by `last`,
in one step. What `best` names is said in the last checkpoint, so that both cannot disagree for
longer than until the training is taken up again.
"""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from schemas.errors import IntegrityError
from schemas.training import TrainingProgress

_FOLDER = "checkpoints"
_UNFINISHED = ".unfinished-"
_OPTIMIZER = "optimizer.safetensors"
_PROGRESS = "progress.json"


class Checkpoints:
    """The checkpoints of the training in `home`."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._folder = home / _FOLDER

    @property
    def last(self) -> Path:
        """The newest checkpoint."""
        return self._home / "last"

    @property
    def best(self) -> Path:
        """The checkpoint that did best on the identities held out."""
        return self._home / "best"

    def save(
        self,
        progress: TrainingProgress,
        optimizer: Mapping[str, Tensor],
        save_model: Callable[[Path], None],
    ) -> None:
        """Writes a checkpoint, makes it the last one, and removes those that nobody needs now."""
        target = self._named(progress.step)
        unfinished = self._folder / f"{_UNFINISHED}{target.name}"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        save_model(unfinished)
        save_file(dict(optimizer), unfinished / _OPTIMIZER)
        (unfinished / _PROGRESS).write_text(progress.model_dump_json(indent=2), encoding="utf-8")
        for path in (*unfinished.iterdir(), unfinished):
            _flush(path)
        unfinished.rename(target)
        _flush(self._folder)
        _point(self.last, target)
        self.tidy(progress)

    def load(self) -> TrainingProgress | None:
        """Where the training stands by its last checkpoint; None where there is none yet.

        Nothing is changed; every process may read at once.

        Raises:
            IntegrityError: the checkpoint is damaged.
        """
        if not self.last.exists():
            return None
        path = self.last / _PROGRESS
        try:
            progress = TrainingProgress.model_validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            raise IntegrityError(f"{path} is damaged: {str(error).splitlines()[0]}") from error
        # `tidy` removes what it does not name
        if self.last.resolve() != self._named(progress.step).resolve():
            raise IntegrityError(f"{path} is damaged: it says step {progress.step}")
        return progress

    def load_optimizer(self) -> dict[str, Tensor]:
        """The optimiser's tensors of the last checkpoint, on the CPU.

        Raises:
            IntegrityError: the file is damaged.
        """
        path = self.last / _OPTIMIZER
        try:
            return dict(load_file(path))
        except (OSError, SafetensorError) as error:
            raise IntegrityError(f"{path} is damaged: {error}") from error

    def tidy(self, progress: TrainingProgress | None) -> None:
        """Finishes or removes what a killed training left half done; for one process alone.

        `best` names what the last checkpoint says, and what has no name is removed.

        Args:
            progress: what `load` gave.
        """
        if progress is None:
            shutil.rmtree(self._folder, ignore_errors=True)
            return
        needed = {self._named(progress.step)}
        if progress.best is not None:
            best = self._named(progress.best.step)
            _point(self.best, best)
            needed.add(best)
        for folder in self._folder.iterdir():
            if folder not in needed:
                shutil.rmtree(folder)

    def _named(self, step: int) -> Path:
        return self._folder / f"{step:08d}"


def _point(link: Path, target: Path) -> None:
    """Lets `link` name `target` from now on, without a moment in which it names nothing."""
    beside = link.with_name(f"{_UNFINISHED}{link.name}")
    beside.unlink(missing_ok=True)
    beside.symlink_to(target.relative_to(link.parent), target_is_directory=True)
    beside.replace(link)
    _flush(link.parent)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
