"""Complete trainings on a small demonstration world."""

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from loupe.flows.engine.report import Progress
from loupe.flows.evaluation.training import TrainingReport, TrainingRequest, run_training
from loupe.retrieval.cfam.network.checkpoints import load_model
from loupe.schemas.base import sha256_of
from loupe.schemas.cfam import TrainingRecord
from loupe.schemas.errors import UsageError
from tests.flows.tiny_training import CONFIG, write_tiny_training


class RecordedProgress(Progress):
    """Records the messages of a run."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def say(self, sentence: str) -> None:
        self.messages.append(sentence)


@pytest.fixture
def request_of(tmp_path: Path) -> TrainingRequest:
    return write_tiny_training(tmp_path)


class Finished(NamedTuple):
    """A training in `folder`, whose home had a line of a training without a checkpoint."""

    folder: Path
    request: TrainingRequest
    report: TrainingReport
    progress: RecordedProgress


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder, progress = tmp_path_factory.mktemp("trained"), RecordedProgress()
    request = write_tiny_training(folder)
    (folder / "out").mkdir()
    (folder / "out" / "metrics.jsonl").write_text('{"step": 1}\n', encoding="utf-8")
    return Finished(folder, request, run_training(request, progress), progress)


def test_a_training_is_recorded(finished: Finished) -> None:
    report, progress = finished.report, finished.progress
    home = report.folder
    assert report.record == TrainingRecord.model_validate_json(
        (home / "training.json").read_bytes()
    )
    record = report.record
    assert (record.training_identities, record.validation_identities) == (9, 3)
    assert (record.steps, record.training_pairs) == (12, 36)
    assert record.best_sha256 == sha256_of((home / "best" / "model.safetensors").read_bytes())
    assert load_model(home / "best").settings.name == "tiny"
    assert [sentence.split(":")[0] for sentence in progress.messages] == [
        "epoch 1, step 6",
        "epoch 2, step 12",
    ]
    assert str(home / "best") in report.sentence
    assert report.as_json()["best_checkpoint"] == str(home / "best")
    assert any((home / "tensorboard").iterdir())
    assert record.seconds > 0


def test_a_training_without_a_checkpoint_starts_over(finished: Finished) -> None:
    lines = (finished.report.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 12 + 2


def test_a_finished_training_is_not_repeated(finished: Finished) -> None:
    with pytest.raises(UsageError, match="already holds a training; resume it with --resume"):
        run_training(finished.request, Progress())
    progress = RecordedProgress()
    again = run_training(finished.request._replace(resume=True), progress)
    assert again.record == finished.report.record
    assert progress.messages == []


def test_backbone_files_are_compared_by_content(finished: Finished, tmp_path: Path) -> None:
    moved = shutil.copytree(finished.folder, tmp_path / "moved", symlinks=True)
    there = TrainingRequest(
        str(moved / "people" / "people.json"),
        str(moved / "train.toml"),
        str(moved / "out"),
        resume=True,
    )
    assert run_training(there, Progress()).record == finished.report.record
    clip = moved / "clip.json"
    text = clip.read_text(encoding="utf-8")
    clip.write_text(text.replace('"heads": 2', '"heads": 4'), encoding="utf-8")
    with pytest.raises(UsageError, match="was started with other settings"):
        run_training(there, Progress())


def test_without_held_out_identities_the_last_checkpoint_is_the_best(
    request_of: TrainingRequest,
) -> None:
    config = Path(str(request_of.config))
    config.write_text(CONFIG.replace("validation_share = 0.25", "validation_share = 0"), "utf-8")
    report = run_training(request_of, Progress())
    record = report.record
    assert record is not None
    assert (record.training_identities, record.validation_identities) == (12, 0)
    assert (record.best.step, record.best.metrics) == (record.steps, {})
    assert record.best_sha256 == record.last_sha256
    assert "no identities were held out" in report.sentence
    assert run_training(request_of._replace(resume=True), Progress()).record == record


def test_missing_images_are_reported_before_training(
    request_of: TrainingRequest,
) -> None:
    next(Path(request_of.release).parent.glob("*.png")).unlink()
    with pytest.raises(UsageError, match="images are missing, such as"):
        run_training(request_of, Progress())
    assert request_of.out is not None
    assert not Path(request_of.out).exists()
