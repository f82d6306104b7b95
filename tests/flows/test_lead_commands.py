"""Commands for the lead of a queue: audits, hours, reports, bulk decisions and priorities."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from loupe.db.decisions import append_decisions, last_reasons
from loupe.db.entities import AgentRef, NewDecision, fetch
from loupe.db.reviews import add_annotator, priorities
from loupe.db.store import Store
from loupe.schemas.provenance import Role
from tests.db.review_samples import QUEUE, Desk, store_rewrites
from tests.db.samples import caption, store_entities
from tests.flows.command_line import Loupe


@pytest.fixture
def desk(home_store: Store) -> Desk:
    return Desk(home_store)


def test_items_found_wrong_in_an_audit_are_reopened(loupe: Loupe, desk: Desk) -> None:
    ann = add_annotator(desk.store, "Ann", "http://desk", 1, ["annotator"]).pseudonym
    hers, others = store_rewrites(desk.store, 8)[:5], store_rewrites(desk.store, 3, first=100)
    for entity_id in hers:
        desk.decide(entity_id, "accept", desk.answer(entity_id, ann), person=ann)
    for entity_id in others:
        desk.decide(entity_id, "accept", desk.answer(entity_id, "b"), person="b")
    (unreviewed,) = store_rewrites(desk.store, 1, first=200)
    with desk.store.write() as connection:
        gate = AgentRef("software", f"gate:{QUEUE}", "sample:0.1")
        append_decisions(connection, [NewDecision(unreviewed, "accept", gate)])
    drawn = loupe("quality", "draw", QUEUE, "--size", "9", "--of", "Ann", "--json").json
    assert (drawn["drawn"], drawn["waiting"]) == (5, 5)
    for entity_id in hers:
        desk.answer(entity_id, "c", "reject" if entity_id == hers[0] else "accept", "audit")
    desk.answer(unreviewed, "c", "reject", "audit")
    assert loupe("quality", "estimate", QUEUE).exit_code == 2  # no sample over all annotators
    assert hers[0] in loupe("quality", "estimate", QUEUE, "--of", "Ann").out
    why = ("--reason", "a bag is missing")
    reopened = loupe("queue", "reopen", QUEUE, "--found-wrong", *why, "--json").json
    assert (reopened["reopened"], reopened["tasks"]) == (2, 1)
    assert last_reasons(desk.store, hers[:1]) == {hers[0]: "a bag is missing"}
    states = {one: found.state for one, found in fetch(desk.store, [*hers, unreviewed]).items()}
    assert {one for one, state in states.items() if state == "proposed"} == {hers[0], unreviewed}
    assert desk.task_state(hers[0], ann) == "returned"
    desk.decide(hers[0], "accept", desk.answer(hers[0], "d"), person="d")
    assert loupe("queue", "reopen", QUEUE, "--found-wrong").exit_code == 2  # nothing left to reopen


def test_hours_count_answers_once_and_shorten_long_ones(loupe: Loupe, desk: Desk) -> None:
    ann = add_annotator(desk.store, "Ann", "http://desk", 1, ["annotator"]).pseudonym
    first, second = store_rewrites(desk.store, 2)
    monday = datetime(2026, 3, 2, 9, tzinfo=UTC)
    desk.answer(first, ann, at=monday, seconds=600, number=1)
    desk.answer(first, ann, "reject", at=monday.replace(hour=10), seconds=720, number=1)
    desk.answer(second, ann, at=monday.replace(day=3), seconds=90_000)
    rows = loupe("queue", "hours", QUEUE, "--json", "--names").json
    assert [(row["day"], row["answers"]) for row in rows] == [("2026-03-02", 2), ("2026-03-03", 1)]
    assert [row["hours"] for row in rows] == [pytest.approx(0.2), pytest.approx(0.25)]
    (row,) = loupe("queue", "hours", QUEUE, "--since", "2026-03-03", "--json").json
    assert (row["annotator"], row["name"]) == (ann, None)


def test_an_annotator_report_explains_wrong_gold_answers(
    loupe: Loupe, desk: Desk, tmp_path: Path
) -> None:
    ann = add_annotator(desk.store, "Ann", "http://desk", 1, ["annotator"]).pseudonym
    right, wrong = store_rewrites(desk.store, 2)
    known = {"verdict": "reject", "reason": "not in the image"}
    lines = [
        {"entity": right, "answer": {"verdict": "accept"}},
        {"entity": wrong, "answer": known, "explanation": "There is no hat."},
    ]
    file = tmp_path / "gold.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    assert loupe("queue", "gold", "add", QUEUE, file).exit_code == 0
    for entity_id in (right, wrong):
        desk.check(entity_id, ann, correct=entity_id == right)
    report = loupe("annotator", "report", "Ann").out
    assert "2 answers, 1 of 2 gold answers right" in report
    assert wrong in report
    assert right not in report
    assert "Verdict: Reject; Reason: not in the image" in report
    assert "There is no hat." in report
    (queue,) = loupe("annotator", "report", "Ann", "--json").json["queues"]
    assert {one["entity"]: one["correct"] for one in queue["gold"]} == {right: True, wrong: False}


def test_items_are_searched_and_accepted_in_bulk(loupe: Loupe, desk: Desk) -> None:
    items = store_rewrites(desk.store, 12)
    desk.decide(items[1], "reject", desk.answer(items[1], "a", "reject"))
    found = loupe("queue", "search", QUEUE, "COLOUR 1", "--ids").out.split()
    assert found == [items[1], items[10], items[11]]
    assert "3 items" in loupe("queue", "search", QUEUE, "colour 1").out
    assert loupe("queue", "search", QUEUE, "--state", "rejected", "--ids").out.split() == [items[1]]
    undecided = loupe("queue", "search", QUEUE, "--state", "undecided", "--ids").out.split()
    assert sorted(undecided) == sorted({*items} - {items[1]})
    assert loupe("queue", "search", QUEUE, "--state", "edited", "--ids").out == ""
    unknown = loupe("queue", "search", QUEUE, "--state", "open")
    assert unknown.exit_code == 2
    assert "proposed, accepted, rejected, superseded, inactive, withdrawn" in unknown.err
    assert loupe("queue", "accept", QUEUE, *found).exit_code == 2  # a reason is required
    accepted = loupe("queue", "accept", QUEUE, *found, "--reason", "looked at the sheet", "--json")
    assert accepted.json["accepted"] == 2
    states = {one: entity.state for one, entity in fetch(desk.store, found).items()}
    assert states == {items[1]: "rejected", items[10]: "accepted", items[11]: "accepted"}
    (row,) = loupe("queue", "list", "--json").json
    assert row["policy"] == "required"


def test_items_that_another_queue_decides_are_not_accepted(loupe: Loupe, desk: Desk) -> None:
    own = caption(1)
    of_v1 = caption(2, [(Role.CONFUSES, own.id)])
    store_entities(desk.store, [own, of_v1])
    accept = ("queue", "accept", "people-captions", "--reason", "good")
    assert "that no other queue decides; got" in loupe(*accept, own.id, of_v1.id).err
    assert loupe(*accept, own.id).exit_code == 0


def test_annotators_are_paused_and_items_prioritized(loupe: Loupe, desk: Desk) -> None:
    add_annotator(desk.store, "Ann", "http://desk", 1, ["annotator"])
    assert loupe("annotator", "pause", "Ann", "--json").json["state"] == "paused"
    assert loupe("annotator", "resume", "Ann").out.strip() == "Ann: active"
    (item,) = store_rewrites(desk.store, 1)
    assert loupe("queue", "prioritize", QUEUE, item, "--priority", "3").exit_code == 0
    assert priorities(desk.store, QUEUE) == {item: 3}
    assert loupe("queue", "prioritize", QUEUE, "nonsense").exit_code == 2
    loupe("queue", "prioritize", QUEUE, item, "--priority", "0")
    assert priorities(desk.store, QUEUE) == {}
