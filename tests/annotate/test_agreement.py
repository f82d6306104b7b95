"""Agreement coefficients: published values, invariances and undefined cases."""

from collections.abc import Mapping, Sequence
from random import Random
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loupe.annotate.answers import ReviewAnswer
from loupe.annotate.statistics.agreement import Fact, ItemAnswers, agreement

FLEISS_1971 = """
    0 0 0 0 14
    0 2 6 4 2
    0 0 3 5 6
    0 3 9 2 0
    2 2 8 1 1
    7 7 0 0 0
    3 2 6 3 0
    2 5 3 2 2
    6 5 2 1 0
    0 2 2 3 7
"""
"""Ten items in rows, five categories in columns: choices of fourteen raters; kappa is 0.210."""

KRIPPENDORFF_2011 = """
    1 2 3 3 2 1 4 1 2 . . .
    1 2 3 3 2 2 4 1 2 5 . 3
    . 3 3 3 2 3 4 2 2 5 1 .
    1 2 3 3 2 4 4 1 2 5 1 .
"""
"""Four observers in rows, twelve units in columns, dots where one is missing; alpha is 0.743."""


def chose(category: str, text: str | None = None) -> ReviewAnswer:
    texts = {} if text is None else {"text": text}
    return ReviewAnswer(verdict="accept", choices={"colour": (category,)}, texts=texts)


def items_of(rows: Sequence[Mapping[str, str]]) -> list[ItemAnswers]:
    """Return items from the choices of each annotator."""
    return [
        ItemAnswers(f"item {number:04}", {name: chose(value) for name, value in row.items()})
        for number, row in enumerate(rows)
    ]


def items_with_texts(*rows: Sequence[str]) -> list[ItemAnswers]:
    """Return items from the texts of annotators a, b, …"""
    return [
        ItemAnswers(
            f"item {number}",
            {name: chose("x", text) for name, text in zip("abcdef", row, strict=False)},
        )
        for number, row in enumerate(rows)
    ]


def test_cohens_kappa_equals_a_textbook_value() -> None:
    cells = {("yes", "yes"): 20, ("yes", "no"): 5, ("no", "yes"): 10, ("no", "no"): 15}
    rows = [{"ann": a, "bob": b} for (a, b), count in cells.items() for _ in range(count)]
    (found,) = agreement(items_of(rows)).choices
    assert found.control == "colour"
    assert found.cohen.value == pytest.approx(0.4)
    assert found.observed.value == pytest.approx(0.7)
    assert found.cohen.items == 50
    assert found.cohen.low is not None
    assert found.cohen.high is not None
    # the large-sample interval of Fleiss, Cohen and Everitt (1969) is 0.15 to 0.65
    assert found.cohen.low == pytest.approx(0.15, abs=0.05)
    assert found.cohen.high == pytest.approx(0.65, abs=0.05)


def test_fleiss_kappa_equals_the_published_value() -> None:
    counts = [list(map(int, line.split())) for line in FLEISS_1971.strip().splitlines()]
    rows = [
        {
            f"rater {number}": category
            for number, category in enumerate(
                category
                for category, count in zip("vwxyz", row, strict=True)
                for category in [category] * count
            )
        }
        for row in counts
    ]
    (found,) = agreement(items_of(rows)).choices
    assert found.fleiss.value == pytest.approx(0.210, abs=0.0005)
    assert found.cohen.value is None
    assert found.cohen.reason == "defined for two annotators only; 14 share items"


def test_of_equally_common_numbers_of_answers_fleiss_kappa_takes_the_larger() -> None:
    two = {"ann": "x", "bob": "y"}
    three = {"ann": "x", "bob": "x", "cem": "y"}
    for rows in ([two, two, three, three], [three, three, two, two]):
        (found,) = agreement(items_of(rows)).choices
        (larger,) = agreement(items_of([three, three])).choices
        assert (found.fleiss.items, found.fleiss.value) == (2, larger.fleiss.value)


def test_krippendorffs_alpha_with_missing_ratings_equals_the_published_value() -> None:
    lines = [line.split() for line in KRIPPENDORFF_2011.strip().splitlines()]
    rows = [
        {name: value for name, value in zip("abcd", unit, strict=True) if value != "."}
        for unit in zip(*lines, strict=True)
    ]
    (found,) = agreement(items_of(rows)).choices
    assert found.krippendorff.value == pytest.approx(0.743, abs=0.0005)
    assert found.krippendorff.items == 11  # the last unit has one rating
    assert found.fleiss.items == 8  # those that all four rated


