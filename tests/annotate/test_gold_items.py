"""Gold items from adjudicated items and from files."""

import json
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from loupe.annotate.answers import ReviewAnswer
from loupe.annotate.gold import add_gold_file, draw_gold, is_right
from loupe.annotate.interfaces.registry import INTERFACES
from loupe.annotate.queues import shipped
from loupe.db.decisions import append_decisions
from loupe.db.entities import NewDecision, fetch, new_entity
from loupe.db.gold import gold_items, settled_answers
from loupe.db.reviews import dropped_items
from loupe.db.store import Store
from loupe.schemas.errors import UsageError
from loupe.schemas.proposals import Tracklet
from loupe.schemas.provenance import Role
from tests.annotate.interfaces.proposed import one_of_each_kind
from tests.db.review_samples import QUEUE, Desk, Verdict, store_rewrites
from tests.db.samples import SOFTWARE, caption, store_entities

REWRITES = shipped().queue("people", "rewrites")
PAGE = INTERFACES[REWRITES.interface]


def settle(store: Store, count: int, verdict: Verdict, first: int = 0) -> list[str]:
    """Store items on which `a` and `b` disagreed and which an adjudicator settled."""
    desk = Desk(store)
    items = store_rewrites(store, count, first=first)
    for entity_id in items:
        desk.answer(entity_id, "a", "accept")
        desk.answer(entity_id, "b", "reject")
        desk.answer(entity_id, "judge", verdict, "adjudication")
    return items


def test_gold_items_are_drawn_from_adjudicated_items_by_verdict(sqlite_store: Store) -> None:
    accepted = settle(sqlite_store, 9, "accept")
    settle(sqlite_store, 3, "reject", first=100)
    store_rewrites(sqlite_store, 5, first=200)
    drawn = draw_gold(sqlite_store, REWRITES, 4, seed=1)
    assert (drawn.added, drawn.known) == (4, 0)
    items = gold_items(sqlite_store, QUEUE)
    assert Counter(item.answer["verdict"] for item in items.values()) == {"accept": 3, "reject": 1}
    assert {item.origin for item in items.values()} == {"adjudicated"}
    assert all(
        (item.answer["verdict"] == "accept") == (id_ in accepted) for id_, item in items.items()
    )


def test_drawing_again_adds_nothing_and_another_seed_adds_items(sqlite_store: Store) -> None:
    settle(sqlite_store, 20, "accept")
    draw_gold(sqlite_store, REWRITES, 5, seed=1)
    again = draw_gold(sqlite_store, REWRITES, 5, seed=1)
    assert (again.added, again.known) == (0, 5)
    assert draw_gold(sqlite_store, REWRITES, 5, seed=2).added > 0
    assert (
        draw_gold(sqlite_store, REWRITES, 50, seed=1).added + len(gold_items(sqlite_store, QUEUE))
        >= 20
    )
    assert len(gold_items(sqlite_store, QUEUE)) == 20


def test_the_adjudicators_last_answer_is_the_known_answer(sqlite_store: Store) -> None:
    desk = Desk(sqlite_store)
    (entity_id,) = store_rewrites(sqlite_store, 1)
    desk.answer(entity_id, "judge", "accept", "adjudication")
    desk.answer(entity_id, "judge", "reject", "adjudication")
    assert settled_answers(sqlite_store, QUEUE) == {entity_id: {"verdict": "reject"}}


def test_withdrawn_items_are_not_drawn(sqlite_store: Store) -> None:
    (entity_id,) = settle(sqlite_store, 1, "accept")
    with sqlite_store.write() as connection:
        append_decisions(connection, [NewDecision(entity_id, "withdraw", SOFTWARE)])
    assert draw_gold(sqlite_store, REWRITES, 5, seed=1).added == 0


