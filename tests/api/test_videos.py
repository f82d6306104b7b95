"""Pipelines of one's own that start with videos: the steps of `build-ufine6926`."""

import re
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import loupe
from loupe.annotate.queues import declare_queues
from loupe.db.entities import StoredEntity, find
from loupe.db.store import Store
from loupe.demo.worlds.street import StreetWorld
from loupe.demo.worlds.writing import CITATION, LICENCE
from loupe.flows.engine.pipeline import run_pipeline
from loupe.flows.ufine6926.pipeline import ufine6926_pipeline
from loupe.models.profiles.loader import load_profile
from loupe.models.profiles.settings import Settings
from loupe.schemas.build import UFine6926Build, VideoSourceSpec
from loupe.schemas.proposals import Tracklet
from loupe.schemas.records import Image
from tests.annotate.interfaces.regions import Regions, ticked, written
from tests.flows.ccd_reviewers import answer_all, open_office
from tests.flows.runs import context_of, new_run
from tests.flows.street import write_short_street

TERMS = {"name": "street", "licence": LICENCE, "citation": CITATION}
FILTER: dict[str, Any] = {
    "least_height_px": 24,
    "least_width_px": 8,
    "least_sharpness": 0,
    "darkest": 5,
    "brightest": 250,
    "pose_model": None,
}
DESCRIPTION = (
    "This is a person of medium build with dark hair who walks along a street in long dark "
    "trousers, a plain jacket and shoes, and carries nothing at all"
)
TRACK, FILTERED, FORM = (
    loupe.steps.track(),
    loupe.steps.filter_tracks(**FILTER),
    loupe.steps.form_identities(),
)


@pytest.fixture(scope="module")
def street(tmp_path_factory: pytest.TempPathFactory) -> StreetWorld:
    return write_short_street(tmp_path_factory.mktemp("street"))


@loupe.step
def sized(image: loupe.Image) -> loupe.Caption:
    """Says how high a crop is."""
    return loupe.Caption(f"A person of {image.height_px} pixels.")


def walkers(street: StreetWorld, *steps: Any, version: str = "0.1.0") -> loupe.Pipeline:
    source = loupe.source("videos", "videos", detections="detections", **TERMS)
    return loupe.Pipeline(
        "promenade",
        version=version,
        folder=street.folder,
        sources=[source],
        steps=[*steps, loupe.release(test_share=0.5)],
    )


def test_people_are_followed_filtered_and_split_by_video_as_in_the_paper(
    street: StreetWorld, tmp_path: Path, migrated_sqlite: Path
) -> None:
    settings = Settings(home=tmp_path / ".loupe")

    def rows(filtered: Any, version: str) -> list[dict[str, Any]]:
        pipeline = walkers(street, TRACK, filtered, FORM, sized, version=version)
        return list(pipeline.run("builtin", quiet=True, settings=settings).release.rows())

    released = rows(FILTERED, "0.1.0")
    videos, boxes = str(street.folder / "videos"), street.folder / "detections"
    spec = VideoSourceSpec(**TERMS, videos=(videos,), detections=boxes)
    build = UFine6926Build(dataset="ufine6926", test_share=0.5, sources=(spec,))
    builtin = load_profile("builtin")
    profile = builtin.model_copy(update={"filter": builtin.filter.model_copy(update=FILTER)})
    with new_run(migrated_sqlite, tmp_path) as run:
        run_pipeline(run, ufine6926_pipeline(), build, profile, lambda: None)
        images = [one.record(Image) for one in find(run.store, "ufine6926", Image.kind)]
    assert {one.split for one in images} == {"train", "test"}
    as_released = Counter((row["identity"], row["split"]) for row in released)
    assert Counter((one.identity, one.split) for one in images) == as_released

    few = loupe.steps.filter_tracks(**FILTER | {"most_images": 3})
    kept = rows(few, "0.2.0")
    assert 0 < len(kept) < len(released)
    card = (tmp_path / ".loupe" / "releases" / "promenade-0.2.0" / "README.md").read_text("utf-8")
    assert re.search(r"\| filter\\_tracks \| .* \| .*most\\_images 3.* \|", card)
    assert f"| computed by a step without a model | {len(kept)} (100 %) |" in card
    assert "| model |" not in card, "a rule is no model, and costs nothing"
    assert len(rows(FILTERED, "0.3.0")) == len(released), "what was inactive counts again"


def test_a_preview_shows_refused_tracks_and_the_split(
    street: StreetWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOUPE_HOME", str(tmp_path))
    many = loupe.steps.filter_tracks(**FILTER | {"least_images": 7})
    preview = walkers(street, TRACK, many, FORM, sized).preview(1, "builtin")
    refused = [one for one in preview.items if one.item == "track"]
    kept = [next(one.rows()).output for one in preview.items if one.state == "kept"]
    assert refused
    assert kept
    assert all("needed are 7 (least_images)" in one.reasons[0] for one in refused)
    assert all(re.search(r"\.jpg \(\S+, (train|test)\)$", name) for name in kept)
    assert f"{preview.read} of {preview.records} frames" in str(preview)


def opinion(shown: StoredEntity) -> Regions:
    """Keep a tracklet without its first frame; describe an image."""
    if shown.kind == Tracklet.kind:
        first = shown.record(Tracklet).frames[0].frame
        return [ticked("verdict", "keep"), ticked("dropped", str(first))]
    return [ticked("verdict", "accept"), written("text", DESCRIPTION)]


def test_people_drop_frames_and_describe_what_is_left(street: StreetWorld, tmp_path: Path) -> None:
    pipeline = walkers(
        street,
        TRACK,
        FILTERED,
        loupe.gate("tracklets", of=loupe.Tracklet),
        FORM,
        loupe.gate("descriptions", of=loupe.Image, page="text"),
    )
    declare_queues(pipeline.name, pipeline.queues())
    (tmp_path / "home").mkdir()
    with closing(Store.open(f"sqlite:///{tmp_path / 'home' / 'loupe.db'}")) as store:
        run = context_of(store, tmp_path / "home")
        office, people = open_office(run)

        def waiting() -> int:
            spec, build = pipeline.spec(), pipeline.build()
            report = run_pipeline(run, spec, build, load_profile("builtin"), lambda: office)
            return report.waiting

        tracklets = waiting()
        assert len(answer_all(run, office, people, opinion)) == tracklets
        images = waiting()
        while waiting():
            answer_all(run, office, people, opinion)
    folder = tmp_path / "home" / "releases" / "promenade-0.1.0"
    rows = list(loupe.open_release(folder).rows())
    assert len(rows) == images
    assert all(row["captions"] == [DESCRIPTION] for row in rows)
    assert not any(
        author.startswith("promenade") for row in rows for author in row["caption_authors"]
    )
    assert "UFine6926" not in (folder / "README.md").read_text("utf-8"), (
        "it is a dataset of its own"
    )


def test_a_step_on_videos_needs_a_source_of_videos(tmp_path: Path) -> None:
    source = loupe.source("csv", "shop.csv", licence="CC0-1.0")
    with pytest.raises(loupe.UsageError, match=r"takes videos, and no source has any; add one"):
        loupe.Pipeline("a", version="0.1.0", sources=[source], steps=[TRACK], folder=tmp_path)
    with pytest.raises(loupe.UsageError, match=r"takes track, which no step before it makes"):
        loupe.Pipeline("a", version="0.1.0", sources=[source], steps=[FILTERED], folder=tmp_path)
    with pytest.raises(loupe.UsageError, match=r"filter_tracks: .*least_height_px"):
        loupe.steps.filter_tracks(least_heigth_px=3)
