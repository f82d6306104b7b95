"""Trains CFAM: steps, validations, checkpoints (UFineBench, section 5.1)."""

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState, PartialState
from numpy.typing import NDArray
from torch import Tensor, cuda, distributed
from torch.utils.tensorboard import SummaryWriter

from loupe.models.weights import checkpoint_digest, torch_device
from loupe.retrieval.cfam.network.checkpoints import Checkpoints, load_model, save_model
from loupe.retrieval.cfam.network.model import Cfam, ParameterGroups, total_loss
from loupe.retrieval.cfam.network.pairs import (
    BatchSequence,
    IdentityBatches,
    PairBatch,
    Shard,
    image_batches,
    pair_loader,
    readable,
    tokenizer_for,
)
from loupe.retrieval.cfam.training_data import (
    TrainingImage,
    TrainingPair,
    TrainingSplits,
    digest_of_images,
    occupied,
    training_pairs,
)
from loupe.retrieval.ranking import score_retrieval
from loupe.schemas.base import digest_of
from loupe.schemas.cfam import (
    BestCheckpoint,
    CfamSchedule,
    CfamTraining,
    StepLine,
    TrainingProgress,
    ValidationLine,
)
from loupe.schemas.errors import ConfigurationError, IntegrityError, TrainingError, UsageError

# The learning rate: linear warm-up, then half a cosine (UFineBench, section 5.1).


def rate_factor(step: int, steps: int, warmup_steps: int) -> float:
    """The factor of the learning rates in `step`, counted from 0 of `steps`.

    Warm-up reaches 1 in its last step; then (1 + cos(pi t)) / 2 with t from 0 to 1, so that the
    step after the last would have a rate of 0.
    """
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    passed = (step - warmup_steps) / max(1, steps - warmup_steps)
    return (1.0 + math.cos(math.pi * min(1.0, passed))) / 2.0


# The length of a training in batches and steps, and the position of a step in it.


class Course(NamedTuple):
    """A training from its first step to its last; steps are counted from 0."""

    schedule: CfamSchedule
    seed: int
    batches: IdentityBatches
    steps_per_epoch: int

    @property
    def steps(self) -> int:
        """The number of steps."""
        return self.schedule.epochs * self.steps_per_epoch

    @property
    def pairs_per_step(self) -> int:
        """The pairs of all processes and accumulated batches together."""
        return self.schedule.batch_pairs * self.schedule.accumulate

    def rate_factor(self, step: int) -> float:
        """The factor of the learning rates in a step."""
        warmup_steps = round(self.schedule.warmup_epochs * self.steps_per_epoch)
        return rate_factor(step, self.steps, warmup_steps)

    def seed_of(self, step: int, process: int) -> int:
        """The seed of the network's randomness in a step (dropped patches, if any)."""
        return int(digest_of(str(self.seed), str(step), str(process))[:15], 16)

    def batches_from(self, step: int, shard: Shard) -> BatchSequence:
        """The batches of one process from a step on."""
        accumulate, epochs = self.schedule.accumulate, self.schedule.epochs
        per_epoch = self.steps_per_epoch * accumulate
        return BatchSequence(self.batches, per_epoch, epochs, step * accumulate, shard)

    def epoch_of(self, step: int) -> int:
        """The epoch of a step, from 0."""
        return step // self.steps_per_epoch

    def ends_epoch(self, step: int) -> bool:
        """Whether the step is the last of its epoch."""
        return (step + 1) % self.steps_per_epoch == 0


def course_of(pairs: Sequence[TrainingPair], settings: CfamTraining) -> Course:
    """The training that `settings` make of `pairs`.

    Raises:
        UsageError: there are too few pairs for one step.
    """
    schedule = settings.schedule
    batches = IdentityBatches(
        pairs, schedule.batch_pairs, schedule.images_per_identity, settings.seed
    )
    steps_per_epoch = batches.batches_per_epoch // schedule.accumulate
    if not steps_per_epoch:
        raise UsageError(
            f"{len(pairs)} pairs are {batches.batches_per_epoch} batches, fewer than one step "
            f"accumulates ({schedule.accumulate}); set schedule.accumulate lower"
        )
    return Course(schedule, settings.seed, batches, steps_per_epoch)


