"""`build-ufine3c`: from annotation files to a verified evaluation set (UFineBench, section 3.3)."""

from collections.abc import Iterator

from loupe.db.entities import LIVE, count_entities
from loupe.flows.engine.asked import let_gates_decide_again
from loupe.flows.engine.context import PipelineRun, PipelineStep
from loupe.flows.engine.image_checks import image_checks
from loupe.flows.engine.importing import import_source
from loupe.flows.engine.pipeline import (
    Gate,
    PipelineSpec,
    Release,
    Step,
    demonstration,
    models_of,
)
from loupe.flows.engine.sampling import SampleSettings, draw_sample
from loupe.flows.shards.promotion import promote_drawn
from loupe.flows.ufine3c.source_captions import ask_about_captions, check_source_captions
from loupe.flows.ufine3c.steps import check_rewrites, rewrite
from loupe.schemas.build import UFine3CBuild
from loupe.schemas.profile import Profile
from loupe.schemas.records import Caption, Shard
from loupe.services.diagnosis import Finding, check_specs, lacking

Run = PipelineRun[UFine3CBuild]


def ufine3c_pipeline() -> PipelineSpec[UFine3CBuild, Run]:
    """Import, draw identities, rewrite captions, check them, have them reviewed, release."""
    steps: list[PipelineStep[Run]] = [
        Step(_draw_samples),
        *image_checks(),
        Step(_check_captions),
        Gate("originals", "originals_gate"),
        rewrite(),
        check_rewrites(),
        Gate("rewrites", "rewrites_gate"),
        Release(lambda run: run.build.version),
    ]
    return PipelineSpec(
        form=UFine3CBuild,
        demonstrate=demonstration("build-ufine3c"),
        models=models_of(steps),
        checks=_checks_of_texts,
        start=Run,
        version=lambda build: build.version,
        steps=steps,
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


def _draw_samples(run: Run) -> None:
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


def _check_captions(run: Run) -> None:
    language = run.profile.faithfulness.language
    asked = ask_about_captions(run.context, run.dataset, language)
    if asked.have_changed:
        let_gates_decide_again(run, Caption, f"they are read as {language!r} now")
    run.add(*check_source_captions(run.context, run.dataset, language, asked))
    asked.note()
