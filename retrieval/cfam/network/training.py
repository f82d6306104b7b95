"""Trains CFAM: steps, validations, checkpoints (UFineBench, section 5.4).

Nothing is random but by the seed and the number of the step, the epoch or the pair, so that no
state of a random generator has to be kept: what is taken up from a checkpoint goes on as if it had
never stopped, to the bit where the machine computes the same bits again (a CPU does).

Under `accelerate launch` each process takes its part of every batch, and the losses see the vectors
of the whole batch (`retrieval.cfam.network.gathering`): how many processes share it does not matter
for what is learned. The first process alone validates and writes.
"""

import json
import math
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, Protocol

import torch
from accelerate import Accelerator
from torch import Tensor

from models.fairmot.digest import checkpoint_digest
from retrieval.cfam.network.checkpoints import Checkpoints
from retrieval.cfam.network.course import course_of
from retrieval.cfam.network.finite import Measured, require_finite
from retrieval.cfam.network.hardware import accelerator_for, describe
from retrieval.cfam.network.journal import Journal
from retrieval.cfam.network.model import Cfam, total_loss
from retrieval.cfam.network.optimiser import adam_for
from retrieval.cfam.network.pairs import PairBatch, pair_loader, readable
from retrieval.cfam.network.sampler import Shard
from retrieval.cfam.network.validation import embed_pairs, retrieval_scores
from retrieval.cfam.network.weights import load_model, save_model
from retrieval.cfam.occupation import occupied
from retrieval.cfam.training_data import TrainingSplits, digest_of_images, training_pairs
from schemas.base import digest_of
from schemas.cfam import CfamTraining
from schemas.errors import UsageError
from schemas.training import BestCheckpoint, StepLine, TrainingProgress, ValidationLine

_MAY_CHANGE = {"name", "device", "workers", "checkpoint_every_steps"}
"""Settings that a training may be taken up with other values of: nothing learned hangs on them."""


class Watcher(Protocol):
    """Is told how far a training has come."""

    def begin(self, steps: int, done: int) -> None:
        """It begins, or is taken up after `done` of its steps."""
        ...

    def stepped(self, line: StepLine) -> None:
        """A step is done."""
        ...

    def validated(self, line: ValidationLine) -> None:
        """A validation is done."""
        ...


class Trained(NamedTuple):
    """What a training came to; `seconds` are those of all its runs that came to a checkpoint."""

    steps: int
    seconds: float
    best: BestCheckpoint
    images_digest: str
    device: str
    processes: int


def train(
    settings: CfamTraining,
    splits: TrainingSplits,
    home: Path,
    watcher: Watcher,
    *,
    build: type[Cfam] = Cfam,
) -> Trained | None:
    """Trains in the folder `home`, from its last checkpoint where there is one.

    Of several processes, the first alone knows what came of it; the others get None.

    Raises:
        UsageError: `home` holds another training, or the images cannot be used.
        TrainingError: a loss or gradient is no finite number; the last checkpoint stays.
        ModelError, ConfigurationError: the network or the device cannot be had.
    """
    accelerator = accelerator_for(settings)
    with occupied(home) if accelerator.is_main_process else nullcontext():
        trainer = _Trainer(settings, splits, home, watcher, build, accelerator)
        best = trainer.run()
    if best is None:
        return None
    return Trained(
        trainer.course.steps,
        trainer.seconds,
        best,
        trainer.images_digest,
        describe(accelerator),
        accelerator.num_processes,
    )


