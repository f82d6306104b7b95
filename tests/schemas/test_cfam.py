from typing import Any

import pytest
from pydantic import ValidationError

from loupe.schemas.cfam import CfamLosses, CfamTraining

OFF = {"global_sdm": 0, "local_sdm": 0, "matching": 0, "identity": 0}


def test_the_defaults_are_those_of_the_paper() -> None:
    paper = CfamTraining()
    assert (paper.backbone.image_height_px, paper.backbone.image_width_px) == (384, 128)
    assert paper.backbone.text_tokens == 168
    decoder = paper.decoder
    assert (decoder.queries, decoder.blocks, decoder.width, decoder.heads) == (16, 2, 512, 8)
    assert paper.losses.model_dump() == {
        "global_sdm": 1,
        "local_sdm": 1,
        "matching": 1,
        "identity": 1,
        "info_nce": 0,
        "temperature": 0.02,
    }
    assert (paper.schedule.epochs, paper.schedule.batch_pairs) == (60, 64)
    assert (paper.schedule.learning_rate, paper.schedule.new_learning_rate) == (1e-5, 5e-5)


def test_invalid_settings_are_refused(subtests: pytest.Subtests) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"losses": OFF}, "every loss is switched off"),
        ({"decoder": {"width": 100}}, "width must be a multiple of heads"),
        ({"matcher": {"heads": 7}}, "decoder.width must be a multiple of matcher.heads"),
        ({"augmentation": {"mask_token": 0.6, "replace_token": 0.5}}, "must be at most 1"),
        ({"backbone": {"text_tokens": 2}}, "greater than 2"),
        ({"losses": {"matching": -1}}, "greater than or equal to 0"),
        ({"losses": {"sdm": 1}}, "Extra inputs"),
        ({"device": "gpu"}, "should match pattern"),
        ({"device": "cuda:"}, "should match pattern"),
    ]
    for settings, reason in cases:
        with subtests.test(reason=reason), pytest.raises(ValidationError, match=reason):
            CfamTraining.model_validate(settings)


def test_which_losses_need_the_decoder() -> None:
    assert CfamLosses().fine_grained
    assert CfamLosses(**OFF | {"matching": 1}).fine_grained
    assert not CfamLosses(**OFF | {"info_nce": 1}).fine_grained
