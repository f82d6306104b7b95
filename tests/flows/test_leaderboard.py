"""`loupe leaderboard`: order of the models, confidence intervals, and the page in Chromium."""

import json
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from loupe.db.evaluations import StoredEvaluation, store_evaluation
from loupe.db.store import Store
from loupe.flows.evaluation.leaderboard import (
    FoundRelease,
    Leaderboard,
    arranged,
    collect,
    leaderboard_document,
    model_names,
    published_dataset,
)
from loupe.flows.evaluation.leaderboard_page import render_page, write_leaderboard
from loupe.release.build import build_release
from loupe.release.format.row_files import ReadRelease, read_release
from loupe.schemas.errors import IntegrityError
from loupe.schemas.evaluation import EvaluationResult
from loupe.schemas.release import ChoiceStatistics
from loupe.schemas.shortcuts import BlindResult, ShortcutCertificate
from tests.chromium import all_pictures_show
from tests.flows.command_line import Loupe
from tests.flows.evaluation_samples import synthetic_evaluation
from tests.release.worlds import small_world, store_world
from tests.schemas.evaluations import evaluation

NASTY = "model <b>&amp;$x$|`y`"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("scored")
    world = store_world(home, small_world().contents())
    build_release(world.store, world.blobs, "ufine3c", "1.0.0", home / "release")
    world.store.close()
    return home / "release"


@pytest.fixture(scope="module")
def read(folder: Path) -> ReadRelease:
    return read_release(folder)


@pytest.fixture(scope="module")
def results(read: ReadRelease) -> list[EvaluationResult]:
    models = (("weak", 0.3), (NASTY, 2.0), ("middling", 0.9))
    return [
        synthetic_evaluation(read, name, quality, seed)
        for seed, (name, quality) in enumerate(models)
    ]


@pytest.fixture
def scored(home_store: Store, results: list[EvaluationResult]) -> Store:
    for result in results:
        store_evaluation(home_store, result)
    return home_store


@pytest.fixture(scope="module")
def board(results: list[EvaluationResult], read: ReadRelease, folder: Path) -> Leaderboard:
    stored = [StoredEvaluation(one, datetime.now(UTC)) for one in results]
    return arranged(FoundRelease(read.manifest, folder), "test", stored)


@pytest.fixture(scope="module")
def page(board: Leaderboard) -> str:
    return render_page(board)


def test_the_page_says_which_models_the_queries_cannot_distinguish(
    read: ReadRelease, folder: Path
) -> None:
    models = (("first", 2.0, 1), ("twin", 2.0, 2), ("guessing", 0.0, 3))
    results = [synthetic_evaluation(read, *model) for model in models]
    stored = [StoredEvaluation(one, datetime.now(UTC)) for one in results]
    board = arranged(FoundRelease(read.manifest, folder), "test", stored)
    (texts, _) = board.boards
    assert [one.name for one in texts.comparisons] == [row.name for row in texts.models[1:]]
    said = [one.sentence for one in texts.comparisons if one.sentence]
    shown = render_page(board)
    for one in texts.comparisons:
        assert bool(one.sentence) == (one.p_value >= 0.05)
    assert said
    assert all(sentence in shown for sentence in said)
    document = leaderboard_document(board)["boards"][0]["comparisons"]
    assert [one["p_value"] for one in document] == [one.p_value for one in texts.comparisons]


def test_models_are_sorted_by_score_with_chance_last(
    board: Leaderboard, results: list[EvaluationResult]
) -> None:
    assert [one.direction for one in board.boards] == ["text-to-image", "image-to-text"]
    for one in board.boards:
        assert [row.kind for row in one.rows] == ["model"] * 3 + ["chance"]
        values = [row.scores["R@1"].value for row in one.models]
        assert values == sorted(values, reverse=True)
        assert one.metrics[:4] == ("R@1", "R@5", "R@10", "mAP")
        found = {str(r.model.ref): r.direction(one.direction) for r in results}
        for row in one.models:
            assert row.found == found[row.name]
    assert board.boards[0].models[0].name == f"{NASTY}@1"
    (chance,) = (row for row in board.boards[0].rows if row.kind == "chance")
    assert chance.scores["R@1"].value == pytest.approx(100 * 2 / 12)


