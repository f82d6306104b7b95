"""Let the captioner write further pairs of texts for images of signs to translate."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pydantic import ValidationError

from loupe.checks.text import Form, shown
from loupe.db.entities import NewEntity, WorkResult, new_entity
from loupe.flows.answers import (
    UnusableAnswerError,
    object_schema,
    only_field,
    read_answer,
    read_text,
    text_schema,
)
from loupe.flows.engine.model_step import (
    Ask,
    DatasetModel,
    Parsed,
    Unparsable,
    ask_and_parse,
    require_answers,
    result_without_value,
)
from loupe.flows.engine.report import StageReport, StageResult
from loupe.flows.engine.runner import Stage, run_each
from loupe.prompts.loader import Prompt, load_prompt
from loupe.schemas.base import digest_of
from loupe.schemas.build import TaskSpec
from loupe.schemas.chat import ChatAnswer, ChatRequest
from loupe.schemas.errors import ConfigurationError
from loupe.schemas.profile import CaptioningSettings
from loupe.schemas.records import Rejection
from loupe.schemas.requests import (
    CHINESE_FIELD,
    ENGLISH_FIELD,
    KIND_FIELD,
    MOST_CHINESE,
    MOST_ENGLISH,
    MOST_PAIRS,
    PAIRS_FIELD,
    SIGN_PAIRS_PURPOSE,
    SignCategory,
    SignPair,
    SignPairsBrief,
    WrittenSignPair,
)
from loupe.sources.rendered import FontShelf, RenderOptions

# Code cannot check whether a translation is right. It checks whether a pair can be drawn, is in the
# right languages, and is new.

STAGE = SIGN_PAIRS_PURPOSE
VERSION = "2"

Undrawable = Callable[[SignPair], str | None]
"""Returns the first character of a pair that no typeface can draw, or None."""

_CHINESE_SIGN = Form("zh", sentences=False, shows_signs=True, is_shown=True)
_ENGLISH_SIGN = Form(sentences=False, shows_signs=True, is_shown=True)
_FIELDS = (KIND_FIELD, CHINESE_FIELD, ENGLISH_FIELD)
_LATIN_WORD = re.compile(r"[A-Za-z]{2}")


def answer_schema(count: int) -> dict[str, Any]:
    """Return the JSON schema of an answer: 1 to `count` pairs without other fields."""
    properties = {
        KIND_FIELD: {"type": "string", "enum": [kind.value for kind in SignCategory]},
        CHINESE_FIELD: text_schema(),
        ENGLISH_FIELD: text_schema(),
    }
    pairs = {"type": "array", "items": object_schema(properties), "minItems": 1, "maxItems": count}
    return object_schema({PAIRS_FIELD: pairs})


def request_sign_pairs(count: int, taken: Iterable[SignPair], prompt: Prompt) -> ChatRequest:
    """Return the request for `count` pairs, other than those that are `taken`."""
    texts = tuple(f"{pair.chinese} = {pair.english}" for pair in taken)
    text = SignPairsBrief(count=count, taken=texts).text()
    values = {
        "brief": text,
        "count": str(count),
        "kinds": ", ".join(SignCategory),
        "most_chinese": str(MOST_CHINESE),
        "most_english": str(MOST_ENGLISH),
    }
    schema = answer_schema(count)
    return prompt.request(SIGN_PAIRS_PURPOSE, values, subject=text, answer_schema=schema)


def read_sign_pairs(
    answer: ChatAnswer,
    count: int,
    taken: Iterable[SignPair],
    model_call: str,
    undrawable: Undrawable,
) -> list[SignPair | Rejection]:
    """Return the pairs of an answer in their order, each unchanged or with a rejection.

    An answer that is unusable as a whole is one rejection. Reasons are those of `read_answer`,
    `only_field` and `read_text` (`loupe.flows.answers`), and `wrong_type`, `wrong_count` (too
    many), `wrong_kind`, `wrong_language` (not in Chinese characters, or without a word in Latin
    letters), `no_glyph`, and `duplicate_text` (one of the texts is taken, or is in an earlier pair
    of the answer).
    """

    def listed(found: dict[str, Any]) -> list[Any]:
        values = only_field(found, PAIRS_FIELD)
        if not isinstance(values, list):
            kind = type(values).__name__
            raise UnusableAnswerError("wrong_type", f"{PAIRS_FIELD!r} must be a list; got {kind}.")
        if not 1 <= len(values) <= count:
            detail = f"There are {len(values):,} pairs; wanted 1 to {count}."
            raise UnusableAnswerError("wrong_count", detail)
        return values

    values = read_answer(answer, STAGE, listed)
    if isinstance(values, Rejection):
        return [values]
    known = {text for pair in taken for text in _folded(pair)}
    read: list[SignPair | Rejection] = []
    for value in values:
        try:
            pair = _read_pair(value, model_call, known, undrawable)
        except UnusableAnswerError as unusable:
            shown_pair = json.dumps(value)  # may contain characters that databases reject
            read.append(Rejection.of(STAGE, unusable.reason, unusable.detail, pair=shown_pair))
        else:
            known |= _folded(pair)
            read.append(pair)
    return read


def _read_pair(value: object, model_call: str, known: set[str], undrawable: Undrawable) -> SignPair:
    if not isinstance(value, dict) or not value.keys() >= set(_FIELDS):
        detail = f"A pair must have {', '.join(_FIELDS)}; got {shown(str(value))}."
        raise UnusableAnswerError("wrong_type", detail)
    chinese = read_text(value[CHINESE_FIELD], "The Chinese text", MOST_CHINESE, _CHINESE_SIGN)
    english = read_text(value[ENGLISH_FIELD], "The English text", MOST_ENGLISH, _ENGLISH_SIGN)
    if value[KIND_FIELD] not in list(SignCategory):
        kinds = ", ".join(SignCategory)
        got = shown(str(value[KIND_FIELD]))
        raise UnusableAnswerError("wrong_kind", f"The kind must be one of {kinds}; got {got}.")
    try:
        pair = SignPair(
            category=value[KIND_FIELD], chinese=chinese, english=english, model_call=model_call
        )
    except ValidationError as error:
        detail = f"{error.errors()[0]['msg']}."
        raise UnusableAnswerError("wrong_language", detail) from error
    if _LATIN_WORD.search(pair.english) is None:
        detail = f"The English text has no word in Latin letters: {shown(pair.english)}."
        raise UnusableAnswerError("wrong_language", detail)
    for text in (pair.chinese, pair.english):
        if text.casefold() in known:
            detail = f"The text {shown(text)} is in another pair."
            raise UnusableAnswerError("duplicate_text", detail)
    if (letter := undrawable(pair)) is not None:
        raise UnusableAnswerError("no_glyph", f"A typeface has no glyph for {letter!r}.")
    return pair


def _folded(pair: SignPair) -> set[str]:
    return {pair.chinese.casefold(), pair.english.casefold()}


# Every answer is stored at once, so another run does not repeat requests and draws from the same
# pairs. Images drawn from the pairs are derived from them, and the pairs name their call.

_ROUND = 1000  # items of a round are numbered from here


@dataclass
class FurtherPairs:
    """Pairs that a model wrote, in order, with their entities by Chinese text."""

    pairs: tuple[SignPair, ...] = ()
    entities: dict[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """A digest of these pairs, as 8 hex digits."""
        texts = (f"{one.category}\t{one.chinese}\t{one.english}" for one in self.pairs)
        return digest_of(*texts, *(one.model_call or "" for one in self.pairs))[:8]


def sign_prompt() -> Prompt:
    """Return the prompt for further pairs."""
    return load_prompt(SIGN_PAIRS_PURPOSE)


def require_writer(tasks: Sequence[TaskSpec], settings: CaptioningSettings) -> None:
    """Raise if further pairs are wanted but no model can write them.

    Raises:
        ConfigurationError: a task wants further pairs, and the profile's captioner is a built-in
            one.
    """
    for task in tasks:
        if task.further_pairs and settings.model.provider.startswith("builtin"):
            raise ConfigurationError(
                f"task {task.task}: further_pairs = {task.further_pairs} needs a model that writes "
                f"texts, and {settings.model.name} is built in and cannot; name another as "
                f"[captioning.model] of the profile, or leave further_pairs out"
            )


def write_sign_pairs(
    writer: DatasetModel, task: TaskSpec, options: RenderOptions
) -> tuple[FurtherPairs, list[StageReport]]:
    """Write further pairs, at most `MOST_PAIRS` per request, until there are enough.

    Unusable pairs are quarantined. Requests are repeated for the missing pairs until an answer has
    none that is new; then the run reports the missing pairs and goes on.

    Raises:
        BudgetReachedError: a limit of the run's budget was reached.
        ModelError: the model's server is unavailable; earlier answers are stored.
        ConfigurationError: a font is missing.
    """
    prompt = sign_prompt()
    settings = writer.settings_of(STAGE, VERSION, prompt, further_pairs=task.further_pairs)
    parents = writer.written_with(prompt, settings)
    stage = Stage(
        STAGE,
        VERSION,
        writer.dataset,
        {"settings": settings.id},
        agents=(writer.agent,),
        label="write texts of signs",
    )
    written = FurtherPairs()
    reports: list[StageReport] = []

    def items_of(count: int) -> Sequence[SignPair | Rejection | Unparsable]:
        """Request `count` pairs once, or return the stored answer."""
        taken = (*options.pairs, *written.pairs)
        request = request_sign_pairs(count, taken, prompt)
        call, undrawable = writer.model.key(request), partial(_undrawable, options.shelf)
        (found,) = ask_and_parse(
            writer.model,
            [Ask(count, request)],
            lambda count, answer: read_sign_pairs(answer, count, taken, call, undrawable),
        )
        return found.value if isinstance(found, Parsed) else [found]

    def entity(pair: SignPair) -> NewEntity:
        record = WrittenSignPair(pair=pair, author=writer.author)
        return new_entity(record, writer.dataset, parents=parents, model_call=pair.model_call)

    def result(number: int, item: SignPair | Rejection | Unparsable) -> StageResult:
        if isinstance(item, Unparsable):
            return result_without_value(number, STAGE, item)
        if isinstance(item, Rejection):
            return WorkResult(number, rejection=item)
        return WorkResult(number, entities=(entity(item),))

    while missing := task.further_pairs - len(written.pairs):
        items = items_of(min(missing, MOST_PAIRS))
        numbered = list(enumerate(items, start=_ROUND * len(reports)))
        reports.append(run_each(writer.context, stage, numbered, result))
        require_answers(writer.spec.ref, reports[-1])
        pairs = [item for item in items if isinstance(item, SignPair)]
        written.pairs += tuple(pairs)
        written.entities |= {one.chinese: entity(one).id for one in pairs}
        if not pairs:
            break
    writer.context.progress.say(
        f"{task.task}: {len(written.pairs)} of {task.further_pairs} further pairs of texts were "
        f"written by {writer.author}; nobody checked their "
        f"translations, which people see at selection_gate"
    )
    return written, reports


def _undrawable(shelf: FontShelf, pair: SignPair) -> str | None:
    latin = shelf.undrawable(pair.english, "serif", "sans-serif")
    return shelf.undrawable(pair.chinese, "chinese") or latin
