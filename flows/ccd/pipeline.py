"""`build-ccd`: strategies, images and captions, with a review of each step (CCD)."""

from collections.abc import Generator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial

from flows.ccd.caption_checks import apply_group_decisions
from flows.ccd.choice_calibration import calibrate_choices, edit_bounds_warning
from flows.ccd.downloading import DownloaderMaker, find_images
from flows.ccd.editing import EDITED_IMAGES_STAGE as EDITING
from flows.ccd.editing import edit_images, edit_settings
from flows.ccd.groups import (
    attrition_sentence,
    form_groups,
    make_images,
    sync_active_candidates,
    take_anchors,
)
from flows.ccd.image_choice import choose_candidates
from flows.ccd.image_requests import request_images, sync_active_requests, waiting_strategies
from flows.ccd.refining import refine_captions
from flows.ccd.searching import Clock, utc_now
from flows.ccd.strategies import propose_strategies, take_strategies
from flows.engine.build_files import demonstration_ccd_build
from flows.engine.embedding import CachedEmbedder
from flows.engine.importing import import_source
from flows.engine.model_step import DatasetModel, left_unanswered
from flows.engine.pipeline import Gate, Loop, PipelineRun, PipelineSpec, Release, Step
from flows.engine.runner import sole_run
from retrieval.embedders import pinned
from schemas.build import CcdBuild
from schemas.contrast import Method
from schemas.errors import ConfigurationError, LoupeError
from schemas.image_search import FolderSearch, ImageSearchSpec
from schemas.profile import ContrastSettings, Profile
from services.diagnosis import ModelSpec
from sources.web.downloading import ImageDownloader


@dataclass
class CcdRun(PipelineRun[CcdBuild]):
    """State shared by the steps.

    Attributes:
        clock: returns the time, which determines the day of a search service's daily budget.
        method: how images are obtained in this pass.
        stopped: the error that stopped a method; raised once its images are stored and chosen.
        deferred: strategies whose results of an earlier method are not known yet.
    """

    make_downloader: DownloaderMaker = ImageDownloader
    clock: Clock = utc_now
    settings: ContrastSettings = field(init=False)
    embedder: CachedEmbedder = field(init=False)
    search: ImageSearchSpec | None = field(init=False)
    method: Method = field(init=False)
    stopped: LoupeError | None = field(init=False, default=None)
    deferred: set[str] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.settings = self.profile.contrast
        self.compared_by = self.settings.embedder
        self.embedder = CachedEmbedder(self.store, pinned(self.settings.embedder))
        self.search = _search_of(self.build, self.profile)


def ccd_pipeline(
    make_downloader: DownloaderMaker = ImageDownloader, clock: Clock = utc_now
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
        demonstrate=demonstration_ccd_build,
        announcement="the sources are the demonstration's stills, drawn once",
        models=_models,
        start=partial(CcdRun, make_downloader=make_downloader, clock=clock),
        version=lambda build: build.version,
        steps=(
            Step(_take_anchors),
            Step(_propose_strategies),
            Gate("strategies", "strategies_gate"),
            Loop(
                _each_method,
                (
                    Step(_request_images, per_item=_edits_alone),
                    Step(_search_images, enabled=lambda run: run.method == "search"),
                    Step(
                        _edit_images,
                        enabled=lambda run: run.method == "edit",
                        per_item=_edits_alone,
                    ),
                    Gate("candidates", "candidates_gate", per_item=_edits_alone),
                ),
                per_item=_edits_alone,
            ),
            Step(_form_groups, per_item=_edits_alone),
            Step(_refine_captions, per_item=_edits_alone),
            Gate("groups", "groups_gate", apply=_apply_group_decisions, per_item=_edits_alone),
            Step(_say_attrition),
            Release(lambda run: run.build.version),
        ),
    )


def _models(build: CcdBuild, profile: Profile) -> list[ModelSpec]:
    """Return the writers, the embedder, and the searches and editors of the build."""
    settings = profile.contrast
    search = _search_of(build, profile) if "search" in build.methods else None
    return [
        *(settings.strategist, settings.refiner, settings.embedder),
        *([search] if search is not None else []),
        *([settings.editor] if "edit" in build.methods else []),
    ]