class _Trainer:
    def __init__(
        self,
        settings: CfamTraining,
        splits: TrainingSplits,
        home: Path,
        watcher: Watcher,
        build: type[Cfam],
        accelerator: Accelerator,
    ) -> None:
        self._started = perf_counter()
        self._settings, self._home, self._watcher = settings, home, watcher
        self._accelerator = accelerator
        self._validation = splits.validation
        self._pairs = training_pairs(splits.training)
        self.images_digest = digest_of_images((*splits.training, *splits.validation))
        self.course = course_of(self._pairs, settings)
        self._checkpoints = Checkpoints(home)
        identities = 1 + max(pair.identity for pair in self._pairs)
        self._model = build(settings, identities)
        self._adam = adam_for(self._model, settings.schedule)
        self._progress = self._taken_up()
        self._seconds_before = self._progress.seconds
        self._network, self._optimizer = self._accelerator.prepare(self._model, self._adam.adam)

    @property
    def seconds(self) -> float:
        """How long all runs up to the last checkpoint took."""
        return self._progress.seconds

    def run(self) -> BestCheckpoint | None:
        """All steps that are left; the best checkpoint of all, which the first process knows."""
        if not self._accelerator.is_main_process:
            self._go_on(None)
            return None
        done = self._progress.step
        self._watcher.begin(self.course.steps, done)
        with Journal(self._home, done) as journal:
            self._go_on(journal)
        return self._progress.best

    def _go_on(self, journal: Journal | None) -> None:
        done = self._progress.step
        if done == self.course.steps:
            return
        accelerator = self._accelerator
        shard = Shard(accelerator.process_index, accelerator.num_processes)
        batches = self.course.batches_from(done, shard)
        pin = accelerator.device.type == "cuda"
        loaded = iter(pair_loader(self._pairs, batches, self._settings, pin=pin))
        self._network.train()
        for step in range(done, self.course.steps):
            line = self._step(step, loaded)
            if journal is not None:
                journal.step(line)
                self._watcher.stepped(line)
            self._after(step, journal)

    def _step(self, step: int, loaded: Iterator[Any]) -> StepLine:
        """One step of the optimiser, over as many batches as it accumulates."""
        started = perf_counter()
        torch.manual_seed(self.course.seed_of(step, self._accelerator.process_index))
        rates = self._adam.set_rates(self.course.rate_factor(step))
        names, values, paths = self._gradients(loaded)
        norm = self._gradient_norm()
        *flat, norm_before = torch.cat([values.flatten(), norm.reshape(1).float()]).tolist()
        size = len(names)
        rows = [flat[at : at + size] for at in range(0, len(flat), size)]
        losses = [dict(zip(names, row, strict=True)) for row in rows]
        epoch = self.course.epoch_of(step)
        scaled = self._accelerator.scaler is not None
        overflown = scaled and not math.isfinite(norm_before)  # the scaler leaves the step out
        gradient_norm = None if overflown else norm_before
        measured = Measured(step + 1, epoch, losses, gradient_norm, paths)
        require_finite(measured, self._checkpoints.last)
        self._optimizer.step()
        self._optimizer.zero_grad()
        means = {name: sum(one[name] for one in losses) / len(losses) for name in names}
        weights = self._settings.losses.model_dump()
        return StepLine(
            step=step + 1,
            epoch=epoch,
            loss=sum(weights[name] * value for name, value in means.items()),
            losses=means,
            gradient_norm=gradient_norm,
            learning_rate=rates[0],
            new_learning_rate=rates[1],
            pairs_per_second=self.course.pairs_per_step / (perf_counter() - started),
        )

    def _gradients(self, loaded: Iterator[Any]) -> tuple[list[str], Tensor, list[tuple[Path, ...]]]:
        """Adds up the gradients of a step; gives the losses (batches, names) and the images."""
        values, paths = [], []
        names: list[str] = []
        accumulate = self._settings.schedule.accumulate
        for number in range(accumulate):
            batch: PairBatch = readable(next(loaded))
            is_last = number == accumulate - 1
            alone = nullcontext() if is_last else self._accelerator.no_sync(self._network)
            with alone:
                losses = self._losses(batch)
                loss = total_loss(losses, self._settings.losses) / accumulate
                self._accelerator.backward(loss)
            names = list(losses)
            values.append(torch.stack([losses[name].detach().float() for name in names]))
            paths.append(batch.paths)
        return names, torch.stack(values), paths

    def _losses(self, batch: PairBatch) -> dict[str, Tensor]:
        device = self._accelerator.device
        inputs = (one.to(device, non_blocking=True) for one in batch[:3])
        losses: dict[str, Tensor] = self._network(*inputs)
        return losses

    def _gradient_norm(self) -> Tensor:
        """The norm of all gradients before they are clipped, where that is asked for."""
        most = self._settings.schedule.clip_gradient or float("inf")
        norm: Tensor = self._accelerator.clip_grad_norm_(self._network.parameters(), most)
        return norm

    def _after(self, step: int, journal: Journal | None) -> None:
        """Validates and writes a checkpoint where it is time."""
        done, epoch = step + 1, self.course.epoch_of(step)
        ends, is_last = self.course.ends_epoch(step), done == self.course.steps
        best = self._progress.best
        is_due = ends and (epoch + 1) % self._settings.validate_every_epochs == 0
        if journal is not None and (is_due or is_last):
            line = self._validate(done, epoch)
            journal.validation(line)
            self._watcher.validated(line)
            best = self._better(best, line)
        if ends or done % self._settings.checkpoint_every_steps == 0:
            self._save(done, best)
        self._accelerator.wait_for_everyone()

    def _validate(self, done: int, epoch: int) -> ValidationLine:
        with self._accelerator.autocast():
            found = embed_pairs(
                self._model, self._validation, self._settings, self._accelerator.device
            )
        return ValidationLine(
            step=done,
            epoch=epoch,
            metrics=retrieval_scores(found),
            queries=len(found.texts),
            gallery=len(found.images),
        )

    def _better(self, best: BestCheckpoint | None, line: ValidationLine) -> BestCheckpoint:
        """The better of the two; of equals the earlier."""
        by = self._settings.best_by
        if best is not None and best.metrics[by] >= line.metrics[by]:
            return best
        return BestCheckpoint(step=line.step, epoch=line.epoch, metrics=line.metrics)

    def _save(self, step: int, best: BestCheckpoint | None) -> None:
        scaler = self._accelerator.scaler
        told = {
            "step": step,
            "best": best,
            "loss_scale": {} if scaler is None else scaler.state_dict(),
            "seconds": self._seconds_before + perf_counter() - self._started,
        }
        self._progress = self._progress.model_copy(update=told)
        if self._accelerator.is_main_process:
            identities = self._model.identities
            self._checkpoints.save(
                self._progress,
                self._adam.state(),
                lambda folder: save_model(folder, self._model, self._settings, identities),
            )

    def _taken_up(self) -> TrainingProgress:
        """Where the training stands, the network and the optimiser brought there."""
        fresh = TrainingProgress(
            step=0, settings=digest_of_settings(self._settings), images=self.images_digest
        )
        progress = self._checkpoints.load()
        if progress is None:
            self._tidied(progress)
            return fresh
        if (progress.settings, progress.images) != (fresh.settings, fresh.images):
            what = "settings" if progress.settings != fresh.settings else "images"
            raise UsageError(
                f"the training in {self._home} was begun with other {what}; "
                f"choose another folder, or train with the same ones"
            )
        self._model.load_state_dict(load_model(self._checkpoints.last).state_dict())
        self._adam.restore(self._checkpoints.load_optimizer())
        if self._accelerator.scaler is not None:
            self._accelerator.scaler.load_state_dict(progress.loss_scale)
        self._tidied(progress)
        return progress

    def _tidied(self, progress: TrainingProgress | None) -> None:
        """Lets one process tidy up what an earlier training left, when all have read it."""
        self._accelerator.wait_for_everyone()
        if self._accelerator.is_main_process:
            self._checkpoints.tidy(progress)


def digest_of_settings(settings: CfamTraining) -> str:
    """A digest of the settings that what is learned hangs on; files count by what is in them.

    Raises:
        ModelError: a file that the backbone is made from cannot be read.
    """
    backbone = settings.backbone
    files = {
        name: None if path is None else checkpoint_digest(path)
        for name, path in (
            ("architecture_file", backbone.architecture_file),
            ("checkpoint", backbone.checkpoint),
        )
    }
    values = settings.model_dump(mode="json", exclude=_MAY_CHANGE)
    told = {**values, "backbone": {**values["backbone"], **files}}
    return digest_of(json.dumps(told, sort_keys=True))
