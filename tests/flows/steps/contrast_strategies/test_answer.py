"""Parsing strategies from an answer, and the reasons of rejections."""

from typing import Any

import pytest

from loupe.flows.ccd.editing import unfit_for_editing
from loupe.flows.ccd.strategies import StrategiesRead, read_strategies
from loupe.schemas.records import Rejection
from loupe.schemas.requests import StrategyBrief
from loupe.schemas.taxonomy import DifferenceType
from tests.flows.steps.contrast_strategies.proposals import (
    BRIEF,
    STRATEGIES,
    a_strategy,
    answer_text,
    answered,
    as_proposed,
)


def read(*strategies: object, brief: StrategyBrief = BRIEF) -> StrategiesRead:
    found = read_strategies(answered(answer_text(*strategies)), brief)
    assert isinstance(found, StrategiesRead), found
    return found


def test_a_correct_answer_is_parsed_completely() -> None:
    assert read(*STRATEGIES) == StrategiesRead(tuple(map(as_proposed, STRATEGIES)), ())


def test_of_too_many_strategies_the_first_of_different_types_stay() -> None:
    more = [
        a_strategy(
            detail="The cat is grey.",
            plan="Change the coat of the cat from grey to black.",
            caption="Two brown dogs chase a black cat over a green lawn.",
        ),
        *STRATEGIES[2:],
        *STRATEGIES[:2],
    ]
    found = read(*more)
    kinds = [one.difference for one in found.strategies]
    assert len(set(kinds)) == len(kinds) == 4
    assert found.strategies[0].detail == "The cat is grey."
    assert [(one.reason, one.context["strategy"]) for one in found.refused] == [("too_many", 2)]
    assert found.refused[0].detail == (
        "Strategy 2: The answer has more than the 4 strategies that are wanted."
    )


def test_a_fault_rejects_only_its_strategy(subtests: pytest.Subtests) -> None:
    cases: list[tuple[dict[str, Any], str, str]] = [
        ({"type": "Colour"}, "unknown_type", "Strategy 1: There is no type 'Colour'."),
        ({"plan": 3}, "wrong_type", "Strategy 1: Its plan must be a text; got int."),
        ({"caption": "…"}, "no_words", "Strategy 1: Its caption holds no words: '…'."),
        (
            {"detail": "d" * 301},
            "too_long",
            "Strategy 1: Its detail has 301 characters; wanted 300 at most.",
        ),
        (
            {"plan": "Change the red car into a red car."},
            "no_change",
            "Strategy 1: It names the same before and after the change: 'a red car'.",
        ),
        (
            {"instruction": "Färbe das Fell der beiden Hunde weiß und lass alles andere so."},
            "wrong_language",
            (
                "Strategy 1: Its instruction is in the language 'de', wanted 'en': "
                "'Färbe das Fell der beiden Hunde weiß und lass alles andere s…'."
            ),
        ),
    ]
    for changes, reason, detail in cases:
        with subtests.test(changes=changes, reason=reason, detail=detail):
            found = read({**a_strategy(), **changes}, STRATEGIES[0])
            assert found.strategies == (as_proposed(STRATEGIES[0]),)
            assert [(one.reason, one.detail) for one in found.refused] == [(reason, detail)]


def test_an_answer_without_a_usable_strategy_is_rejected_with_all_faults() -> None:
    answer = answered(answer_text(a_strategy(type="Colour"), a_strategy(plan="")))
    found = read_strategies(answer, BRIEF)
    assert isinstance(found, Rejection)
    assert found.reason == "no_usable_strategy"
    assert found.detail == (
        "No strategy of the answer can be used. 1. There is no type 'Colour'. "
        "2. Its plan holds no text."
    )
    assert found.context == {"answer": answer.text, "reasons": ["unknown_type", "empty"]}


def test_quotations_and_captions_in_other_languages_are_accepted() -> None:
    quoting = a_strategy(caption="Two white dogs pass a sign that says «止まれ» on a lawn.")
    assert len(read(quoting).strategies) == 1
    brief = StrategyBrief(caption="Ein roter Wagen steht an einer Straße in der Stadt.")
    german = {
        "detail": "Der Wagen an der Straße ist rot.",
        "type": "Entity Attribute",
        "plan": "Die Farbe des Wagens wird von Rot in Blau geändert.",
        "caption": "Ein blauer Wagen steht an einer Straße in der Stadt.",
        "instruction": "Male den Wagen blau und lass alles andere, wie es ist.",
    }
    assert read(german, brief=brief).strategies[0].difference is DifferenceType.ENTITY_ATTRIBUTE
    english = read(german, STRATEGIES[0], brief=brief)
    assert [one.reason for one in english.refused] == ["wrong_language"]


def test_strategies_with_long_instructions_are_unfit_for_editing() -> None:
    long = a_strategy(instruction=" ".join(f"Recolour dog {number}." for number in range(35)))
    (strategy,) = read(long).strategies
    dropped = unfit_for_editing(strategy.editing_instruction)
    assert dropped is not None
    assert dropped.reason == "long_instruction"
    assert dropped.detail == "The editing instruction has 105 words; wanted 100 at most."
    assert unfit_for_editing(" ".join(["word"] * 100)) is None
