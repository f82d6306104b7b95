"""`train-cfam`: trains CFAM on a release and records the result."""

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel, ValidationError

from loupe.flows.engine.report import Progress, StageReport
from loupe.flows.engine.software import code_revision, hardware
from loupe.flows.withdrawal.releases import known_notices, withdrawal_in
from loupe.models.profiles.settings import load_settings
from loupe.release.format.files import digest_of_file
from loupe.release.format.manifest import MANIFEST, read_manifest
from loupe.release.format.row_files import ReadRelease, read_json_rows, read_release
from loupe.retrieval.cfam.training_data import (
    TrainingImage,
    TrainingSplits,
    hold_out_identities,
    require_identities,
)
from loupe.schemas.base import Split
from loupe.schemas.cfam import CfamTraining, StepLine, TrainingRecord, ValidationLine
from loupe.schemas.errors import (
    ConfigurationError,
    FormatError,
    IntegrityError,
    UsageError,
)
from loupe.schemas.extras import needs_extra
from loupe.schemas.text_files import read_settings
from loupe.schemas.validation import fault_of, nearest_hint

if TYPE_CHECKING:
    from loupe.retrieval.cfam.network.training import Trained


# Training files: TOML with the settings of `loupe.schemas.cfam.CfamTraining`.

_KEYS = "docs/training.md"
_FOLDER = Path(__file__).parents[2] / "retrieval" / "cfam"
_SHIPPED = {name: _FOLDER / f"train_{name}.toml" for name in ("demo", "paper")}


def load_training(config: str | None) -> CfamTraining:
    """The settings in a file, or those shipped as `paper`, `demo` or `pairs`; defaults for None.

    Relative paths in a file are relative to it.

    Raises:
        ConfigurationError: the file is missing or not TOML, or a key is unknown or wrong.
    """
    if config is None:
        return CfamTraining()
    path = _SHIPPED.get(config, Path(config))
    if not path.exists():
        raise ConfigurationError(
            f"there is no training file {path}; {nearest_hint(config, _SHIPPED)}"
        )
    return read_settings(path, CfamTraining, f"training file {path}", see=_KEYS)


# The training images of a release, or of an annotation file in the published form.

_HELD_OUT = "held out of train"


class TrainingImages(NamedTuple):
    """The images to train on and their origin; `validation_split` names those to validate on.

    `without_captions` counts images of the train split that are left out because they have none.
    """

    splits: TrainingSplits
    name: str
    release_id: str | None
    validation_split: str
    without_captions: int


def find_training_images(path: Path, settings: CfamTraining) -> TrainingImages:
    """The images of `path`: the folder of a release, or a JSON file of rows as releases have it.

    Validation uses the `val` split if there is one, else identities held out of `train`; never the
    test split. With contrastive pairs, only whole groups are used.

    Raises:
        UsageError: there is neither, or it has too little to train on or to validate with.
        FormatError: the file is not in the published form.
        IntegrityError: the release was changed.
    """
    if path.is_file():
        return _of_file(path, settings)
    if not (path / MANIFEST).is_file():
        raise UsageError(
            f"{path} is neither a release (a folder with a {MANIFEST}) nor a JSON file of rows; "
            f"wanted one with a train split"
        )
    return _of_release(path, settings)


def _of_release(folder: Path, settings: CfamTraining) -> TrainingImages:
    manifest = read_manifest(folder)
    splits = [one.split for one in manifest.statistics.splits]
    if "train" not in splits:
        raise UsageError(
            f"{manifest.name} has no train split, only {', '.join(splits)}; wanted a release with "
            f"one, as build-ufine6926 makes"
        )
    trained, validated = (
        _images(read_release(folder, split)) if split in splits else ()
        for split in ("train", "val")
    )
    return _chosen(trained, validated, manifest.name, manifest.id, settings)


def _images(release: ReadRelease) -> tuple[TrainingImage, ...]:
    return tuple(
        TrainingImage(
            release.folder / row.file_path,
            str(row.id),
            _texts(caption.text for caption in row.captions),
        )
        for row in release.rows
    )


