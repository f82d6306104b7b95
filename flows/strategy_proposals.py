"""Has contrastive strategies proposed for every anchor, and takes each for itself (CCD, step 1)."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from annotate.drafts import PROMPTED_BY
from db.entities import NewEntity, StoredEntity, find, new_entity, parents_of
from db.work import Pending, WorkResult
from flows.anchors import coarse_captions, is_anchor
from flows.asked_model import AskedModel
from flows.asking import require_answers
from flows.captioning import WRITTEN_WITH, facts_of
from flows.repairing import NotUnderstood, Understood, ask_and_repair, not_understood
from flows.report import StageReport, StageResult
from flows.retiring import keep_current_edits
from flows.rewriting import store_prompts
from flows.runner import Stage, run_stage
from flows.task_images import picture_of
from prompts.loader import load_prompt
from schemas.chat import ChatAnswer, ChatRequest
from schemas.contrast_records import StrategyDraft
from schemas.profile import ContrastSettings
from schemas.proposals import Strategy
from schemas.records import Caption, Image, Rejection
from schemas.strategy_request import ProposedStrategy, StrategyBrief
from stages.contrast_strategies.answer import StrategiesRead, read_strategies
from stages.contrast_strategies.request import (
    STAGE,
    VERSION,
    request_repair,
    request_strategies,
)

DRAFTED_AS = "drafted_as"
"""The role of the draft that a strategy was taken from."""
ANCHOR = "anchor"
"""The role of the image that a strategy would change."""
TAKE, TAKE_VERSION = "take_strategies", "1"

_NO_CAPTION = "no_caption"


def propose_strategies(strategist: AskedModel, settings: ContrastSettings) -> StageReport:
    """Has strategies proposed for every anchor that has none, each kept as a draft.

    An answer that is no use is asked for once more, with what is wrong.

    Raises:
        BudgetReachedError: a limit of the run's budget was reached.
        ModelError: the model's server is gone; what came back before is stored.
    """
    context, dataset = strategist.context, strategist.dataset
    proposing = _Proposing(strategist, settings)
    stage = Stage(
        name=STAGE,
        version=VERSION,
        dataset=dataset,
        configuration={"settings": proposing.settings_id},
        agents=(strategist.agent,),
        chunk_size=50,  # of pictures, which are held
        workers=1,  # a chat model keeps many requests in flight itself
        label="propose strategies",
    )
    anchors = Pending(dataset, Image.kind, ("proposed",))
    report = run_stage(context, stage, anchors, proposing.results)
    require_answers(strategist.spec.ref, report)
    return report


class _Asked(NamedTuple):
    """A request for strategies for one anchor."""

    anchor: StoredEntity
    brief: StrategyBrief
    request: ChatRequest


class _Proposing:
    """The proposals of one run: what is asked, and what becomes of the answers."""

    def __init__(self, strategist: AskedModel, settings: ContrastSettings) -> None:
        self._strategist = strategist
        self._area = settings.image_area
        self._prompt = load_prompt(settings.prompt)
        self._repair_prompt = load_prompt(settings.repair_prompt)
        prompts = self._prompt, self._repair_prompt
        self._prompts = store_prompts(strategist.context, strategist.dataset, prompts)
        self.settings_id = _settings_of(strategist, settings).id

    def results(self, anchors: Sequence[StoredEntity]) -> list[StageResult]:
        """What becomes of each anchor, in order."""
        results: dict[str, StageResult] = {}
        asked: list[_Asked] = []
        for anchor, one in zip(anchors, self._requests(anchors), strict=True):
            if isinstance(one, WorkResult):
                results[anchor.id] = one
            else:
                asked.append(one)
        answered = ask_and_repair(
            self._strategist.model,
            [one.request for one in asked],
            lambda number, answer: read_strategies(answer, asked[number].brief),
            self._repair,
        )
        for one, found in zip(asked, answered, strict=True):
            results[one.anchor.id] = self._drafts(one, found)
        return [results[anchor.id] for anchor in anchors]

    def _requests(self, anchors: Sequence[StoredEntity]) -> Iterator[_Asked | WorkResult]:
        """What each anchor is asked about with, or why it is not."""
        ids = [anchor.id for anchor in anchors]
        captions = coarse_captions(self._strategist.context.store, ids)
        facts = facts_of(self._strategist.context.store, ids)
        for anchor in anchors:
            if not is_anchor(anchor):  # one that was taken back, and is open again
                yield WorkResult(anchor.seq)
            elif not captions[anchor.id]:
                yield WorkResult(anchor.seq, rejection=_without_caption(anchor))
            else:
                caption = captions[anchor.id][0].record(Caption).text
                brief = StrategyBrief(caption=caption, facts=facts.get(anchor.id, ()))
                yield self._request(anchor, brief)

    def _request(self, anchor: StoredEntity, brief: StrategyBrief) -> _Asked | WorkResult:
        picture = self._strategist.picture(anchor)
        request = request_strategies(picture, brief, self._prompt, self._area)
        if isinstance(request, Rejection):
            return WorkResult(anchor.seq, rejection=request)
        return _Asked(anchor, brief, request)

    def _repair(self, request: ChatRequest, answer: ChatAnswer, problem: Rejection) -> ChatRequest:
        return request_repair(request, answer, problem, self._repair_prompt)

    def _drafts(
        self, asked: _Asked, found: Understood[StrategiesRead] | NotUnderstood
    ) -> StageResult:
        anchor = asked.anchor
        if isinstance(found, NotUnderstood):
            return not_understood(anchor, STAGE, found)
        call = self._strategist.model.key(found.request)
        parents = [
            (ANCHOR, anchor.id),
            (PROMPTED_BY, self._prompts[found.request.prompt_digest]),
            (WRITTEN_WITH, self.settings_id),
        ]
        proposed = found.value.strategies
        drafts: list[dict[str, Any]] = [
            *({"strategy": _strategy(asked, one, self._strategist.author)} for one in proposed),
            *({"refusal": refusal} for refusal in found.value.refused),
        ]
        return WorkResult(
            anchor.seq,
            entities=tuple(
                new_entity(
                    StrategyDraft.model_validate({"position": place, "call": call, **draft}),
                    anchor.dataset,
                    parents=parents,
                    group=anchor.id,
                    model_call=call,
                )
                for place, draft in enumerate(drafts)
            ),
        )


def take_strategies(strategist: AskedModel, settings: ContrastSettings) -> StageReport:
    """Makes a strategy of each draft that was understood; the others go to quarantine.

    Strategies that were proposed with other settings are taken back, and put back with these.
    """
    context, dataset = strategist.context, strategist.dataset
    stage = Stage(
        name=TAKE,
        version=TAKE_VERSION,
        dataset=dataset,
        configuration={"dataset": dataset},
        label="take strategies",
    )

    def work(drafts: Sequence[StoredEntity]) -> list[WorkResult]:
        ids = [draft.id for draft in drafts]
        anchors, prompts = (parents_of(context.store, ids, r) for r in (ANCHOR, PROMPTED_BY))
        return [_taken(draft, anchors[draft.id][0], prompts[draft.id]) for draft in drafts]

    report = run_stage(context, stage, Pending(dataset, StrategyDraft.kind, ("proposed",)), work)
    strategies = [one.id for one in find(context.store, dataset, Strategy.kind)]
    drafted = parents_of(context.store, strategies, DRAFTED_AS)
    drafts = {found[0] for found in drafted.values()}
    written = parents_of(context.store, drafts, WRITTEN_WITH)
    now = [_settings_of(strategist, settings).id]

    def stands(strategy: str) -> bool | None:
        return written[drafted[strategy][0]] == now if strategy in drafted else None

    keep_current_edits(context, dataset, Strategy.kind, stands)
    return report


def _settings_of(strategist: AskedModel, settings: ContrastSettings) -> NewEntity:
    """What strategies are proposed with, as an entity."""
    return strategist.settings_of(
        STAGE,
        VERSION,
        load_prompt(settings.prompt),
        repair=load_prompt(settings.repair_prompt).digest,
        area=settings.image_area.model_dump(),
    )


def _strategy(asked: _Asked, proposed: ProposedStrategy, author: str) -> Strategy:
    return Strategy(
        source=asked.anchor.record(Image).source,
        anchor=picture_of(asked.anchor),
        caption=asked.brief.caption,
        author=author,
        **dict(proposed),
    )


def _taken(draft: StoredEntity, anchor_id: str, prompts: Sequence[str]) -> WorkResult:
    record = draft.record(StrategyDraft)
    if record.strategy is None:
        return WorkResult(draft.seq, rejection=record.refusal)
    strategy = new_entity(
        record.strategy,
        draft.dataset,
        parents=[
            (ANCHOR, anchor_id),
            (DRAFTED_AS, draft.id),
            *((PROMPTED_BY, prompt) for prompt in prompts),
        ],
        group=draft.group,
        model_call=record.call,
    )
    return WorkResult(draft.seq, (strategy,))


def _without_caption(anchor: StoredEntity) -> Rejection:
    name = anchor.record(Image).file_path
    return Rejection(
        stage=STAGE,
        reason=_NO_CAPTION,
        detail=f"Image {name!r} has no caption; an anchor needs at least one.",
        context={"file_path": name},
    )
