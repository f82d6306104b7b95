from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from loupe.annotate.answers import ReviewAnswer, Verdict
from loupe.annotate.decisions import Answer, Outcome, resolve

_START = datetime(2026, 1, 1, tzinfo=UTC)
VERDICTS: tuple[Verdict, ...] = ("accept", "edit", "reject")


def answer(person: str, verdict: Verdict, minute: int = 0, purpose: str = "review") -> Answer:
    moment = _START + timedelta(minutes=minute)
    return Answer(person, purpose, ReviewAnswer(verdict=verdict), f"{person}-{minute}", moment)


def same(one: ReviewAnswer, other: ReviewAnswer) -> bool:
    return one.verdict == other.verdict


def outcome(*answers: Answer, overlap: int = 2, independent: bool = False) -> Outcome:
    return resolve(answers, overlap, same, independent=independent)


def test_an_item_waits_until_enough_annotators_answered() -> None:
    assert outcome().state == "waiting"
    assert outcome(answer("ann", "accept")).state == "waiting"
    assert outcome(answer("ann", "accept"), overlap=1).state == "agreed"


def test_if_all_agree_the_first_answer_counts() -> None:
    first, second = answer("ann", "edit", 1), answer("bea", "edit", 2)
    assert outcome(second, first) == Outcome("agreed", (first,))


def test_one_differing_answer_is_a_conflict() -> None:
    answers = [answer("ann", "accept", 1), answer("bea", "accept", 2), answer("cem", "reject", 3)]
    assert outcome(*answers, overlap=3) == Outcome("conflict")


def test_the_last_adjudication_settles_a_conflict() -> None:
    dispute = [answer("ann", "accept", 1), answer("bea", "reject", 2)]
    early = answer("dan", "accept", 3, "adjudication")
    late = answer("eve", "reject", 4, "adjudication")
    assert outcome(*dispute, late, early) == Outcome("settled", (late,))


def test_independent_answers_all_count() -> None:
    answers = (answer("ann", "accept", 1), answer("bea", "reject", 2))
    assert outcome(*answers, independent=True) == Outcome("agreed", answers)


def test_an_audit_answer_decides_nothing() -> None:
    assert outcome(answer("ann", "accept", 1, "audit"), overlap=1).state == "waiting"


@given(
    st.lists(
        st.tuples(st.sampled_from(VERDICTS), st.sampled_from(["review", "adjudication"])),
        max_size=5,
    ),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
)
def test_the_order_of_the_answers_does_not_matter(
    given_answers: list[tuple[Verdict, str]], overlap: int, random: object
) -> None:
    answers = [
        answer(f"person {number}", verdict, number, purpose)
        for number, (verdict, purpose) in enumerate(given_answers)
    ]
    shuffled = list(answers)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert outcome(*shuffled, overlap=overlap) == outcome(*answers, overlap=overlap)
