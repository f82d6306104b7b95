"""`build-ufine3c`: from annotation files to a verified evaluation set (UFineBench, section 4.1)."""

from collections.abc import Callable

from annotate.projects import Desks
from annotate.queues import parse_policy
from flows.engine.build_files import demonstration_build, load_build
from flows.engine.building import PipelineSpec, run_pipeline
from flows.engine.context import RunContext
from flows.engine.forecast import forecast
from flows.engine.gates import declared_queues, review
from flows.engine.importing import import_source
from flows.engine.releasing import release
from flows.engine.report import BuildReport
from flows.ufine3c.faithfulness import check_rewrites
from flows.ufine3c.rewriting import rewrite_captions
from flows.ufine3c.sampling import draw_sample
from schemas.build import UFine3CBuild
from schemas.profile import Profile


def run_build(
    context: RunContext, config: str | None, profile: str | None, *, wait: bool = False
) -> BuildReport:
    """Builds what `config` says (None: the demonstration) by `profile` (None: the setting).

    Raises:
        LoupeError: see `build_dataset`.
    """
    recipe = PipelineSpec(
        load=load_build,
        demonstrate=demonstration_build,
        announcement="the sources are the demonstration world of drawn people",
        build_dataset=build_dataset,
    )
    return run_pipeline(recipe, context, config, profile, wait=wait)


def build_dataset(
    context: RunContext,
    build: UFine3CBuild,
    profile: Profile,
    open_desks: Callable[[], Desks],
    *,
    wait: bool = False,
) -> BuildReport:
    """Does what can be done now: imports, draws, rewrites, checks, asks people, releases.

    Every step goes on from what is stored, so running it again costs only what is missing. Where
    people have to look, what they need is pushed to the desk and the run ends (with `wait`: waits);
    the run after they have decided builds the release.

    Raises:
        UsageError: the build, a source or the profile cannot be used.
        BudgetReachedError: a limit of the run's budget was reached.
        ModelError: a model's server is gone; what came back before is stored.
        ServiceError: the review desk is gone.
    """
    declared = declared_queues(context.settings)
    queue = declared.queue(build.dataset, "rewrites", parse_policy(build.gate))
    report = BuildReport(build.dataset)
    for spec in build.sources:
        source, imported = import_source(context, spec)
        report.stages += [imported, draw_sample(context, build, spec, source)]
    for row in forecast(context.store, build, profile):
        context.progress.say(row.sentence)
    report.stages += [
        rewrite_captions(context, build.dataset, spec, profile.rewrite)
        for spec in profile.rewrite.models
    ]
    authors = [str(model.ref) for model in profile.rewrite.models]
    report.stages.append(check_rewrites(context, build.dataset, profile.faithfulness, authors))
    report.count_costs(context.store)
    report.waiting = review(context, queue, open_desks, wait=wait)
    if not report.waiting:
        release(context, report, build, build.version)
    return report
