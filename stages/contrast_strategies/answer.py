"""Reads the strategies in a model's answer, each for itself."""

from typing import Any, NamedTuple

from schemas.chat import ChatAnswer
from schemas.records import Rejection
from schemas.strategy_request import (
    CAPTION_FIELD,
    DETAIL_FIELD,
    INSTRUCTION_FIELD,
    MOST_CHARACTERS,
    PLAN_FIELD,
    STRATEGIES_FIELD,
    TYPE_FIELD,
    ProposedStrategy,
    StrategyBrief,
)
from schemas.taxonomy import DifferenceType
from stages.answer_texts import (
    Fault,
    answer_object,
    language_fault,
    read_text,
    refused_answer,
    shown,
)
from stages.contrast_strategies.request import FIELDS, STAGE
from stages.contrast_strategies.sameness import folded, what_stays


class StrategiesRead(NamedTuple):
    """The strategies of an answer that can be used, in its order, and why others cannot."""

    strategies: tuple[ProposedStrategy, ...]
    refused: tuple[Rejection, ...]


class _Numbered(NamedTuple):
    """A strategy, or what is wrong with it, and its place in the answer, from 1."""

    number: int
    found: ProposedStrategy | Fault


def read_strategies(answer: ChatAnswer, brief: StrategyBrief) -> StrategiesRead | Rejection:
    """The strategies that `answer` holds, each looked at for itself, or why there are none.

    What is wrong with one strategy costs that one: `missing_field`, `extra_fields`, `wrong_type`,
    `unknown_type`, `no_change` (it changes nothing), `duplicate`, `too_many` (of more than are
    wanted those stay whose types are different, the first of each), and the reasons of
    `stages.answer_texts`. Where the answer cannot be read, or none of its strategies can be used
    (`no_usable_strategy`), the whole is rejected. Every rejection has the raw answer in its
    context.
    """
    listed = _listed(answer)
    if isinstance(listed, Rejection):
        return listed
    read = [_Numbered(at, _read(one, brief)) for at, one in enumerate(listed, start=1)]
    read = _chosen(_different(read), brief.count)
    strategies = tuple(one.found for one in read if isinstance(one.found, ProposedStrategy))
    faults = [(one.number, one.found) for one in read if isinstance(one.found, Fault)]
    refused = tuple(_refused(answer, number, fault) for number, fault in faults)
    if strategies:
        return StrategiesRead(strategies, refused)
    problems = " ".join(f"{number}. {fault.detail}" for number, fault in faults)
    return Rejection(
        stage=STAGE,
        reason="no_usable_strategy",
        detail=f"No strategy of the answer can be used. {problems}".strip(),
        context={"answer": answer.text, "reasons": [fault.reason for _, fault in faults]},
    )


def _listed(answer: ChatAnswer) -> list[Any] | Rejection:
    """What stands in the list of strategies."""
    found = answer_object(answer, STAGE)
    if isinstance(found, Rejection):
        return found
    if set(found) != {STRATEGIES_FIELD} or not isinstance(found[STRATEGIES_FIELD], list):
        detail = (
            f"The answer must be one object with the field {STRATEGIES_FIELD!r}, a list; "
            f"got the fields {shown(', '.join(sorted(found)))}."
        )
        return refused_answer(answer, STAGE, Fault("unparseable_answer", detail))
    return list(found[STRATEGIES_FIELD])


def _read(value: object, brief: StrategyBrief) -> ProposedStrategy | Fault:
    if not isinstance(value, dict):
        return Fault("wrong_type", f"It must be an object; got {type(value).__name__}.")
    if missing := [field for field in FIELDS if field not in value]:
        return Fault("missing_field", f"It lacks the fields {missing}.")
    if extra := sorted(set(value) - set(FIELDS)):
        return Fault("extra_fields", f"It has unknown fields: {shown(', '.join(extra))}.")
    kind = _kind(value[TYPE_FIELD])
    if isinstance(kind, Fault):
        return kind
    texts: dict[str, str] = {}
    for field, most in MOST_CHARACTERS.items():
        text = read_text(value[field], f"Its {field}", most)
        if isinstance(text, Fault):
            return text
        texts[field] = text
    strategy = ProposedStrategy(
        detail=texts[DETAIL_FIELD],
        difference=kind,
        plan=texts[PLAN_FIELD],
        contrastive_caption=texts[CAPTION_FIELD],
        editing_instruction=texts[INSTRUCTION_FIELD],
    )
    if fault := _language_fault(texts, brief):
        return fault
    if stays := what_stays(strategy, brief.caption):
        return Fault("no_change", stays)
    return strategy


def _kind(value: object) -> DifferenceType | Fault:
    if not isinstance(value, str):
        return Fault("wrong_type", f"Its type must be a text; got {type(value).__name__}.")
    try:
        return DifferenceType(value)
    except ValueError:
        return Fault("unknown_type", f"There is no type {shown(value)}.")


def _language_fault(texts: dict[str, str], brief: StrategyBrief) -> Fault | None:
    """Of the texts one by one, and of all together, where each is too short to tell."""
    for field, text in texts.items():
        if fault := language_fault(text, f"Its {field}", brief.caption):
            return fault
    return language_fault(" ".join(texts.values()), "It", brief.caption)


def _different(read: list[_Numbered]) -> list[_Numbered]:
    """With a fault for each strategy that says what an earlier one says."""
    said: dict[tuple[object, ...], int] = {}
    result = []
    for number, found in read:
        if isinstance(found, ProposedStrategy):
            keys = _said(found)
            earlier = next((said[key] for key in keys if key in said), None)
            if earlier is not None:
                fault = Fault("duplicate", f"It says what strategy {earlier} says.")
                result.append(_Numbered(number, fault))
                continue
            said |= dict.fromkeys(keys, number)
        result.append(_Numbered(number, found))
    return result


def _said(strategy: ProposedStrategy) -> list[tuple[object, ...]]:
    """What no two strategies may share, case, space and punctuation aside."""
    return [
        (DETAIL_FIELD, folded(strategy.detail), strategy.difference),
        (PLAN_FIELD, folded(strategy.plan)),
        (CAPTION_FIELD, folded(strategy.contrastive_caption)),
    ]


def _chosen(read: list[_Numbered], count: int) -> list[_Numbered]:
    """With a fault for each strategy beyond `count`; the first of each type go before others."""
    usable = [one for one in read if isinstance(one.found, ProposedStrategy)]
    if len(usable) <= count:
        return read
    types: set[DifferenceType] = set()
    first: list[int] = []
    further: list[int] = []
    for number, found in usable:
        if isinstance(found, ProposedStrategy):
            (further if found.difference in types else first).append(number)
            types.add(found.difference)
    kept = set([*first, *further][:count])
    fault = Fault("too_many", f"The answer has more than the {count} strategies that are wanted.")
    return [
        one if isinstance(one.found, Fault) or one.number in kept else _Numbered(one.number, fault)
        for one in read
    ]


def _refused(answer: ChatAnswer, number: int, fault: Fault) -> Rejection:
    return Rejection(
        stage=STAGE,
        reason=fault.reason,
        detail=f"Strategy {number}: {fault.detail}",
        context={"answer": answer.text, "strategy": number},
    )