class _Row(BaseModel):
    """A row of a file in the published form; other keys are ignored."""

    split: Split
    file_path: str
    id: int | float | str
    captions: tuple[str, ...]
    source: Any = None

    def image(self, folder: Path) -> TrainingImage:
        name = str(self.id) if self.source is None else f"{self.source}/{self.id}"
        return TrainingImage(folder / self.file_path, name, _texts(self.captions))


def _of_file(path: Path, settings: CfamTraining) -> TrainingImages:
    """Paths in the file are relative to it, as in UFine6926's and in our releases."""
    by_split: dict[Split, list[TrainingImage]] = {"train": [], "val": [], "test": []}
    try:
        for number, values in enumerate(read_json_rows(path)):
            try:
                row = _Row.model_validate(values)
            except ValidationError as error:
                raise ValueError(f"row {number}: {fault_of(error, _Row)}") from error
            by_split[row.split].append(row.image(path.parent))
    except ValueError as error:
        raise FormatError(f"{path}: {error}") from error
    trained, validated = tuple(by_split["train"]), tuple(by_split["val"])
    if not trained:
        raise UsageError(f"{path} has no rows of the train split; wanted some to train on")
    return _chosen(trained, validated, path.name, None, settings)


def _texts(captions: Iterable[str]) -> tuple[str, ...]:
    """The captions that are not blank."""
    return tuple(text for text in captions if text.strip())


def _chosen(
    trained: tuple[TrainingImage, ...],
    validated: tuple[TrainingImage, ...],
    name: str,
    release_id: str | None,
    settings: CfamTraining,
) -> TrainingImages:
    shared = {one.identity for one in trained} & {one.identity for one in validated}
    if shared:
        raise UsageError(
            f"{name}: identity {min(shared)} is in train and in val; wanted it in one of them"
        )
    described = tuple(one for one in trained if one.captions)
    if not described:
        raise UsageError(f"{name}: no image of the train split has a caption; wanted some")
    left_out = len(trained) - len(described)
    if validated:
        splits = TrainingSplits(described, validated)
        require_identities(splits, name)
        return TrainingImages(splits, name, release_id, "val", left_out)
    splits = hold_out_identities(described, settings.validation_share, settings.seed)
    return TrainingImages(splits, name, release_id, _HELD_OUT, left_out)


# `train-cfam`: trains CFAM on a release and records the result.

RECORD = "training.json"
_FEWEST_IDENTITIES = 20  # for a validation that is worth reporting
_STAGE = "train"
_PACKAGES = ("torch", "open_clip_torch", "accelerate", "safetensors", "numpy")


class TrainingRequest(NamedTuple):
    """What to train on: a release's folder or an annotation file.

    `config` is a training file, `paper` or `demo`, or settings; `out` its folder.
    """

    release: str
    config: str | CfamTraining | None = None
    out: str | None = None
    resume: bool = False


class TrainingReport(NamedTuple):
    """The result of a run. Of several processes, only the first has a record."""

    folder: Path
    record: TrainingRecord | None

    @property
    def artifact(self) -> str:
        """The key of the report's artifact."""
        return f"{self.folder.name}-training"

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        if self.record is None:
            return f"the first process trains in {self.folder} and reports the result"
        record, best = self.record, self.record.best
        trained = f"trained {record.steps:,} steps on {record.release}"
        if not best.metrics:
            return (
                f"{trained}; no identities were held out to validate on, so that the checkpoint "
                f"to use is the last: {self.folder / 'best'}"
            )
        scores = " and ".join(
            f"{name} {best.metrics[name]:.1f} % (before: {record.before[name]:.1f} %)"
            for name in _stated_metrics(best.metrics)[:2]
        )
        split = "of val" if record.validation_split == "val" else record.validation_split
        sentence = (
            f"{trained}; the best checkpoint, of epoch {best.epoch + 1} with {scores} "
            f"on {record.validation_identities} identities {split}, is {self.folder / 'best'}"
        )
        if record.validation_identities < _FEWEST_IDENTITIES:
            sentence += (
                f"; fewer than {_FEWEST_IDENTITIES} identities to validate on mean nothing: "
                f"neither do these figures, nor which checkpoint is best"
            )
        return sentence

    @property
    def rows(self) -> list[tuple[str, float, float]]:
        """The scores of the validation: name, before training, and of the best checkpoint."""
        if self.record is None:
            return []
        before = self.record.before
        best = self.record.best.metrics.items()
        return [(name.replace("_", " "), before[name], value) for name, value in best]

    @property
    def markdown(self) -> str:
        """The report for Prefect's page."""
        if self.record is None:
            return self.sentence
        rows = [f"| {name} | {before:.2f} | {best:.2f} |" for name, before, best in self.rows]
        head = ["| validation | before | best |", "|---|---|---|"]
        return "\n".join([f"**{self.sentence}**", "", *head, *rows])

    def as_json(self) -> dict[str, Any]:
        """The record and where the checkpoints lie, for `--json`."""
        record = {} if self.record is None else self.record.as_json()
        return {"folder": str(self.folder), "best_checkpoint": str(self.folder / "best"), **record}


