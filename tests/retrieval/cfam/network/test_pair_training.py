"""Training on contrastive pairs: reported metrics and resumption."""

from pathlib import Path

import pytest

from retrieval.cfam.network.checkpoints import Checkpoints
from retrieval.cfam.network.training import train
from retrieval.cfam.training_data import TrainingImage, TrainingSplits, hold_out_identities
from schemas.cfam import CfamTraining
from schemas.errors import TrainingError
from schemas.taxonomy import DifferenceType
from tests.retrieval.cfam.network.small_training import Notes, draw_people, tiny_settings

PAIRS = {"losses": {"global_sdm": 0, "local_sdm": 0, "matching": 0, "identity": 0, "contrast": 1}}
KINDS = (DifferenceType.ENTITY_ATTRIBUTE, DifferenceType.STYLE)


def tiny_pairs(folder: Path, settings: CfamTraining) -> TrainingSplits:
    """Groups of three drawn people; the second and third differ from the first."""
    people = draw_people(folder, identities=36)[::2]
    groups = [
        TrainingImage(one.path, f"g{at // 3}", one.captions, (None, *KINDS)[at % 3])
        for at, one in enumerate(people)
    ]
    return hold_out_identities(groups, settings.validation_share, settings.seed)


class _Stops(Notes):
    def stepped(self, line: object) -> None:
        if len(self.steps) == 7:
            raise TrainingError("stopped")
        super().stepped(line)  # type: ignore[arg-type]


def test_fg_cda_is_measured_by_difference_type_before_and_after_training(tmp_path: Path) -> None:
    changes = PAIRS | {"best_by": "FG-CDA", "schedule": {"batch_pairs": 8, "epochs": 4}}
    settings = tiny_settings(tmp_path, **changes)
    settings = settings.model_copy(
        update={"augmentation": settings.augmentation.model_copy(update={"flip": 0, "erase": 0})}
    )
    splits = tiny_pairs(tmp_path / "people", settings)
    trained = train(settings, splits, tmp_path / "whole", Notes())
    assert trained is not None
    wanted = {"FG-CDA", *(f"FG-CDA {kind}" for kind in KINDS)}
    assert wanted < trained.before.keys() == trained.best.metrics.keys()
    assert trained.before["FG-CDA"] == pytest.approx(
        sum(trained.before[f"FG-CDA {kind}"] for kind in KINDS) / 2
    )
    assert trained.best.metrics["FG-CDA"] > trained.before["FG-CDA"]

    with pytest.raises(TrainingError, match="stopped"):
        train(settings, splits, tmp_path / "cut", _Stops())
    again = train(settings, splits, tmp_path / "cut", Notes())
    assert again is not None
    assert (again.before, again.best) == (trained.before, trained.best)
    whole, cut = (Checkpoints(tmp_path / name).last for name in ("whole", "cut"))
    assert (whole / "model.safetensors").read_bytes() == (cut / "model.safetensors").read_bytes()
