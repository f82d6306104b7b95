"""A whole training through the flow's function, on a small demonstration world."""

import json
from pathlib import Path

import pytest

from flows.progress import SilentProgress
from flows.training_run import TrainingRequest, run_training
from retrieval.cfam.network.weights import load_model
from schemas.base import sha256_of
from schemas.errors import UsageError
from schemas.training import TrainingRecord
from tests.retrieval.cfam.network.small_training import TINY_CLIP, draw_people

CONFIG = """
name = "tiny"
device = "cpu"
workers = 0
validation_share = 0.25
[backbone]
architecture_file = "clip.json"
weights = ""
image_height_px = 16
image_width_px = 8
text_tokens = 12
[decoder]
queries = 2
blocks = 1
width = 16
heads = 2
[matcher]
blocks = 1
heads = 2
[schedule]
epochs = 2
batch_pairs = 6
"""


class Sentences(SilentProgress):
    """Remembers what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, sentence: str) -> None:
        self.said.append(sentence)


@pytest.fixture
def request_of(tmp_path: Path) -> TrainingRequest:
    (tmp_path / "clip.json").write_text(json.dumps(TINY_CLIP), encoding="utf-8")
    config = tmp_path / "train.toml"
    config.write_text(CONFIG, encoding="utf-8")
    rows = [
        {
            "split": "train",
            "id": image.identity,
            "file_path": image.path.name,
            "captions": image.captions,
        }
        for image in draw_people(tmp_path / "people")
    ]
    people = tmp_path / "people" / "people.json"
    people.write_text(json.dumps(rows), encoding="utf-8")
    return TrainingRequest(str(people), str(config), str(tmp_path / "out"))


def test_a_training_writes_down_what_came_of_it(request_of: TrainingRequest) -> None:
    progress = Sentences()
    report = run_training(request_of, progress)
    home = report.folder
    assert report.record == TrainingRecord.model_validate_json(
        (home / "training.json").read_bytes()
    )
    record = report.record
    assert (record.training_identities, record.validation_identities) == (9, 3)
    assert (record.steps, record.training_pairs) == (12, 36)
    assert record.best_sha256 == sha256_of((home / "best" / "model.safetensors").read_bytes())
    assert load_model(home / "best").settings.name == "tiny"
    assert [sentence.split(":")[0] for sentence in progress.said] == [
        "epoch 1, step 6",
        "epoch 2, step 12",
    ]
    assert str(home / "best") in report.sentence
    assert report.as_json()["best_checkpoint"] == str(home / "best")
    assert any((home / "tensorboard").iterdir())

    with pytest.raises(UsageError, match="holds a training already; go on with it by --resume"):
        run_training(request_of, progress)
    again = run_training(request_of._replace(resume=True), progress).record
    assert again is not None
    assert again.last_sha256 == record.last_sha256
    assert len(progress.said) == 2


def test_missing_images_are_told_before_anything_is_trained(request_of: TrainingRequest) -> None:
    next(Path(request_of.release).parent.glob("*.png")).unlink()
    with pytest.raises(UsageError, match="images are missing, such as"):
        run_training(request_of, SilentProgress())
    assert request_of.out is not None
    assert not Path(request_of.out).exists()
