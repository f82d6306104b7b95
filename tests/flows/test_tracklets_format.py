"""What `loupe track` wrote, as a source."""

import json
from pathlib import Path

import pytest

from loupe.schemas.errors import FormatError
from loupe.schemas.plugins import load_plugin
from loupe.sources.importer import importer_for
from loupe.sources.records import SourceRow

FRAME = {"frame": 3, "time_seconds": 0.3, "box_xyxy": [1, 2, 3, 4], "score": 0.9}


def test_each_tracklet_is_a_person_and_each_crop_an_image(tmp_path: Path) -> None:
    frames = [{**FRAME, "crop": f"crops/0007-00000{number}.jpg"} for number in (3, 5)]
    document = {
        "video": "street/one.mp4",
        "tracklets": [{"track": 7, "frames": frames}, {"track": 7, "frames": frames[:1]}],
        "rejected": [],
    }
    path = tmp_path / "tracklets.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    importer = importer_for("tracklets")
    assert isinstance(importer, load_plugin("formats", "tracklets"))
    rows = [row for row in importer.rows(path) if isinstance(row, SourceRow)]
    assert [row.identity for row in rows] == ["one-0007-0", "one-0007-0", "one-0007-1"]
    assert [row.file_path for row in rows[:2]] == [one["crop"] for one in frames]
    path.write_text(json.dumps({**document, "tracklets": [{"track": 7}]}), encoding="utf-8")
    with pytest.raises(FormatError, match=r"is not tracklets.json of .*: tracklets\.0\.frames"):
        list(importer.rows(path))