# The device, precision and processes of a training, by accelerate.


def _accelerator_for(settings: CfamTraining) -> Accelerator:
    """The accelerator of this process; under `accelerate launch` one of several.

    Raises:
        ModelError: this machine has no such device.
        ConfigurationError: fp16 without a GPU, or a batch that the processes cannot share.
    """
    device = torch_device(settings.device)
    _forget_last_accelerator()
    if device.type == "cuda" and device.index is not None:
        cuda.set_device(device)
    on_cpu = device.type == "cpu"
    if on_cpu and settings.precision == "fp16":
        raise ConfigurationError('precision = "fp16" needs a GPU; wanted "bf16" or "no" on the CPU')
    accelerator = Accelerator(mixed_precision=settings.precision, cpu=on_cpu)
    if settings.schedule.batch_pairs % accelerator.num_processes:
        raise ConfigurationError(
            f"schedule.batch_pairs is for all processes together and must be a multiple of "
            f"{accelerator.num_processes}, the number of them; got {settings.schedule.batch_pairs}"
        )
    return accelerator


def _forget_last_accelerator() -> None:
    """Lets a second training in this process use another precision or device.

    accelerate keeps the first settings for the life of the process and refuses others.
    """
    if not distributed.is_initialized():
        AcceleratorState._reset_state()
        PartialState._reset_state()
        GradientState._reset_state()


def describe(accelerator: Accelerator) -> str:
    """The kind of device and how many processes have one, for the record: `4 × cuda`."""
    return f"{accelerator.num_processes} × {accelerator.device.type}"


# Stops a training whose losses or gradients are not finite, before weights are changed.

_NAMED_IMAGES = 8


class Measured(NamedTuple):
    """The results of a step: the losses and images of each batch that it accumulated.

    `gradient_norm` is None if fp16's scaler handles overflow: such gradients overflow now and then,
    and the step is skipped.
    """

    step: int
    epoch: int
    losses: Sequence[dict[str, float]]
    gradient_norm: float | None
    images: Sequence[Sequence[Path]]


def require_finite(measured: Measured, last: Path) -> None:
    """Raises if a loss or gradient is not finite.

    Raises:
        TrainingError: naming the loss, the step, the images of the batch, and where the last
            checkpoint lies, which stays as it is.
    """
    for losses, images in zip(measured.losses, measured.images, strict=True):
        for name, value in losses.items():
            if not math.isfinite(value):
                raise _error(f"the loss {name!r} is {value}", measured, images, last)
    norm = measured.gradient_norm
    if norm is not None and not math.isfinite(norm):
        images = [path for batch in measured.images for path in batch]
        raise _error(f"the norm of the gradients is {norm}", measured, images, last)


def _error(what: str, measured: Measured, images: Sequence[Path], last: Path) -> TrainingError:
    names = ", ".join(path.name for path in images[:_NAMED_IMAGES])
    more = f" and {len(images) - _NAMED_IMAGES} more" if len(images) > _NAMED_IMAGES else ""
    kept = f"the checkpoint {last} is unchanged" if last.exists() else "there is no checkpoint yet"
    return TrainingError(
        f"{what} in step {measured.step} (epoch {measured.epoch}), over the images {names}{more}; "
        f"{kept}"
    )


# Adam with one learning rate for pretrained parameters and one for new ones.

_TENSOR_OF = "{part}/{name}"
_PARTS = frozenset({"step", "exp_avg", "exp_avg_sq"})


