"""Ask a chat model for a second opinion on rewrites."""

from collections.abc import Iterator, Sequence

from loupe.db.entities import StoredEntity, WorkResult, fetch_parents, new_entity
from loupe.db.work import Pending
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.model_step import (
    Ask,
    DatasetModel,
    LLMStep,
    Parsed,
    StagePlan,
    model_settings,
    run_llm_step,
)
from loupe.flows.engine.report import StageReport
from loupe.flows.engine.scope import EVERYTHING, Scope
from loupe.flows.judgements import (
    PURPOSE,
    Judgement,
    read_judgement,
    request_judgement,
)
from loupe.prompts.loader import load_prompt
from loupe.schemas.profile import JudgeSettings
from loupe.schemas.provenance import Role
from loupe.schemas.quality import CaptionCheck
from loupe.schemas.records import Caption, Rewrite

STAGE = PURPOSE
VERSION = "3"


def plan_judging(dataset: str, settings: JudgeSettings, scope: Scope = EVERYTHING) -> StagePlan:
    """Plan the judgements on all proposed rewrites of a dataset."""
    prompt = load_prompt(settings.prompt)
    return StagePlan(
        stage=STAGE,
        version=VERSION,
        spec=settings.model,
        prompt=prompt,
        inputs=Pending(dataset, Rewrite.kind, ("proposed",)),
        configuration=scope.configuration(model_settings(settings.model, prompt)),
    )


def judge_rewrites(context: RunContext, plan: StagePlan, scope: Scope = EVERYTHING) -> StageReport:
    """Ask the judge about every proposed rewrite; what it objects to is shown to annotators.

    Raises:
        BudgetReachedError: a limit of the run's budget was reached.
        ModelError: the model's server is unavailable; earlier answers are stored.
    """
    model = DatasetModel(context, plan.inputs.dataset, plan.spec)
    prompt_id = model.store_prompt(plan.prompt).id

    def requests(rewrites: Sequence[StoredEntity]) -> Iterator[list[Ask[StoredEntity]]]:
        sources = fetch_parents(context.store, [one.id for one in rewrites], Role.REWRITE_OF)
        for one in rewrites:
            (source,) = sources[one.id]
            texts = source.record(Caption).text, one.record(Rewrite).text
            yield [Ask(one, request_judgement(*texts, plan.prompt))]

    def output(answer: Parsed[StoredEntity, Judgement]) -> WorkResult:
        rewrite = answer.subject
        check = new_entity(
            CaptionCheck(warnings=tuple(answer.value.objections), judge=model.author),
            rewrite.dataset,
            parents=[(Role.EXAMINES, rewrite.id), (Role.PROMPTED_BY, prompt_id), *scope.links],
            group=rewrite.group,
            model_call=answer.call,
        )
        return WorkResult(rewrite.seq, entities=(check,))

    step = LLMStep(
        name=STAGE,
        version=VERSION,
        label=f"judge by {plan.short_name}",
        configuration=plan.configuration,
        inputs=plan.inputs,
        request=requests,
        parse=lambda _, answer: read_judgement(answer),
        outputs=lambda answers: [output(one) for (one,) in answers],
    )
    return run_llm_step(model, step)
