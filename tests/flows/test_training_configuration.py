import re
from pathlib import Path

import pytest

from loupe.flows.evaluation.training import load_training
from loupe.schemas.cfam import CfamTraining
from loupe.schemas.errors import ConfigurationError


def test_the_paper_configuration_uses_all_identities_and_four_queries() -> None:
    """UFineBench, section 5.1 and table 9, row 4."""
    assert load_training(None) == CfamTraining()
    settings = load_training("paper")
    assert (settings.validation_share, settings.decoder.queries) == (0, 4)
    assert (settings.schedule.weight_decay, settings.augmentation.flipped_sides) == (0, "ignore")
    assert (settings.schedule.epochs, settings.schedule.batch_pairs) == (60, 64)
    assert (settings.schedule.learning_rate, settings.schedule.new_learning_rate) == (1e-5, 5e-5)


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    file = tmp_path / "train.toml"
    file.write_text('[backbone]\ncheckpoint = "clip.pt"\n', encoding="utf-8")
    assert load_training(str(file)).backbone.checkpoint == tmp_path / "clip.pt"


def test_invalid_values_are_one_line_errors(tmp_path: Path) -> None:
    cases = [
        ("epochs = 3", "unknown key 'epochs'; it belongs in schedule: schedule = {epochs"),
        ("[schedule]\nepochs = 0", "schedule.epochs: must be greater than 0, got 0"),
        ("[losses]\ntemperature = 0.0", "losses.temperature: .* got 0"),
        ('device = "gpu"', "device: must be auto, .* got 'gpu'"),
        ("[losses", "is not valid TOML"),
    ]
    for content, sentence in cases:
        file = tmp_path / "train.toml"
        file.write_text(content, encoding="utf-8")
        with pytest.raises(ConfigurationError) as caught:
            load_training(str(file))
        assert re.search(sentence, str(caught.value)), content
        assert "\n" not in str(caught.value), content
