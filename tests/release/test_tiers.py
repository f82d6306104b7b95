"""Releases of a benchmark of tasks: v2 contains v1, which contains v0."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.entities import NewDecision
from db.work import register_plan
from flows.ccd.choice_test import released_samples
from release.build import BuiltRelease, build_release
from release.row_files import read_release
from release.statistics import task_statistics
from release.verify import verify_release
from schemas.errors import IntegrityError, UsageError
from schemas.retrieval_task import TIERS, RetrievalTask, Tier, version_in
from tests.release.recos_world import (
    CAPTIONS,
    PHOTOS,
    RECOS,
    Benchmark,
    benchmark,
    captions_of,
    draft,
    first_captions,
    revise,
)
from tests.release.worlds import PERSON, Composer, World, decide, store_world

Stored = Callable[[Composer], World]


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Stored]:
    worlds: list[World] = []

    def store(composer: Composer) -> World:
        worlds.append(store_world(tmp_path / f"world-{len(worlds)}", composer.contents()))
        return worlds[-1]

    yield store
    for world in worlds:
        world.store.close()


@pytest.fixture
def composed() -> Benchmark:
    return benchmark()


def build(world: World, out: Path, tier: Tier | None, state: str = "1.0") -> BuiltRelease:
    version = version_in(tier or "v0", f"0.{state}")
    folder = out / f"{tier}-{version}"
    return build_release(world.store, world.blobs, RECOS, version, folder, tier=tier)


def rows_of(built: BuiltRelease) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((built.folder / f"{RECOS}.json").read_text("utf-8"))
    return rows


def withdraw(world: World, *entities: str, verdict: str = "withdraw") -> None:
    plan = register_plan(world.store, "test", "2", {})
    decide(world.store, plan, [NewDecision(one, verdict, PERSON) for one in entities])  # type: ignore[arg-type]


def test_each_tier_contains_the_lower_tiers(
    composed: Benchmark, stored: Stored, tmp_path: Path
) -> None:
    world = stored(composed.world)
    numbers = []
    for tier in TIERS:
        built = build(world, tmp_path, tier)
        assert verify_release(built.folder) == []
        statistics = built.manifest.statistics
        numbers.append((statistics.images, statistics.captions, statistics.candidates))
        assert {row["tier"] for row in rows_of(built)} == set(TIERS[: TIERS.index(tier) + 1])
    assert numbers == [(8, 16, 0), (16, 32, 0), (28, 32, 12)]


def test_rows_contain_task_and_tier(composed: Benchmark, stored: Stored, tmp_path: Path) -> None:
    built = build(stored(composed.world), tmp_path, "v2")
    rows = rows_of(built)
    fields = ["id", "source", "task", "tier", "split", "file_path", "captions"]
    assert all(list(row) == fields for row in rows)
    assert {row["task"] for row in rows} == {
        *("color", "count", "numerical calculation", "code reasoning")
    }
    table = pq.read_table(built.folder / "data/test-00000-of-00001.parquet").to_pylist()
    assert [(row["task"], row["tier"], row["captions"]) for row in table] == [
        (row["task"], row["tier"], row["captions"]) for row in rows
    ]
    for row in rows:
        assert len(row["captions"]) == (0 if row["tier"] == "v2" else CAPTIONS)


def test_a_released_benchmark_can_be_read(
    composed: Benchmark, stored: Stored, tmp_path: Path
) -> None:
    built = build(stored(composed.world), tmp_path, "v2")
    read = read_release(built.folder).rows
    assert [(row.task, row.tier, len(row.captions)) for row in read] == [
        (RetrievalTask(row["task"]), row["tier"], len(row["captions"])) for row in rows_of(built)
    ]


def test_statistics_count_by_task_and_tier(
    composed: Benchmark, stored: Stored, tmp_path: Path
) -> None:
    built = build(stored(composed.world), tmp_path, "v2")
    tasks = built.manifest.statistics.tasks
    assert [one.task for one in tasks] == [
        RetrievalTask.COLOR,
        RetrievalTask.COUNT,
        RetrievalTask.CALCULATION,
        RetrievalTask.CODE,
    ]
    for one in tasks:
        assert (one.images, one.captions) == (7, 8)
        assert [(tier.tier, tier.images, tier.captions) for tier in one.tiers] == [
            ("v0", 2, 4),
            ("v1", 2, 4),
            ("v2", 3, 0),
        ]


def test_a_dataset_with_tiers_needs_a_tier(
    composed: Benchmark, stored: Stored, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=r"28 images of 'recos' are in tiers: name the tier .*v0"):
        build(stored(composed.world), tmp_path, None)


def test_a_dataset_without_tiers_is_released_without_a_tier(stored: Stored, tmp_path: Path) -> None:
    composer = Composer(RECOS)
    image = composer.image(PHOTOS, "1", "a.jpg", sampled=False, task=RetrievalTask.OCR)
    composer.caption(image, PHOTOS, "A sign.")
    world = stored(composer)
    with pytest.raises(UsageError, match="no image of 'recos' is in a tier"):
        build(world, tmp_path, "v0")
    built = build(world, tmp_path, None)
    assert verify_release(built.folder) == []
    (row,) = rows_of(built)
    assert (row["task"], row["tier"]) == ("OCR", None)
    (task,) = built.manifest.statistics.tasks
    assert (task.task, task.images, task.tiers) == (RetrievalTask.OCR, 1, ())


def test_an_image_without_a_tier_is_refused(
    composed: Benchmark, stored: Stored, tmp_path: Path
) -> None:
    image = composed.world.image(PHOTOS, "lost", "lost.jpg", sampled=False)
    composed.world.caption(image, PHOTOS, "Lost.")
    with pytest.raises(IntegrityError, match=r"1 images of 'recos' .* no tier.*'lost\.jpg'"):
        build(stored(composed.world), tmp_path, "v0")


def test_an_image_without_captions_is_left_out_below_v2(
    composed: Benchmark, stored: Stored, tmp_path: Path
) -> None:
    world = stored(composed.world)
    withdraw(world, *captions_of(composed.world, composed.images["v0"][0]), verdict="reject")
    assert build(world, tmp_path, "v0").manifest.statistics.images == 7


def test_a_candidate_with_captions_is_refused(
    composed: Benchmark, stored: Stored, tmp_path: Path
) -> None:
    composed.world.caption(composed.images["v2"][0], PHOTOS, "A caption too many.")
    world = stored(composed.world)
    build(world, tmp_path, "v1")
    with pytest.raises(IntegrityError, match=r"'color/v2-0\.jpg' .* tier v2 and has 1 captions"):
        build(world, tmp_path, "v2")


def test_a_version_must_start_with_its_tier(
    composed: Benchmark, stored: Stored, tmp_path: Path
) -> None:
    world = stored(composed.world)
    versions: dict[Tier, str] = {"v0": "1.0.0", "v1": "0.1.0", "v2": "3.0.0"}
    for tier, version in versions.items():
        with pytest.raises(UsageError, match=f"a version of tier {tier} must begin with {tier[1]}"):
            build_release(world.store, world.blobs, RECOS, version, tmp_path / "out", tier=tier)


def test_a_release_states_the_releases_it_contains(
    composed: Benchmark, stored: Stored, tmp_path: Path
) -> None:
    world = stored(composed.world)
    v0, v1, v2 = (build(world, tmp_path, tier).manifest for tier in TIERS)
    assert v0.contains == ()
    assert [(one.tier, one.version, one.id) for one in v1.contains] == [("v0", "0.1.0", v0.id)]
    assert [(one.tier, one.version, one.id) for one in v2.contains] == [
        ("v0", "0.1.0", v0.id),
        ("v1", "1.1.0", v1.id),
    ]
    assert [(one.images, one.captions) for one in v2.contains] == [(8, 16), (16, 32)]
    assert (
        build(world, tmp_path, "v2", "2.0").manifest.contains == ()
    )  # another state of the dataset


def test_a_withdrawn_image_breaks_containment(
    composed: Benchmark, stored: Stored, tmp_path: Path
) -> None:
    world = stored(composed.world)
    build(world, tmp_path, "v0")
    withdraw(world, composed.images["v0"][1])
    message = (
        r"recos 1\.1\.0 must contain recos 0\.1\.0, but 1 images and 2 captions are missing: "
        r"first image 'color/v0-1\.jpg' of photographs"
    )
    with pytest.raises(IntegrityError, match=message):
        build(world, tmp_path, "v1")
    assert not (tmp_path / "v1-1.1.0").exists()
    build(world, tmp_path, "v0", "2.0")
    assert len(build(world, tmp_path, "v1", "2.0").manifest.contains) == 1


def test_a_rejected_caption_breaks_containment(
    composed: Benchmark, stored: Stored, tmp_path: Path
) -> None:
    world = stored(composed.world)
    build(world, tmp_path, "v0")
    withdraw(world, *first_captions(composed, "v0", 3), verdict="reject")
    message = r"0 images and 3 captions are missing: first the caption 'A code reasoning|'A color"
    with pytest.raises(IntegrityError, match=message):
        build(world, tmp_path, "v1")


def test_a_revised_caption_replaces_the_earlier_one(
    composed: Benchmark, stored: Stored, tmp_path: Path
) -> None:
    image = composed.images["v0"][0]
    first = captions_of(composed.world, image)[0]
    second = revise(composed.world, first, image, PHOTOS, "Told in more detail.", 0)
    third = revise(composed.world, second, image, PHOTOS, "Told in just enough detail.", 0)
    draft(composed.world, image, PHOTOS, "Nobody wants this.", 9, verdict="reject")
    built = build(stored(composed.world), tmp_path, "v0")
    row = next(row for row in read_release(built.folder).rows if row.image_entity_id == image)
    assert [one.text for one in row.captions] == [
        "Told in just enough detail.",
        "A color scene, v0 0, told 1.",
    ]
    assert row.captions[0].entity_id == third
    assert {one.origin for one in row.captions} == {"drafted"}
    (model,) = built.manifest.models
    assert model.calls == 16 + 3  # including calls for rejected captions
    described = built.manifest.statistics.descriptions
    assert described is not None
    assert (described.drafted, described.reviewed) == (16, 0)
    assert verify_release(built.folder) == []


def test_releases_without_tasks_have_no_task_fields(tmp_path: Path) -> None:
    from tests.release.test_build import build as build_plain
    from tests.release.worlds import small_world

    world = store_world(tmp_path / "world", small_world().contents())
    folder = build_plain(world, tmp_path / "out")
    world.store.close()
    assert not re.search(r'"(task|tier|tasks|contains)"', (folder / "manifest.json").read_text())
    table = pq.read_table(folder / "data/test-00000-of-00001.parquet")
    assert not {"task", "tier"} & set(table.column_names)


def test_released_samples_are_those_with_captions(composed: Benchmark, stored: Stored) -> None:
    samples = released_samples(stored(composed.world).store, RECOS)
    assert len(samples) == 16
    assert all(len(one.captions) == CAPTIONS for one in samples)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([*RetrievalTask, None]),
            st.sampled_from([*TIERS, None]),
            st.integers(0, 5),
        )
    )
)
def test_counts_by_task_and_tier_are_complete(
    images: list[tuple[RetrievalTask | None, Tier | None, int]],
) -> None:
    counted = task_statistics(Counter(images))
    if all(image[:2] == (None, None) for image in images):
        assert counted == ()
        return
    assert sum(one.images for one in counted) == len(images)
    assert sum(one.captions for one in counted) == sum(captions for *_, captions in images)
    for one in counted:
        wanted = Counter(tier for task, tier, _ in images if task is one.task)
        assert one.images == wanted.total()
        del wanted[None]
        assert {tier.tier: tier.images for tier in one.tiers} == wanted
