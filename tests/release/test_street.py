"""Releases of crops of videos: format of UFine6926, provenance, leak certificate and card."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from loupe.db.entities import NewDecision
from loupe.release.build import BuiltRelease, build_release
from loupe.release.verify import verify_release
from loupe.schemas.base import Split
from loupe.schemas.errors import IntegrityError
from loupe.schemas.release import Manifest
from loupe.schemas.similarity import LeakCertificate
from tests.release.cases import check_each, check_on_copies
from tests.release.forging import reseal
from tests.release.street_world import (
    DATASET,
    STREET,
    TRACKER,
    WALKS,
    WRITERS,
    StreetComposer,
    Walk,
    crop,
    street_world,
    text_of,
)
from tests.release.worlds import GATE, LLAMA, PERSON, QWEN, SOURCES, Composer, picture, store_world

PARQUET = "data/{}-00000-of-00001.parquet"


def built(composer: Composer, home: Path, **options: Any) -> BuiltRelease:
    world = store_world(home / "world", composer.contents())
    try:
        return build_release(
            world.store, world.blobs, composer.dataset, "1.0.0", home / "out", **options
        )
    finally:
        world.store.close()


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> BuiltRelease:
    return built(street_world(), tmp_path_factory.mktemp("release"))


@pytest.fixture
def copy(sound: BuiltRelease, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound.folder, tmp_path / "copy"))


def test_the_published_file_has_the_format_of_the_authors(sound: BuiltRelease) -> None:
    text = (sound.folder / f"{DATASET}.json").read_text("utf-8")
    images = [("train", 1, 1), ("train", 1, 2), ("train", 1, 3), ("train", 2, 4), ("train", 2, 5)]
    images += [("train", 3, 6), ("test", 4, 7), ("test", 4, 8)]
    lines = [
        json.dumps(
            {
                "split": split,
                "id": id_,
                "file_path": f"images/{number}.jpg",
                "captions": [text_of(number, 0), text_of(number, 1)],
            }
        )
        for split, id_, number in images
    ]
    assert text == "[\n" + ",\n".join(lines) + "\n]\n"


def test_rows_contain_the_origin_of_their_crop(sound: BuiltRelease) -> None:
    row = pq.read_table(sound.folder / PARQUET.format("train")).to_pylist()[2]
    crop_of = row["crop"]
    assert (crop_of["video"], crop_of["frame"], crop_of["score"]) == ("cam1/street.mp4", 25, 0.875)
    assert crop_of["box_xyxy"] == [100.5, 20.0, 124.5, 80.25]
    assert crop_of["time_seconds"] == 1.0
    assert (sound.folder / "images/3.jpg").read_bytes() == crop(3)
    (video,) = [one for one in sound.manifest.videos if one.file_path == "cam1/street.mp4"]
    assert (video.entity_id, video.sha256) == (
        crop_of["video_entity_id"],
        crop_of["video_sha256"],
    )
    assert (video.images, video.identities, video.duration_seconds) == (5, 2, 61.5)
    assert row["caption_authors"] == [one.name for one in WRITERS]
    assert row["caption_origins"] == ["written", "written"]
    assert row["caption_reviewed"] == [True, True]


def test_a_missing_file_of_rows_is_the_only_problem(copy: Path) -> None:
    """The rows of the next file are not reported as misplaced or missing before."""
    (copy / PARQUET.format("train")).unlink()
    assert [one.fault for one in verify_release(copy).problems] == ["file_missing"]


def test_statistics_of_splits_and_descriptions(sound: BuiltRelease) -> None:
    statistics = sound.manifest.statistics
    numbers = [(one.split, one.identities, one.images, one.captions) for one in statistics.splits]
    assert numbers == [("train", 3, 6, 12), ("test", 1, 2, 4)]
    made = statistics.descriptions
    assert made is not None
    assert (made.written, made.edited, made.drafted, made.annotators) == (16, 0, 0, 2)
    assert sound.manifest.trackers == (TRACKER,)
    assert not sound.manifest.unreviewed
    assert not sound.manifest.demonstration


def test_the_leak_certificate_states_comparisons_and_nearest_pairs(sound: BuiltRelease) -> None:
    certificate = LeakCertificate.model_validate_json((sound.folder / "leaks.json").read_bytes())
    assert certificate == sound.manifest.leaks
    measures = [one.measure for one in certificate.comparisons]
    assert measures == ["identity", "video", "file", "perceptual_hash", "embedding"]
    assert not certificate.leaks
    assert {(one.splits, one.images, one.pairs) for one in certificate.comparisons} == {
        (("train", "test"), (6, 2), 12)
    }
    hashes, embeddings = certificate.comparisons[3:]
    assert hashes.nearest is not None
    assert 4 < hashes.nearest.distance <= 64
    assert embeddings.computed_by == TRACKER
    assert embeddings.nearest is not None
    assert {hashes.nearest.first, embeddings.nearest.first} <= {
        f"images/{number}.jpg" for number in range(1, 7)
    }


def test_only_accepted_drafts_are_released_and_counted(tmp_path: Path) -> None:
    world = StreetComposer()
    first, second, third, undecided = [
        image for track, walk in enumerate(WALKS, 1) for image in world.walk(walk, track)[:1]
    ]
    world.drafted(first, "Drafted, and nobody looked.")
    world.drafted(second, "Drafted, and somebody agreed.", LLAMA, PERSON)
    draft = world.drafted(third, "Drafted, and wrong.", by=None)
    world.edited(draft, third, "Put right.", WRITERS[0])
    world.drafted(undecided, "Drafted, undecided.", by=None)
    made = built(world, tmp_path)
    rows = json.loads((made.folder / f"{DATASET}.json").read_text("utf-8"))
    captions = [row["captions"] for row in rows]
    assert captions == [
        ["Drafted, and nobody looked."],
        ["Drafted, and somebody agreed."],
        ["Put right."],
    ]
    found = made.manifest.statistics.descriptions
    assert found is not None
    assert (found.written, found.edited, found.drafted, found.reviewed) == (0, 1, 2, 1)
    assert found.annotators == 1
    assert [one.name for one in made.manifest.models] == [
        "Qwen/Qwen-14B-Chat",
        "meta-llama/Llama-2-70b-chat-hf",
    ]
    card = (made.folder / "README.md").read_text("utf-8")
    assert "3 of 3 images have captions by one author only" in card
    assert "| written by a model, unchanged | 2 (66.7 %) |" in card
    assert "1 of 2 descriptions written by a model were accepted without human review" in card
    assert made.manifest.prompts[0].text in card
    assert verify_release(made.folder).problems == []


def test_descriptions_based_on_drafts_are_counted_by_model(tmp_path: Path) -> None:
    world = StreetComposer()
    images = [image for track, walk in enumerate(WALKS, 1) for image in world.walk(walk, track)]
    for number, image in enumerate(images):
        model = QWEN if number < 5 else LLAMA
        draft = world.drafted(image, f"Draft {number}, of a model.", model, by=None)
        changed = (
            f"Draft {number}, of a person." if number % 2 else f"Draft {number},  of a model. "
        )
        world.edited(draft, image, changed, WRITERS[0])
        world.described_by(image, f"Number {number}, by somebody else.", WRITERS[1])
    made = built(world, tmp_path)
    found = made.manifest.statistics.descriptions
    assert found is not None
    assert (found.written, found.edited, found.drafted, found.reviewed) == (8, 4, 4, 4)
    assert [(one.model, one.started, one.unchanged) for one in found.drafts] == [
        (str(QWEN), 5, 3),
        (str(LLAMA), 3, 1),
    ]
    card = (made.folder / "README.md").read_text("utf-8")
    assert "5 descriptions started as a draft by Qwen/Qwen-14B-Chat@" in card
    assert ", 3 of them unchanged." in card
    assert {one.name for one in made.manifest.models} == {QWEN.name, LLAMA.name}
    assert verify_release(made.folder).problems == []


def test_a_rejected_draft_still_counts_as_base_of_its_edit(tmp_path: Path) -> None:
    world = StreetComposer()
    (image,) = world.walk(WALKS[2], 1)
    draft = world.drafted(image, "Drafted, and wrong.", by=None)
    world.edited(draft, image, "Put right.", WRITERS[0])
    world.decisions.append(NewDecision(draft, "reject", GATE, "other settings"))
    found = built(world, tmp_path).manifest.statistics.descriptions
    assert found is not None
    assert [(one.started, one.unchanged) for one in found.drafts] == [(1, 0)]
    assert (found.written, found.edited) == (0, 1)


def test_an_image_without_a_tracklet_is_refused(tmp_path: Path) -> None:
    world = StreetComposer()
    images = world.walk(WALKS[0], 1)
    entity = world.entities[images[0]]
    kept = tuple(parent for parent in entity.parents if parent[0] != "selected_in")
    world.entities[images[0]] = entity._replace(parents=kept)
    world.described(images[0], 1)
    with pytest.raises(IntegrityError, match="no tracklet that it was selected in shows its bytes"):
        built(world, tmp_path)


def test_frames_with_identical_bytes_are_distinguished(tmp_path: Path) -> None:
    world = StreetComposer()
    images = world.walk(Walk("still.mp4", "still-1", "train", (1, 2)), 1, data={2: crop(1)})
    for number, image in enumerate(images):
        world.described(image, number)
    (shard,) = built(world, tmp_path).folder.glob("data/*.parquet")
    rows = pq.read_table(shard).to_pylist()
    assert len({row["sha256"] for row in rows}) == 1
    frames = {row["source_file_path"]: row["crop"]["frame"] for row in rows}
    assert frames == {"still.mp4/1-5.jpg": 5, "still.mp4/1-15.jpg": 15}


class Leak(NamedTuple):
    """A leak from the training split into the test split."""

    name: str
    walk: Walk
    data: dict[int, bytes]
    embeddings: dict[int, Any]
    says: str


LEAKS = [
    Leak("same video", Walk("cam1/street.mp4", "new", "test", (21,)), {}, {},
         "train and test have 5 pairs of images from one video, such as images/1.jpg and "
         "images/7.jpg"),
    Leak("re-encoded", Walk("new.mp4", "new", "test", (2,)), {2: crop(2, 60)}, {2: np.eye(16)[0]},
         r"with perceptual hashes up to 4 apart, such as images/2.jpg"),
    Leak("near embedding", Walk("new.mp4", "new", "test", (22,)), {},
         {22: np.random.default_rng(3).normal(size=16)},
         r"with embeddings up to 0.005 apart, such as images/3.jpg"),
]  # fmt: skip


def test_a_dataset_with_leaks_is_not_released(tmp_path: Path) -> None:
    def check(leak: Leak) -> None:
        world, home = street_world(), tmp_path / leak.name
        for image in world.walk(leak.walk, 50, data=leak.data, embeddings=leak.embeddings):
            world.described(image, 30)
        with pytest.raises(IntegrityError, match=leak.says) as refused:
            built(world, home)
        assert "run the build again (loupe run build-ufine6926)" in str(refused.value)
        assert not (home / "out").exists()

    check_each(LEAKS, check)


def test_leaks_between_splits_of_sources_are_stated(tmp_path: Path) -> None:
    composer = Composer()
    splits: tuple[Split, ...] = ("train", "val", "test")
    for number, split in enumerate(splits):
        data = picture(min(number, 1))  # val and test have the same image
        image = composer.image(SOURCES[0], str(number), f"{number}.jpg", split=split, data=data)
        composer.caption(image, SOURCES[0], "A man.")
    made = built(composer, tmp_path)
    assert made.manifest.leaks is not None
    leaking = [(one.splits, one.measure) for one in made.manifest.leaks.leaks]
    assert leaking == [(("val", "test"), "file"), (("val", "test"), "perceptual_hash")]
    assert "**The splits leak**" in (made.folder / "README.md").read_text("utf-8")
    assert verify_release(made.folder).problems == []


def reseal_listed(folder: Path, change: Callable[[Manifest], Manifest] = lambda same: same) -> None:
    """Reseal the release after a change, as a forger would."""
    reseal(folder, change=change)


def edit_parquet(
    folder: Path, split: str, change: Callable[[list[dict[str, Any]]], object]
) -> None:
    path = folder / PARQUET.format(split)
    table = pq.read_table(path)
    rows = table.to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, table.schema), path)


def test_a_valid_release_has_no_problems(copy: Path) -> None:
    assert verify_release(copy).problems == []
    assert verify_release(copy, decode=False).problems == []


def test_a_changed_leak_certificate_is_reported(copy: Path) -> None:
    path = copy / "leaks.json"
    path.write_text(path.read_text("utf-8").replace('"pairs": 12', '"pairs": 13'), "utf-8")
    assert [one.fault for one in verify_release(copy).problems] == ["file_changed"]
    reseal_listed(copy)
    (problem,) = verify_release(copy).problems
    assert problem.fault == "leaks_differ"
    assert problem.message.startswith("leaks.json: line ")


def test_a_missing_leak_certificate_is_reported(copy: Path) -> None:
    (copy / "leaks.json").unlink()
    reseal_listed(copy, lambda manifest: manifest.model_copy(update={"leaks": None}))
    (problem,) = verify_release(copy).problems
    assert problem.fault == "file_missing"
    assert "does not list leaks.json, which this release must have" in problem.message


def test_changed_provenance_is_reported(sound: BuiltRelease, tmp_path: Path) -> None:
    cases: list[tuple[Callable[[list[dict[str, Any]]], object], str, str]] = [
        (
            lambda rows: rows[0]["crop"].update(video_entity_id="0" * 32),
            "lineage_incomplete",
            "row 7 names 00000000000000000000000000000000, which is not in lineage/",
        ),
        (
            lambda rows: rows[0]["crop"].update(frame=None),
            "row_malformed",
            "row 7 has a crop that is not complete",
        ),
        (lambda rows: rows[0].update(crop=None), "rows_differ", "row 7 says source None; Parquet"),
        (
            lambda rows: rows[0]["crop"].update(tracklet_entity_id="0" * 32),
            "lineage_incomplete",
            "row 7 names 00000000000000000000000000000000, which is not in lineage/",
        ),
        (
            lambda rows: rows[0]["caption_origins"].pop(),
            "captions_differ",
            "2 captions and 1 caption_origins",
        ),
    ]

    def check(copy: Path, case: tuple[Callable[[list[dict[str, Any]]], object], str, str]) -> None:
        change, fault, says = case
        edit_parquet(copy, "test", change)
        reseal_listed(copy)
        problems = verify_release(copy).problems
        assert any(one.fault == fault and says in one.message for one in problems), problems

    check_on_copies(sound.folder, tmp_path, cases, check)


def test_rejected_images_are_not_compared(tmp_path: Path) -> None:
    """A leak rejected by people does not prevent the release."""
    world = street_world()
    (twin,) = world.walk(Walk("new.mp4", "new", "test", (2,)), 50)
    world.described(twin, 30)
    world.decisions.append(NewDecision(twin, "reject", PERSON))
    assert verify_release(built(world, tmp_path).folder).problems == []
    assert STREET.name == "LUPerson-NL"
