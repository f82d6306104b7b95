"""What a chat model is asked about a text beside its source, and how its answer is read.

The source of a rewrite is a caption, that of a caption an image.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from loupe.checks.known_pairs import KnownPair
from loupe.checks.text import SIGNS
from loupe.flows.answers import (
    UnusableAnswerError,
    check_fields,
    object_schema,
    read_answer,
    read_text,
    text_schema,
)
from loupe.flows.engine.model_step import Ask, LedgerModel, Parsed, ask_and_parse
from loupe.prompts.loader import Prompt
from loupe.schemas.chat import ChatAnswer, ChatImage, ChatRequest
from loupe.schemas.quality import JudgeMeasurement
from loupe.schemas.records import Rejection

PURPOSE = "judge_rewrite"
SUPPORTED, CONTRADICTED, MISSING = "supported", "contradicted", "missing"
_VERDICTS = (SUPPORTED, CONTRADICTED, MISSING)
_FACTS, _FACT, _VERDICT, _ADDED = "source_facts", "fact", "verdict", "added"
_CAPTION_FACTS = "caption_facts"
_MOST_FACTS = 60
_MOST_CHARACTERS = 200


class JudgedFact(NamedTuple):
    """A fact of the source, and whether the text supports, contradicts or misses it."""

    fact: str
    verdict: str


class Judgement(NamedTuple):
    """The facts of the source with a verdict each, and the facts that the text adds."""

    facts: tuple[JudgedFact, ...]
    added: tuple[str, ...]

    @property
    def objections(self) -> Iterator[str]:
        """What speaks against the text, in sentences; a fact may be missing."""
        for one in self.added:
            yield f"The judge finds no source for: {one}"
        for fact, verdict in self.facts:
            if verdict == CONTRADICTED:
                yield f"The judge finds a contradiction: {fact}"


class CaptionJudgement(NamedTuple):
    """The facts of a caption, and whether its image supports, contradicts or misses them."""

    facts: tuple[JudgedFact, ...]

    @property
    def objections(self) -> Iterator[str]:
        """What speaks against the caption, in sentences."""
        for fact, verdict in self.facts:
            if verdict == CONTRADICTED:
                yield f"The judge sees a contradiction in the image: {fact}"
            elif verdict == MISSING:
                yield f"The judge does not see in the image: {fact}"


def request_judgement(description: str, rewrite: str, prompt: Prompt) -> ChatRequest:
    """Return the request to compare `rewrite` with the `description` that it was made from."""
    values = {"description": description, "rewrite": rewrite}
    added = {"type": "array", "items": text_schema(), "maxItems": _MOST_FACTS}
    schema = object_schema({_FACTS: _facts_schema(), _ADDED: added})
    return prompt.request(PURPOSE, values, answer_schema=schema)


def request_caption_judgement(
    image: ChatImage, caption: str, prompt: Prompt, purpose: str
) -> ChatRequest:
    """Return the request to compare `caption` with the `image` that it describes."""
    schema = object_schema({_CAPTION_FACTS: _facts_schema()})
    return prompt.request(purpose, {"caption": caption}, images=[image], answer_schema=schema)


def _facts_schema() -> dict[str, Any]:
    verdict = {"type": "string", "enum": list(_VERDICTS)}
    fact = object_schema({_FACT: text_schema(), _VERDICT: verdict})
    return {"type": "array", "items": fact, "maxItems": _MOST_FACTS}


def read_judgement(answer: ChatAnswer) -> Judgement | Rejection:
    """Return what the judge says of each fact, or why the answer cannot be used."""

    def read(found: dict[str, Any]) -> Judgement:
        check_fields(found, (_FACTS, _ADDED), "The answer")
        facts = [_read_fact(one) for one in _listed(found, _FACTS)]
        return Judgement(tuple(facts), tuple(_text(one, _ADDED) for one in _listed(found, _ADDED)))

    return read_answer(answer, PURPOSE, read)


def read_caption_judgement(answer: ChatAnswer, purpose: str) -> CaptionJudgement | Rejection:
    """Return what the judge says of each fact of a caption, or why the answer cannot be used."""

    def read(found: dict[str, Any]) -> CaptionJudgement:
        check_fields(found, (_CAPTION_FACTS,), "The answer")
        return CaptionJudgement(tuple(_read_fact(one) for one in _listed(found, _CAPTION_FACTS)))

    return read_answer(answer, purpose, read)


def _listed(found: dict[str, Any], field: str) -> list[Any]:
    values = found[field]
    if not isinstance(values, list) or len(values) > _MOST_FACTS:
        detail = f"{field!r} must be a list of at most {_MOST_FACTS} facts."
        raise UnusableAnswerError("wrong_type", detail)
    return values


def _read_fact(one: Any) -> JudgedFact:
    if not isinstance(one, dict):
        detail = f"A fact must be an object with {_FACT!r} and {_VERDICT!r}."
        raise UnusableAnswerError("wrong_type", detail)
    check_fields(one, (_FACT, _VERDICT), "A fact")
    if one[_VERDICT] not in _VERDICTS:
        detail = f"A verdict must be {', '.join(_VERDICTS)}; got {one[_VERDICT]!r:.80}."
        raise UnusableAnswerError("wrong_type", detail)
    return JudgedFact(_text(one[_FACT], _FACT), one[_VERDICT])


def _text(value: Any, field: str) -> str:
    return read_text(value, f"{field!r}", _MOST_CHARACTERS, SIGNS)


# How good a judge is, measured on pairs with known truth


class Calibration(NamedTuple):
    """What a judge found.

    Attributes:
        measured: the counts.
        unanswered: pairs without a usable answer, which are not counted.
        missed: pairs with a wrong fact that it did not object to.
        alarms: faithful pairs that it objected to, with its objections.
    """

    measured: JudgeMeasurement
    unanswered: int
    missed: tuple[KnownPair, ...]
    alarms: tuple[tuple[KnownPair, tuple[str, ...]], ...]


def calibrate(
    model: LedgerModel, prompt: Prompt, pairs: Sequence[KnownPair], name: str
) -> Calibration:
    """Ask a judge about pairs whose truth is known; `name` is that of the set."""
    asks = [Ask(pair, request_judgement(pair.source, pair.rewrite, prompt)) for pair in pairs]
    answers = ask_and_parse(model, asks, lambda _, answer: read_judgement(answer))
    parsed = [one for one in answers if isinstance(one, Parsed)]
    judged = [(one.subject, tuple(one.value.objections)) for one in parsed]
    changed = [(pair, said) for pair, said in judged if not pair.faithful]
    faithful = [(pair, said) for pair, said in judged if pair.faithful]
    alarms = tuple((pair, said) for pair, said in faithful if said)
    measured = JudgeMeasurement(
        pairs=name,
        prompt=f"{prompt.id} {prompt.version}",
        found=sum(bool(said) for _, said in changed),
        changed=len(changed),
        alarms=len(alarms),
        faithful=len(faithful),
    )
    missed = tuple(pair for pair, said in changed if not said)
    return Calibration(measured, len(answers) - len(judged), missed, alarms)
