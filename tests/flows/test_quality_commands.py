"""Output and errors of `loupe quality`."""

from pathlib import Path

import numpy as np
import pytest

from loupe.annotate.audits import wanted
from loupe.annotate.queues import shipped
from loupe.db.lineage import trace
from loupe.db.store import Store
from loupe.flows.engine.releasing import choice_statistics
from tests.db.review_samples import QUEUE, Desk, store_rewrites
from tests.flows.command_line import Loupe
from tests.release.worlds import DATASET, small_world, store_world

REWRITES = shipped().queue("people", "rewrites")


def accepted(store: Store, count: int) -> Desk:
    """Store items that annotator `a` accepted."""
    desk = Desk(store)
    for entity_id in store_rewrites(store, count):
        desk.decide(entity_id, "accept", desk.answer(entity_id, "a"))
    return desk


def test_an_audit_sample_is_drawn_answered_and_estimated(loupe: Loupe, home_store: Store) -> None:
    desk = accepted(home_store, 30)
    drawn = loupe("quality", "draw", QUEUE, "--size", "10", "--seed", "3")
    assert drawn.exit_code == 0
    assert "10 of 30 accepted items drawn; 10 wait" in drawn.out
    again = loupe("quality", "draw", QUEUE, "--size", "10", "--seed", "3", "--json").json
    assert (again["drawn"], again["is_new"], again["waiting"]) == (10, False, 10)
    assert again["strata"] == {"test · street · accept": 30}
    no_answers = loupe("quality", "estimate", QUEUE)
    assert no_answers.exit_code == 2
    assert "has been audited yet" in no_answers.err
    first, *others = wanted(home_store, REWRITES)
    desk.answer(first.entity_id, "b", "reject", "audit")
    for item in others:
        desk.answer(item.entity_id, "b", "accept", "audit")
    shown = loupe("quality", "estimate", QUEUE).out
    assert "audit: 1 of 10 wrong, 10.0 % (95 % interval 1.8–40.4 %)" in shown
    assert f"wrong: {first.entity_id}" in shown
    found = loupe("quality", "estimate", QUEUE, "--json").json
    assert (found["audited"], found["wrong"], found["wrong_items"]) == (10, 1, [first.entity_id])


def test_the_items_to_audit_and_the_most_doubtful_ones_are_named(
    loupe: Loupe, home_store: Store
) -> None:
    store_rewrites(home_store, 1, first=900)
    nobody = loupe("queue", "errors", QUEUE)
    assert nobody.exit_code == 2
    assert "nobody has answered" in nobody.err
    desk = accepted(home_store, 30)
    shown = loupe("queue", "errors", QUEUE, "--show", "2").out
    assert "the most doubtful:" in shown
    document = loupe("queue", "errors", QUEUE, "--json").json
    assert len(document["probability_wrong"]) == document["items"] == 30
    drawn = loupe("queue", "audit", QUEUE, "--size", "8")
    assert "8 of 30 accepted items drawn; 8 wait for an audit" in drawn.out
    again = loupe("queue", "audit", QUEUE, "--size", "8", "--json").json
    assert (again["drawn"], again["waiting"]) == (0, 8)
    for item in wanted(home_store, REWRITES):
        desk.answer(item.entity_id, "b", "accept", "audit")
    later = loupe("queue", "errors", QUEUE, "--json").json
    assert later["audited"] == 8
    assert later["upper"] <= document["upper"]
    assert loupe("queue", "audit", QUEUE, "--size", "8", "--json").json["is_new"]


def test_unknown_strata_are_a_usage_error(loupe: Loupe, home_store: Store) -> None:
    accepted(home_store, 4)
    args = ("quality", "draw", QUEUE, "--size", "2", "--json", "--by")
    assert loupe(*args, "source").json["strata"] == {"street": 4}
    wrong = loupe(*args, "colour")
    assert wrong.exit_code == 2
    assert "split, source, verdict, doubt" in wrong.err


