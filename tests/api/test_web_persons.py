"""The example of people in single photographs, on frames of a real video."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from loupe.api.loading import load_pipeline
from loupe.models.profiles.settings import Settings
from tests.api.shop import EXAMPLES, PROFILE, write_frames
from tests.servers.counting_server import completion_of, counting_server

_FRAMES = (0, 120)


@pytest.fixture
def photographs(tmp_path: Path) -> Path:
    shutil.copytree(EXAMPLES / "web_persons", tmp_path, dirs_exist_ok=True)
    write_frames(tmp_path, _FRAMES)
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