def _take_anchors(run: CcdRun) -> None:
    for spec in run.build.sources:
        source, imported = import_source(run.context, spec)
        run.add(imported, take_anchors(run.context, run.build, spec, source))


def _propose_strategies(run: CcdRun) -> None:
    strategist = DatasetModel(run.context, run.dataset, run.settings.strategist)
    run.add(propose_strategies(strategist, run.settings), take_strategies(strategist, run.settings))


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
        with _alone(run, "request images"):
            sync_active_requests(run.context, run.dataset)
    if run.stopped is not None:
        raise run.stopped


def _alone(run: CcdRun, work: str) -> AbstractContextManager[None]:
    """Lock the step so that parallel runs do not deactivate what this run makes."""
    return sole_run(run.context, run.dataset, work, "1")


def _edits_alone(run: CcdRun) -> bool:
    """Return whether all images of the build are edited."""
    return run.search is None or "search" not in run.build.methods


def _request_images(run: CcdRun) -> None:
    _sync_candidates(run)
    with _alone(run, "request images"):
        run.add(request_images(run.context, run.dataset, run.method, run.deferred))


def _search_images(run: CcdRun) -> None:
    """Search, download the hits, and choose a candidate for each request."""
    if run.search is None:
        return
    context, dataset, settings = run.context, run.dataset, run.settings
    found = find_images(context, dataset, settings, run.search, run.make_downloader, run.clock)
    run.stopped = run.stopped or found.stopped
    chosen = choose_candidates(context, dataset, settings, found, run.embedder)
    run.add(*found.reports, chosen)
    run.deferred |= waiting_strategies(run.store, dataset, chosen)
    for sentence in calibrate_choices(context, dataset, settings, run.embedder):
        run.say(sentence)
    _sync_candidates(run)


def _edit_images(run: CcdRun) -> None:
    run.say(edit_bounds_warning(run.settings))
    edited = edit_images(run.context, run.dataset, run.settings, run.embedder, run.build.seed)
    run.add(edited)
    run.stopped = run.stopped or left_unanswered(run.settings.editor.ref, edited)
    _sync_candidates(run)


def _sync_candidates(run: CcdRun) -> None:
    """Deactivate candidates made with other settings, so that a request has at most one."""
    edits = edit_settings(run.context, run.dataset, run.settings, run.embedder, run.build.seed)
    with _alone(run, "choose active candidates"):
        sync_active_candidates(run.context, run.dataset, {EDITING: edits})


def _form_groups(run: CcdRun) -> None:
    with _alone(run, "form groups"):
        keep = run.build.keep_lone_anchors
        run.add(
            make_images(run.context, run.dataset),
            form_groups(run.context, run.dataset, keep_lone_anchors=keep),
        )


def _refine_captions(run: CcdRun) -> None:
    refiner = DatasetModel(run.context, run.dataset, run.settings.refiner)
    language = run.build.second_language
    run.add(refine_captions(refiner, run.settings, run.embedder, language))


def _apply_group_decisions(run: CcdRun) -> None:
    run.add(apply_group_decisions(run.context, run.dataset))


def _say_attrition(run: CcdRun) -> None:
    run.say(attrition_sentence(run.store, run.dataset))


def _search_of(build: CcdBuild, profile: Profile) -> ImageSearchSpec | None:
    """Return the search service of the profile, or the build's folder."""
    if build.search_folder is None:
        return profile.contrast.search
    if profile.contrast.search is not None:
        raise ConfigurationError(
            f"the build names a folder to search (search_folder) and profile {profile.name!r} a "
            f"service ({profile.contrast.search.name}); only one of them can be searched"
        )
    folder = build.search_folder
    spec = FolderSearch(folder=str(folder), embedder=pinned(profile.contrast.embedder))
    for path, what in ((folder, "is no folder"), (folder / spec.licence_file, "is missing")):
        if not path.exists():
            raise ConfigurationError(
                f"search_folder must hold images and their licences ({spec.licence_file}); "
                f"{path} {what}"
            )
    return spec