def write(path: Path, *lines: object) -> Path:
    path.write_text(
        "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    )
    return path


def test_valid_lines_of_a_file_become_gold_and_others_are_reported(
    sqlite_store: Store, tmp_path: Path
) -> None:
    first, second, withdrawn = store_rewrites(sqlite_store, 3)
    foreign = caption(1)
    store_entities(sqlite_store, [foreign])
    with sqlite_store.write() as connection:
        append_decisions(connection, [NewDecision(withdrawn, "withdraw", SOFTWARE)])
    accept = {"verdict": "accept", "choices": {"verdict": ["accept"]}}
    file = write(
        tmp_path / "known.jsonl",
        {"entity": first, "answer": accept},
        "",
        "no json",
        {"entity": first, "answer": accept},
        {"entity": "0" * 32, "answer": accept},
        {"entity": foreign.id, "answer": accept},
        {"entity": withdrawn, "answer": accept},
        {"entity": second, "answer": {"verdict": "perhaps"}},
        {"entity": second, "answer": {"verdict": "reject", "reason": "wrong"}},
        {"entity": second},
    )
    report = add_gold_file(sqlite_store, REWRITES, PAGE, file)
    assert (report.added, report.known, report.decided) == (2, 0, 2)
    states = {id_: one.state for id_, one in fetch(sqlite_store, [first, second]).items()}
    assert states == {first: "accepted", second: "rejected"}
    assert dropped_items(sqlite_store, "people") == []  # the lead looked
    problems = {one.line: one.problem for one in report.problems}
    assert sorted(problems) == [3, 4, 5, 6, 7, 8, 10]
    assert "is already in line 1" in problems[4]
    assert "there is no entity" in problems[5]
    assert "must be a rewrite of people" in problems[6]
    assert "withdrawn" in problems[7]
    assert "answer.verdict" in problems[8]
    assert "'perhaps'" in problems[8]
    assert problems[10] == "answer is missing"
    stored = gold_items(sqlite_store, QUEUE)
    assert stored[second].answer["reason"] == "wrong"
    assert stored[first].origin == "given in known.jsonl"
    again = add_gold_file(sqlite_store, REWRITES, PAGE, file)
    assert (again.added, again.known) == (0, 2)


def test_choices_that_no_answer_on_the_page_has_are_refused(
    sqlite_store: Store, tmp_path: Path
) -> None:
    shown = one_of_each_kind()
    first_frame = str(shown["tracklet"].shown.record(Tracklet).frames[0].frame)
    for step, control, choices in (
        ("confusions", "fit", ("both", "left")),
        ("tracklets", "dropped", (first_frame, "C")),
        ("tracklets", "verdict", ("split", "accept")),
        ("confusions", "verdict", ("accept",)),
    ):
        queue = shipped().queue("people", step)
        page = INTERFACES[queue.interface]
        entity = new_entity(shown[queue.kind].shown.record(page.record), "people")
        store_entities(sqlite_store, [entity])
        for choice in choices:
            answer = {"verdict": "reject", "choices": {control: [choice]}}
            file = write(tmp_path / "known.jsonl", {"entity": entity.id, "answer": answer})
            problems = add_gold_file(sqlite_store, queue, page, file).problems
            assert bool(problems) == (choice == choices[-1]), (step, choice)
            assert all(f"has {control} {choice!r}" in one.problem for one in problems)


def test_texts_against_the_verdict_and_items_of_another_queue_are_refused(
    sqlite_store: Store, tmp_path: Path
) -> None:
    (rewrite,) = store_rewrites(sqlite_store, 1)
    original = caption(1)
    confusing = caption(2, parents=[(Role.CONFUSES, original.id)])
    store_entities(sqlite_store, [original, confusing])
    for step, entity, answer, problem in (
        ("rewrites", rewrite, {"verdict": "reject", "texts": {"text": "He runs."}}, "'reject'"),
        ("rewrites", rewrite, {"verdict": "accept", "texts": {"text": "He runs."}}, "'accept'"),
        ("rewrites", rewrite, {"verdict": "edit", "texts": {"text": "He runs."}}, ""),
        ("captions", confusing.id, {"verdict": "accept"}, "decided in another queue"),
        ("captions", original.id, {"verdict": "accept"}, ""),
    ):
        queue = shipped().queue("people", step)
        file = write(tmp_path / "known.jsonl", {"entity": entity, "answer": answer})
        found = add_gold_file(sqlite_store, queue, INTERFACES[queue.interface], file)
        assert [problem in one.problem for one in found.problems] == [True] * bool(problem)


def test_an_answer_is_right_if_it_agrees_with_what_the_known_one_states() -> None:
    strategies = INTERFACES["strategy-check"]
    same = partial(strategies.same, text_agreement=1)
    given = ReviewAnswer(
        verdict="edit",
        choices={"verdict": ("edit",), "type": ("Relation",)},
        texts={"plan": "Turn it."},
    )
    for known, expected in (
        (ReviewAnswer(verdict="edit"), True),
        (ReviewAnswer(verdict="accept"), False),
        (ReviewAnswer(verdict="edit", choices={"type": ("Relation",)}), True),
        (ReviewAnswer(verdict="edit", choices={"type": ("Entity",)}), False),
        (ReviewAnswer(verdict="edit", texts={"plan": "Paint it."}), False),
        (given, True),
    ):
        assert is_right(given, known, same) is expected, known


def test_an_unreadable_file_is_a_short_error(sqlite_store: Store, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gold file .*known\.jsonl cannot be read"):
        add_gold_file(sqlite_store, REWRITES, PAGE, tmp_path / "known.jsonl")
    (tmp_path / "bytes").write_bytes(b"\x80{\n")
    with pytest.raises(UsageError, match=r"gold file .*bytes is not UTF-8"):
        add_gold_file(sqlite_store, REWRITES, PAGE, tmp_path / "bytes")