@pytest.fixture
def described(home: Path) -> Store:
    """A store with eight images of four people from each of three sources."""
    url = f"sqlite:///{home / 'loupe.db'}"
    world = store_world(home, small_world(8).contents(), url=url)
    return world.store


CHOICES = ("quality", "choices")


def test_choice_tests_are_drawn_answered_and_compared(loupe: Loupe, described: Store) -> None:
    asked = (*CHOICES, "draw", DATASET, "--size", "10", "--seed", "2", "--embedder", "words")
    drawn = loupe(*asked, "--json").json
    assert len(drawn["tests"]) == 20
    assert drawn["image_similarity"] == drawn["caption_similarity"] == "words-tf-idf@1"
    assert loupe(*asked, "--json").json == drawn
    no_answers = loupe(*CHOICES, "result", DATASET)
    assert no_answers.exit_code == 2
    assert "has been answered yet" in no_answers.err
    desk = Desk(described, f"{DATASET}-choices")
    for test_id in drawn["tests"]:
        desk.answer(test_id, "reviewer-1")
    result = loupe(*CHOICES, "result", DATASET)
    assert result.exit_code == 0
    assert "72.2–100.0" in result.out
    assert "96.5 / 95.8" in result.out
    queue = shipped().queue(DATASET, "choices")
    stated = choice_statistics(described, queue)
    assert {one.similar_by for one in stated} == {("words-tf-idf@1",)}
    desk.answer(drawn["tests"][0], "reviewer-2", "reject")
    bad = loupe(*CHOICES, "result", DATASET, "--json")
    assert bad.exit_code == 1
    assert [one["share"] for one in bad.json if one["tester"] == "reviewer-2"] == [0.0]
    described.close()


def test_embeddings_must_have_a_row_for_each_released_row(
    loupe: Loupe, described: Store, tmp_path: Path
) -> None:
    images, captions = tmp_path / "images.npy", tmp_path / "captions.npy"
    generator = np.random.default_rng(1)
    np.save(images, generator.normal(size=(24, 4)))
    np.save(captions, generator.normal(size=(24, 4)))
    given = ("--image-embeddings", images, "--text-embeddings", captions, "--size", "3", "--json")
    wrong = loupe(*CHOICES, "draw", DATASET, *given)
    assert wrong.exit_code == 2
    assert "must have 120 rows, one for each of the released captions; got 24" in wrong.err
    rows = 3 * (4 * 4 + 4 * 6)  # every second image has a second rewrite of both its captions
    np.save(captions, generator.normal(size=(rows, 4)))
    drawn = loupe(*CHOICES, "draw", DATASET, *given).json
    assert drawn["image_similarity"].startswith("embeddings sha256:")
    (activity,) = [
        one
        for one in trace(described, drawn["tests"][0]).activities.values()
        if one.stage == "draw-choices"
    ]
    assert activity.configuration["image_similarity"] == drawn["image_similarity"]
    assert activity.configuration["size"] == 3
    described.close()


def test_distractors_are_found_by_the_vectors_of_a_model_that_are_also_written(
    loupe: Loupe, described: Store, tmp_path: Path
) -> None:
    written = loupe(*CHOICES, "embed", DATASET, "--out", tmp_path, "--json").json
    images, captions = (np.load(written[name]) for name in ("images", "captions"))
    assert (len(images), len(captions)) == (24, 120)
    asked = ("draw", DATASET, "--size", "5", "--json")
    by_model = loupe(*CHOICES, *asked).json
    assert by_model["image_similarity"] == f"embedder {written['embedder']}"
    files = ("--image-embeddings", written["images"], "--text-embeddings", written["captions"])
    assert loupe(*CHOICES, *asked, *files).json["tests"] == by_model["tests"]
    both = loupe(*CHOICES, *asked, *files, "--embedder", "builtin")
    assert both.exit_code == 2
    assert "not both" in both.err
    described.close()
