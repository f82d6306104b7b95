"""Complete trainings of a tiny network, in this process and in a process that is killed."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from loupe.retrieval.cfam.network.model import Cfam
from loupe.retrieval.cfam.network.training import train
from loupe.schemas.cfam import CfamTraining
from loupe.schemas.errors import TrainingError, UsageError
from tests.retrieval.cfam.network.small_training import (
    Notes,
    forked,
    tiny_settings,
    tiny_splits,
    train_slowly,
)

pytestmark = [  # run shared trainings once
    pytest.mark.slow,
    pytest.mark.xdist_group("cfam_training"),
]

Weights = dict[str, Tensor]


class Trainings:
    """Run trainings on the same images in separate folders."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def settings(self, **changes: Any) -> CfamTraining:
        return tiny_settings(self._folder, **changes)

    def home(self, name: str) -> Path:
        return self._folder / name

    def run(self, name: str, settings: CfamTraining, build: type[Cfam] = Cfam) -> Notes:
        notes = Notes()
        splits = tiny_splits(self._folder / "people", settings)
        train(settings, splits, self.home(name), notes, build=build)
        return notes

    def weights(self, name: str, which: str = "last") -> Weights:
        return dict(load_file(self.home(name) / which / "model.safetensors"))


@pytest.fixture(scope="module")
def trainings(tmp_path_factory: pytest.TempPathFactory) -> Trainings:
    return Trainings(tmp_path_factory.mktemp("trainings"))


@pytest.fixture(scope="module")
def uninterrupted(trainings: Trainings) -> Notes:
    return trainings.run("uninterrupted", trainings.settings())


def same(one: Weights, other: Weights) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def lines(home: Path) -> list[dict[str, Any]]:
    written = (home / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in written]


def comparable_lines(home: Path) -> list[dict[str, Any]]:
    """Lines of the metrics file without the measured speed."""
    return [{**line, "pairs_per_second": None} for line in lines(home)]


def test_every_step_and_validation_is_logged(trainings: Trainings, uninterrupted: Notes) -> None:
    assert uninterrupted.began == (18, 0)
    assert [line.step for line in uninterrupted.steps] == list(range(1, 19))
    assert [line.step for line in uninterrupted.validations] == [6, 12, 18]
    assert (uninterrupted.validations[0].queries, uninterrupted.validations[0].gallery) == (12, 6)
    first = uninterrupted.steps[0]
    assert set(first.losses) == {"global_sdm", "local_sdm", "matching", "identity"}
    assert first.loss == pytest.approx(sum(first.losses.values()))
    assert first.new_learning_rate == pytest.approx(3e-3 / 6)
    assert [line["step"] for line in lines(trainings.home("uninterrupted"))] == [
        *range(1, 7), 6, *range(7, 13), 12, *range(13, 19), 18
    ]  # fmt: skip


def test_the_best_checkpoint_has_the_best_validation_score(
    trainings: Trainings, uninterrupted: Notes
) -> None:
    scores = [line.metrics["mAP"] for line in uninterrupted.validations]
    best = uninterrupted.validations[scores.index(max(scores))].step
    assert (trainings.home("uninterrupted") / "best").readlink() == Path(f"checkpoints/{best:08d}")


@pytest.mark.slow
def test_a_data_loading_worker_does_not_change_the_weights(
    trainings: Trainings, uninterrupted: Notes
) -> None:
    """One worker, because importing torch takes most of the time of each."""
    trainings.run("worker", trainings.settings(workers=1))
    assert same(trainings.weights("worker"), trainings.weights("uninterrupted"))


def test_recomputing_activations_hardly_changes_the_losses(
    trainings: Trainings, uninterrupted: Notes
) -> None:
    notes = trainings.run("recomputed", trainings.settings(checkpoint_activations=True))
    assert [one.loss for one in notes.steps] == pytest.approx(
        [one.loss for one in uninterrupted.steps], rel=1e-3
    )


class _FailsOnce(Cfam):
    """A network with a NaN loss in the tenth forward pass, within an epoch."""

    forwards = 0

    def forward(self, pixels: Tensor, tokens: Tensor, identities: Tensor) -> dict[str, Tensor]:
        type(self).forwards += 1
        losses = super().forward(pixels, tokens, identities)
        if type(self).forwards == 10:
            losses["local_sdm"] = losses["local_sdm"] * float("nan")
        return losses


def test_a_nan_loss_stops_training_and_keeps_the_last_checkpoint(
    trainings: Trainings, uninterrupted: Notes
) -> None:
    settings = trainings.settings(checkpoint_every_steps=4)
    with pytest.raises(TrainingError, match=r"the loss 'local_sdm' is nan in step 10 \(epoch 1\)"):
        trainings.run("diverged", settings, build=_FailsOnce)
    assert (trainings.home("diverged") / "last").readlink() == Path("checkpoints/00000008")
    assert lines(trainings.home("diverged"))[-1]["step"] == 9
    notes = trainings.run("diverged", settings)
    assert notes.began == (18, 8)
    assert same(trainings.weights("diverged"), trainings.weights("uninterrupted"))
    assert comparable_lines(trainings.home("diverged")) == comparable_lines(
        trainings.home("uninterrupted")
    )


def test_a_finished_training_is_not_continued(trainings: Trainings, uninterrupted: Notes) -> None:
    notes = trainings.run("uninterrupted", trainings.settings())
    assert notes.began == (18, 18)
    assert notes.steps == []


def test_other_settings_or_images_are_refused(trainings: Trainings, uninterrupted: Notes) -> None:
    with pytest.raises(UsageError, match="was started with other settings"):
        trainings.run("uninterrupted", trainings.settings(losses={"matching": 0.0}))
    settings = trainings.settings()
    splits = tiny_splits(trainings.home("people"), settings)
    fewer = splits._replace(training=splits.training[1:])
    with pytest.raises(UsageError, match="was started with other images"):
        train(settings, fewer, trainings.home("uninterrupted"), Notes())


def test_the_error_names_an_unreadable_image(trainings: Trainings) -> None:
    settings = trainings.settings()
    splits = tiny_splits(trainings.home("damaged-people"), settings)
    for image in splits.training:
        image.path.write_bytes(b"no image")
    with pytest.raises(UsageError, match=r"the image .*\.png cannot be read"):
        train(settings, splits, trainings.home("damaged"), Notes())


@pytest.mark.soak
def test_a_killed_and_resumed_training_gives_the_same_weights(
    trainings: Trainings, uninterrupted: Notes
) -> None:
    home = trainings.home("killed")
    process = forked(train_slowly, home.parent)
    written = home / "metrics.jsonl"
    while (
        not written.exists() or written.read_text("utf-8").count("\n") < 9
    ):  # 8 steps and a validation
        assert process.is_alive()
        time.sleep(0.01)
    time.sleep(0.03)
    process.kill()
    process.join()
    notes = trainings.run("killed", trainings.settings(checkpoint_every_steps=1))
    assert notes.began is not None
    assert 7 <= notes.began[1] < 18
    assert same(trainings.weights("killed"), trainings.weights("uninterrupted"))
    assert same(trainings.weights("killed", "best"), trainings.weights("uninterrupted", "best"))
    assert comparable_lines(home) == comparable_lines(trainings.home("uninterrupted"))
