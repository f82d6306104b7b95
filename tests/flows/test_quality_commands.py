"""`loupe quality`: what its user sees."""

from annotate.queues import shipped
from annotate.second_look import wanted
from db.store import Store
from tests.db.review_samples import QUEUE, Desk, store_rewrites
from tests.flows.command_line import Loupe

REWRITES = shipped().queue("people", "rewrites")


def accepted(store: Store, count: int) -> Desk:
    """Items that `a` accepted."""
    desk = Desk(store)
    for entity_id in store_rewrites(store, count):
        desk.decide(entity_id, "accept", desk.answer(entity_id, "a"))
    return desk


def test_a_sample_is_drawn_looked_at_and_estimated(loupe: Loupe, home_store: Store) -> None:
    desk = accepted(home_store, 30)
    drawn = loupe("quality", "draw", QUEUE, "--size", "10", "--seed", "3")
    assert drawn.exit_code == 0
    assert "10 of 30 accepted items drawn; 10 wait" in drawn.out
    again = loupe("quality", "draw", QUEUE, "--size", "10", "--seed", "3", "--json").json
    assert (again["drawn"], again["is_new"], again["waiting"]) == (10, False, 10)
    assert again["strata"] == {"test · street · accept": 30}
    nobody = loupe("quality", "estimate", QUEUE)
    assert nobody.exit_code == 2
    assert "nobody has looked" in nobody.err
    first, *others = wanted(home_store, REWRITES)
    desk.answer(first.entity_id, "b", "reject", "second-look")
    for item in others:
        desk.answer(item.entity_id, "b", "accept", "second-look")
    shown = loupe("quality", "estimate", QUEUE).out
    assert "second look: 1 of 10 wrong, 10.0 % (95 % interval 1.8–40.4 %)" in shown
    assert f"wrong: {first.entity_id}" in shown
    found = loupe("quality", "estimate", QUEUE, "--json").json
    assert (found["looked"], found["wrong"], found["wrong_items"]) == (10, 1, [first.entity_id])


def test_one_stratifies_by_what_there_is(loupe: Loupe, home_store: Store) -> None:
    accepted(home_store, 4)
    args = ("quality", "draw", QUEUE, "--size", "2", "--json", "--by")
    assert loupe(*args, "source").json["strata"] == {"street": 4}
    wrong = loupe(*args, "colour")
    assert wrong.exit_code == 2
    assert "split, source, verdict" in wrong.err
