"""Steps of the papers' pipelines in a pipeline of one's own, with the built-in models."""

from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import loupe
from loupe.api.pipeline import RunReport
from loupe.db.entities import find
from loupe.db.quarantine import quarantined
from loupe.db.store import Store
from loupe.demo.worlds import write_people_world
from loupe.demo.worlds.stills import write_stills_world
from loupe.demo.worlds.writing import CITATION, LICENCE
from loupe.models.profiles.settings import Settings
from loupe.schemas.records import Image, Rewrite
from tests.api.shop import write_frames


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("people")
    write_people_world(folder, 7, 2)
    return folder


def run(people: Path, home: Path, *steps: Any, version: str = "0.1.0") -> RunReport:
    source = loupe.source(
        "cuhk-pedes",
        "cuhk-pedes-demo/reid_raw.json",
        images="cuhk-pedes-demo/images",
        licence=LICENCE,
    )
    pipeline = loupe.Pipeline(
        "drawn", version=version, folder=people, sources=[source], steps=[*steps, loupe.release()]
    )
    return pipeline.run("builtin", quiet=True, settings=Settings(home=home))


def rewrites(home: Path) -> list[tuple[str, str]]:
    with closing(Store.open_existing(f"sqlite:///{home / 'loupe.db'}", home)) as store:
        return [(one.state, one.record(Rewrite).text) for one in find(store, "drawn", Rewrite.kind)]


def test_captions_are_rewritten_checked_and_released(people: Path, tmp_path: Path) -> None:
    home = tmp_path / ".loupe"
    steps = (loupe.steps.rewrite(), loupe.steps.check_rewrites("form", "support", "person"))
    release = run(people, home, *steps).release
    states = [state for state, _ in rewrites(home)]
    assert states.count("accepted") > len(states) / 2
    row = next(release.rows())
    assert len(row["captions"]) == 6  # two of the source, each rewritten by two models


def test_people_are_cut_out_of_photographs_and_kept_by_their_pose(tmp_path: Path) -> None:
    write_frames(tmp_path, (0, 120))
    source = loupe.source("image-list", "list.txt", images="photos", licence="CC0-1.0")
    pipeline = loupe.Pipeline(
        "people",
        version="0.1.0",
        folder=tmp_path,
        sources=[source],
        steps=[
            loupe.steps.crop_people.using(least_height_px=32, least_width_px=12),
            loupe.steps.filter_by_pose.using(least_keypoints=15),
        ],
    )
    home = tmp_path / ".loupe"
    profile = tmp_path / "people.toml"
    profile.write_text('description = "The detector and the pose model of the extra vision."')
    pipeline.run(str(profile), quiet=True, settings=Settings(home=home))
    with closing(Store.open_existing(f"sqlite:///{home / 'loupe.db'}", home)) as store:
        crops = [one for one in find(store, "people", Image.kind) if one.state != "rejected"]
        refused = Counter(one.reason for one in quarantined(store, "people"))
    records = [one.record(Image) for one in crops]
    assert len(records) >= 2
    assert all(0.2 <= one.width_px / one.height_px <= 0.8 for one in records)
    assert all(one.file_path.endswith(".jpg") for one in records)
    assert set(refused) == {"few_keypoints"}


def test_contrasts_are_proposed_and_edited_once(tmp_path: Path) -> None:
    write_stills_world(tmp_path, 7, 4)
    source = loupe.source(
        "coco-captions", "captions_test.json", images="images", licence=LICENCE, citation=CITATION
    )
    pipeline = loupe.Pipeline(
        "stills",
        version="0.1.0",
        folder=tmp_path,
        sources=[source],
        steps=[
            loupe.near_duplicates(),
            loupe.steps.propose_contrasts(2),
            loupe.steps.edit(),
            loupe.release(),
        ],
    )
    settings = Settings(home=tmp_path / ".loupe")
    first = pipeline.run("builtin", quiet=True, settings=settings)
    rows = list(first.release.rows())
    edited = [row for row in rows if row["caption_authors"][0] == "stills.edit@1"]
    proposed = [one for row in rows for one in row["proposed_contrast"]]
    assert len(proposed) == 8
    assert 0 < len(edited) <= len(proposed)
    assert {row["captions"][0] for row in edited} <= {one["text"] for one in proposed}
    # the second run compares no edited image with the one that it was made of
    again = pipeline.run("builtin", quiet=True, settings=settings)
    assert again.release_id == first.release_id
    assert str(again).startswith("nothing was to be done: release ")
    assert not [one for one in again.report.stages if one.done or one.rejected]