def run_training(request: TrainingRequest, progress: Progress) -> TrainingReport:
    """Trains as requested, from the beginning or, with `resume`, from the last checkpoint.

    Raises:
        UsageError: the images cannot be used, or the folder holds a training and `resume` is off.
        TrainingError: a loss or gradient is not finite.
    """
    given = request.config
    settings = given if isinstance(given, CfamTraining) else load_training(given)
    home = Path(request.out or load_settings().home / "trainings" / settings.name)
    if not request.resume and (home / "last").exists():
        raise UsageError(
            f"{home} already holds a training; resume it with --resume, or choose another --out"
        )
    if withdrawal := withdrawal_in(Path(request.release), known_notices(load_settings())):
        progress.say(f"warning: {withdrawal.sentence}")
    found = find_training_images(Path(request.release), settings)
    for image in (*found.splits.training, *found.splits.validation):
        if not image.path.is_file():
            raise UsageError(f"{found.name}: images are missing, such as {image.path}")
    if found.without_captions:
        progress.say(f"training images left out: {found.without_captions:,} (no caption)")
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
    with needs_extra("training CFAM"):
        from loupe.retrieval.cfam.network.training import train
    with ExitStack() as stack:
        return train(settings, found.splits, home, _Shown(progress, stack))


class _Shown:
    """Shows steps as progress, and validations as sentences, until `stack` is closed."""

    def __init__(self, progress: Progress, stack: ExitStack) -> None:
        self._progress, self._stack = progress, stack
        self._report = StageReport(_STAGE)

    def begin(self, steps: int, done: int) -> None:
        """Shows a bar, advanced to where an earlier run stopped."""
        self._report.already_done = done
        self._stack.enter_context(self._progress.shown(self._report, steps))
        self._progress.advance(_STAGE, done)

    def stepped(self, _: StepLine) -> None:
        """Moves the bar."""
        self._progress.advance(_STAGE, 1)
        self._report.done += 1

    def validated(self, line: ValidationLine) -> None:
        """Reports the scores of a validation."""
        stated = _stated_metrics(line.metrics)
        metrics = ", ".join(f"{name} {line.metrics[name]:.1f} %" for name in stated)
        self._progress.say(f"epoch {line.epoch + 1}, step {line.step:,}: {metrics}")


def _stated_metrics(metrics: Mapping[str, float]) -> list[str]:
    """The names of the metrics that sentences state."""
    return [name for name in ("R@1", "mAP", "mSD") if name in metrics]


def _finished(home: Path, trained: "Trained") -> TrainingRecord | None:
    """The record of the training, if it was finished before."""
    path = home / RECORD
    if not path.exists():
        return None
    try:
        record = TrainingRecord.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise IntegrityError(f"{path} is damaged: {fault_of(error)}") from error
    return record if (record.steps, record.seconds) == (trained.steps, trained.seconds) else None


def _record(
    settings: CfamTraining, found: TrainingImages, home: Path, trained: "Trained"
) -> TrainingRecord:
    training, validation = found.splits
    return TrainingRecord(
        **trained._asdict(),
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
        code_revision=code_revision(),
        packages={name: version(name) for name in _PACKAGES},
        hardware=hardware(),
        best_sha256=digest_of_file(home / "best" / "model.safetensors"),
        last_sha256=digest_of_file(home / "last" / "model.safetensors"),
    )