def test_people_and_blind_opponents_are_beside_the_models(
    read: ReadRelease, folder: Path, results: list[EvaluationResult]
) -> None:
    def found(question: str, opponent: str, metric: str, right: float) -> BlindResult:
        values = {"questions": 40, "low": right - 5, "high": right + 5, "chance": 25.0}
        names = {"question": question, "opponent": opponent, "metric": metric}
        return BlindResult.model_validate({**names, **values, "right": right, "p_value": 0.5})

    certificate = ShortcutCertificate(
        split="test",
        groups=250,
        results=(
            found("original image", "file", "R@1", 20.0),
            found("original image", "pixel statistics", "R@1", 30.0),
            found("original captions", "wording", "R@1", 35.0),
            found("source of a caption", "wording", "accuracy", 85.0),
        ),
    )
    tested = ChoiceStatistics(
        direction="caption-to-image", tester="t1", correct=90, total=100, several=2, size=100
    )
    statistics = read.manifest.statistics.model_copy(update={"choices": (tested,)})
    manifest = read.manifest.model_copy(update={"statistics": statistics, "shortcuts": certificate})
    stored = [StoredEvaluation(one, datetime.now(UTC)) for one in results]
    board = arranged(FoundRelease(manifest, folder), "test", stored)
    texts, images = board.boards
    assert [row.kind for row in texts.rows] == [*["model"] * 3, "people", "chance", *["blind"] * 3]
    assert texts.rows[3].name == "people: t1, among six similar ones (100 answers)"
    assert texts.rows[3].scores["R@1"].value == 90
    names = [row.name for row in texts.rows[5:]]
    assert names[0] == "blind: pixel statistics, the right group known (chance 25.0)"
    assert names[2] == "blind: wording, source of a caption in 85.0 % (chance 25.0)"
    assert texts.rows[7].scores == {}
    assert [row.name.partition(",")[0] for row in images.rows[4:]] == ["blind: wording"]
    assert len(board.notes) == 2
    shown = render_page(board)
    assert all(name in shown for name in names)
    assert not arranged(FoundRelease(manifest, folder), "train", stored).boards[0].rows[5:]


def test_only_the_latest_evaluation_of_a_model_counts(folder: Path, read: ReadRelease) -> None:
    old, new = (synthetic_evaluation(read, "one", quality) for quality in (0.1, 2.0))
    new = new.model_copy(update={"code_revision": "1" * 40})
    stored = [StoredEvaluation(one, datetime.now(UTC)) for one in (old, new)]
    found = arranged(FoundRelease(read.manifest, folder), "test", stored)
    (row,) = found.boards[0].models
    assert row.evaluation is not None
    assert row.evaluation.result == new


def test_models_with_the_same_name_are_distinguished() -> None:
    checkpoints = [
        evaluation(
            model={
                "ref": {"name": "cfam", "revision": "checkpoint"},
                "provider": "cfam",
                "parameters": {"dtype": dtype},
                "checkpoint_sha256": digit * 64,
            }
        )
        for digit, dtype in (("a", "float32"), ("b", "float32"), ("b", "bfloat16"))
    ]
    stored = [
        StoredEvaluation(one, datetime.now(UTC)) for one in (*checkpoints, evaluation(name="clip"))
    ]
    *same, other = model_names(stored)
    assert len(set(same)) == len(checkpoints)
    assert all(re.fullmatch(r"cfam@checkpoint \([0-9a-f]{8}\)", name) for name in same)
    assert other == "clip@1"


