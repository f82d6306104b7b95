"""Evaluating models on a contrastive release: FG-CDA by type, the paper's settings, baselines."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.engine.context import RunContext
from flows.evaluation.leaderboard import FoundRelease, Leaderboard, arranged, leaderboard_document
from flows.evaluation.leaderboard_page import render_markdown, render_page
from flows.evaluation.run import (
    ALL_ASK,
    BOTH,
    CONTRASTIVE,
    FINE,
    ORIGINAL,
    evaluate_release,
    samples_of,
)
from release.build import build_release
from release.row_files import ReadRelease, read_release
from retrieval.contrastive import ContrastiveSetting, score_contrastive
from schemas.embedding import BuiltinStillsEmbedder, PrecomputedEmbedder
from schemas.evaluation import DIRECTIONS, Direction, EvaluationResult, GroupResult
from schemas.taxonomy import DifferenceType, PrimaryType
from tests.flows.command_line import Loupe
from tests.flows.test_leaderboard import OVERLAPS
from tests.release.ccd_world import CCD, OPENVERSE, benchmark, contrast, refine
from tests.release.worlds import store_world

DIMENSIONS = 24


def built(home: Path, groups: int, size: int, *, uneven: bool = False) -> Path:
    composed = benchmark(groups, size)
    if uneven:  # one image has three captions instead of five
        image = contrast(composed.world, composed.groups[0].anchor, 90, 0)
        refine(composed.world, image, OPENVERSE, "few", count=3)
    world = store_world(home / "world", composed.world.contents())
    build_release(world.store, world.blobs, CCD, "1.0.0", home / "release")
    world.store.close()
    return home / "release"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("contrasts"), groups=9, size=3)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("many"), groups=25, size=2)


@pytest.fixture(scope="module")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("uneven"), groups=4, size=2, uneven=True)


Rows = np.ndarray[Any, np.dtype[np.float64]]


def evaluated(
    run: RunContext, folder: Path, home: Path, images: Rows, texts: Rows, name: str
) -> EvaluationResult:
    paths = home / f"{name}-images.npy", home / f"{name}-texts.npy"
    for path, vectors in zip(paths, (images, texts), strict=True):
        np.save(path, vectors)
    spec = PrecomputedEmbedder(provider="precomputed", name=name, images=paths[0], texts=paths[1])
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


def test_an_oracle_scores_100(home_run: RunContext, folder: Path, tmp_path: Path) -> None:
    read = read_release(folder)
    images = np.eye(len(read.rows))
    result = evaluated(home_run, folder, tmp_path, images, images[image_of_caption(read)], "oracle")
    for direction in DIRECTIONS:
        assert set(accuracies(result, direction)) == {100.0}
        found = result.direction(direction)
        assert found is not None
        assert found.scores["R@1"].value == 100
        errors = [one.scores.get("FG-CDE") for one in result.groups]
        assert {one.value for one in errors if one is not None} == {0.0}


def test_traces_of_an_editor_raise_the_prediction_of_the_method(
    home_run: RunContext, folder: Path, many: Path, tmp_path: Path
) -> None:
    read = read_release(many)
    images, texts = noisy(read, 1.0)
    plain = evaluated(home_run, many, tmp_path, images, texts, "plain").contrasts
    is_edited = [row.contrast is not None and row.contrast.method == "edit" for row in read.rows]
    images[:, 0] += 9.0 * np.array(is_edited)
    marked = evaluated(home_run, many, tmp_path, images, texts, "marked").contrasts
    assert plain is not None
    assert plain.methods is not None
    assert marked is not None
    assert marked.methods is not None
    assert plain.methods.low < 60 < 75 < marked.methods.low
    assert marked.methods.of_anchors == plain.methods.of_anchors
    assert (marked.methods.images, marked.methods.most_frequent) == (50, 50.0)


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


def test_a_random_model_scores_50_within_its_interval(
    home_run: RunContext, many: Path, tmp_path: Path
) -> None:
    read = read_release(many)
    shapes = (len(read.rows), DIMENSIONS), (len(image_of_caption(read)), DIMENSIONS)
    within = dict.fromkeys(DIRECTIONS, 0)
    for seed in range(10):
        chance = np.random.default_rng(seed)
        images, texts = (chance.normal(size=shape) for shape in shapes)
        result = evaluated(home_run, many, tmp_path, images, texts, f"random {seed}")
        for direction in DIRECTIONS:
            found = result.direction(direction)
            assert found is not None
            score = found.scores["FG-CDA"]
            assert score.low is not None
            assert score.high is not None
            assert 0 < score.high - score.low < 20
            within[direction] += score.low <= 50 <= score.high
    assert min(within.values()) >= 8  # of ten intervals with a coverage of 95 %


@pytest.mark.parametrize("noise", [0.7, 2.5])
def test_scores_equal_those_of_score_contrastive(
    home_run: RunContext, folder: Path, tmp_path: Path, noise: float
) -> None:
    read = read_release(folder)
    images, texts = noisy(read, noise)
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
            (ContrastiveSetting.ALL_TO_ALL, ALL_ASK),
        ):
            for depth, value in recall[setting].percent.items():
                assert settings[name].scores[f"R@{depth}"].value == pytest.approx(value)
            assert settings[name].queries == recall[setting].queries
        accuracy = wanted.accuracy[direction]
        assert found.scores["FG-CDA"].value == pytest.approx(accuracy.overall.accuracy)
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
    for one in result.contrasts.similarities:
        assert one.mean == pytest.approx(wanted.similarity[one.difference].mean)


def groups_of(
    result: EvaluationResult, direction: Direction, dimension: str
) -> dict[str, GroupResult]:
    found = (one for one in result.groups if one.direction == direction)
    return {one.group: one for one in found if one.dimension == dimension}


def test_images_with_different_numbers_of_captions_are_scored(
    home_run: RunContext, uneven: Path, tmp_path: Path
) -> None:
    read = read_release(uneven)
    assert {len(row.captions) for row in read.rows} == {3, 5}
    images, texts = noisy(read, 1.5)
    result = evaluated(home_run, uneven, tmp_path, images, texts, "uneven")
    units = [rows / np.linalg.norm(rows, axis=1)[:, None] for rows in (images, texts)]
    scores, places = units[0] @ units[1].T, image_of_caption(read)
    anchor = {row.file_path: at for at, row in enumerate(read.rows)}
    right: dict[Direction, list[bool]] = {direction: [] for direction in DIRECTIONS}
    for at, row in enumerate(read.rows):
        if row.contrast is None:
            continue
        other = anchor[row.contrast.anchor]
        for own, wrong in ((at, other), (other, at)):
            for text in np.flatnonzero(places == own):
                right["text-to-image"].append(scores[own, text] > scores[wrong, text])
                right["image-to-text"] += [
                    scores[own, text] > scores[own, wrong_text]
                    for wrong_text in np.flatnonzero(places == wrong)
                ]
    for direction in DIRECTIONS:
        expected = 100 * float(np.mean(right[direction]))
        assert accuracies(result, direction)[0] == pytest.approx(expected)


def test_settings_with_coarse_and_fine_captions_are_scored(
    home_run: RunContext, folder: Path
) -> None:
    result = evaluate_release(home_run, folder, BuiltinStillsEmbedder()).evaluation.result
    texts = groups_of(result, "text-to-image", "setting")
    assert list(texts) == [ORIGINAL, FINE, CONTRASTIVE, BOTH, ALL_ASK]
    assert (texts[ORIGINAL].queries, texts[CONTRASTIVE].queries) == (45, 45)
    assert texts[CONTRASTIVE].scores["R@1"].value <= texts[ORIGINAL].scores["R@1"].value
    assert list(groups_of(result, "image-to-text", "setting")) == [ORIGINAL, FINE, BOTH, ALL_ASK]
    found = result.direction("text-to-image")
    assert found is not None
    assert (found.queries, found.gallery) == (45, 36)
    assert found.scores["R@1"].value == texts[BOTH].scores["R@1"].value


def board_of(run: RunContext, folder: Path, home: Path, noises: Sequence[float]) -> Leaderboard:
    read, names = read_release(folder), []
    for noise in noises:
        images, texts = noisy(read, noise)
        evaluated(run, folder, home, images, texts, f"noise {noise}")
        names.append(f"noise {noise}")
    from db.evaluations import evaluations_of

    stored = [
        one
        for one in evaluations_of(run.store, read.manifest.id, "test")
        if one.result.model.ref.name in names
    ]
    manifest = read.manifest.model_copy(update={"demonstration": False})
    return arranged(FoundRelease(manifest, folder), "test", stored)


def test_the_leaderboard_shows_scores_beside_those_of_the_paper(
    home_run: RunContext, folder: Path, tmp_path: Path
) -> None:
    board = board_of(home_run, folder, tmp_path, (0.5, 2.0))
    assert board.like == "MSCOCO-CCD"
    first = board.boards[0]
    assert first.metrics[:4] == ("R@1", "R@5", "R@10", "FG-CDA")
    assert "Rzen-E" in " ".join(row.model for table in first.published for row in table.rows)
    dimensions = [one.dimension for one in board.tables if one.direction == "text-to-image"]
    methods = {row.contrast.method for row in read_release(folder).rows if row.contrast}
    by_method = [one for one in board.tables if one.dimension == "method"]
    assert {group for one in by_method for group in one.groups} == methods
    assert sum(by_method[0].queries) == sum(board.tables[0].queries)
    assert dimensions[:5] == ["difference", "aspect", "method", "area", "setting"]
    by_area = [one for one in board.tables if one.dimension == "area"]
    assert sum(by_area[0].queries) == by_method[0].queries[by_method[0].groups.index("edit")]
    page, text = render_page(board), render_markdown(board)
    assert "### FG-CDA by difference" in text
    assert "published MSCOCO-CCD (table 1" in text
    assert "| Rzen-E (Qwen2-VL-7B) † | 93.2 | 83.1 |" in text  # table 6: errors of 6.8 and 16.9
    assert "measured by the paper on MSCOCO-CCD itself, not on this release; table 6" in page
    assert "How similar the images of contrastive pairs are" in page
    assert "pairs</th>" in page
    assert [one["name"] for one in leaderboard_document(board)["nearest"]] == [
        row.name for row in board.contrasts
    ]


def test_the_command_prints_fg_cda(loupe: Loupe, folder: Path, tmp_path: Path) -> None:
    done = loupe("evaluate", folder, "--embedder", "builtin-stills")
    assert done.exit_code == 0
    assert "FG-CDA" in done.out


@pytest.mark.browser
def test_the_page_fits_wide_and_narrow_screens(
    home_run: RunContext, folder: Path, tmp_path: Path, browser: Any
) -> None:
    board = board_of(home_run, folder, tmp_path, (0.3, 1.0, 2.0))
    path = tmp_path / "leaderboard.html"
    path.write_text(render_page(board), encoding="utf-8")
    for width in (1360, 390):
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.goto(path.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate(OVERLAPS) == []
        page.close()
