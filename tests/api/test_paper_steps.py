"""Steps of the papers' pipelines in a pipeline of one's own, with the built-in models."""

from collections import Counter
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from rapidfuzz import fuzz

import loupe
from loupe.api.loading import load_pipeline
from loupe.api.pairs import SimilarPair
from loupe.api.pipeline import RunReport
from loupe.db.entities import LIVE, children_of, find, parents_of
from loupe.db.quarantine import quarantined
from loupe.db.store import Store
from loupe.demo.worlds import write_people_world
from loupe.demo.worlds.stills import write_stills_world
from loupe.demo.worlds.writing import CITATION, LICENCE
from loupe.flows.engine.report import LineProgress
from loupe.flows.exploring.similar import similar_images
from loupe.models.profiles.loader import load_profile
from loupe.models.profiles.settings import Settings
from loupe.schemas.errors import ModelError, UsageError
from loupe.schemas.proposals import Candidate
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Image, Rewrite
from loupe.schemas.video import LANDMARKS, Body
from tests.api.shop import write_frames
from tests.flows.ccd_world import searched_folder


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("people")
    write_people_world(folder, 7, 2)
    return folder


def run(
    people: Path, home: Path, *steps: Any, version: str = "0.1.0", profile: str = "builtin"
) -> RunReport:
    source = loupe.source(
        "cuhk-pedes",
        "cuhk-pedes-demo/reid_raw.json",
        images="cuhk-pedes-demo/images",
        licence=LICENCE,
    )
    pipeline = loupe.Pipeline(
        "drawn", version=version, folder=people, sources=[source], steps=[*steps, loupe.release()]
    )
    return pipeline.run(profile, quiet=True, settings=Settings(home=home))


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


def test_what_the_present_checks_of_an_own_pipeline_refuse_counts_against_the_model(
    people: Path, tmp_path: Path
) -> None:
    home, profile = tmp_path / ".loupe", tmp_path / "strict.toml"
    lines = (
        'description = "Of a test."',
        "[rewrite]",
        'models = [{ provider = "builtin" }]',
        "[faithfulness]",
        "near_identical_similarity = 0.55",
    )
    profile.write_text("\n".join(lines), encoding="utf-8")
    steps = loupe.steps.rewrite(), loupe.steps.check_rewrites("form", "support", "person")
    run(people, home, *steps)
    with pytest.raises(ModelError, match=r"most of them .* as near_identical_to_source"):
        run(people, home, *steps, version="0.2.0", profile=str(profile))


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
            loupe.steps.filter_by_pose.named("feet").using(landmarks=["left_ankle", "right_ankle"]),
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


class SeesHeads:
    """A pose model that sees the heads of people, and nothing below."""

    def body(self, image: Any, box: Any) -> Body:
        return Body(keypoints=5, visible=LANDMARKS[:5])


def test_landmarks_are_named() -> None:
    unread = dict.fromkeys(("sha256", "media_type", "blobs_url"), "")
    known = {"id": "a", "source": "s", "identity": "i", "split": None, "file_path": "a.jpg"}
    image = loupe.Image(**known, **unread, width_px=10, height_px=20)  # type: ignore[arg-type]
    keeps = partial(loupe.steps.filter_by_pose, image, SeesHeads(), least_keypoints=0)
    assert keeps(landmarks=["nose", "left_ear"]) is True
    refusal = keeps(landmarks=["nose", "left_ankle"])
    assert (refusal.reason, refusal.detail) == ("hidden_landmark", "It does not show: left_ankle.")
    with pytest.raises(UsageError, match=r"no landmark is called 'left_foot'; "):
        keeps(landmarks=["left_foot"])


STILLS = """
dataset = "stills"
version = "0.1.0"
steps = [
    {{ use = "near_duplicates" }},
    {{ use = "propose_contrasts", most = 2 }},
    {{ use = "search", folder = "found" }},
    {{ use = "gate", name = "found", of = "candidate", policy = "auto" }},
    {{ use = "edit" }},
    {{ use = "group" }},
    {{ use = "six_way_test", size = 3, policy = "{policy}" }},
    {{ use = "release" }},
]

[[sources]]
format = "coco-captions"
annotations = "captions_test.json"
images = "images"
licence = "{licence}"
citation = "{citation}"
"""


def stills_pipeline(folder: Path, policy: str) -> loupe.Pipeline:
    path = folder / "stills.toml"
    stated = STILLS.format(licence=LICENCE, citation=CITATION, policy=policy)
    path.write_text(stated, encoding="utf-8")
    return load_pipeline(str(path))


