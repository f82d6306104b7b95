import subprocess
import sys
from pathlib import Path

import pytest

from models.registry import build_detector
from schemas.errors import ModelError
from schemas.tracking import BuiltinDetector, FairMOTDetector

REPOSITORY = Path(__file__).resolve().parents[2]

WITHOUT = """
import sys
sys.modules["torch"] = None  # as if it were not installed
from pathlib import Path
from models.registry import build_detector
from models.pose import build_pose_model
from schemas import tracking
from schemas.errors import MissingExtraError
for build, spec in (
    (build_detector, tracking.FairMOTDetector(provider="fairmot", checkpoint=Path("some.pth"))),
    (build_pose_model, tracking.ViTPoseModel(name="some/pose", revision="1")),
):
    try:
        build(spec)
    except MissingExtraError as error:
        print(error)
"""


def run_python(program: str) -> str:
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout.strip()


def test_a_missing_extra_is_named() -> None:
    detector, pose = run_python(WITHOUT).splitlines()
    assert "'fairmot_dla34'" in detector
    assert "'some/pose'" in pose
    assert detector.endswith(".[torch]'")
    assert pose.endswith(".[torch]'")


def test_the_builtin_detector_needs_no_extra() -> None:
    spec = BuiltinDetector()
    assert build_detector(spec).ref == spec.ref


def test_a_missing_checkpoint_is_named(tmp_path: Path) -> None:
    spec = FairMOTDetector(provider="fairmot", checkpoint=tmp_path / "missing.pth", device="cpu")
    with pytest.raises(ModelError, match=r"missing\.pth.*No such file"):
        build_detector(spec)
