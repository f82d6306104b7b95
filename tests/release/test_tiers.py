"""Releases of a benchmark of tasks: v2 contains v1, which contains v0."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from loupe.db.entities import NewDecision
from loupe.db.work import register_plan
from loupe.flows.ccd.choice_test import released_samples
from loupe.release.build import BuiltRelease, build_release
from loupe.release.format.row_files import read_release
from loupe.release.verify import verify_release
from loupe.schemas.errors import IntegrityError, UsageError
from loupe.schemas.taxonomy import TIERS, RetrievalTask, Tier, version_in
from tests.release.recos_world import (
    CAPTIONS,
    PHOTOS,
    RECOS,
    Benchmark,
    benchmark,
    captions_of,
    draft,
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
        assert verify_release(built.folder).problems == []
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
    assert verify_release(built.folder).problems == []
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
    assert verify_release(built.folder).problems == []


def test_released_samples_are_those_with_captions(composed: Benchmark, stored: Stored) -> None:
    samples = released_samples(stored(composed.world).store, RECOS)
    assert len(samples) == 16
    assert all(len(one.captions) == CAPTIONS for one in samples)