def test_contrasts_are_found_edited_grouped_and_tested_by_people(tmp_path: Path) -> None:
    write_stills_world(tmp_path, 7, 4)
    searched_folder(write_stills_world(tmp_path / "more", 7, 24), tmp_path / "found")
    settings = Settings(home=tmp_path / ".loupe")

    first = stills_pipeline(tmp_path, "required").run("builtin", quiet=True, settings=settings)
    assert first.report.waiting_in == {"choices": 6}  # of each image drawn, one in each direction
    released = stills_pipeline(tmp_path, "auto").run("builtin", quiet=True, settings=settings)
    rows = list(released.release.rows())
    contrasts = [row["contrast"] for row in rows if row["contrast"]]
    anchors = {row["file_path"] for row in rows if not row["contrast"]}
    assert len(anchors) == 4
    with closing(Store.open_existing(f"sqlite:///{settings.home / 'loupe.db'}")) as store:
        obtained = [one.record(Candidate) for one in find(store, "stills", Candidate.kind)]
    assert {one.origin.method for one in obtained} == {"edit", "search"}
    assert {one["anchor"] for one in contrasts} <= anchors
    written = [row for row in rows if row["contrast"]]
    assert all(row["caption_authors"] == ["stills.group@1"] for row in written)
    # what a step made is no input of one before it
    again = stills_pipeline(tmp_path, "auto").run("builtin", quiet=True, settings=settings)
    assert again.release_id == released.release_id
    assert not [one for one in again.report.stages if one.done or one.rejected]


def test_a_contrast_goes_with_its_image_and_with_its_step(tmp_path: Path) -> None:
    write_stills_world(tmp_path, 7, 3)
    settings = Settings(home=tmp_path / ".loupe")
    source = loupe.source(
        "coco-captions", "captions_test.json", images="images", licence=LICENCE, citation=CITATION
    )

    versions = count()

    def pipeline(*steps: Any) -> loupe.Pipeline:
        return loupe.Pipeline(
            "stills",
            version=f"0.1.{next(versions)}",
            folder=tmp_path,
            sources=[source],
            steps=[*steps, loupe.release()],
        )

    def rows(*steps: Any) -> list[dict[str, Any]]:
        report = pipeline(*steps).run("builtin", quiet=True, settings=settings)
        return list(report.release.rows())

    steps = loupe.steps.propose_contrasts(1), loupe.steps.edit(), loupe.steps.group()
    assert len(pipeline(*steps).preview(1, "builtin").items) == 2  # nobody decides, and it goes on
    whole = rows(*steps)
    assert len([row for row in whole if row["contrast"]]) == 3
    name = whole[0]["identity"]
    fewer = rows(loupe.steps.filter(f"identity != {name!r}"), *steps)
    assert len(fewer) == len(whole) - 2
    assert len(rows(steps[0])) == 3
    assert len(rows(*steps)) == len(whole)


@loupe.step(version="1")
def of_colours(strategy: loupe.Strategy) -> bool:
    return "colour" in strategy.plan


@loupe.step(version="2")
def of_others(strategy: loupe.Strategy) -> bool:
    return "colour" not in strategy.plan


@loupe.step(version="1")
def found_nowhere(candidate: Candidate) -> bool:
    return candidate.origin.method == "search"


def test_proposals_are_filtered_and_come_back_with_another_version(tmp_path: Path) -> None:
    write_stills_world(tmp_path, 7, 2)
    source = loupe.source(
        "coco-captions", "captions_test.json", images="images", licence=LICENCE, citation=CITATION
    )
    settings = Settings(home=tmp_path / ".loupe")
    steps = loupe.steps

    def plans(version: str, *filters: Any) -> list[str]:
        pipeline = loupe.Pipeline(
            "stills",
            version=version,
            folder=tmp_path,
            sources=[source],
            steps=[steps.propose_contrasts(3), *filters, steps.group(), loupe.release()],
        )
        rows = pipeline.run("builtin", quiet=True, settings=settings).release.rows()
        return [row["contrast"]["plan"] for row in rows if row.get("contrast")]

    colours = plans("0.1.0", loupe.filter(of_colours), steps.edit())
    others = plans("0.2.0", of_others.named("of_colours"), steps.edit())
    assert colours
    assert all("colour" in one for one in colours)
    assert others
    assert not any("colour" in one for one in others)
    assert plans("0.3.0", steps.edit(), found_nowhere) == []
    assert sorted(plans("0.4.0", steps.edit())) == sorted([*colours, *others])


_TASKS = """
dataset = "tasks"
version = "0.1.0"

[[sources]]
format = "image-list"
annotations = "list.txt"
images = "images"
licence = "LICENCE"
citation = "CITATION"

[[steps]]
use = "caption"
per_item = 2

[[steps]]
use = "pair_similar"

[[steps]]
use = "confuse"

[[steps]]
use = "release"
"""


