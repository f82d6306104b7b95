"""`build-ufine6926` in this process: from videos of a street to a release."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from loupe.annotate.backend import Desks
from loupe.db.entities import StoredEntity, find, parents_of
from loupe.db.reviews import add_annotator
from loupe.db.store import Store
from loupe.demo.worlds.street import StreetWorld
from loupe.flows.engine.context import BuildReport, RunContext, sync_active
from loupe.flows.engine.pipeline import run_pipeline
from loupe.flows.ufine6926.filter_explanation import explain
from loupe.flows.ufine6926.identities import form_identities
from loupe.flows.ufine6926.noise_filter import current_report, thresholds_of
from loupe.flows.ufine6926.pipeline import ufine6926_pipeline
from loupe.models.profiles.loader import load_profile
from loupe.release.build import build_release
from loupe.release.format.manifest import read_manifest
from loupe.release.verify import verify_release
from loupe.schemas.build import UFine6926Build, VideoSourceSpec
from loupe.schemas.errors import ConfigurationError, IntegrityError, UsageError
from loupe.schemas.profile import Profile
from loupe.schemas.proposals import Tracklet
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Image
from loupe.schemas.similarity import LeakLimits, SplitSettings
from loupe.schemas.tracking import FilterSettings, TrackingSettings
from loupe.schemas.video import FilterReport, Track, Video
from tests.annotate.interfaces.regions import Regions, ticked, written
from tests.annotate.memory_desk import MemoryOffice
from tests.flows.runs import copied_run, new_run
from tests.flows.street import KnownStreet

DATASET = "walkers"
NAMES = ("Ann Street", "Bea Street")
DESCRIPTION = (
    "This is a person of medium build with dark hair who walks along a street in long dark "
    "trousers, a plain jacket and shoes, carries nothing at all, and is described by"
)
LENIENT = FilterSettings(
    least_height_px=24,
    least_width_px=8,
    least_sharpness=0,
    darkest=5,
    brightest=250,
    pose_model=None,
)


@pytest.fixture(scope="module")
def build(street: StreetWorld) -> UFine6926Build:
    spec = VideoSourceSpec(
        name="street", videos=tuple(map(str, street.videos)), licence="CC0-1.0", citation="none"
    )
    return UFine6926Build(dataset=DATASET, test_share=0.5, sources=(spec,))


@pytest.fixture(scope="module")
def released(
    street: StreetWorld,
    build: UFine6926Build,
    migrated_sqlite: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[RunContext, BuildReport]]:
    """A finished build and its report, read-only."""
    with new_run(migrated_sqlite, tmp_path_factory.mktemp("released")) as run:
        yield run, go(run, build, KnownStreet(street))


@pytest.fixture
def done(released: tuple[RunContext, BuildReport], tmp_path: Path) -> Iterator[RunContext]:
    """A copy of the finished build that tests may change."""
    with copied_run(released[0], tmp_path / "home") as run:
        yield run


def profile(settings: FilterSettings = LENIENT) -> Profile:
    builtin = load_profile("builtin")
    tracking = TrackingSettings(checkpoint_frames=20, observations=8)
    return builtin.model_copy(update={"tracking": tracking, "filter": settings})


def no_desks() -> Desks:
    raise AssertionError("no review server may be opened")


def go(
    run: RunContext,
    build: UFine6926Build,
    known: KnownStreet,
    chosen: Profile | None = None,
    open_desks: Callable[[], Desks] = no_desks,
    *,
    releases: bool = True,
) -> BuildReport:
    """Run the steps of the pipeline, without the last one, the release, unless it `releases`."""
    pipeline = ufine6926_pipeline(make_detector=known.detector)
    if not releases:
        pipeline = replace(pipeline, steps=pipeline.steps[:-1])
    return run_pipeline(run, pipeline, build, chosen or profile(), open_desks)


def entities(run: RunContext, kind: str, *states: str) -> list[StoredEntity]:
    return list(find(run.store, DATASET, kind, states=states or None))


def test_a_run_without_review_ends_in_a_verified_release(
    released: tuple[RunContext, BuildReport],
) -> None:
    run, report = released
    assert report.release is not None
    assert verify_release(report.release).problems == []
    images = [one.record(Image) for one in entities(run, Image.kind)]
    assert {image.split for image in images} == {"train", "test"}
    captions = entities(run, Caption.kind)
    assert len(captions) == 2 * len(images)
    assert {one.record(Caption).author for one in captions} == {
        "loupe-colour-describer@1",
        "loupe-colour-describer-flowing@1",
    }


def test_two_annotators_select_frames_and_describe_images(
    run: RunContext, build: UFine6926Build, known_street: KnownStreet
) -> None:
    office = MemoryOffice()
    people = [add_person(run.store, office, name) for name in NAMES]
    gates = {"tracklets_gate": "required", "descriptions_gate": "required"}
    gated = build.model_copy(update=gates)

    def go_on() -> BuildReport:
        return go(run, gated, known_street, open_desks=lambda: office)

    waiting = go_on().waiting
    tracklets = entities(run, Tracklet.kind, "proposed")
    assert waiting == len(tracklets) >= 4
    selected = [answer_all(office, person, select_frames) for person in people]
    assert sum(selected) == len(tracklets)
    assert min(selected) > 0, "the work is shared"

    built = go_on()
    images = entities(run, Image.kind)
    assert built.waiting == len(images)
    described: Counter[str] = Counter()
    while built.waiting:  # images come in batches
        for person in people:
            describe = partial(describe_image, person=person)
            described[person] += answer_all(office, person, describe)
        built = go_on()
    assert described == dict.fromkeys(people, len(images))

    assert built.release is not None
    assert verify_release(built.release).problems == []
    rows = json.loads((built.release / f"{DATASET}.json").read_text())
    assert len(rows) == len(images)
    for row in rows:
        assert sorted(text.rpartition(" ")[2] for text in row["captions"]) == sorted(people)
    captions = [one.record(Caption) for one in entities(run, Caption.kind, "accepted")]
    assert {caption.author for caption in captions} == set(people)
    edited = entities(run, Tracklet.kind, "superseded")
    assert edited
    dropped = {one.record(Tracklet).frames[0].crop.sha256 for one in edited}
    assert not dropped & {one.record(Image).sha256 for one in images}
    text = b"".join(file.read_bytes() for file in built.release.rglob("*") if file.is_file())
    assert [name for name in NAMES if name.encode() in text] == [], "only pseudonyms are released"


def add_person(store: Store, office: MemoryOffice, name: str) -> str:
    """Add an annotator with a workspace and return the pseudonym."""
    user_id = len(office.desks) + 1
    added = add_annotator(store, name, office.server.url, user_id, ["annotator"])
    assert office(added.pseudonym).user_id == user_id
    return added.pseudonym


def answer_all(
    office: MemoryOffice, person: str, answer: Callable[[dict[str, Any]], Regions]
) -> int:
    """Answer all open tasks of a person and return their number."""
    desk = office(person)
    data = {task.key: task.data for task in desk.sent}
    waiting = desk.open_tasks()
    for task in waiting:
        desk.submit(task.id, answer(data[task.key]))
    return len(waiting)


def select_frames(data: dict[str, Any]) -> Regions:
    """Keep every tracklet, but drop its first frame if that frame has an even number."""
    frames = [option["value"] for option in data["frames"]]
    if len(frames) > 1 and int(frames[0]) % 2 == 0:
        return [ticked("verdict", "keep"), ticked("dropped", frames[0])]
    return [ticked("verdict", "keep")]


def describe_image(_data: dict[str, Any], person: str) -> Regions:
    """Return a text with enough words that ends with its author."""
    return [written("text", f"{DESCRIPTION} {person}"), ticked("verdict", "accept")]


def test_a_second_run_does_no_work_and_gives_the_same_release(
    released: tuple[RunContext, BuildReport],
    done: RunContext,
    build: UFine6926Build,
    known_street: KnownStreet,
) -> None:
    before = [one.id for kind in KINDS for one in entities(done, kind)]
    second = go(done, build, known_street)
    third = go(done, build, known_street)
    assert released[1].release_id == second.release_id == third.release_id
    assert [one.id for kind in KINDS for one in entities(done, kind)] == before
    assert [stage.done for stage in third.stages] == [0] * len(third.stages)


KINDS = (Video.kind, Track.kind, FilterReport.kind, Tracklet.kind, Image.kind, Caption.kind)


def test_other_thresholds_need_no_decoding_and_deactivate_images(
    done: RunContext, build: UFine6926Build, known_street: KnownStreet
) -> None:
    lenient = {one.id for one in entities(done, Image.kind, "proposed", "accepted")}
    seen = known_street.frames_seen
    strict = profile(LENIENT.model_copy(update={"most_images": 3}))
    go(done, build, known_street, strict, releases=False)
    assert known_street.frames_seen == seen
    few = {one.id for one in entities(done, Image.kind, "proposed", "accepted")}
    assert 0 < len(few) < len(lenient)

    go(done, build, known_street, releases=False)
    assert {one.id for one in entities(done, Image.kind, "proposed", "accepted")} == lenient
    assert known_street.frames_seen == seen
    shown = [thresholds_of(done.store, current_report(done.store, DATASET), "builtin").settings]
    shown += [
        explain(done.store, one.id, "").thresholds.settings for one in entities(done, Track.kind)
    ]
    assert shown == [LENIENT] * len(shown)


def test_a_split_that_whole_videos_do_not_allow_is_reported_with_the_reason(
    done: RunContext, build: UFine6926Build, street: StreetWorld
) -> None:
    images = [one.record(Image) for one in entities(done, Image.kind, "proposed", "accepted")]
    people = {image.identity: image.split for image in images}
    share = sum(split == "test" for split in people.values()) / len(people)
    near = build.model_copy(update={"test_share": round(share + 0.04, 3), "version": "0.2.0"})
    assert go(done, near, KnownStreet(street)).missing == []
    far = build.model_copy(update={"test_share": 0.97, "version": "0.3.0", "strict": True})
    with pytest.raises(
        UsageError, match=r"share of identities for testing: .* of 0\.97 \(all peop"
    ):
        go(done, far, KnownStreet(street))
    back = go(done, near.model_copy(update={"version": "0.4.0"}), KnownStreet(street))
    assert back.release is not None
    assert read_manifest(back.release).statistics.test_share == near.test_share


def test_no_identity_or_video_is_in_both_splits(done: RunContext) -> None:
    splits: dict[str, set[str | None]] = {}
    images = entities(done, Image.kind)
    videos = parents_of(done.store, [image.id for image in images], Role.CROP_OF)
    for image in images:
        record = image.record(Image)
        for key in (record.identity, *videos[image.id]):
            splits.setdefault(key, set()).add(record.split)
    assert all(len(found) == 1 for found in splits.values())


def test_without_review_suspect_tracklets_and_frames_are_left_out(done: RunContext) -> None:
    for one in entities(done, Tracklet.kind, "accepted"):
        assert not one.record(Tracklet).switches
    tracklets = {one.id: one.record(Tracklet) for one in entities(done, Tracklet.kind)}
    images = entities(done, Image.kind)
    selected = parents_of(done.store, [image.id for image in images], Role.SELECTED_IN)
    for image in images:
        (tracklet,) = selected[image.id]
        sha256 = image.record(Image).sha256
        frames = [one for one in tracklets[tracklet].frames if one.crop.sha256 == sha256]
        assert frames
        assert not any(one.suspicions for one in frames)


def test_sources_without_a_usable_video_are_reported(
    run: RunContext, known_street: KnownStreet, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    spec = VideoSourceSpec(name="street", videos=(str(tmp_path / "empty"),), licence="CC0-1.0")
    build = UFine6926Build(dataset=DATASET, sources=(spec,))
    with pytest.raises(ConfigurationError, match="no usable video; look at: loupe quarantine"):
        go(run, build, known_street)


LIVE = ("proposed", "accepted")


def test_a_filter_that_rejects_everything_is_an_error_and_releases_nothing(
    done: RunContext, build: UFine6926Build, known_street: KnownStreet
) -> None:
    nothing = profile(FilterSettings(least_height_px=5000, pose_model=None))
    later = build.model_copy(update={"version": "0.2.0"})
    with pytest.raises(ConfigurationError, match="no tracklet of 'walkers' was accepted"):
        go(done, later, known_street, nothing)
    assert entities(done, Image.kind, *LIVE) == []
    assert not (done.settings.home / "releases" / "walkers-0.2.0").exists()


def test_inactive_images_keep_their_splits(
    done: RunContext, build: UFine6926Build, known_street: KnownStreet
) -> None:
    """As after a kill between deactivating images and storing their replacements."""
    before = {one.id for one in entities(done, Image.kind, *LIVE)}
    sync_active(done, DATASET, Image.kind, lambda _image: False, LIVE)
    for seed in (1, 2, 3):
        again = build.model_copy(update={"test_share": 0.9, "seed": seed})
        go(done, again, known_street, releases=False)
        assert {one.id for one in entities(done, Image.kind, *LIVE)} == before


def test_drafts_of_other_models_or_prompts_replace_the_earlier_drafts(
    done: RunContext, build: UFine6926Build, known_street: KnownStreet
) -> None:
    first = profile()
    models = first.describe.models
    changed: dict[str, dict[str, Any]] = {
        "one model": {"models": models[:1]},
        "shorter": {"max_characters": first.describe.max_characters - 1},
        "as before": {},
    }
    images = len(entities(done, Image.kind, *LIVE))
    before = {one.id for one in entities(done, Caption.kind, *LIVE)}
    for name, update in changed.items():
        describe = first.describe.model_copy(update=update)
        chosen = first.model_copy(update={"describe": describe})
        go(done, build, known_street, chosen, releases=False)
        found = entities(done, Caption.kind, *LIVE)
        assert len(found) == images * len(describe.models), name
        assert {one.state for one in found} == {"accepted"}
        assert ({one.id for one in found} == before) == (name == "as before")


def test_images_similar_across_splits_are_left_out_of_the_release(
    done: RunContext, build: UFine6926Build, tmp_path: Path
) -> None:
    before = entities(done, Image.kind, *LIVE)
    tracklets = {one.id for one in entities(done, Tracklet.kind, "accepted")}
    strict = LeakLimits(hash_bits=22)
    with pytest.raises(IntegrityError, match="run the build again"):
        build_release(done.store, done.blobs, DATASET, "0.2.0", tmp_path / "no", leak_limits=strict)
    least = LENIENT.least_images
    report, kept = form_identities(done, DATASET, tracklets, SplitSettings(limits=strict), least)
    sync_active(done, DATASET, Image.kind, lambda one: one.id in kept, LIVE)
    assert set(report.rejected) == {"tied_to_test"}
    after = {one.id for one in entities(done, Image.kind, *LIVE)}
    assert len(after) < len(before)
    assert {one.split for one in before if one.id not in after} == {"train"}
    build_release(done.store, done.blobs, DATASET, "0.2.0", tmp_path / "yes", leak_limits=strict)

    _, images = form_identities(done, DATASET, tracklets, SplitSettings(), least)
    assert images == {one.id for one in before}
