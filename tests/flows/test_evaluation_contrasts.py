"""Evaluating models on a contrastive release: FG-CDA by type, the paper's settings, baselines."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loupe.db.evaluations import evaluations_of
from loupe.db.store import Store
from loupe.flows.engine.context import RunContext
from loupe.flows.evaluation.leaderboard import (
    FoundRelease,
    Leaderboard,
    arranged,
    leaderboard_document,
)
from loupe.flows.evaluation.leaderboard_page import render_markdown, render_page
from loupe.flows.evaluation.run import (
    ALL_QUERIES,
    BOTH,
    CONTRASTIVE,
    FINE,
    ORIGINAL,
    ContrastiveSides,
    evaluate_release,
    samples_of,
    sides,
)
from loupe.release.build import build_release
from loupe.release.format.row_files import ReadRelease, read_release
from loupe.retrieval.contrastive import ContrastiveSetting, score_contrastive
from loupe.retrieval.embeddings import unit_rows
from loupe.retrieval.logistic import guess_methods
from loupe.schemas.embedding import BuiltinEmbedder
from loupe.schemas.evaluation import DIRECTIONS, Direction, EvaluationResult, GroupResult
from loupe.schemas.taxonomy import DifferenceType, PrimaryType
from tests.flows.evaluation_samples import saved_vectors
from tests.flows.runs import context_of
from tests.flows.test_leaderboard import OVERLAPS
from tests.release.ccd_world import CCD, benchmark
from tests.release.worlds import store_world

DIMENSIONS = 24


def built(home: Path, groups: int, size: int) -> Path:
    world = store_world(home / "world", benchmark(groups, size).world.contents())
    build_release(world.store, world.blobs, CCD, "1.0.0", home / "release")
    world.store.close()
    return home / "release"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("contrasts"), groups=9, size=3)


Rows = np.ndarray[Any, np.dtype[np.float64]]


def evaluated(
    run: RunContext, folder: Path, home: Path, images: Rows, texts: Rows, name: str
) -> EvaluationResult:
    spec = saved_vectors(home, name, images, texts)
    return evaluate_release(run, folder, spec).evaluation.result


def image_of_caption(read: ReadRelease) -> Rows:
    """Return the index of the image of each caption."""
    return np.array([place for place, row in enumerate(read.rows) for _ in row.captions])


def accuracies(result: EvaluationResult, direction: Direction) -> list[float]:
    found = result.direction(direction)
    assert found is not None
    groups = [one for one in result.groups if one.direction == direction]
    by_type = [one.scores["FG-CDA"].value for one in groups if "FG-CDA" in one.scores]
    return [found.scores["FG-CDA"].value, *by_type]


def noisy(read: ReadRelease, noise: float, seed: int = 3) -> tuple[Rows, Rows]:
    chance = np.random.default_rng(seed)
    images = chance.normal(size=(len(read.rows), DIMENSIONS))
    places = image_of_caption(read)
    return images, images[places] + noise * chance.normal(size=(len(places), DIMENSIONS))


def test_a_constant_model_scores_0(home_run: RunContext, folder: Path, tmp_path: Path) -> None:
    read = read_release(folder)
    images, texts = np.ones((len(read.rows), 3)), np.ones((len(image_of_caption(read)), 3))
    result = evaluated(home_run, folder, tmp_path, images, texts, "constant")
    for direction in DIRECTIONS:
        assert set(accuracies(result, direction)) == {0.0}
        found = result.direction(direction)
        assert found is not None
        assert found.scores["R@1"].value == 0
    settings = [one for one in result.groups if one.dimension == "setting"]
    assert {one.scores["R@1"].value for one in settings} == {0.0}


def test_scores_equal_those_of_score_contrastive(
    home_run: RunContext, folder: Path, tmp_path: Path
) -> None:
    read = read_release(folder)
    images, texts = noisy(read, 2.5)
    result = evaluated(home_run, folder, tmp_path, images, texts, "noisy")
    wanted = score_contrastive(images, texts, samples_of(read))
    for direction in DIRECTIONS:
        found = result.direction(direction)
        assert found is not None
        recall = wanted.recall[direction]
        original = recall[ContrastiveSetting.ORIGINAL_TO_ALL]
        assert found.queries == original.queries
        assert found.gallery == original.candidates
        for depth, value in original.percent.items():
            assert found.scores[f"R@{depth}"].value == pytest.approx(value)
        settings = groups_of(result, direction, "setting")
        for setting, name in (
            (ContrastiveSetting.ORIGINAL_TO_ALL, BOTH),
            (ContrastiveSetting.ORIGINAL_TO_ORIGINAL, FINE),
            (ContrastiveSetting.ALL_TO_ALL, ALL_QUERIES),
        ):
            for depth, value in recall[setting].percent.items():
                assert settings[name].scores[f"R@{depth}"].value == pytest.approx(value)
            assert settings[name].queries == recall[setting].queries
        accuracy = wanted.accuracy[direction]
        assert found.scores["FG-CDA"].value == pytest.approx(accuracy.overall.accuracy)
        reading = accuracy.k_with_k
        assert (reading is None) == (direction == "text-to-image")
        if reading is not None:
            k_with_k = found.scores["FG-CDA k with k"].value
            assert k_with_k == pytest.approx(reading.overall.accuracy)
        by_type = groups_of(result, direction, "difference")
        assert set(by_type) == {kind.value for kind in DifferenceType}
        for kind, expected in accuracy.secondary.items():
            assert by_type[kind].scores["FG-CDA"].value == pytest.approx(expected.accuracy)
            assert by_type[kind].scores["FG-CDE"].value == pytest.approx(expected.error)
        by_aspect = groups_of(result, direction, "aspect")
        for aspect, expected in accuracy.primary.items():
            assert by_aspect[aspect].scores["FG-CDA"].value == pytest.approx(expected.accuracy)
    assert set(by_aspect) == {aspect.value for aspect in PrimaryType}
    assert result.contrasts is not None
    assert result.contrasts.methods == guess_methods(unit_rows(images, "images"), samples_of(read))
    for one, other in zip(result.contrasts.similarities, wanted.similarity, strict=True):
        assert (one.difference, one.pairs) == (other.difference, other.pairs)
        assert one.mean == pytest.approx(other.mean)


def groups_of(
    result: EvaluationResult, direction: Direction, dimension: str
) -> dict[str, GroupResult]:
    found = (one for one in result.groups if one.direction == direction)
    return {one.group: one for one in found if one.dimension == dimension}


def test_settings_with_coarse_and_fine_captions_are_scored(
    home_run: RunContext, folder: Path
) -> None:
    result = evaluate_release(home_run, folder, BuiltinEmbedder()).evaluation.result
    texts = groups_of(result, "text-to-image", "setting")
    assert list(texts) == [ORIGINAL, FINE, CONTRASTIVE, BOTH, ALL_QUERIES]
    assert (texts[ORIGINAL].queries, texts[CONTRASTIVE].queries) == (45, 45)
    assert texts[CONTRASTIVE].scores["R@1"].value <= texts[ORIGINAL].scores["R@1"].value
    assert list(groups_of(result, "image-to-text", "setting")) == [
        ORIGINAL,
        FINE,
        BOTH,
        ALL_QUERIES,
    ]
    found = result.direction("text-to-image")
    assert found is not None
    assert (found.queries, found.gallery) == (45, 36)
    assert found.scores["R@1"].value == texts[BOTH].scores["R@1"].value


def scored_sides(read: ReadRelease, images: Rows, texts: Rows) -> ContrastiveSides:
    given = sides(read, images.astype(np.float32), texts.astype(np.float32))
    return ContrastiveSides(samples_of(read), *given, None)


def test_images_with_several_vectors_are_scored_by_the_most_similar(folder: Path) -> None:
    read = read_release(folder)
    samples, chance = samples_of(read), np.random.default_rng(5)
    images, texts = noisy(read, 1.5)
    several = np.stack([images, chance.normal(size=images.shape) - images], axis=1)
    several /= np.linalg.norm(several, axis=2, keepdims=True)
    found = scored_sides(read, several.reshape(len(images), -1), texts)
    texts /= np.linalg.norm(texts, axis=1, keepdims=True)
    greatest = np.einsum("ikd,td->itk", several, texts).max(axis=2)
    right = [
        greatest[samples.image_of_text[text], text] > greatest[other, text]
        for at in samples.contrastive
        for mine, other in ((at, samples.anchors[at]), (samples.anchors[at], at))
        for text in np.flatnonzero(samples.image_of_text == mine)
    ]
    scores = found.scored("text-to-image").direction.scores
    assert scores["FG-CDA"].value == pytest.approx(100 * np.mean(right))
    mean = scored_sides(read, several.mean(axis=1), texts).result()
    assert found.result().nearest_images == pytest.approx(mean.nearest_images)


def test_a_linear_head_finds_originals_if_their_vectors_differ_from_those_of_edits(
    tmp_path: Path, folder: Path
) -> None:
    read = read_release(built(tmp_path, groups=20, size=1))
    images, texts = noisy(read, 1.0)
    originals = np.array([row.contrast is None for row in read.rows])
    marked = images + 4.0 * originals[:, None]
    alike, differ = (scored_sides(read, one, texts).result().original for one in (images, marked))
    assert alike is not None
    assert differ is not None
    assert (differ.questions, differ.chance, differ.right) == (20, 50.0, 100.0)
    assert differ.is_shortcut()
    assert not alike.is_shortcut()
    few = read_release(folder)
    assert scored_sides(few, *noisy(few, 1.0)).result().original is None


@pytest.fixture(scope="module")
def board(
    folder: Path, migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory
) -> Leaderboard:
    """The leaderboard of three models, as if the release were no demonstration."""
    home, read = tmp_path_factory.mktemp("board"), read_release(folder)
    store = Store.open(f"sqlite:///{shutil.copy(migrated_sqlite, home / 'loupe.db')}")
    run = context_of(store, home)
    for noise in (0.3, 1.0, 2.0):
        evaluated(run, folder, home, *noisy(read, noise), f"noise {noise}")
    stored = evaluations_of(store, read.manifest.id)
    store.close()
    manifest = read.manifest.model_copy(update={"demonstration": False})
    return arranged(FoundRelease(manifest, folder), "test", stored)


@pytest.fixture(scope="module")
def page(board: Leaderboard) -> str:
    return render_page(board)


def test_the_leaderboard_shows_scores_beside_those_of_the_paper(
    board: Leaderboard, page: str, folder: Path
) -> None:
    assert board.like == "MSCOCO-CCD"
    first = board.boards[0]
    assert first.metrics[:4] == ("R@1", "R@5", "R@10", "FG-CDA")
    assert "Rzen-E" in " ".join(row.model for table in first.published for row in table.rows)
    dimensions = [one.dimension for one in board.tables if one.direction == "text-to-image"]
    methods = {row.contrast.method for row in read_release(folder).rows if row.contrast}
    by_method = [one for one in board.tables if one.dimension == "method"]
    assert {group for one in by_method for group in one.groups} == methods
    pairs = sum(board.tables[0].groups.values())
    assert sum(by_method[0].groups.values()) == pairs
    assert dimensions[:5] == ["difference", "aspect", "method", "area", "setting"]
    by_area = [one for one in board.tables if one.dimension == "area"]
    assert sum(by_area[0].groups.values()) == by_method[0].groups["edit"]
    text = render_markdown(board)
    assert "### FG-CDA by difference" in text
    assert "published MSCOCO-CCD (table 1" in text
    assert "| Rzen-E (Qwen2-VL-7B) † | 93.2 | 83.1 |" in text  # table 6: errors of 6.8 and 16.9
    assert "measured by the paper on MSCOCO-CCD itself, not on this release; table 6" in page
    assert "How similar the images of contrastive pairs are" in page
    assert "pairs</th>" in page
    assert [one["name"] for one in leaderboard_document(board)["nearest"]] == [
        row.name for row in board.contrasts
    ]


@pytest.mark.browser
def test_the_page_fits_wide_and_narrow_screens(page: str, tmp_path: Path, browser: Any) -> None:
    path = tmp_path / "leaderboard.html"
    path.write_text(page, encoding="utf-8")
    for width in (1360, 390):
        shown = browser.new_page(viewport={"width": width, "height": 900})
        shown.goto(path.as_uri())
        assert shown.evaluate("document.documentElement.scrollWidth") == width
        assert shown.evaluate(OVERLAPS) == []
        shown.close()
