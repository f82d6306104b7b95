"""`build-ufine3c`: from annotation files to a verified evaluation set (UFineBench, section 3.3)."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from loupe.db.entities import LIVE, count_entities
from loupe.flows.engine.context import PipelineRun
from loupe.flows.engine.image_checks import image_checks
from loupe.flows.engine.importing import import_source
from loupe.flows.engine.pipeline import Gate, PipelineSpec, Release, Step, demonstration
from loupe.flows.engine.releasing import MEASURED_JUDGE
from loupe.flows.engine.runner import store_settings
from loupe.flows.engine.sampling import SampleSettings, draw_sample
from loupe.flows.shards.promotion import promote_drawn
from loupe.flows.ufine3c.faithfulness import check_rewrites
from loupe.flows.ufine3c.forecast import Plans, forecast, plan_calls, rewriters_of
from loupe.flows.ufine3c.judging import judge_rewrites
from loupe.flows.ufine3c.rewriting import rewrite_captions
from loupe.flows.ufine3c.source_captions import check_source_captions
from loupe.schemas.build import UFine3CBuild
from loupe.schemas.profile import Profile
from loupe.schemas.records import Shard
from loupe.services.diagnosis import Finding, check_specs, lacking


@dataclass
class UFine3CRun(PipelineRun[UFine3CBuild]):
    """State shared by the steps: the calls of models that are planned."""

    plans: Plans = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.plans = plan_calls(self.dataset, self.profile)


def ufine3c_pipeline() -> PipelineSpec[UFine3CBuild, UFine3CRun]:
    """Import, draw identities, rewrite captions, check them, have them reviewed, release."""
    return PipelineSpec(
        form=UFine3CBuild,
        demonstrate=demonstration("build-ufine3c"),
        models=lambda _, profile: [
            *rewriters_of(profile),
            *([profile.judge.model] if profile.judge else []),
        ],
        checks=_checks_of_texts,
        start=UFine3CRun,
        version=lambda build: build.version,
        steps=(
            Step(_draw_samples),
            *image_checks(),
            Step(_check_captions),
            Gate("originals", "originals_gate"),
            Step(_rewrite),
            Step(_check),
            Step(_judge),
            Gate("rewrites", "rewrites_gate"),
            Release(lambda run: run.build.version),
        ),
    )


def _checks_of_texts(build: UFine3CBuild, profile: Profile) -> Iterator[Finding]:
    """Check whether the model of a check is named, and reads the language of the texts."""
    if "entailment" not in build.checks:
        return
    model, language = profile.faithfulness.entailment, profile.faithfulness.language
    if model is None:
        detail = "the check 'entailment' needs a model, and the profile names none"
        remedy = "add [faithfulness.entailment] to the profile (docs/profiles.md#entailment)"
        yield lacking("checks", detail, remedy)
    elif language not in model.languages:
        detail = (
            f"{model.ref} reads {', '.join(model.languages)}, and the texts are in {language!r}"
        )
        yield lacking("checks", detail, "choose another model, or leave 'entailment' out of checks")
    else:
        yield from check_specs([model])


def _draw_samples(run: UFine3CRun) -> None:
    for spec in run.build.sources:
        settings = SampleSettings(
            identities=spec.identities or run.build.identities_per_source,
            images_per_identity=spec.images_per_identity,
            seed=run.build.seed,
        )
        if count_entities(run.store, spec.name, Shard.kind, states=LIVE):
            source, imported = promote_drawn(run.context, spec, settings)
        else:
            source, imported = import_source(run.context, spec)
        run.add(imported, *draw_sample(run.context, run.dataset, spec, source, settings))


def _check_captions(run: UFine3CRun) -> None:
    run.add(*check_source_captions(run.context, run.dataset, run.profile.faithfulness.language))


def _rewrite(run: UFine3CRun) -> None:
    """Rewrite each caption with every model of the profile; report the pending requests first."""
    for row in forecast(run.store, run.plans):
        run.say(row.sentence)
    for plan in run.plans.rewriting:
        run.add(rewrite_captions(run.context, plan, run.profile.rewrite))


def _check(run: UFine3CRun) -> None:
    authors = [str(model.ref) for model in run.profile.rewrite.models]
    settings, checks = run.profile.faithfulness, run.build.checks
    run.add(check_rewrites(run.context, run.dataset, settings, authors, checks))


def _judge(run: UFine3CRun) -> None:
    judge = run.profile.judge
    if judge is None or run.plans.judging is None:
        return
    run.add(judge_rewrites(run.context, run.plans.judging))
    if judge.measured is not None:
        measured = judge.measured.model_dump(mode="json")
        values = {"judge": str(judge.model.ref), "measured": measured}
        store_settings(run.context, run.dataset, MEASURED_JUDGE, "1", values)
