"""Ask a chat model that reads images whether captions state what their images show."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from loupe.annotate.queues import proposed
from loupe.db.entities import StoredEntity, WorkResult, fetch_parents, new_entity
from loupe.db.work import Pending
from loupe.flows.engine.context import PipelineRun
from loupe.flows.engine.embedding import picture_of
from loupe.flows.engine.model_step import (
    Ask,
    DatasetModel,
    LLMStep,
    Parsed,
    StagePlan,
    model_settings,
    run_llm_step,
)
from loupe.flows.engine.runner import Stage, worked_items
from loupe.flows.forecast import CAPTION_JUDGEMENT, forecast_calls
from loupe.flows.judgements import (
    CaptionJudgement,
    read_caption_judgement,
    request_caption_judgement,
)
from loupe.prompts.loader import load_prompt
from loupe.schemas.chat import ChatImage
from loupe.schemas.phrases import caption_name
from loupe.schemas.proposals import CaptionGroup, Confusion
from loupe.schemas.provenance import Role
from loupe.schemas.quality import CaptionCheck
from loupe.schemas.records import Caption, Picture

VERSION = "1"
_GROUPS_AT_A_TIME = 20  # their images are kept in memory


class _ShownCaption(NamedTuple):
    """A caption of an entity that people decide on; `name` tells it from others of the entity."""

    of: StoredEntity
    name: str
    picture: Picture
    text: str


_Answer = Parsed[_ShownCaption, CaptionJudgement]


def judge_captions(run: PipelineRun[Any], gate: str) -> None:
    """Ask the judge about all captions that are proposed at a gate; objections are shown there.

    Nothing is asked if the profile has no judge of captions.

    Raises:
        BudgetReachedError: a limit of the run's budget was reached.
        ModelError: the model's server is unavailable; earlier answers are stored.
    """
    settings = run.profile.caption_judge
    if settings is None:
        return
    queue, name = run.queues[gate], f"judge_{gate}"
    prompt = load_prompt(settings.prompt)
    plan = StagePlan(
        stage=name,
        version=VERSION,
        spec=settings.model,
        prompt=prompt,
        inputs=Pending(run.dataset, queue.kind, ("proposed",)),
        configuration=model_settings(settings.model, prompt),
    )
    model = DatasetModel(run.context, run.dataset, settings.model)
    items = [(one.seq, one) for one in proposed(run.store, queue)]
    stage = Stage(name, VERSION, run.dataset, plan.configuration)
    done = worked_items(run.context, stage, [number for number, _ in items])
    items = [one for one in items if one[0] not in done]
    calls = len(_shown(run, [one for _, one in items]))
    run.say(forecast_calls(run.store, plan, calls, CAPTION_JUDGEMENT).sentence)
    prompt_id = model.store_prompt(prompt).id

    def requests(entities: Sequence[StoredEntity]) -> Iterator[list[Ask[_ShownCaption]]]:
        captions = _shown(run, entities)
        for entity in entities:
            yield [
                Ask(
                    one,
                    request_caption_judgement(_image(run, one.picture), one.text, prompt, name),
                )
                for one in captions
                if one.of is entity
            ]

    def output(answers: Sequence[_Answer]) -> WorkResult:
        entity = answers[0].subject.of
        warnings = [
            f"{answer.subject.name}{objection}"
            for answer in answers
            for objection in answer.value.objections
        ]
        check = new_entity(
            CaptionCheck(warnings=tuple(warnings), judge=model.author, beside="image"),
            entity.dataset,
            parents=[(Role.EXAMINES, entity.id), (Role.PROMPTED_BY, prompt_id)],
            group=entity.group,
            model_call=answers[-1].call,
        )
        return WorkResult(entity.seq, entities=(check,))

    step = LLMStep(
        name=name,
        version=VERSION,
        label=f"judge {gate} by {plan.short_name}",
        configuration=plan.configuration,
        inputs=items,
        request=requests,
        parse=lambda _, answer: read_caption_judgement(answer, name),
        outputs=lambda found: [output(answers) for answers in found],
        chunk_size=_GROUPS_AT_A_TIME,
    )
    run.add(run_llm_step(model, step))


def _shown(run: PipelineRun[Any], entities: Sequence[StoredEntity]) -> list[_ShownCaption]:
    """Return the captions of entities of one kind, each with its own image."""
    captions = [one.id for one in entities if one.kind == Caption.kind]
    images = fetch_parents(run.store, captions, Role.DESCRIBES) if captions else {}
    shown = []
    for one in entities:
        if one.kind == Caption.kind:
            (image,) = images[one.id]
            shown.append(_ShownCaption(one, "", picture_of(image), one.record(Caption).text))
        elif one.kind == Confusion.kind:
            asked = one.record(Confusion)
            shown.append(_ShownCaption(one, "", asked.own, asked.text))
        else:
            shown += _of_group(one)
    return shown


def _of_group(group: StoredEntity) -> Iterator[_ShownCaption]:
    for column, member in enumerate(group.record(CaptionGroup).members):
        for row, text in enumerate(member.captions):
            name = f"Caption {caption_name(row, column)}: "
            yield _ShownCaption(group, name, member.picture, text)


def _image(run: PipelineRun[Any], picture: Picture) -> ChatImage:
    data = run.context.blobs.read(picture.sha256, picture.media_type)
    return ChatImage(media_type=picture.media_type, data=data)
