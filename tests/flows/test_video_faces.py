"""Faces of people in videos are hidden before their crops are stored."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pictures

from loupe.annotate.backend import Desks
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.pipeline import run_pipeline
from loupe.flows.engine.report import Progress
from loupe.flows.ufine6926.given_detections import GivenDetector, given_detections
from loupe.flows.ufine6926.pipeline import ufine6926_pipeline
from loupe.flows.ufine6926.video_tracks import track_video
from loupe.models.profiles.loader import load_profile
from loupe.release.format.manifest import read_manifest
from loupe.release.format.row_files import read_release
from loupe.release.verify import verify_release
from loupe.schemas.build import UFine6926Build, VideoSourceSpec
from loupe.schemas.faces import Faces
from loupe.schemas.profile import Profile
from loupe.schemas.tracking import DetectorSpec, FilterSettings
from tests.flows.command_line import Loupe
from tests.requirements import unavailable

PHOTOGRAPH = Path(__file__).parents[3] / "shared" / "data" / "coco_captions" / "6.jpg"
_FRAMES = 30
_BOX = (250, 130, 130, 260)  # left, top, width, height of the woman in it
_EYES = (292 - 250, 178 - 130, 328 - 250, 190 - 130)  # in her crop


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an image sequence of the photograph, and the boxes of the woman in it."""
    pytest.importorskip("mediapipe", reason="needs weights: the extra vision")
    if not PHOTOGRAPH.exists():
        unavailable("needs weights: the photographs in shared/data")
    folder = tmp_path_factory.mktemp("film")
    frames = folder / "img1"
    frames.mkdir()
    boxes = []
    for number in range(1, _FRAMES + 1):
        shutil.copy(PHOTOGRAPH, frames / f"{number:06}.jpg")
        boxes.append(f"{number},-1,{','.join(map(str, _BOX))},0.9")
    left, top, width, height = _BOX
    woman = Pictures.open(PHOTOGRAPH).crop((left, top, left + width, top + height))
    woman.save(folder / "woman.png")
    (folder / "boxes").mkdir()
    (folder / "boxes" / "img1.txt").write_text("\n".join(boxes), encoding="utf-8")
    return folder


def lenient() -> Profile:
    accepts = FilterSettings(
        least_sharpness=0, darkest=0, brightest=255, pose_model=None, least_images=1
    )  # all frames are the same
    return load_profile("builtin").model_copy(update={"filter": accepts})


def no_desks() -> Desks:
    raise AssertionError("nobody is asked")


def roughness(file: Path) -> float:
    """Return the mean difference of neighbouring pixels around the eyes."""
    left, top, right, bottom = _EYES
    pixels = np.asarray(Pictures.open(file).convert("RGB"), float)[top:bottom, left:right]
    return float(np.abs(np.diff(pixels, axis=1)).mean())


def build(film: Path, **values: Any) -> UFine6926Build:
    source = VideoSourceSpec(
        name="film",
        videos=(str(film / "img1" / "%06d.jpg"),),
        detections=film / "boxes",
        frame_rate=6,
        licence="CC0-1.0",
        citation="none",
        **values,
    )
    return UFine6926Build(dataset="seen", sources=(source,))


def test_crops_of_a_build_from_video_are_stored_without_faces(run: RunContext, film: Path) -> None:
    blurred = build(film, faces="blur")
    built = run_pipeline(run, ufine6926_pipeline(), blurred, lenient(), no_desks)
    assert built.release is not None
    (row,) = read_release(built.release).rows
    assert row.faces is not None
    assert (row.faces.method, row.faces.count) == ("blur", 1)
    assert roughness(built.release / row.file_path) < roughness(film / "woman.png") / 4
    (counted,) = read_manifest(built.release).statistics.faces
    assert (counted.images, counted.changed, counted.faces) == (1, 1, 1)
    assert verify_release(built.release).problems == []
    stored = [path for path in run.settings.home.rglob("*.jpg") if path.is_file()]
    assert stored
    for path in stored:
        assert roughness(path) < roughness(film / "woman.png") / 4, "no crop with the face"


def test_tracked_people_are_written_without_faces(film: Path, tmp_path: Path, loupe: Loupe) -> None:
    def given(_: DetectorSpec) -> GivenDetector:
        return GivenDetector(given_detections(film / "boxes"), "img1/%06d.jpg")

    video = str(film / "img1" / "%06d.jpg")
    treatments: tuple[tuple[Faces, bool], ...] = (("keep", True), ("replace", False))
    for faces, is_rough in treatments:
        out = tmp_path / faces
        tracked = track_video(video, out, lenient(), Progress(), given, faces)
        assert tracked.tracklets == 1
        crops = list((out / "crops").iterdir())
        assert crops
        for crop in crops:
            assert (roughness(crop) > roughness(film / "woman.png") / 4) is is_rough
    boxes = film / "boxes" / "img1.txt"
    refused = loupe("track", "--detections", boxes, "--faces", "blur", "--out", tmp_path)
    assert refused.exit_code == 2
    assert "--faces is only for a video" in refused.err
