"""`build-ccd`: strategies, images, captions, people at each step (CCD)."""

from collections.abc import Callable

from annotate.projects import Desks
from annotate.queues import Queue, parse_policy
from flows.ccd.downloading import DownloaderMaker, find_images
from flows.ccd.editing import EDITED_IMAGES_STAGE as EDITING
from flows.ccd.editing import edit_images, edit_settings
from flows.ccd.fine_captions import apply_group_decisions
from flows.ccd.groups import attrition_sentence, form_groups, make_images, sync_active_candidates
from flows.ccd.image_choice import (
    calibrate_choices,
    choose_candidates,
    edit_bounds_warning,
    uncalibrated_threshold_warning,
)
from flows.ccd.image_requests import order_images, sync_active_requests, waiting_strategies
from flows.ccd.refining import refine_captions
from flows.ccd.searching import Clock, utc_now
from flows.ccd.strategies import propose_strategies, take_strategies
from flows.engine.build_files import demonstration_ccd_build, load_ccd_build
from flows.engine.building import PipelineSpec, run_pipeline, take_anchors
from flows.engine.context import RunContext
from flows.engine.embedding import CachedEmbedder
from flows.engine.gates import declared_queues, review
from flows.engine.importing import import_source
from flows.engine.model_step import DatasetModel, left_unanswered
from flows.engine.releasing import release
from flows.engine.report import BuildReport
from retrieval.embedders import pinned
from schemas.build import CcdBuild
from schemas.contrast_records import Way
from schemas.errors import ConfigurationError, LoupeError
from schemas.image_search import FolderSearch, ImageSearchSpec
from schemas.profile import Profile
from sources.web.downloading import ImageDownloader


def run_build(
    context: RunContext, config: str | None, profile: str | None, *, wait: bool = False
) -> BuildReport:
    """Builds what `config` says (None: the demonstration) by `profile` (None: the setting).

    Raises:
        LoupeError: see `build_dataset`.
    """
    recipe = PipelineSpec(
        load=load_ccd_build,
        demonstrate=demonstration_ccd_build,
        announcement="the sources are the demonstration's stills, drawn once",
        build_dataset=build_dataset,
    )
    return run_pipeline(recipe, context, config, profile, wait=wait)


def build_dataset(
    context: RunContext,
    build: CcdBuild,
    profile: Profile,
    open_desks: Callable[[], Desks],
    *,
    wait: bool = False,
    make_downloader: DownloaderMaker = ImageDownloader,
    clock: Clock = utc_now,
) -> BuildReport:
    """Does what can be done now: strategies, images, captions, each with the people it needs.

    Every step goes on from what is stored, so running it again costs only what is missing. People
    are asked three times: whether strategies are right, whether images differ in the one detail,
    and whether the captions of whole groups are right. Each time what they need is pushed to the
    desk and the run ends (with `wait`: waits). Which day it is for a service's daily budget,
    `clock` says.

    Raises:
        UsageError: the build, a source or the profile cannot be used.
        BudgetReachedError: a limit of the run's budget, or a service's of the day, was reached.
        ModelError: a model could not be loaded, or its server is gone.
        ServiceError: the review desk is gone, or images could not be downloaded for now.
    """
    steps = _Steps(context, build, profile, open_desks, wait, make_downloader, clock)
    for step in (steps.propose, steps.come_by_images, steps.write_captions):
        step()
        steps.report.count_costs(context.store)
        if steps.report.waiting:
            return steps.report
    context.progress.say(attrition_sentence(context.store, build.dataset))
    release(context, steps.report, build, build.version, embedder=profile.contrast.embedder)
    return steps.report