def test_similar_images_get_captions_that_are_compared_and_confusing_ones(tmp_path: Path) -> None:
    """Stated in Python and in TOML, it is the same dataset."""
    world = write_stills_world(tmp_path, 7, 24)
    names = sorted(path.name for path in world.image_root.iterdir())
    (tmp_path / "list.txt").write_text("\n".join(names), encoding="utf-8")
    toml = _TASKS.replace("LICENCE", LICENCE).replace("CITATION", CITATION)
    (tmp_path / "tasks.toml").write_text(toml, encoding="utf-8")
    source = loupe.source(
        "image-list", "list.txt", images="images", licence=LICENCE, citation=CITATION
    )
    steps = loupe.steps
    pipeline = loupe.Pipeline(
        "tasks",
        version="0.1.0",
        folder=tmp_path,
        sources=[source],
        steps=[steps.caption(per_item=2), steps.pair_similar(), steps.confuse(), loupe.release()],
    )
    settings = Settings(home=tmp_path / ".loupe")
    first = pipeline.run("builtin", quiet=True, settings=settings)
    with closing(Store.open_existing(settings.database_url, settings.home)) as store:
        captions = {one.id: one for one in find(store, "tasks", Caption.kind)}
        measured = children_of(store, captions, Role.MEASURES)
        pairs = [one.record(SimilarPair) for one in find(store, "tasks", SimilarPair.kind)]
        confused = parents_of(store, captions, Role.CONFUSES)
        image_of = parents_of(store, captions, Role.DESCRIBES)
        warned = children_of(store, confused, Role.EXAMINES)
    assert len(measured) == 48
    assert len({id_ for one in pairs for id_ in (one.first, one.second)}) == 24
    partners = {frozenset((one.first, one.second)) for one in pairs}
    described = {frozenset(image_of[new] + image_of[old]) for new, (old,) in confused.items()}
    assert described <= partners
    texts = {one: found.record(Caption).text for one, found in captions.items()}
    assert sum(fuzz.ratio(texts[new], texts[old]) > 60 for new, (old,) in confused.items()) > 30
    assert warned.keys() == confused.keys()
    states = Counter(captions[one].state for one in confused)
    assert states["accepted"], "nobody looked, and the embedder is sure"
    assert states["rejected"], "nobody looked, and it may fit both images"
    assert first.release.manifest.statistics.captions == 48 + states["accepted"]
    stated = load_pipeline(str(tmp_path / "tasks.toml"))
    said: list[str] = []
    assert stated.preview(4, "builtin", progress=LineProgress(said.append)).stopped == ""
    assert not [line for line in said if "loupe-preview-" in line], "it is gone when it ends"
    again = stated.run("builtin", quiet=True, settings=settings)
    assert again.release_id == first.release_id
    assert str(again).startswith("nothing was to be done: release ")
    (tmp_path / "list.txt").write_text("\n".join(names[1:]), encoding="utf-8")
    (tmp_path / "tasks.toml").write_text(toml.replace("0.1.0", "0.2.0"), encoding="utf-8")
    fewer = load_pipeline(str(tmp_path / "tasks.toml"))
    fewer.run("builtin", quiet=True, settings=settings)
    with closing(Store.open_existing(settings.database_url, settings.home)) as store:
        stored = find(store, "tasks", SimilarPair.kind, states=LIVE)
        live = [one.record(SimilarPair) for one in stored]
    assert len(live) == 11
    assert 0 < len([one for one in live if one not in pairs]) < 11, "most images keep their partner"


def test_a_sample_gets_the_images_that_are_most_similar_to_it(tmp_path: Path) -> None:
    write_stills_world(tmp_path, 7, 40)
    source = loupe.source(
        "coco-captions", "captions_test.json", images="images", licence=LICENCE, citation=CITATION
    )
    steps, settings = loupe.steps, Settings(home=tmp_path / ".loupe")
    drawn, versions = steps.sample(6, by="image"), count()

    def run(*parts: Any) -> set[str]:
        pipeline = loupe.Pipeline(
            "hard",
            version=f"0.1.{next(versions)}",
            folder=tmp_path,
            sources=[source],
            steps=[*parts, steps.caption(per_item=1), loupe.release()],
        )
        report = pipeline.run("builtin", quiet=True, settings=settings)
        rows = list(report.release.rows())
        assert (
            pipeline.run("builtin", quiet=True, settings=settings).release_id == report.release_id
        )
        return {row["identity"] for row in rows}

    few = run(drawn)
    assert len(few) == 6
    more = run(drawn, steps.add_similar(2))
    assert few < more
    assert 8 <= len(more) <= 18
    assert few < run(drawn, steps.add_similar(1)) < more
    assert run(drawn, steps.add_similar(2)) == more, "what was inactive counts again"
    assert run(drawn) == few
    with pytest.raises(UsageError, match=r"adds images that loupe\.steps\.sample\(\) or loupe"):
        run(steps.add_similar())


