"""The overview for the lead, of teams and queues with known problems."""

import re
from datetime import datetime, timedelta
from random import Random

from loupe.annotate.answers import Verdict
from loupe.annotate.lead_page import Live, render_live_page
from loupe.annotate.queues import SHARED, Queue
from loupe.annotate.statistics.overview import Overview, overview
from loupe.annotate.statistics.page import render_page
from loupe.db.reviews import place_tasks, review_tasks
from loupe.db.store import Store
from tests.annotate.review_history import SETTLER, START, History, Person, captions_queue

ANN, BEA, CY, DI, ED = (
    Person(f"reviewer-{name.lower()}", name, 0.95, seconds)
    for name, seconds in (("Ann", 38), ("Bea", 55), ("Cy", 7), ("Di", 41), ("Ed", 47))
)
QUEUE = captions_queue(gold_rate=0.1)
TEAM = (ANN, BEA, CY, DI, ED)


def overview_at(
    store: Store, now: datetime, queue: Queue = QUEUE, rate: float | None = None
) -> Overview:
    return overview(store, [queue], now, names=True, hourly_rate=rate)


def jacket(number: int) -> str:
    material = "leather" if number % 3 == 0 else "denim"
    return f"A person in a black {material} jacket, number {number}."


def store_team_work(store: Store, seed: int, items: int = 250, gold: int = 24) -> datetime:
    """Store the work of five annotators: Cy is much too fast, Ed takes leather for denim."""
    history, random = History(store, QUEUE, seed, jacket), Random(seed)
    history.people(*TEAM)

    def opinion(person: Person, number: int) -> Verdict:
        if person is ED and number % 3 == 0:
            return "edit"
        return "accept" if random.random() < person.skill else "reject"

    for number, item in enumerate(history.items(items)):
        at = START + timedelta(minutes=number)
        for person in random.sample(TEAM, 2):
            history.answer(item, person, opinion(person, number), at)
    for number, item in enumerate(history.items(gold, first=items), start=items):
        at = START + timedelta(minutes=10 * (number - items))
        for person in TEAM:
            verdict = opinion(person, number)
            key = history.answer(item, person, verdict, at, gold=True)
            history.check(key, person, verdict == "accept", at)
    history.write()
    return START + timedelta(days=2)


def test_only_the_two_poor_annotators_of_five_are_reported(sqlite_store: Store) -> None:
    found = overview_at(sqlite_store, store_team_work(sqlite_store, 1))
    named = {(*one.people, one.kind) for one in found.findings}
    assert named == {
        (CY.pseudonym, "fast"),
        (ED.pseudonym, "disagrees"),
        (ED.pseudonym, "gold"),
    }
    fast = next(one for one in found.findings if one.kind == "fast")
    cy = next(one for one in found.queues[0].annotators if one.name == "Cy")
    own, others = cy.work.lead_time, cy.others.lead_time
    assert own.median_seconds is not None
    assert others.median_seconds is not None
    assert own.median_seconds < others.median_seconds / 2
    assert fast.sentence == (
        f"street-captions: Cy takes {own.median_seconds:.0f} s for an answer (median of "
        f"{own.known}); the others {others.median_seconds:.0f} s (median of {others.known})"
    )
    assert {one.name for one in TEAM} & set(_words(found)) == {"Cy", "Ed"}


def _words(found: Overview) -> list[str]:
    return " ".join(one.sentence for one in found.findings).replace(":", " ").split()


def test_too_few_answers_give_no_findings(sqlite_store: Store) -> None:
    found = overview_at(sqlite_store, store_team_work(sqlite_store, 1, items=40, gold=8))
    assert found.findings == ()
    (compared,) = found.compared
    assert compared.sentence.endswith("0 of 5 annotators compared; both sides need 20 answers")


def test_annotators_who_accept_everything_are_reported(sqlite_store: Store) -> None:
    history = History(sqlite_store, QUEUE)
    history.people(ANN, BEA, DI)
    for number, item in enumerate(history.items(180)):
        at = START + timedelta(minutes=number)
        right: Verdict = "accept" if number % 5 else "reject"
        pair = ((ANN, BEA), (ANN, DI), (BEA, DI))[number % 3]
        for person in pair:
            history.answer(item, person, "accept" if person is BEA else right, at)
    history.write()
    shown = overview_at(sqlite_store, START)
    found = {(*one.people, one.kind): one.sentence for one in shown.findings}
    accepts = found[BEA.pseudonym, "accepts_all"]
    assert re.search(r"accepts 100 % of 120 answers; the others \d+ % of 240 answers", accepts)
    assert {who for who, _ in found} == {BEA.pseudonym}


