"""Evaluating models on a benchmark of tasks: scores by task and direction, published rows."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loupe.flows.engine.context import RunContext
from loupe.flows.evaluation.leaderboard import (
    FoundRelease,
    Leaderboard,
    arranged,
    leaderboard_document,
)
from loupe.flows.evaluation.leaderboard_page import render_markdown
from loupe.flows.evaluation.run import evaluate_release
from loupe.release.build import build_release
from loupe.release.format.row_files import ReadRelease, read_release
from loupe.retrieval.recos import RecosSamples, score_recos
from loupe.schemas.evaluation import EvaluationResult
from loupe.schemas.release import EmbedderUse
from loupe.schemas.taxonomy import TIERS, RetrievalTask, Tier
from tests.flows.command_line import Loupe
from tests.flows.evaluation_samples import saved_vectors
from tests.release.recos_world import RECOS, benchmark
from tests.release.worlds import store_world

TASKS = tuple(reversed(RetrievalTask))
Rows = np.ndarray[Any, np.dtype[np.float64]]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[Tier, Path]:
    """Folders of v0, v1 and v2 of a benchmark of all tasks."""
    home = tmp_path_factory.mktemp("benchmark")
    world = store_world(home / "world", benchmark(TASKS).world.contents())
    for rank, tier in enumerate(TIERS):
        build_release(world.store, world.blobs, RECOS, f"{rank}.1.0", home / tier, tier=tier)
    world.store.close()
    return {tier: home / tier for tier in TIERS}


def random_vectors(read: ReadRelease, noise: float = 1.0) -> tuple[Rows, Rows]:
    """Random vectors for a release, with captions near their image."""
    chance = np.random.default_rng(5)
    places = [place for place, row in enumerate(read.rows) for _ in row.captions]
    images = chance.normal(size=(len(read.rows), 6))
    return images, images[places] + noise * chance.normal(size=(len(places), 6))


def scored(run: RunContext, folder: Path, home: Path, noise: float = 1.0) -> EvaluationResult:
    spec = saved_vectors(home, f"noise {noise}", *random_vectors(read_release(folder), noise))
    return evaluate_release(run, folder, spec).evaluation.result


def board_of(run: RunContext, folder: Path, home: Path, *noises: float) -> Leaderboard:
    read, stored = read_release(folder), []
    for noise in noises or (1.0,):
        spec = saved_vectors(home, f"noise {noise}", *random_vectors(read, noise))
        stored.append(evaluate_release(run, folder, spec).evaluation)
    manifest = read.manifest.model_copy(update={"demonstration": False})
    return arranged(FoundRelease(manifest, folder), "test", stored)


def samples_of(read: ReadRelease) -> RecosSamples:
    return RecosSamples(
        tuple(row.image_entity_id for row in read.rows),
        tuple(row.task for row in read.rows),
        np.array([len(row.captions) for row in read.rows]),
    )


def test_scores_by_task_equal_those_of_score_recos(
    home_run: RunContext, folders: dict[Tier, Path], tmp_path: Path
) -> None:
    read = read_release(folders["v2"])
    result = scored(home_run, folders["v2"], tmp_path)
    literal = score_recos(*random_vectors(read), samples_of(read)).recall
    for direction, wanted in literal.items():
        found = result.direction(direction)
        if wanted is None:
            assert (direction, found) == ("image-to-text", None)
            continue
        assert found is not None
        by_task = {
            one.group: one
            for one in result.groups
            if (one.dimension, one.direction) == ("task", direction)
        }
        assert set(by_task) == {task.value for task in RetrievalTask}
        for depth, value in wanted.overall.percent.items():
            assert found.scores[f"R@{depth}"].value == pytest.approx(value)
            for task, recall in wanted.tasks.items():
                score = by_task[task].scores[f"R@{depth}"]
                assert score.value == pytest.approx(recall.percent[depth])
                assert by_task[task].queries == recall.queries


def test_tasks_and_tiers_have_tables_in_the_paper_s_order(
    home_run: RunContext, folders: dict[Tier, Path], tmp_path: Path
) -> None:
    board = board_of(home_run, folders["v1"], tmp_path, 0.5, 2.0)
    message = [(one.dimension, one.direction) for one in board.tables]
    assert ("task", "image-to-text") in message
    assert ("tier", "text-to-image") in message
    for table in board.tables:
        assert table.metric == "R@1" or table.dimension not in ("task", "tier")
        if table.dimension == "task":
            assert tuple(table.groups) == tuple(task.value for task in RetrievalTask)
            assert table.rows[0].name.startswith("noise 0.5")


def test_published_rows_are_those_of_the_same_tier(
    home_run: RunContext, folders: dict[Tier, Path], tmp_path: Path
) -> None:
    board = board_of(home_run, folders["v1"], tmp_path)
    assert board.like == "ReCoS v1"
    assert [one.direction for one in board.boards] == ["text-to-image", "image-to-text"]
    for one in board.boards:
        table_2, table_3 = one.published
        assert table_2.dataset == table_3.dataset == "ReCoS v1"
        assert {"BLIP2", "X2-VLM", "VSE++"} <= {row.model for row in table_2.rows}
        assert [row.model for row in table_3.rows] == ["CLIP"]


def test_a_leaderboard_states_which_direction_is_not_scored(
    home_run: RunContext, folders: dict[Tier, Path], tmp_path: Path
) -> None:
    board = board_of(home_run, folders["v2"], tmp_path)
    message = "Image to text is not scored: 36 of the 84 images have no captions to be found."
    assert message in render_markdown(board)
    assert leaderboard_document(board)["unscored"] == {"image-to-text": message}
    other = board_of(home_run, folders["v1"], tmp_path)
    assert other.notes == ()
    (row, *_) = other.boards[0].models
    assert row.evaluation is not None
    use = EmbedderUse(
        embedder=str(row.evaluation.result.model.ref), purpose="validated_captions", count=1
    )
    manifest = other.manifest.model_copy(update={"embedders": (use,)})
    (favoured,) = other._replace(manifest=manifest).notes
    assert favoured.startswith(f"{row.name} also chose images or validated captions")


def test_the_commands_state_which_direction_is_not_scored(
    loupe: Loupe, folders: dict[Tier, Path], tmp_path: Path
) -> None:
    given = saved_vectors(tmp_path, "mine", *random_vectors(read_release(folders["v2"])))
    paths = given.images, given.texts
    done = loupe("evaluate", folders["v2"], "--embeddings", *paths, "--name", "mine")
    assert done.exit_code == 0
    message = "Image to text is not scored: 36 of the 84 images"
    assert message in done.out
    assert "R@1 by task, text-to-image" in done.out
    assert "numerical calculation" in done.out
    output = loupe("leaderboard", folders["v2"], "--out", tmp_path / "board").out
    assert message in output
    assert message in (tmp_path / "board" / "leaderboard.html").read_text("utf-8")
