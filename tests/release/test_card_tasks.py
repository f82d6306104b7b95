"""The card of a benchmark of tasks, compared with table 1 and figure 3 of the paper."""

import pytest

from loupe.release.build import build_release
from loupe.release.card.documents import render_card, task_table, version_table
from loupe.release.card.published import RECOS, RECOS_TASKS
from loupe.schemas.release import Manifest
from loupe.schemas.taxonomy import TIERS, RetrievalTask
from tests.release.recos_world import RECOS as DATASET
from tests.release.recos_world import benchmark
from tests.release.worlds import store_world


@pytest.fixture(scope="module")
def manifests(tmp_path_factory: pytest.TempPathFactory) -> list[Manifest]:
    home = tmp_path_factory.mktemp("cards")
    world = store_world(home / "world", benchmark().world.contents())
    built = [
        build_release(
            world.store, world.blobs, DATASET, f"{rank}.1.0", home / tier, tier=tier
        ).manifest
        for rank, tier in enumerate(TIERS)
    ]
    world.store.close()
    return built


def test_published_numbers_are_consistent() -> None:
    assert sum(RECOS_TASKS.values()) == RECOS["v0"].images == 500
    assert list(RECOS_TASKS) == list(RetrievalTask)
    assert [RECOS[tier].captions for tier in TIERS] == [2500, 5000, 5000]


def test_versions_are_compared_with_table_1(manifests: list[Manifest]) -> None:
    card = render_card(manifests[1])
    assert "| v0 | 8 | 16 | 500 | 2,500 |" in card
    assert "| **v1**, this release | 16 | 32 | 1,000 | 5,000 |" in card
    assert "| v2 | – | – | 15,982 | 5,000 |" in card
    assert f"captions of recos 0.1.0 (v0, id `{manifests[0].id}`)." in card
    assert "This release contains all" not in render_card(manifests[0])
    lines = version_table(manifests[2])
    assert [(one["images"], one["captions"]) for one in lines] == [(8, 16), (16, 32), (28, 32)]


def test_tasks_are_compared_with_figure_3(manifests: list[Manifest]) -> None:
    card = render_card(manifests[2])
    assert "| task | v0 | v1 | v2 | images | captions | published images (v0) |" in card
    assert "| color | 2 | 2 | 3 | 7 | 8 | 50 |" in card
    assert "| OCR | 0 | 0 | 0 | 0 | 0 | 30 |" in card
    assert "This release has no images for the tasks " in card
    assert ", OCR" in card.split("This release has no images for the tasks ")[1].partition(";")[0]
    lines = task_table(manifests[2])
    assert sum(one["images"] for one in lines) == manifests[2].statistics.images
    assert [len(one["tiers"]) for one in task_table(manifests[0])] == [1] * 12
