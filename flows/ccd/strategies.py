"""Request, parse and store contrastive strategies one by one (CCD, step 1)."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from loupe.checks.text import Form, shown
from loupe.db.entities import LIVE, StoredEntity, WorkResult, fetch, fetch_children, parents_of
from loupe.db.work import Pending
from loupe.flows.answers import (
    UnusableAnswerError,
    check_fields,
    check_language,
    language_of,
    object_schema,
    read_answer,
    read_text,
    repair_request,
    text_schema,
)
from loupe.flows.ccd.resizing import smart_resized
from loupe.flows.ccd.run import CcdRun, coarse_captions, is_anchor
from loupe.flows.engine.context import sync_active_edits
from loupe.flows.engine.embedding import picture_of
from loupe.flows.engine.model_step import Ask, DatasetModel, LLMStep, Parsed, run_llm_step
from loupe.flows.engine.report import StageReport
from loupe.flows.engine.runner import Stage, run_stage, store_settings, worked_items
from loupe.flows.engine.scope import EVERYTHING, Scope
from loupe.flows.image_facts import facts_of
from loupe.prompts.loader import Prompt, load_prompt
from loupe.schemas.chat import ChatAnswer, ChatImage, ChatRequest
from loupe.schemas.contrast import StrategyDraft
from loupe.schemas.profile import ImageArea
from loupe.schemas.proposals import Strategy
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Image, Rejection
from loupe.schemas.requests import (
    CAPTION_FIELD,
    DETAIL_FIELD,
    INSTRUCTION_FIELD,
    MOST_CHARACTERS,
    MOST_STRATEGIES,
    PLAN_FIELD,
    REPAIR_PURPOSE,
    STRATEGIES_FIELD,
    STRATEGY_PURPOSE,
    TYPE_FIELD,
    ProposedStrategy,
    StrategyBrief,
)
from loupe.schemas.taxonomy import DifferenceType, taxonomy_lines

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_ARTICLES = frozenset(("a", "an", "the", "some", "one"))
_EMPTY = frozenset(
    re.findall(
        r"\w+",
        """
        color colour type kind style shape pattern material shade of is are was were be being been
        it its his her their that which
        """,
    )
)
"""Words that only name the attribute of a value: «the colour of the car is red» is «car red»."""

_VERB = (
    r"\b(?:chang|turn|transform|convert|switch|alter|modif|shift|recolou?r|repaint|paint|dy"
    r"|replac|swap|substitut|exchang|adjust|edit|remak|restyl|render)(?:e|es|ed|ing|y|s|ies|ied)?\b"
)
_END = (
    r"(?=[,.;:!?()]|\s+(?:while|whilst|keeping|and|but|so|without|leaving|with\s+everything)\b|$)"
)
_INTO = re.compile(
    rf"{_VERB}\s+(?P<before>[^.;:!?]+?)\s+(?:into|to(?:\s+be)?|with|for|by|as)\s+"
    rf"(?P<after>[^.;:!?]+?){_END}",
    re.IGNORECASE,
)
_BECOMES = re.compile(
    rf"(?P<before>[^.,;:!?]+?)\s+(?:becomes?|becoming|turns?\s+into|changes?\s+(?:in)?to)\s+"
    rf"(?P<after>[^.;:!?]+?){_END}",
    re.IGNORECASE,
)
_INSTEAD = re.compile(
    rf"(?P<after>\S+)\s+instead\s+of\s+(?P<before>[^.,;:!?]+?){_END}", re.IGNORECASE
)
_FROM = re.compile(r"\bfrom\s+", re.IGNORECASE)


def folded(text: str) -> tuple[str, ...]:
    """Return the words of a text in their order, without case, punctuation and articles."""
    words = (word.casefold() for word in _WORD.findall(text))
    return tuple(word for word in words if word not in _ARTICLES)


def what_stays(strategy: ProposedStrategy, caption: str) -> str | None:
    """Return why a strategy changes nothing, as a sentence, or None if it changes something.

    A strategy changes nothing if both captions say the same, if plan or instruction names the same
    value before and after, or if the detail already has the new value. The order of words counts:
    dogs that chase a cat are not a cat that chases dogs.

    Args:
        strategy: the proposed strategy.
        caption: caption of the anchor.
    """
    if folded(strategy.contrastive_caption) == folded(caption):
        return "The caption of the contrastive image says what the caption of the image says."
    detail = _values(strategy.detail)
    if _values(strategy.plan) == detail:
        return "The plan says the detail as it is and no change."
    for text in (strategy.plan, strategy.editing_instruction):
        for before, after in named_changes(text):
            value = _values(after)
            if value and value == _values(before):
                return f"It names the same before and after the change: {after.strip()!r}."
            if value and detail in (value, _values(before) + value):
                return f"The detail is already what it would become: {after.strip()!r}."
    return None


def named_changes(text: str) -> Iterator[tuple[str, str]]:
    """Return (before, after) of each change that a text names.

    «Change the colour of the car from red to blue» is a change of «red» to «blue».
    """
    for pattern in (_INTO, _BECOMES, _INSTEAD):
        for match in pattern.finditer(text):
            before = match["before"]
            origin = _FROM.split(before)
            yield (origin[-1], match["after"]) if len(origin) > 1 else (before, match["after"])


def _values(text: str) -> tuple[str, ...]:
    return tuple(word for word in folded(text) if word not in _EMPTY)


STAGE = STRATEGY_PURPOSE
VERSION = "3"

FIELDS = (DETAIL_FIELD, TYPE_FIELD, PLAN_FIELD, CAPTION_FIELD, INSTRUCTION_FIELD)
"""The fields of a strategy in the order in which a model writes them."""


def request_strategies(
    image: ChatImage, brief: StrategyBrief, prompt: Prompt, area: ImageArea
) -> ChatRequest | Rejection:
    """Return the request for strategies to change `image`, or why it cannot be shown to a model.

    The brief may contain anything, including instructions to the model, so the prompt marks it as
    data. The reasons of a rejection are those of `smart_resized`.

    Args:
        image: the anchor, which is scaled to `area`.
        brief: the known facts, and the number of strategies wanted.
        prompt: `contrast_strategies`.
        area: the size at which the model sees the image.
    """
    resized = smart_resized(image, area)
    if isinstance(resized, Rejection):
        return resized.model_copy(update={"stage": STAGE})
    text = brief.text()
    values = {"brief": text, "count": str(brief.count)}
    if "taxonomy" in prompt.variables:  # the paper's prompt has its own definitions
        values["taxonomy"] = taxonomy_lines()
    schema = answer_schema(brief.count)
    return prompt.request(
        STRATEGY_PURPOSE, values, subject=text, images=[resized], answer_schema=schema
    )


def request_repair(
    request: ChatRequest, answer: ChatAnswer, rejection: Rejection, prompt: Prompt
) -> ChatRequest:
    """Return the request to send once more after `answer` to `request` was rejected.

    Args:
        request: the request by `request_strategies`.
        answer: the model's answer, which is quoted as data.
        rejection: why the answer cannot be used.
        prompt: `repair_strategies`.
    """
    count = str(StrategyBrief.parse(request.subject).count)
    values = {"brief": request.subject, "count": count, "taxonomy": taxonomy_lines()}
    return repair_request(request, answer, rejection, prompt, REPAIR_PURPOSE, **values)


def answer_schema(count: int) -> dict[str, Any]:
    """Return the JSON schema of an answer: 1 to `count` strategies without other fields."""
    strategy = object_schema(
        {
            field: {"type": "string", "enum": [kind.value for kind in DifferenceType]}
            if field == TYPE_FIELD
            else text_schema()
            for field in FIELDS
        }
    )
    strategies = {"type": "array", "items": strategy, "minItems": 1, "maxItems": count}
    return object_schema({STRATEGIES_FIELD: strategies})


class StrategiesRead(NamedTuple):
    """The usable strategies of an answer in its order, and why others are unusable."""

    strategies: tuple[ProposedStrategy, ...]
    refused: tuple[Rejection, ...]


def read_strategies(
    answer: ChatAnswer, brief: StrategyBrief, known: Sequence[Strategy] = ()
) -> StrategiesRead | Rejection:
    """Parse the strategies in `answer` one by one, or return why there are none.

    Errors that reject one strategy: `missing_field`, `wrong_type`, `unknown_type`,
    `no_change` (it changes nothing), `duplicate`, `too_many` (if there are more than wanted, the
    first of each type is kept), and the reasons of `loupe.flows.answers`. The whole answer is
    rejected if it cannot be parsed, or if none of its strategies is usable (`no_usable_strategy`).
    The context of every rejection has the raw answer.
    """
    values = read_answer(answer, STAGE, _listed)
    if isinstance(values, Rejection):
        return values
    usable: dict[int, ProposedStrategy] = {}
    faults: dict[int, UnusableAnswerError] = {}
    said: dict[tuple[object, ...], int] = {}
    for one in known:
        said |= dict.fromkeys(_said(one)[1:], 0)  # the same detail may be changed in another way
    for number, value in enumerate(values, start=1):
        try:
            strategy = _read(value, brief)
            _check_novelty(strategy, said, number)
            usable[number] = strategy
        except UnusableAnswerError as unusable:
            faults[number] = unusable
    first = {one.difference: number for number, one in reversed(usable.items())}
    order = sorted(usable, key=lambda number: (first[usable[number].difference] != number, number))
    for number in order[brief.count :]:
        del usable[number]
        detail = f"The answer has more than the {brief.count} strategies that are wanted."
        faults[number] = UnusableAnswerError("too_many", detail)
    refused = tuple(
        Rejection.of(
            STAGE,
            fault.reason,
            f"Strategy {number}: {fault.detail}",
            answer=answer.text,
            strategy=number,
        )
        for number, fault in sorted(faults.items())
    )
    if usable:
        return StrategiesRead(tuple(usable.values()), refused)
    problems = " ".join(f"{number}. {fault.detail}" for number, fault in sorted(faults.items()))
    detail = f"No strategy of the answer can be used. {problems}".strip()
    reasons = [one.reason for one in refused]
    return Rejection.of(STAGE, "no_usable_strategy", detail, answer=answer.text, reasons=reasons)


def _listed(found: dict[str, Any]) -> list[Any]:
    """Return the unparsed list of strategies."""
    if not isinstance(found.get(STRATEGIES_FIELD), list):
        detail = (
            f"The answer must be one object with the field {STRATEGIES_FIELD!r}, a list; "
            f"got the fields {shown(', '.join(sorted(found)))}."
        )
        raise UnusableAnswerError("unparseable_answer", detail)
    return list(found[STRATEGIES_FIELD])


def _read(value: object, brief: StrategyBrief) -> ProposedStrategy:
    if not isinstance(value, dict):
        detail = f"It must be an object; got {type(value).__name__}."
        raise UnusableAnswerError("wrong_type", detail)
    check_fields(value, FIELDS, "It")
    difference = _difference(value[TYPE_FIELD])
    form = Form(language_of(brief.caption), sentences=False)
    texts = {
        field: read_text(value[field], f"Its {field}", most, form)
        for field, most in MOST_CHARACTERS.items()
    }
    for field, text in texts.items():
        check_language(text, f"Its {field}", brief.caption)
    # each field may be too short to detect its language
    check_language(" ".join(texts.values()), "It", brief.caption)
    strategy = ProposedStrategy(
        detail=texts[DETAIL_FIELD],
        difference=difference,
        plan=texts[PLAN_FIELD],
        contrastive_caption=texts[CAPTION_FIELD],
        editing_instruction=texts[INSTRUCTION_FIELD],
    )
    if stays := what_stays(strategy, brief.caption):
        raise UnusableAnswerError("no_change", stays)
    return strategy


def _difference(value: object) -> DifferenceType:
    if not isinstance(value, str):
        detail = f"Its type must be a text; got {type(value).__name__}."
        raise UnusableAnswerError("wrong_type", detail)
    try:
        return DifferenceType(value)
    except ValueError as error:
        detail = f"There is no type {shown(value)}."
        raise UnusableAnswerError("unknown_type", detail) from error


def _check_novelty(
    strategy: ProposedStrategy, said: dict[tuple[object, ...], int], number: int
) -> None:
    """Add the texts of a strategy to `said`, ignoring case, white space and punctuation.

    Raises:
        UnusableAnswerError: `duplicate`, if an earlier strategy has the same text.
    """
    keys = _said(strategy)
    earlier = next((said[key] for key in keys if key in said), None)
    if earlier is not None:
        what = f"strategy {earlier} says" if earlier else "was proposed before"
        raise UnusableAnswerError("duplicate", f"It says what {what}.")
    said |= dict.fromkeys(keys, number)


def _said(strategy: ProposedStrategy | Strategy) -> list[tuple[object, ...]]:
    return [
        (DETAIL_FIELD, folded(strategy.detail), strategy.difference),
        (PLAN_FIELD, folded(strategy.plan)),
        (CAPTION_FIELD, folded(strategy.contrastive_caption)),
    ]


TAKE, TAKE_VERSION = "take_strategies", "1"
FURTHER = "further_strategies"
"""The stage whose settings strategies have that were proposed in the place of others."""
_PROPOSED = "This change was proposed before, so that another one is wanted"


class _Asked(NamedTuple):
    """An anchor, the brief on it, and the strategies that were proposed for it before."""

    anchor: StoredEntity
    brief: StrategyBrief
    known: Sequence[Strategy]


def propose_strategies(run: CcdRun, most: int = MOST_STRATEGIES, scope: Scope = EVERYTHING) -> None:
    """Propose at most so many strategies for every anchor in `scope` that has none.

    Raises:
        BudgetReachedError: a limit of the run's budget was reached.
        ModelError: the model's server is unavailable; earlier answers are stored.
    """
    settings_id = _settings(run, most)
    states = LIVE if scope.links else ("proposed",)  # the images of groups are accepted
    pending = Pending(run.dataset, Image.kind, states)
    report = _Proposing(run, settings_id).ask(pending, {}, lambda _: most, scope)
    run.add(report, _take_strategies(run, settings_id))


def propose_instead(run: CcdRun, lacking: Mapping[str, int]) -> bool:
    """Ask for so many other strategies of each anchor, by its id, each in its next round.

    Returns whether any anchor had a round left.
    """
    settings_id = _settings(run, MOST_STRATEGIES)
    values = {"settings": settings_id}
    further = store_settings(run.context, run.dataset, FURTHER, VERSION, values)
    proposing = _Proposing(run, settings_id, further.id)
    left = list(fetch(run.store, lacking).values())
    is_any = False
    for number in range(1, run.build.further_rounds + 1):
        configuration = {"settings": settings_id, "round": number}
        stage = Stage(STAGE, VERSION, run.dataset, configuration)
        asked = worked_items(run.context, stage, [one.seq for one in left])
        now = [(one.seq, one) for one in left if one.seq not in asked]
        if now:
            is_any = True
            report = proposing.ask(now, {"round": number}, lacking.__getitem__)
            report.asked_model = ""  # a model is judged by its first answers
            run.add(report)
        left = [one for one in left if one.seq in asked]
    return is_any


def _settings(run: CcdRun, most: int) -> str:
    """Return the id of the settings with which strategies are proposed."""
    settings = run.settings
    strategist = DatasetModel(run.context, run.dataset, settings.strategist)
    values: dict[str, object] = {
        "repair": load_prompt(settings.repair_prompt).digest,
        "area": settings.image_area.model_dump(),
    }
    if most != MOST_STRATEGIES:
        values["most"] = most
    return strategist.settings_of(STAGE, VERSION, load_prompt(settings.prompt), **values).id


class _Proposing:
    """Asks for strategies; those in the place of others are linked to the settings `further`."""

    def __init__(self, run: CcdRun, settings_id: str, further: str = "") -> None:
        self._run = run
        self._settings_id = settings_id
        self._further = further
        self._model = DatasetModel(run.context, run.dataset, run.settings.strategist)
        self._prompt = load_prompt(run.settings.prompt)
        self._repair_prompt = load_prompt(run.settings.repair_prompt)
        both = (self._prompt, self._repair_prompt)
        self._prompts = {one.digest: self._model.store_prompt(one).id for one in both}

    def ask(
        self,
        inputs: Pending | Sequence[tuple[int, StoredEntity]],
        configuration: Mapping[str, object],
        wanted: Callable[[str], int],
        scope: Scope = EVERYTHING,
    ) -> StageReport:
        """Ask about anchors for as many strategies as are `wanted` of each, by its id."""
        step: LLMStep[StoredEntity, _Asked, StrategiesRead] = LLMStep(
            name=STAGE,
            version=VERSION,
            label="propose strategies",
            configuration={"settings": self._settings_id, **configuration},
            inputs=inputs,
            request=lambda anchors: self._requests(anchors, wanted),
            parse=lambda asked, answer: read_strategies(answer, asked.brief, asked.known),
            outputs=lambda answers: [self._output(one) for (one,) in answers],
            repair=partial(request_repair, prompt=self._repair_prompt),
            chunk_size=50,  # images, which are kept in memory
        )
        return run_llm_step(self._model, step, scope)

    def _requests(
        self, anchors: Sequence[StoredEntity], wanted: Callable[[str], int]
    ) -> Iterator[list[Ask[_Asked]] | WorkResult]:
        store = self._run.store
        ids = [anchor.id for anchor in anchors]
        captions, facts = coarse_captions(store, ids), facts_of(store, ids)
        proposed = fetch_children(store, ids, Role.ANCHOR) if self._further else {}
        for anchor in anchors:
            if not is_anchor(anchor):  # its contrastive image was withdrawn, so it is open again
                yield WorkResult(anchor.seq)
                continue
            if not captions[anchor.id]:
                name = anchor.record(Image).file_path
                detail = f"Image {name!r} has no caption; an anchor needs at least one."
                yield WorkResult.rejected(anchor.seq, STAGE, "no_caption", detail, file_path=name)
                continue
            below = proposed.get(anchor.id, ())
            known = [one.record(Strategy) for one in below if one.kind == Strategy.kind]
            brief = StrategyBrief(
                count=wanted(anchor.id),
                caption=captions[anchor.id][0].record(Caption).text,
                facts=(*facts.get(anchor.id, ()), *(f"{_PROPOSED}: {one.plan}" for one in known)),
            )
            area = self._run.settings.image_area
            request = request_strategies(self._model.picture(anchor), brief, self._prompt, area)
            if isinstance(request, Rejection):
                yield WorkResult(anchor.seq, rejection=request)
            else:
                yield [Ask(_Asked(anchor, brief, known), request)]

    def _output(self, answer: Parsed[_Asked, StrategiesRead]) -> WorkResult:
        """Return a draft of each strategy of an answer, each stored, including rejected ones."""
        anchor, brief, _ = answer.subject
        strategies = [
            Strategy(
                source=anchor.record(Image).source,
                anchor=picture_of(anchor),
                caption=brief.caption,
                author=self._model.author,
                **dict(proposed),
            )
            for proposed in answer.value.strategies
        ]
        drafts: list[dict[str, Any]] = [{"strategy": one} for one in strategies]
        drafts += [{"refusal": one} for one in answer.value.refused]
        parents = [
            (Role.ANCHOR, anchor.id),
            (Role.PROMPTED_BY, self._prompts[answer.prompt_digest]),
            (Role.WRITTEN_WITH, self._settings_id),
            *([(Role.WRITTEN_WITH, self._further)] if self._further else []),
        ]
        entities = (
            self._run.create(
                StrategyDraft(position=position, call=answer.call, **draft),
                parents,
                group=anchor.id,
                model_call=answer.call,
            )
            for position, draft in enumerate(drafts)
        )
        return WorkResult(anchor.seq, tuple(entities))


def _take_strategies(run: CcdRun, settings_id: str) -> StageReport:
    """Make a strategy of each parsed draft, and quarantine the others.

    Strategies proposed with other settings are inactive until those settings are used again, and
    those of anchors that people rejected until they accept them.
    """
    configuration = {"dataset": run.dataset}
    stage = Stage(TAKE, TAKE_VERSION, run.dataset, configuration, label="take strategies")

    def taken(draft: StoredEntity, anchors: Sequence[str], prompts: Sequence[str]) -> WorkResult:
        record = draft.record(StrategyDraft)
        if record.strategy is None:
            return WorkResult(draft.seq, rejection=record.refusal)
        strategy = run.create(
            record.strategy,
            [
                *((Role.ANCHOR, anchor) for anchor in anchors),
                (Role.DRAFTED_AS, draft.id),
                *((Role.PROMPTED_BY, prompt) for prompt in prompts),
            ],
            group=draft.group,
            model_call=record.call,
        )
        return WorkResult(draft.seq, (strategy,))

    def work(drafts: Sequence[StoredEntity]) -> list[WorkResult]:
        ids = [draft.id for draft in drafts]
        anchors = parents_of(run.store, ids, Role.ANCHOR)
        prompts = parents_of(run.store, ids, Role.PROMPTED_BY)
        return [taken(draft, anchors[draft.id], prompts[draft.id]) for draft in drafts]

    pending = Pending(run.dataset, StrategyDraft.kind, ("proposed",))
    report = run_stage(run.context, stage, pending, work)
    strategies = run.find(Strategy)
    drafted = parents_of(run.store, [one.id for one in strategies], Role.DRAFTED_AS)
    written = parents_of(run.store, {one[0] for one in drafted.values()}, Role.WRITTEN_WITH)
    rejected = {one.id for one in run.find(Image, "rejected")}
    of_rejected = {one.id for one in strategies if one.group in rejected}

    def is_active(strategy: str) -> bool | None:
        if strategy in of_rejected:
            return False
        return settings_id in written[drafted[strategy][0]] if strategy in drafted else None

    sync_active_edits(run.context, run.dataset, Strategy.kind, is_active)
    return report
