"""`train-cfam`: trains CFAM on a release, and writes down what came of it."""

import time
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from flows.context import code_revision
from flows.hardware import hardware
from flows.progress import Progress
from flows.report import StageReport
from flows.training_configuration import load_training
from flows.training_images import TrainingImages, find_training_images, missing_images
from flows.withdrawn_releases import known_notices, withdrawal_in
from profiles.settings import load_settings
from release.files import digest_of_file
from schemas.cfam import CfamTraining
from schemas.errors import IntegrityError, MissingExtraError, UsageError
from schemas.faults import fault_of
from schemas.training import StepLine, TrainingRecord, ValidationLine

if TYPE_CHECKING:
    from retrieval.cfam.network.training import Trained

RECORD = "training.json"
_STAGE = "train"
_PACKAGES = ("torch", "open_clip_torch", "accelerate", "safetensors", "numpy")
_SHOWN_MISSING = 3


class TrainingRequest(NamedTuple):
    """What is to be trained on what: a release's folder or an annotation file.

    `config` is a training file, or `demo`; `out` the folder of the training.
    """

    release: str
    config: str | None = None
    out: str | None = None
    resume: bool = False


class TrainingReport(NamedTuple):
    """What a run came to. Of several processes, only the first has a record."""

    folder: Path
    record: TrainingRecord | None

    @property
    def artifact(self) -> str:
        """The key that the report stands under."""
        return f"{self.folder.name}-training"

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        if self.record is None:
            return f"the first process trains in {self.folder} and tells what came of it"
        best = self.record.best
        return (
            f"trained {self.record.steps:,} steps on {self.record.release}; the best checkpoint, "
            f"of epoch {best.epoch + 1} with R@1 {best.metrics['R@1']:.1f} % and "
            f"mAP {best.metrics['mAP']:.1f} % on {self.record.validation_identities} identities "
            f"{_told(self.record)}, is {self.folder / 'best'}"
        )

    @property
    def markdown(self) -> str:
        """The report for Prefect's page."""
        if self.record is None:
            return self.sentence
        rows = [f"| {name} | {value:.2f} |" for name, value in self.record.best.metrics.items()]
        return "\n".join([f"**{self.sentence}**", "", "| validation | |", "|---|---|", *rows])

    def as_json(self) -> dict[str, Any]:
        """The record and where the checkpoints lie, for `--json`."""
        record = {} if self.record is None else self.record.as_json()
        return {"folder": str(self.folder), "best_checkpoint": str(self.folder / "best"), **record}


def run_training(request: TrainingRequest, progress: Progress) -> TrainingReport:
    """Trains as `request` says, from the beginning or, with `resume`, from the last checkpoint.

    Raises:
        UsageError: the images cannot be used, or the folder holds a training and `resume` is off.
        TrainingError: a loss or gradient is no finite number.
    """
    settings = load_training(request.config)
    home = _home(request, settings)
    if not request.resume and (home / "last").exists():
        raise UsageError(
            f"{home} holds a training already; go on with it by --resume, or choose another --out"
        )
    if withdrawal := withdrawal_in(Path(request.release), known_notices(load_settings())):
        progress.say(f"warning: {withdrawal.sentence}")
    found = find_training_images(Path(request.release), settings)
    if missing := list(islice(missing_images(found.splits), _SHOWN_MISSING)):
        raise UsageError(f"{found.name}: images are missing, such as {missing[0]}")
    if found.without_captions:
        progress.say(f"left out for want of a caption: {found.without_captions:,} training images")
    trained = _train(settings, found, home, progress)
    if trained is None:
        return TrainingReport(home, None)
    if (finished := _finished(home, trained)) is not None:
        return TrainingReport(home, finished)
    record = _record(settings, found, home, trained)
    unfinished = home / f".{RECORD}"
    unfinished.write_text(record.model_dump_json(indent=2) + "\n", encoding="utf-8")
    unfinished.replace(home / RECORD)
    return TrainingReport(home, record)


def _train(
    settings: CfamTraining, found: TrainingImages, home: Path, progress: Progress
) -> "Trained | None":
    try:
        from retrieval.cfam.network.training import train
    except ModuleNotFoundError as error:
        raise MissingExtraError("training CFAM", "torch") from error
    return train(settings, found.splits, home, _Shown(progress))


class _Shown:
    """Shows steps as progress, and validations as sentences."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._report = StageReport(_STAGE)
        self._steps, self._started = 0, time.monotonic()

    def begin(self, steps: int, done: int) -> None:
        """Shows a bar, as far as an earlier run came."""
        self._steps, self._report.already_done = steps, done
        self._progress.start(_STAGE, steps)
        self._progress.advance(_STAGE, done)
        if done == steps:
            self._end()

    def stepped(self, _: StepLine) -> None:
        """Moves the bar."""
        self._progress.advance(_STAGE, 1)
        self._report.done += 1

    def validated(self, line: ValidationLine) -> None:
        """Says how well people are found."""
        metrics = ", ".join(f"{name} {line.metrics[name]:.1f} %" for name in ("R@1", "mAP", "mSD"))
        self._progress.say(f"epoch {line.epoch + 1}, step {line.step:,}: {metrics}")
        if line.step == self._steps:
            self._end()

    def _end(self) -> None:
        self._report.seconds = time.monotonic() - self._started
        self._progress.end(self._report)


def _finished(home: Path, trained: "Trained") -> TrainingRecord | None:
    """What is written down already, where the training had come to its end before."""
    path = home / RECORD
    if not path.exists():
        return None
    try:
        record = TrainingRecord.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise IntegrityError(f"{path} is damaged: {fault_of(error)}") from error
    return record if (record.steps, record.seconds) == (trained.steps, trained.seconds) else None


def _home(request: TrainingRequest, settings: CfamTraining) -> Path:
    if request.out is not None:
        return Path(request.out)
    return load_settings().home / "trainings" / settings.name


def _record(
    settings: CfamTraining, found: TrainingImages, home: Path, trained: "Trained"
) -> TrainingRecord:
    training, validation = found.splits
    return TrainingRecord(
        settings=settings,
        release=found.name,
        release_id=found.release_id,
        training_images=len(training),
        training_images_without_captions=found.without_captions,
        training_identities=len({image.identity for image in training}),
        training_pairs=sum(len(image.captions) for image in training),
        validation_images=len(validation),
        validation_identities=len({image.identity for image in validation}),
        validation_split=found.validation_split,
        images_digest=trained.images_digest,
        code_revision=code_revision(),
        packages={name: version(name) for name in _PACKAGES},
        hardware=hardware(),
        device=trained.device,
        processes=trained.processes,
        steps=trained.steps,
        seconds=trained.seconds,
        best=trained.best,
        best_sha256=digest_of_file(home / "best" / "model.safetensors"),
        last_sha256=digest_of_file(home / "last" / "model.safetensors"),
    )


def _told(record: TrainingRecord) -> str:
    return "of val" if record.validation_split == "val" else record.validation_split
