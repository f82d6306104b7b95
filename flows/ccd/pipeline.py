"""`build-ccd`: strategies, images and captions, with a review of each step (CCD)."""

from collections.abc import Generator, Iterator
from functools import partial

from loupe.flows.ccd.caption_checks import apply_group_decisions
from loupe.flows.ccd.editing import edit_images
from loupe.flows.ccd.groups import form_groups, say_attrition, sync_active_candidates, take_anchors
from loupe.flows.ccd.image_choice import search_images
from loupe.flows.ccd.image_requests import request_images, sync_active_requests
from loupe.flows.ccd.refining import refine_captions
from loupe.flows.ccd.run import CcdRun, Clock, DownloaderMaker, search_of, utc_now
from loupe.flows.ccd.strategies import propose_strategies
from loupe.flows.engine.image_checks import image_checks
from loupe.flows.engine.pipeline import Gate, Loop, PipelineSpec, Release, Step, demonstration
from loupe.release.card.model_use import is_drawn
from loupe.schemas.build import CcdBuild
from loupe.schemas.profile import BuiltinContraster, Profile
from loupe.services.diagnosis import Finding, ModelSpec, lacking
from loupe.sources.web import open_downloader


def ccd_pipeline(
    make_downloader: DownloaderMaker = open_downloader, clock: Clock = utc_now
) -> PipelineSpec[CcdBuild, CcdRun]:
    """Propose strategies, obtain an image for each, and write fine captions for whole groups.

    People review three times: whether strategies are right, whether images differ in the one
    detail, and whether the captions of whole groups are right. A strategy whose image people reject
    is tried again with the next method.

    An edit depends only on its strategy, and a group only on what is made of its anchor. So without
    a search, both go on while other strategies and images wait for review. Which image a search
    returns depends on the images of other strategies, so it needs all decisions.
    """
    return PipelineSpec(
        form=CcdBuild,
        demonstrate=demonstration("build-ccd"),
        models=_models,
        checks=_checks,
        start=partial(CcdRun, make_downloader=make_downloader, clock=clock),
        version=lambda build: build.version,
        steps=(
            Step(take_anchors),
            *image_checks(),
            Step(propose_strategies),
            Gate("strategies", "strategies_gate"),
            Loop(
                _each_method,
                (
                    Step(sync_active_candidates, per_item=_edits_alone),
                    Step(_request_images, per_item=_edits_alone),
                    Step(search_images, enabled=lambda run: run.method == "search"),
                    Step(
                        edit_images,
                        enabled=lambda run: run.method == "edit",
                        per_item=_edits_alone,
                    ),
                    Step(sync_active_candidates, per_item=_edits_alone),
                    Gate("candidates", "candidates_gate", per_item=_edits_alone),
                ),
                per_item=_edits_alone,
            ),
            Step(form_groups, per_item=_edits_alone),
            Step(refine_captions, per_item=_edits_alone),
            Gate("groups", "groups_gate", apply=apply_group_decisions, per_item=_edits_alone),
            Step(say_attrition),
            Release(lambda run: run.build.version),
        ),
    )


def _models(build: CcdBuild, profile: Profile) -> list[ModelSpec]:
    """Return the writers, the embedder, and the searches and editors of the build."""
    settings = profile.contrast
    search = search_of(build, profile) if "search" in build.methods else None
    return [
        *(settings.strategist, settings.refiner, settings.embedder),
        *([search] if search is not None else []),
        *([settings.editor] if "edit" in build.methods else []),
    ]


def _checks(build: CcdBuild, profile: Profile) -> Iterator[Finding]:
    """Check whether the writers know photographs and the second language."""
    writers = (profile.contrast.strategist, profile.contrast.refiner)
    if not any(isinstance(one, BuiltinContraster) for one in writers):
        return
    remedy = "choose a profile with a vision model, such as --profile hosted"
    for source in build.sources:
        if not is_drawn(source):
            detail = "the built-in models know only drawn stills, not photographs"
            yield lacking(f"source {source.name}", detail, remedy)
    if build.second_language is not None:
        detail = f"the built-in models write English only, not {build.second_language!r}"
        yield lacking("second_language", detail, remedy)


def _edits_alone(run: CcdRun) -> bool:
    """Return whether all images of the build are edited."""
    return run.search is None or "search" not in run.build.methods


def _each_method(run: CcdRun) -> Generator[None]:
    """Run a pass for each method of the build, until people have to decide."""
    for method in run.build.methods:
        if method == "search" and run.search is None:
            run.say(
                "nothing is searched: the profile names no service ([contrast.search]) and the "
                "build no folder (search_folder)"
            )
            continue
        run.method = method
        yield
        if run.report.waiting and not _edits_alone(run):
            break
    else:
        with run.alone("request images"):
            sync_active_requests(run.context, run.dataset)
    if run.stopped is not None:
        raise run.stopped


def _request_images(run: CcdRun) -> None:
    with run.alone("request images"):
        run.add(request_images(run.context, run.dataset, run.method, run.deferred))