def test_published_rows_are_shown_for_a_comparable_dataset(
    board: Leaderboard, read: ReadRelease
) -> None:
    assert board.like == "UFine3C"
    tables = board.boards[0].published
    assert {table.dataset for table in tables} == {"UFine3C"}
    assert [table.trained_on for table in tables if table.place == "table 2"] == [
        *("UFine6926", "RSTPReid", "ICFG-PEDES", "CUHK-PEDES"),
    ]
    assert board.boards[1].published == ()
    manifest = read.manifest
    one = manifest.model_copy(update={"sources": manifest.sources[:1]})
    assert published_dataset(one) is None, "models rewrote its captions"
    imported = one.model_copy(update={"models": ()})
    assert published_dataset(imported) == "CUHK-PEDES"
    ufine = manifest.sources[0].model_copy(update={"format": "ufine6926"})
    assert published_dataset(imported.model_copy(update={"sources": (ufine,)})) == "UFine6926"


def test_a_demonstration_release_shows_no_published_rows(read: ReadRelease) -> None:
    manifest = read.manifest.model_copy(update={"demonstration": True})
    assert arranged(FoundRelease(manifest, None), "test", []).like is None


def test_groups_are_scored_in_a_table_for_each_metric(board: Leaderboard) -> None:
    assert [table.metric for table in board.tables] == ["R@1", "mSD"]
    for table in board.tables:
        assert (table.dimension, table.direction) == ("source", "text-to-image")
        assert tuple(table.groups) == ("CUHK-PEDES", "ICFG-PEDES", "UFine6926")
        assert sum(table.groups.values()) == board.boards[0].queries
        for row in table.rows:
            (model,) = (one for one in board.boards[0].models if one.name == row.name)
            cells = [cell for cell in row.cells if cell is not None]
            pooled = sum(cell.scores[table.metric].value * cell.queries for cell in cells)
            mean = pooled / board.boards[0].queries
            assert model.scores[table.metric].value == pytest.approx(mean)


def test_a_release_without_scores_is_a_one_line_error(
    loupe: Loupe, home_store: Store, folder: Path, tmp_path: Path
) -> None:
    for arguments, expected in (
        ([folder], "no model was scored on the test split of ufine3c 1.0.0 yet; run: loupe eval"),
        ([folder, "--split", "val"], "ufine3c 1.0.0 has no split 'val'; it has test"),
        (["nothing"], "no release named 'nothing'"),
        ([tmp_path], "there is no release in"),
    ):
        finished = loupe("leaderboard", *arguments)
        assert finished.exit_code == 2
        assert expected in " ".join(finished.err.split())
        assert "Traceback" not in finished.err
    changed = shutil.copytree(folder, tmp_path / "changed")
    manifest = changed / "manifest.json"
    text = manifest.read_text(encoding="utf-8").replace('"1.0.0"', '"1.0.1"')
    manifest.write_text(text, encoding="utf-8")
    with pytest.raises(IntegrityError, match="was changed after it was written"):
        collect(home_store, str(changed))
    assert loupe("leaderboard", changed).exit_code == 1


def test_the_command_prints_and_writes_three_files(
    loupe: Loupe, scored: Store, folder: Path, home: Path, tmp_path: Path
) -> None:
    output = loupe("leaderboard", folder, "--out", tmp_path / "board")
    assert output.exit_code == 0
    assert "ufine3c 1.0.0, test: text-to-image" in output.out
    assert re.search(r"chance +│ +16\.67 ", output.out)
    assert "IRRA (trained on UFine6926; published, on UFine3C itself)" in output.out
    assert str(tmp_path / "board" / "leaderboard.html") in output.out
    names = sorted(path.name for path in (tmp_path / "board").iterdir())
    assert names == ["leaderboard.html", "leaderboard.json", "leaderboard.md"]
    written = json.loads((tmp_path / "board" / "leaderboard.json").read_text(encoding="utf-8"))
    printed = loupe("leaderboard", folder, "--json").json
    page = home / "leaderboards" / "ufine3c-1.0.0-test" / "leaderboard.html"
    assert Path(printed.pop("files")["page"]) == page
    assert page.is_file()
    assert (
        printed
        == written
        == json.loads(json.dumps(leaderboard_document(collect(scored, str(folder)))))
    )
    again = [EvaluationResult.model_validate(_plain(one)) for one in written["evaluations"]]
    assert {one.id for one in again} == {one["id"] for one in written["evaluations"]}