class _Steps:
    """The steps of one build, in their order."""

    def __init__(
        self,
        context: RunContext,
        build: CcdBuild,
        profile: Profile,
        open_desks: Callable[[], Desks],
        wait: bool,
        make_downloader: DownloaderMaker,
        clock: Clock,
    ) -> None:
        self._context = context
        self._build = build
        self._settings = profile.contrast
        self._open_desks = open_desks
        self._wait = wait
        self._make_downloader = make_downloader
        self._clock = clock
        self._embedder = CachedEmbedder(context.store, pinned(self._settings.embedder))
        self._search = _search_of(build, profile)
        self._stopped: LoupeError | None = None
        self._left_for_later: set[str] = set()
        self.report = BuildReport(build.dataset)

    def propose(self) -> None:
        """Takes anchors out of the sources, has strategies proposed, and asks people of them."""
        for spec in self._build.sources:
            source, imported = import_source(self._context, spec)
            taken = take_anchors(self._context, self._build, spec, source)
            self.report.stages += [imported, taken]
        strategist = DatasetModel(self._context, self._build.dataset, self._settings.strategist)
        self.report.stages += [
            propose_strategies(strategist, self._settings),
            take_strategies(strategist, self._settings),
        ]
        self._review("strategies", self._build.strategies_gate)

    def come_by_images(self) -> None:
        """Comes by an image for each strategy; what people turn down is tried the next way."""
        self._come_by_images_each_way()
        if self._stopped is not None:  # what came back before it is stored, and chosen from
            raise self._stopped

    def _come_by_images_each_way(self) -> None:
        for way in self._build.ways:
            if way == "search" and self._search is None:
                self._context.progress.say(
                    "nothing is searched: the profile names no service ([contrast.search]) and the "
                    "build no folder (search_folder)"
                )
                continue
            self._come_by_images(way)
            self._review("candidates", self._build.candidates_gate)
            if self.report.waiting:
                return
        sync_active_requests(self._context, self._build.dataset)

    def _come_by_images(self, way: Way) -> None:
        context, dataset, settings = self._context, self._build.dataset, self._settings
        self._keep_standing_candidates()
        self.report.stages.append(order_images(context, dataset, way, self._left_for_later))
        if way == "edit":
            self._say(edit_bounds_warning(settings))
            edited = edit_images(context, dataset, settings, self._embedder, self._build.seed)
            self.report.stages.append(edited)
            self._stopped = self._stopped or left_unanswered(settings.editor.ref, edited)
        elif self._search is not None:
            found = find_images(
                context, dataset, settings, self._search, self._make_downloader, self._clock
            )
            self._stopped = self._stopped or found.stopped
            chosen = choose_candidates(context, dataset, settings, found, self._embedder)
            self.report.stages += [*found.reports, chosen]
            self._left_for_later |= waiting_strategies(context.store, dataset, chosen)
            self._tell_of_choices()
        self._keep_standing_candidates()  # other settings may have made a second one

    def _keep_standing_candidates(self) -> None:
        context, dataset, settings = self._context, self._build.dataset, self._settings
        edits = edit_settings(context, dataset, settings, self._embedder, self._build.seed)
        sync_active_candidates(context, dataset, {EDITING: edits})

    def _tell_of_choices(self) -> None:
        told = calibrate_choices(
            self._context, self._build.dataset, self._settings.choice, self._embedder
        )
        if told is not None:
            self._context.progress.say(
                f"how similar results are to their anchors, and what bounds they suggest, is in "
                f"{told.page}"
            )
            self._say(uncalibrated_threshold_warning(self._settings, told.calibration))

    def _say(self, sentence: str | None) -> None:
        if sentence is not None:
            self._context.progress.say(sentence)

    def write_captions(self) -> None:
        """Groups images, has captions refined for whole groups, and asks people of them."""
        context, dataset = self._context, self._build.dataset
        self.report.stages += [make_images(context, dataset), form_groups(context, dataset)]
        refiner = DatasetModel(context, dataset, self._settings.refiner)
        self.report.stages.append(
            refine_captions(refiner, self._settings, self._embedder, self._build.second_language)
        )
        self._review("groups", self._build.groups_gate)
        self.report.stages.append(apply_group_decisions(context, dataset))

    def _review(self, step: str, gate: str) -> None:
        declared = declared_queues(self._context.settings)
        queue: Queue = declared.queue(self._build.dataset, step, parse_policy(gate))
        self.report.waiting = review(self._context, queue, self._open_desks, wait=self._wait)
        if self.report.waiting:
            self._context.progress.say(f"queue {queue.name} waits for people")


def _search_of(build: CcdBuild, profile: Profile) -> ImageSearchSpec | None:
    """The service to search: the profile's, or the build's folder."""
    if build.search_folder is None:
        return profile.contrast.search
    if profile.contrast.search is not None:
        raise ConfigurationError(
            f"the build names a folder to search (search_folder) and profile {profile.name!r} a "
            f"service ({profile.contrast.search.name}); only one of both can be searched"
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