class NamedAdam:
    """Adam over the parameters of a network, with a state by parameter names."""

    def __init__(self, groups: ParameterGroups, schedule: CfamSchedule) -> None:
        self._names = [list(groups["pretrained"]), list(groups["new"])]
        self._rates = (schedule.learning_rate, schedule.new_learning_rate)
        parameters = [
            {"params": list(groups["pretrained"].values()), "lr": schedule.learning_rate},
            {"params": list(groups["new"].values()), "lr": schedule.new_learning_rate},
        ]
        self.adam = torch.optim.Adam(parameters, weight_decay=schedule.weight_decay)

    def set_rates(self, factor: float) -> tuple[float, float]:
        """Sets both learning rates to `factor` times the schedule's, and returns them."""
        rates = (self._rates[0] * factor, self._rates[1] * factor)
        for group, rate in zip(self.adam.param_groups, rates, strict=True):
            group["lr"] = rate
        return rates

    def state(self) -> dict[str, Tensor]:
        """The state of Adam as flat tensors: `exp_avg/decoder.queries` and so on."""
        return {
            _TENSOR_OF.format(part=part, name=name): tensor.detach().contiguous()
            for name, parameter in self._parameters()
            for part, tensor in self.adam.state[parameter].items()
        }

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Restores a `state`; learning rates are set before each step anyway.

        Raises:
            IntegrityError: it is of another network, or not finite.
        """
        forms = {name: parameter.shape for name, parameter in self._parameters()}
        by_name: dict[str, dict[str, Tensor]] = {}
        for key, tensor in state.items():
            part, _, name = key.partition("/")
            wanted = torch.Size() if part == "step" else forms.get(name)
            if part not in _PARTS or name not in forms or tensor.shape != wanted:
                what = f"{key} of the shape {list(tensor.shape)} belongs to no parameter"
                raise IntegrityError(f"the optimiser's checkpoint does not fit the network: {what}")
            if not tensor.is_floating_point() or not tensor.isfinite().all():
                what = f"{key} is not all finite numbers"
                raise IntegrityError(f"the optimiser's checkpoint is damaged: {what}")
            by_name.setdefault(name, {})[part] = tensor
        for name, parts in by_name.items():
            if missing := sorted(_PARTS - parts.keys()):
                what = f"it lacks {missing[0]}/{name}"
                raise IntegrityError(f"the optimiser's checkpoint is damaged: {what}")
        numbers = [name for names in self._names for name in names]
        described: dict[str, Any] = self.adam.state_dict()
        described["state"] = {
            number: by_name[name] for number, name in enumerate(numbers) if name in by_name
        }
        self.adam.load_state_dict(described)

    def _parameters(self) -> list[tuple[str, Tensor]]:
        return [
            (name, parameter)
            for names, group in zip(self._names, self.adam.param_groups, strict=True)
            for name, parameter in zip(names, group["params"], strict=True)
        ]


def adam_for(model: Cfam, schedule: CfamSchedule) -> NamedAdam:
    """Adam for the trained parameters of `model`."""
    return NamedAdam(model.parameter_groups(), schedule)


# The log of a training: JSON lines to process, TensorBoard to look at.

LINES = "metrics.jsonl"
_TENSORBOARD = "tensorboard"


class Journal:
    """Writes the log of a training from `step` on; a context manager.

    Lines after the checkpoint that an interrupted training resumes from are deleted.
    """

    def __init__(self, home: Path, step: int = 0) -> None:
        path = home / LINES
        _take_back(path, step)
        self._lines = path.open("a", encoding="utf-8")
        self._board = SummaryWriter(str(home / _TENSORBOARD), purge_step=step + 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        self._board.close()

    def step(self, line: StepLine) -> None:
        """Writes the results of a step."""
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
        """Writes the results of a validation."""
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
    """Removes the lines after `step`, and an unfinished line."""
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


# Validation on identities that are not trained on.


class IdentityVectors(NamedTuple):
    """Unit vectors of texts (the queries) and of images (the gallery), with their identities."""

    texts: NDArray[np.float32]
    text_identities: NDArray[np.int64]
    images: NDArray[np.float32]
    image_identities: NDArray[np.int64]


def embed_pairs(
    model: Cfam, images: Sequence[TrainingImage], settings: CfamTraining, device: torch.device
) -> IdentityVectors:
    """The global vectors of all images and of all their captions, without augmentation.

    Raises:
        UsageError: an image cannot be read.
    """
    numbers = {name: number for number, name in enumerate(sorted({one.identity for one in images}))}
    captions = [(text, numbers[one.identity]) for one in images for text in one.captions]
    was_training = model.training
    model.eval()
    with torch.no_grad():
        found = IdentityVectors(
            _texts(model, [text for text, _ in captions], settings, device),
            np.array([identity for _, identity in captions]),
            _images(model, images, settings, device),
            np.array([numbers[one.identity] for one in images]),
        )
    model.train(was_training)
    return found


def _images(
    model: Cfam, images: Sequence[TrainingImage], settings: CfamTraining, device: torch.device
) -> NDArray[np.float32]:
    paths = [image.path for image in images]
    size = settings.schedule.batch_pairs
    batches = image_batches(paths, settings.backbone, size, settings.workers)
    return _rows([model.encode_images(pixels.to(device)) for pixels in batches])


def _texts(
    model: Cfam, texts: Sequence[str], settings: CfamTraining, device: torch.device
) -> NDArray[np.float32]:
    tokenizer = tokenizer_for(settings.backbone.text_tokens)
    size = settings.schedule.batch_pairs
    batches = (texts[start : start + size] for start in range(0, len(texts), size))
    return _rows([model.encode_texts(tokenizer(batch).to(device)) for batch in batches])


def _rows(batches: Sequence[Tensor]) -> NDArray[np.float32]:
    rows: NDArray[np.float32] = torch.cat(list(batches)).float().cpu().numpy()
    return rows


def _retrieval_scores(found: IdentityVectors) -> dict[str, float]:
    """Return the scores, in percent, of finding images of an identity by text."""
    scores = score_retrieval(
        found.texts, found.images, found.text_identities, found.image_identities
    )
    return scores.means()


# Train CFAM: steps, validations, checkpoints (UFineBench, section 5.1).
#
# All randomness depends on the seed and the number of the step, epoch or pair, so no state of a
# generator has to be stored: a training that resumes from a checkpoint continues as if it had never
# stopped, bit for bit if the machine computes the same bits again (a CPU does).
#
# Under `accelerate launch` each process takes its part of every batch, and the losses see the
# vectors of the whole batch (`loupe.retrieval.cfam.network.model`): the result does not depend on
# the number of processes. The first process alone validates and writes.

_MAY_CHANGE = {"name", "device", "workers", "checkpoint_every_steps"}
"""Settings that may change when a training resumes: they do not affect what is learned."""


class Watcher(Protocol):
    """Is notified of a training's progress."""

    def begin(self, steps: int, done: int) -> None:
        """The training starts, or resumes after `done` of its steps."""
        ...

    def stepped(self, line: StepLine) -> None:
        """A step is done."""
        ...

    def validated(self, line: ValidationLine) -> None:
        """A validation is done."""
        ...