def test_a_build_blocked_by_conflicts_names_the_adjudicators(sqlite_store: Store) -> None:
    history = History(sqlite_store, QUEUE)
    history.people(CY, DI)
    history.people(ANN, BEA, roles="adjudicator")
    items = history.items(32)
    for number, item in enumerate(items):
        history.answer(item, CY, "accept", START)
        history.answer(item, DI, "accept" if number > 3 else "reject", START)
    for item, adjudicator in zip(items, (ANN, BEA, ANN, BEA), strict=False):
        history.task(item, adjudicator.pseudonym, purpose="adjudication")
    history.write()
    history.decide(items[4:], "accepted")
    (blocked,) = overview_at(sqlite_store, START).blocked
    assert blocked.sentence == (
        "street waits in captions for 4 conflicts (Ann, Bea); 28 of 32 are decided"
    )
    assert blocked.people == (ANN.pseudonym, BEA.pseudonym)


def test_the_last_conflicts_without_an_adjudicator_are_a_problem(sqlite_store: Store) -> None:
    history = History(sqlite_store, QUEUE)
    history.people(CY, DI)
    (item,) = history.items(1)
    history.answer(item, CY, "accept", START)
    history.answer(item, DI, "reject", START)
    history.task(item, SHARED, purpose="adjudication")
    history.write()
    (task,) = review_tasks(sqlite_store, QUEUE.name, purpose="adjudication").values()
    place_tasks(sqlite_store, task.server, 7, {task.key: 12})
    found = overview_at(sqlite_store, START)
    (problem,) = found.problems
    assert "1 conflict in the account of Loupe itself, as no adjudicator" in problem.sentence
    link = 'href="/projects/7/data?labeling=1"'
    assert render_live_page(found, Live((), (), (), {}, "")).count(link) == 2
    assert link not in render_page(found)  # a file, away from the desk


def test_problems_of_a_queue_come_with_remedies(sqlite_store: Store) -> None:
    history = History(sqlite_store, QUEUE)
    history.people(ANN, BEA)
    first, second = history.items(2)
    history.answer(first, ANN, "accept", START)
    history.task(first, BEA.pseudonym)
    history.task(second, BEA.pseudonym)
    history.returned(BEA, 0.4, 3, START)
    history.write()
    eligible, assigned, suspended = (
        one.sentence for one in overview_at(sqlite_store, START + timedelta(days=1)).problems
    )
    assert eligible == (
        "street-captions: only Ann is eligible for overlap 2: reinstate Bea (loupe annotator "
        "reinstate NAME street-captions) or add someone (loupe annotator add NAME)"
    )
    assert "all open work (2 open tasks) is assigned to Bea, suspended" in assigned
    assert suspended.startswith("Bea is suspended from street-captions (8 of 20 gold answers")


def test_a_person_suspended_from_several_queues_is_named_once(sqlite_store: Store) -> None:
    queues = [QUEUE, captions_queue("park", gold_rate=0.1)]
    for number, queue in enumerate(queues):
        history = History(sqlite_store, queue, seed=number)
        if not number:
            history.people(ANN, BEA, CY)
        history.items(1)
        history.returned(BEA, 0.4, 3, START)
        history.write()
    (problem,) = overview(sqlite_store, queues, START, names=True).problems
    assert problem.sentence == (
        "Bea is suspended from street-captions (8 of 20 gold answers right), park-captions (8 of "
        "20 gold answers right): loupe annotator report NAME, then loupe annotator reinstate NAME "
        "QUEUE"
    )


def test_an_idle_queue_is_reported_after_three_days(sqlite_store: Store) -> None:
    history = History(sqlite_store, QUEUE)
    history.people(ANN, BEA)
    (item,) = history.items(1)
    history.task(item, ANN.pseudonym)
    history.task(item, BEA.pseudonym)
    history.write()
    assert overview_at(sqlite_store, START + timedelta(days=2)).problems == ()
    (idle,) = overview_at(sqlite_store, START + timedelta(days=5)).problems
    assert idle.sentence == ("street-captions: idle: no answer for 5 days; 2 open tasks: Ann, Bea")


def test_remaining_work_is_stated_in_hours_days_and_cost(sqlite_store: Store) -> None:
    history = History(sqlite_store, QUEUE)
    history.people(ANN, BEA, SETTLER)
    items = history.items(16)
    for number, item in enumerate(items[:6]):
        for person in (ANN, BEA):
            task = history.task(item, person.pseudonym, "answered")
            at = START + timedelta(days=number // 2)
            answer = {"verdict": "accept", "choices": {"verdict": ["accept"]}}
            history.annotate(task, person.pseudonym, answer, at, 90.0)
    history.write()
    history.decide(items[:6], "accepted")
    (left,) = overview_at(sqlite_store, START + timedelta(days=3), rate=20).left
    assert (left.answers, left.hours, left.cost) == (20, 0.5, 10)
    assert left.sentence == (
        "street-captions: 20 answers × 90 s (median of 12) = 0.5 hours; 5 days at 4.0 answers a "
        "day, as in the last 3 days; 10.00 at 20.00 an hour"
    )
    assert overview_at(sqlite_store, START + timedelta(days=3)).left[0].cost is None