def _plain(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in ("id", "evaluated_at")}


def test_a_leaderboard_that_cannot_be_completed_leaves_the_old_files(
    board: Leaderboard, tmp_path: Path
) -> None:
    written = write_leaderboard(board, tmp_path)
    for path in written:
        path.write_text("old", encoding="utf-8")
    (tmp_path / ".leaderboard.json").mkdir()
    with pytest.raises(IsADirectoryError):
        write_leaderboard(board, tmp_path)
    assert {path.read_text(encoding="utf-8") for path in written} == {"old"}


def test_missing_or_changed_images_are_named(
    board: Leaderboard, page: str, folder: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    shown = {
        found.item.file_path
        for row in board.boards[0].models
        if row.found
        for hard in row.found.hardest
        for found in hard.retrieved
    }
    missing, changed, *_ = sorted(shown)
    (copy / missing).unlink()
    (copy / changed).write_bytes((copy / changed).read_bytes() + b"\0")
    of_copy = render_page(board._replace(folder=copy))
    assert f"{missing} is not available" in of_copy
    assert f"{changed} is not available" in of_copy
    assert "is not available" not in page
    assert "<img" not in render_page(board._replace(folder=None))


def test_a_perfect_model_has_no_hardest_queries(read: ReadRelease, folder: Path) -> None:
    stored = [StoredEvaluation(synthetic_evaluation(read, "perfect", 1e6), datetime.now(UTC))]
    board = arranged(FoundRelease(read.manifest, folder), "test", stored)
    page = render_page(board)
    assert page.count("<b>perfect@1</b>: every query has a match at rank 1.") == 2
    assert "first match at rank" not in page


@pytest.mark.browser
@pytest.mark.parametrize("width", [1360, 390])
def test_the_page_renders_in_a_browser(page: str, browser: Any, tmp_path: Path, width: int) -> None:
    path = tmp_path / "leaderboard.html"
    path.write_text(page, encoding="utf-8")
    shown = browser.new_page(viewport={"width": width, "height": 900}, color_scheme="dark")
    messages: list[str] = []
    shown.on("console", lambda message: messages.append(message.text))
    shown.on("pageerror", lambda error: messages.append(str(error)))
    requested: list[str] = []
    shown.on("request", lambda request: requested.append(request.url))
    shown.goto(path.as_uri())
    shown.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert all_pictures_show(shown)
    assert messages == []
    assert [url for url in requested if not url.startswith("data:")] == [path.as_uri()]
    assert shown.evaluate("document.documentElement.scrollWidth") == width
    names = shown.locator("table.board").first.locator("tbody:not(.published) th").all_inner_texts()
    assert names == [f"{NASTY}@1", "middling@1", "weak@1", "chance"]
    assert shown.locator("tbody.published tr").count() == 23
    ids = shown.evaluate("[...document.querySelectorAll('[id]')].map(one => one.id)")
    assert len(ids) == len(set(ids))
    assert shown.evaluate(OVERLAPS) == []
    assert shown.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(245, 245, 242)"
    first = shown.locator("article.query").first
    assert first.locator("li img").count() >= 4
    assert first.locator("li.match").count() >= 1
    shown.close()


OVERLAPS = """() => {
  const found = []
  for (const plot of document.querySelectorAll('.plots figure')) {
    const texts = [...plot.querySelectorAll('span:not(.swatch), li')]
    const boxes = texts.map(one => [one.textContent, one.getBoundingClientRect()])
    boxes.forEach(([name, a], i) => boxes.slice(i + 1).forEach(([other, b]) => {
      const x = Math.min(a.right, b.right) - Math.max(a.left, b.left)
      const y = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top)
      if (x > 1 && y > 3) found.push([name, other])
    }))
  }
  return found
}"""
