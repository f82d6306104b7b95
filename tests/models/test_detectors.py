from pathlib import Path

import pytest

from loupe.models.registry import build_detector
from loupe.schemas.errors import ModelError
from loupe.schemas.tracking import FairMOTDetector


def test_a_missing_checkpoint_is_named(tmp_path: Path) -> None:
    spec = FairMOTDetector(provider="fairmot", checkpoint=tmp_path / "missing.pth", device="cpu")
    with pytest.raises(ModelError, match=r"missing\.pth.*No such file"):
        build_detector(spec)