def test_the_images_nearest_to_a_text_are_kept(tmp_path: Path) -> None:
    write_stills_world(tmp_path, 7, 40)
    source = loupe.source(
        "coco-captions", "captions_test.json", images="images", licence=LICENCE, citation=CITATION
    )
    settings, query = Settings(home=tmp_path / ".loupe"), "a red ball"
    pipeline = loupe.Pipeline(
        "chosen",
        version="0.1.0",
        folder=tmp_path,
        sources=[source],
        steps=[
            loupe.steps.choose(4, query=f" {query}"),
            loupe.steps.add_similar(1),
            loupe.release(),
        ],
    )
    report = pipeline.run("builtin", quiet=True, settings=settings)
    kept = {row["identity"] for row in report.release.rows()}
    with closing(Store.open(settings.database_url)) as store:
        found = similar_images(store, load_profile("builtin"), query, ["chosen"], 40)
        images = list(find(store, "chosen", Image.kind))
    nearest = list(dict.fromkeys(str(int(Path(one.name).stem)) for one in found))
    assert len(nearest) > 30
    assert kept == set(nearest[:4])
    assert len(images) > len({one.record(Image).sha256 for one in images}), "others are added"
    assert "nearest to “a red ball”" in (report.release.folder / "README.md").read_text("utf-8")
    with pytest.raises(UsageError, match=r"say what the images show \(query=…\); it is empty"):
        loupe.steps.choose(4, query=" ")


def test_each_drawn_image_gets_a_similar_one_of_its_own(tmp_path: Path) -> None:
    """Pairs are of one split, no image is in two, and captions tell the two of a pair apart."""
    write_stills_world(tmp_path, 7, 40)
    source = loupe.source(
        "coco-captions", "captions_test.json", images="images", licence=LICENCE, citation=CITATION
    )
    steps, settings, versions = loupe.steps, Settings(home=tmp_path / ".loupe"), count()

    def run(drawn: int, *, is_decided: bool = True) -> list[SimilarPair]:
        pipeline = loupe.Pipeline(
            "hard",
            version=f"0.1.{next(versions)}",
            folder=tmp_path,
            sources=[source],
            steps=[
                steps.sample(drawn, by="image"),
                steps.caption(per_item=2),
                *([loupe.gate("captions", policy="auto")] if is_decided else []),
                steps.match_similar(),
                steps.confuse(),
                loupe.gate("confusions", policy="auto"),
                loupe.release(test_share=0.5),
            ],
        )
        report = pipeline.run("builtin", quiet=True, settings=settings)
        again = pipeline.run("builtin", quiet=True, settings=settings)
        assert again.release_id == report.release_id
        with closing(Store.open(settings.database_url)) as store:
            stored = find(store, "hard", SimilarPair.kind, states=LIVE)
            pairs = [one.record(SimilarPair) for one in stored]
            images = {one.id: one for one in find(store, "hard", Image.kind)}
        for one in pairs:
            assert images[one.first].split == images[one.second].split
        released = {row["identity"] for row in report.release.rows()}
        assert len(released) > drawn
        return pairs

    pairs = run(6)
    members = [one for pair in pairs for one in (pair.first, pair.second)]
    assert 4 <= len(pairs) <= 6
    assert len(set(members)) == len(members)
    assert len(run(8)) > len(pairs)
    assert len(run(6, is_decided=False)) == 6, "no caption is known to fit another image"
    assert run(6) == pairs, "what was inactive counts again"


def test_images_of_pairs_without_captions_are_left_out(tmp_path: Path) -> None:
    world = write_stills_world(tmp_path, 7, 8)
    names = sorted(path.name for path in world.image_root.iterdir())
    (tmp_path / "list.txt").write_text("\n".join(names[:3]), encoding="utf-8")
    terms = {"images": "images", "licence": LICENCE, "citation": CITATION}
    pipeline = loupe.Pipeline(
        "mixed",
        version="0.1.0",
        folder=tmp_path,
        sources=[
            loupe.source("coco-captions", "captions_test.json", **terms),
            loupe.source("image-list", "list.txt", **terms),
        ],
        steps=[
            loupe.steps.sample(2, by="image"),
            loupe.steps.add_similar(2),
            loupe.steps.pair_similar(),
            loupe.steps.confuse(),
            loupe.release(),
        ],
    )
    said: list[str] = []
    assert pipeline.preview(8, "builtin", progress=LineProgress(said.append)).stopped == ""
    assert [line for line in said if "of pairs left out: without a caption" in line]
    assert [line for line in said if "similar images left out as possible duplicates" in line], said
