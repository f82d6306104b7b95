"""Output and exit codes of `loupe queue gold`."""

import json
from pathlib import Path

from loupe.db.gold import return_work, suspended_annotators
from loupe.db.reviews import add_annotator
from loupe.db.store import Store
from tests.db.review_samples import QUEUE, Desk, store_rewrites
from tests.flows.command_line import Loupe

GOLD = ("queue", "gold")
RULE = {"floor": 0.7, "window": 20, "least": 5}


def test_gold_items_from_a_file_are_listed_and_removed(
    loupe: Loupe, home_store: Store, tmp_path: Path
) -> None:
    first, second = store_rewrites(home_store, 2)
    file = tmp_path / "known.jsonl"
    lines = [{"entity": one, "answer": {"verdict": "accept"}} for one in (first, second)]
    file.write_text("\n".join([*map(json.dumps, lines), "nonsense"]))
    added = loupe(*GOLD, "add", QUEUE, file)
    assert added.exit_code == 1
    assert "2 gold items added, 0 already existed" in added.out
    assert "line 3: " in added.err
    Desk(home_store).check(first, "a", correct=True)
    listed = {row["entity"]: row for row in loupe(*GOLD, "list", QUEUE, "--json").json}
    assert listed[first]["answered"] == listed[first]["correct"] == 1
    assert listed[second]["answered"] == 0
    assert "known.jsonl" in loupe(*GOLD, "list", QUEUE).out
    removed = loupe(*GOLD, "remove", QUEUE, first, "0" * 32, "--json")
    assert removed.exit_code == 1
    assert removed.json == {"queue": QUEUE, "removed": 1, "unknown": ["0" * 32]}
    assert [row["entity"] for row in loupe(*GOLD, "list", QUEUE, "--json").json] == [second]


def test_gold_items_are_drawn_from_adjudicated_items(loupe: Loupe, home_store: Store) -> None:
    desk = Desk(home_store)
    for entity_id in store_rewrites(home_store, 4):
        desk.answer(entity_id, "judge", "reject", "adjudication")
    assert "has no gold items" in loupe(*GOLD, "list", QUEUE).out
    drawn = loupe(*GOLD, "draw", QUEUE, "--count", "3", "--seed", "5", "--json")
    assert drawn.exit_code == 0
    assert drawn.json == {"queue": QUEUE, "added": 3, "known": 0, "decided": 0, "problems": []}
    assert len(loupe(*GOLD, "list", QUEUE, "--json").json) == 3


def test_an_unknown_queue_is_a_usage_error(loupe: Loupe) -> None:
    assert loupe(*GOLD, "list", "people-nonsense").exit_code == 2
    assert loupe(*GOLD, "list", "nobody-rewrites").exit_code == 2


def test_an_annotator_is_reinstated(loupe: Loupe, home_store: Store) -> None:
    ann = add_annotator(home_store, "Ann", "http://desk", 1, ["annotator"])
    with home_store.write() as connection:
        return_work(connection, QUEUE, ann.pseudonym, RULE, (1, 5), [])
    command = ("annotator", "reinstate", "Ann", QUEUE)
    assert loupe(*command, "--json").json["lifted"] == 1
    with home_store.read() as connection:
        assert suspended_annotators(connection, QUEUE) == set()
    again = loupe(*command)
    assert again.exit_code == 2
    assert "is not suspended from the queue 'people-rewrites'" in again.err