def test_with_two_annotators_the_kappa_of_one_is_cohens_kappa() -> None:
    pairs = 9 * [("x", "x")] + 3 * [("x", "y")] + 2 * [("y", "x")] + 6 * [("y", "y")]
    rows = [{"ann": a, "bob": b} for a, b in pairs]
    together = agreement(items_of(rows)).choices[0].cohen
    own = agreement(items_of(rows), annotator="ann").choices[0].cohen
    assert (
        own.value
        == together.value
        == agreement(items_of(rows), annotator="bob").choices[0].cohen.value
    )


def test_the_order_of_multiple_choices_does_not_matter() -> None:
    def answers(*chosen: str) -> ReviewAnswer:
        return ReviewAnswer(verdict="accept", choices={"faults": chosen})

    items = [
        ItemAnswers("1", {"a": answers("blur", "dark"), "b": answers("dark", "blur")}),
        ItemAnswers("2", {"a": answers("blur"), "b": answers()}),
    ]
    assert agreement(items).choices[0].observed.value == 0.5


def test_a_control_that_only_one_annotator_saw_is_not_a_disagreement() -> None:
    rejected = ReviewAnswer(verdict="reject", choices={"verdict": ("reject",), "reason": ("blur",)})
    accepted = ReviewAnswer(verdict="accept", choices={"verdict": ("accept",)})
    reason, verdict = agreement([ItemAnswers("1", {"a": rejected, "b": accepted})]).choices
    assert reason.observed.value is None
    assert reason.observed.reason == "no item was answered by two people"
    assert verdict.observed.value == 0


UNDEFINED = {
    "no items": ([], None),
    "no overlap": ([{"a": "x"}, {"b": "y"}], None),
    "one category": ([{"a": "x", "b": "x"}] * 3, "all annotators always chose the same (x)"),
}


def test_kappa_is_undefined_if_one_annotator_always_chose_the_same() -> None:
    """It would be 0 for any answers of the other annotator."""
    items = items_of([{"a": "x", "b": value} for value in "xxxxy"])
    (found,) = agreement(items).choices
    for kappa in (found.cohen, agreement(items, annotator="a").choices[0].cohen):
        assert (kappa.value, kappa.reason) == (None, "one side always chose the same")
    assert found.observed.value == 0.8


def test_undefined_coefficients_are_none_with_a_reason() -> None:
    for case, (rows, reason) in UNDEFINED.items():
        found = agreement(items_of(rows))
        if reason is None:
            assert (found.items, found.choices, found.texts) == (0, (), ()), case
            continue
        (choices,) = found.choices
        for one in (choices.cohen, choices.fleiss, choices.krippendorff):
            figures = (one.value, one.low, one.high, one.reason)
            assert figures == (None, None, None, reason), case
        assert choices.observed.value == 1, case


def test_a_single_item_has_a_value_but_no_interval() -> None:
    (found,) = agreement(items_of([{"a": "x", "b": "y"}])).choices
    assert found.observed.value == 0
    assert found.observed.low is None
    assert found.observed.reason == "a single item has no variance"


ratings = st.lists(
    st.dictionaries(st.sampled_from("abcd"), st.sampled_from("xyz"), min_size=1), max_size=12
)


@settings(max_examples=25, deadline=None)
@given(ratings, st.randoms(use_true_random=False))
def test_order_and_names_of_items_and_annotators_do_not_matter(
    rows: list[dict[str, str]], shuffler: Random
) -> None:
    items = items_of(rows)
    found = agreement(items)
    assert agreement(shuffled(items, shuffler)) == found
    renamed = items_of(
        [
            {f"person {name}": {"x": "3", "y": "1", "z": "2"}[value] for name, value in row.items()}
            for row in rows
        ]
    )
    for before_renaming, after_renaming in zip(
        found.choices, agreement(renamed).choices, strict=True
    ):
        for name in ("observed", "fleiss", "krippendorff", "cohen"):
            one, other = getattr(before_renaming, name), getattr(after_renaming, name)
            assert one.value == pytest.approx(other.value)
            assert one.low == pytest.approx(other.low)
            assert one.high == pytest.approx(other.high)