class Trained(NamedTuple):
    """The result of a training; `seconds` is the time of all runs up to their last checkpoints."""

    steps: int
    seconds: float
    before: dict[str, float]
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
    """Trains in the folder `home`, from its last checkpoint if there is one.

    With several processes, only the first returns a result; the others return None.

    Raises:
        UsageError: `home` holds another training, or the images cannot be used.
        TrainingError: a loss or gradient is no finite number; the last checkpoint stays.
        ModelError, ConfigurationError: the network or the device cannot be had.
    """
    accelerator = _accelerator_for(settings)
    with occupied(home) if accelerator.is_main_process else nullcontext():
        return _Trainer(settings, splits, home, watcher, build, accelerator).run()


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

    def run(self) -> Trained | None:
        """All remaining steps; returns the result, in the first process."""
        if not self._accelerator.is_main_process:
            self._go_on(None)
            return None
        done = self._progress.step
        self._watcher.begin(self.course.steps, done)
        with Journal(self._home, done) as journal:
            self._go_on(journal)
        if self._progress.best is None:
            return None
        return Trained(
            self.course.steps,
            self._progress.seconds,
            self._progress.before,
            self._progress.best,
            self.images_digest,
            describe(self._accelerator),
            self._accelerator.num_processes,
        )

    def _go_on(self, journal: Journal | None) -> None:
        done = self._progress.step
        if done == self.course.steps:
            return
        accelerator = self._accelerator
        if not done and journal is not None and self._validation:
            before = self._validate(0, 0).metrics
            self._progress = self._progress.model_copy(update={"before": before})
        accelerator.wait_for_everyone()
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
        """One step of the optimiser, over all batches that it accumulates."""
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
        overflown = scaled and not math.isfinite(norm_before)  # the scaler skips the step
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
        """Accumulates the gradients of a step; returns losses (batches, names) and images."""
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
        """The norm of all gradients before clipping."""
        most = self._settings.schedule.clip_gradient or float("inf")
        norm: Tensor = self._accelerator.clip_grad_norm_(self._network.parameters(), most)
        return norm

    def _after(self, step: int, journal: Journal | None) -> None:
        """Validates and writes a checkpoint if due."""
        done, epoch = step + 1, self.course.epoch_of(step)
        ends, is_last = self.course.ends_epoch(step), done == self.course.steps
        best = self._progress.best
        is_due = ends and (epoch + 1) % self._settings.validate_every_epochs == 0
        if not self._validation:
            best = BestCheckpoint(step=done, epoch=epoch, metrics={}) if is_last else None
        elif journal is not None and (is_due or is_last):
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
            metrics=_retrieval_scores(found),
            queries=len(found.texts),
            gallery=len(found.images),
        )

    def _better(self, best: BestCheckpoint | None, line: ValidationLine) -> BestCheckpoint:
        """The better of the two; if equal, the earlier."""
        by = self._settings.best_by
        if best is not None and best.metrics[by] >= line.metrics[by]:
            return best
        return BestCheckpoint(step=line.step, epoch=line.epoch, metrics=line.metrics)

    def _save(self, step: int, best: BestCheckpoint | None) -> None:
        scaler = self._accelerator.scaler
        update = {
            "step": step,
            "best": best,
            "loss_scale": {} if scaler is None else scaler.state_dict(),
            "seconds": self._seconds_before + perf_counter() - self._started,
        }
        self._progress = self._progress.model_copy(update=update)
        if self._accelerator.is_main_process:
            identities = self._model.identities
            self._checkpoints.save(
                self._progress,
                self._adam.state(),
                lambda folder: save_model(folder, self._model, self._settings, identities),
            )

    def _taken_up(self) -> TrainingProgress:
        """The progress to continue from; restores network and optimiser."""
        fresh = TrainingProgress(
            step=0, settings=_digest_of_settings(self._settings), images=self.images_digest
        )
        progress = self._checkpoints.load()
        if progress is None:
            self._tidied(progress)
            return fresh
        if (progress.settings, progress.images) != (fresh.settings, fresh.images):
            what = "settings" if progress.settings != fresh.settings else "images"
            raise UsageError(
                f"the training in {self._home} was started with other {what}; "
                f"choose another folder, or train with the same ones"
            )
        self._model.load_state_dict(load_model(self._checkpoints.last).state_dict())
        self._adam.restore(self._checkpoints.load_optimizer())
        if self._accelerator.scaler is not None:
            self._accelerator.scaler.load_state_dict(progress.loss_scale)
        self._tidied(progress)
        return progress

    def _tidied(self, progress: TrainingProgress | None) -> None:
        """Lets the first process remove leftovers of an earlier training, once all have read it."""
        self._accelerator.wait_for_everyone()
        if self._accelerator.is_main_process:
            self._checkpoints.tidy(progress)


def _digest_of_settings(settings: CfamTraining) -> str:
    """A digest of the settings that affect what is learned; files count by content.

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
    identity = {**values, "backbone": {**values["backbone"], **files}}
    return digest_of(json.dumps(identity, sort_keys=True))