def shuffled(items: list[ItemAnswers], shuffler: Random) -> list[ItemAnswers]:
    order = list(items)
    shuffler.shuffle(order)
    return [
        ItemAnswers(item.entity_id, dict(reversed(list(item.answers.items())))) for item in order
    ]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from("xyz"), min_size=2, max_size=12), st.integers(2, 4))
def test_perfect_agreement_is_one(values: list[str], people: int) -> None:
    items = items_of([dict.fromkeys("abcd"[:people], value) for value in values])
    (found,) = agreement(items).choices
    assert found.observed.value == 1
    figures = [found.fleiss, found.krippendorff, agreement(items, annotator="a").choices[0].cohen]
    for figure in [*figures, *([found.cohen] if people == 2 else [])]:
        assert figure.value == (pytest.approx(1) if len(set(values)) > 1 else None)


def test_coefficients_equal_those_of_other_libraries() -> None:
    """Bootstrap intervals are also checked: they are centred on the value."""
    from nltk.metrics.agreement import AnnotationTask
    from statsmodels.stats.inter_rater import cohens_kappa, fleiss_kappa

    generator = np.random.default_rng(1)
    rows = [
        {"a": value, "b": value if generator.random() < 0.7 else "x"}
        for value in generator.choice(list("xyz"), 400)
    ]
    table, ratings = np.zeros((3, 3)), np.zeros((400, 3))
    for number, row in enumerate(rows):
        one, other = ("xyz".index(row[name]) for name in "ab")
        table[one, other] += 1
        ratings[number, one] += 1
        ratings[number, other] += 1
    (found,) = agreement(items_of(rows)).choices
    assert found.cohen.value == pytest.approx(cohens_kappa(table, return_results=False))
    assert found.fleiss.value == pytest.approx(fleiss_kappa(ratings))
    for figure in (found.cohen, found.fleiss, found.krippendorff):
        assert figure.value is not None
        assert figure.low is not None
        assert figure.high is not None
        assert (figure.low + figure.high) / 2 == pytest.approx(figure.value, abs=0.01)
        assert figure.high - figure.low == pytest.approx(4 * 0.032, abs=0.04)

    thinned = [*rows, *({**row, "c": "y"} for row in rows[:150])]
    (found,) = agreement(items_of(thinned)).choices
    task = AnnotationTask(
        (name, number, value) for number, row in enumerate(thinned) for name, value in row.items()
    )
    assert found.krippendorff.value == pytest.approx(task.alpha())


def test_texts_are_compared_by_edit_distance_and_by_stated_facts() -> None:
    def facts(text: str) -> frozenset[Fact]:
        return frozenset(("it", "is", one) for one in text.split() if one in {"red", "coat", "hat"})

    found = agreement(items_with_texts(("red coat", "red hat"), ("abcd", "abxy")), facts).texts[0]
    assert found.control == "text"
    assert found.similarity.value == pytest.approx((6 / 8 + 2 / 4) / 2)
    assert found.attributes.value == pytest.approx(1 / 3)
    assert found.attributes.items == 1


def test_texts_without_facts_have_no_attribute_agreement() -> None:
    found = agreement(items_with_texts(("a", "b")), lambda _: frozenset()).texts[0]
    assert found.attributes.reason == "no text states a fact"
    assert agreement(items_with_texts(("a", "b"))).texts[0].attributes.value is None


def test_the_texts_of_an_annotator_are_compared_with_those_of_all_others() -> None:
    items = items_with_texts(("same", "same", "some"), ("same", "same", "same"))
    assert agreement(items, annotator="a").texts[0].similarity.value == pytest.approx(
        fmean([fmean([1, 3 / 4]), 1])
    )
    assert agreement(items, annotator="c").texts[0].similarity.items == 2


def test_the_verdict_is_the_main_control_if_there_is_one() -> None:
    def answers(*controls: str) -> list[ItemAnswers]:
        answer = ReviewAnswer(verdict="accept", choices=dict.fromkeys(controls, ("x",)))
        return [ItemAnswers("1", {"a": answer, "b": answer})]

    for controls, expected in ((("verdict", "age"), "verdict"), (("sex", "age"), "age")):
        together, own = agreement(answers(*controls)), agreement(answers(*controls), annotator="a")
        assert together.main is not None
        assert own.main is not None
        assert together.main.control == own.main.control == expected
    assert agreement([]).main is None
