"""`build-recos`: images for twelve tasks, their captions, what they are confused with (ReCoS)."""

from collections.abc import Callable
from typing import Any

from annotate.projects import Desks
from annotate.queues import Queue, parse_policy
from db.entities import NewEntity, StoredEntity, find, parents_of
from flows.engine.build_files import demonstration_recos_build, load_recos_build
from flows.engine.building import PipelineSpec, run_pipeline
from flows.engine.context import RunContext
from flows.engine.embedding import CachedEmbedder
from flows.engine.gates import declared_queues, reopen, review
from flows.engine.importing import import_source
from flows.engine.invalidation import reconcile_superseded
from flows.engine.releasing import release
from flows.engine.report import BuildReport
from flows.engine.runner import get_or_create_entity, sole_run
from flows.recos.caption_validation import validate_captions
from flows.recos.captioning import WRITTEN_WITH, Captioner, task_of, write_captions
from flows.recos.confusing import sync_active, write_confusing_captions
from flows.recos.confusion_questions import check_pairs, follow_answers
from flows.recos.expanding import expand_gallery, follow_duplicates
from flows.recos.image_pools import Pool
from flows.recos.image_selection import (
    follow_selections,
    has_selections,
    propose_selections,
    turned_down,
)
from flows.recos.rendered_images import FORMAT, drawn_source, import_rendered, leave_out
from flows.recos.sign_pairs import FurtherPairs, require_writer, sign_prompt, write_sign_pairs
from flows.recos.similar_images import load_judge, load_v0, match_images
from flows.recos.task_images import take_instead, take_task_images
from retrieval.embedders import pinned
from schemas.build import RecosBuild, SourceSpec, TaskSpec, format_name
from schemas.errors import ConfigurationError
from schemas.profile import CaptioningSettings, Profile
from schemas.records import Caption, Rejection
from schemas.requests import CAPTION_PURPOSE
from schemas.retrieval_task import Tier
from schemas.video import StageSettings
from sources.rendered import RenderOptions, task_refusal

# What a benchmark was begun with: from its first validation on, it is not changed any more.
#
# Whether a caption passes hangs on all images of v0 and on every setting. With others all of it
# would be another benchmark, with captions of both in one release.

_STAGE = "build_recos"
_VERSION = "1"


def refuse_other_settings(
    context: RunContext, build: RecosBuild, settings: CaptioningSettings
) -> None:
    """Refuses to go on with other settings than a benchmark was validated with.

    Raises:
        ConfigurationError: the dataset was, with others; the sentence names them.
    """
    now = _values(build, settings)
    for one in find(context.store, build.dataset, StageSettings.kind):
        record = one.record(StageSettings)
        if record.stage == _STAGE and record.values != now:
            other = ", ".join(key for key in now if record.values.get(key) != now[key])
            raise ConfigurationError(
                f"dataset {build.dataset!r} was validated with other settings ({other}); build "
                f"under another dataset name (answers of models are not paid again), or with the "
                f"earlier settings"
            )


def is_validated(context: RunContext, dataset: str) -> bool:
    """Whether captions of the benchmark were validated: then its images are no longer changed."""
    settings = find(context.store, dataset, StageSettings.kind)
    return any(one.record(StageSettings).stage == _STAGE for one in settings)


def keep_settings(context: RunContext, build: RecosBuild, settings: CaptioningSettings) -> None:
    """Says what the benchmark is validated with, from now on."""
    record = StageSettings(stage=_STAGE, version=_VERSION, values=_values(build, settings))
    get_or_create_entity(context, record, build.dataset)


def reconcile_captions(context: RunContext, dataset: str, settings_id: str) -> None:
    """Takes back captions of v0 that were written with other settings, before any was validated."""
    captions = list(find(context.store, dataset, Caption.kind))
    written = parents_of(context.store, [one.id for one in captions], WRITTEN_WITH)
    of_stage = {
        one.id
        for one in find(context.store, dataset, StageSettings.kind)
        if one.record(StageSettings).stage == CAPTION_PURPOSE
    }

    def is_current(caption: StoredEntity) -> bool | None:
        others = set(written.get(caption.id, ())) & of_stage
        return settings_id in others if others else None

    reconcile_superseded(context, dataset, Caption.kind, is_current)


def _values(build: RecosBuild, settings: CaptioningSettings) -> dict[str, Any]:
    model, embedder = settings.model, settings.embedder
    tasks = [task.model_dump(mode="json", exclude={"names"}) for task in build.tasks]
    values = {
        "model": {**model.ref.model_dump(), "parameters": model.parameters},
        "prompts": [settings.prompt, settings.revision_prompt, settings.confusion_prompt],
        "embedder": {**embedder.ref.model_dump(), "parameters": embedder.parameters},
        "discriminability": settings.discriminability.model_dump(mode="json"),
        "confusion": settings.confusion.model_dump(mode="json"),
        "near_duplicates": settings.near_duplicates.model_dump(mode="json"),
        "seed": build.seed,
        "tasks": tasks,
    }
    if any(task.further_pairs for task in build.tasks):
        values["sign_prompt"] = sign_prompt().digest
    return values


# `build-recos`: images for twelve tasks, their captions, what they are confused with (ReCoS).


def run_build(
    context: RunContext, config: str | None, profile: str | None, *, wait: bool = False
) -> BuildReport:
    """Builds what `config` says (None: the demonstration) by `profile` (None: the setting).

    Raises:
        LoupeError: see `build_dataset`.
    """
    recipe = PipelineSpec(
        load=load_recos_build,
        demonstrate=demonstration_recos_build,
        announcement="the sources are the demonstration's stills, and images that are drawn",
        build_dataset=build_dataset,
    )
    return run_pipeline(recipe, context, config, profile, wait=wait)


def build_dataset(
    context: RunContext,
    build: RecosBuild,
    profile: Profile,
    open_desks: Callable[[], Desks],
    *,
    wait: bool = False,
    drawing: RenderOptions | None = None,
) -> BuildReport:
    """Does what can be done now, version by version, and releases each that is complete.

    Every step goes on from what is stored. People are asked whether captions are right, whether
    those that can be confused fit one image only, and which images are there twice. Each time what
    they need is pushed to the desk and the run ends (with `wait`: waits). Tasks without a source
    are drawn with `drawing`; those that cannot be, as a font is missing, are told of and left out.

    Raises:
        ConfigurationError: no task is left, or too few images.
        DegenerateCriterionError: the criterion of captions does not tell them apart.
        UsageError: the build, a source or the profile cannot be used.
        BudgetReachedError: a limit of the run's budget was reached.
        ModelError: a model could not be loaded, or its server is gone.
        ServiceError: the review desk is gone.
    """
    steps = _Steps(context, build, profile, open_desks, wait, drawing)
    versions: tuple[tuple[Tier, Callable[[], None]], ...] = (
        ("v0", steps.begin),
        ("v1", steps.confuse),
        ("v2", steps.expand),
    )
    for tier, step in versions:
        step()
        steps.report.count_costs(context.store)
        if steps.report.waiting:
            break
        steps.release(tier)
        if tier == build.last:
            break
    return steps.report


class _Steps:
    """The steps of one build, in their order."""

    def __init__(
        self,
        context: RunContext,
        build: RecosBuild,
        profile: Profile,
        open_desks: Callable[[], Desks],
        wait: bool,
        drawing: RenderOptions | None,
    ) -> None:
        self._context = context
        self._build = build
        self._settings = profile.captioning
        self._open_desks = open_desks
        self._wait = wait
        self._drawing = drawing
        self._captioner = Captioner(context, build.dataset, profile.captioning)
        self._embedder = CachedEmbedder(
            context.store, pinned(profile.captioning.embedder), context.progress
        )
        declared = declared_queues(context.settings)
        self._captions = declared.queue(
            build.dataset, "captions", parse_policy(build.captions_gate)
        )
        self._confusions = declared.queue(
            build.dataset, "confusions", parse_policy(build.confusions_gate)
        )
        self._duplicates = declared.queue(
            build.dataset, "duplicates", parse_policy(build.duplicates_gate)
        )
        self._selections = declared.queue(
            build.dataset, "selections", parse_policy(build.selection_gate)
        )
        self._taken: list[tuple[TaskSpec, NewEntity]] = []
        self._pool: Pool
        self.report = BuildReport(build.dataset)

    def begin(self) -> None:
        """v0: takes images, has them captioned, holds captions against their likes, asks people."""
        require_writer(self._build.tasks, self._settings)
        refuse_other_settings(self._context, self._build, self._settings)
        self._take_images()
        self._select_images()
        if self.report.waiting:
            return
        written_with, report = write_captions(self._captioner)
        self.report.stages.append(report)
        reconcile_captions(self._context, self._build.dataset, written_with.id)
        validated = validate_captions(
            self._captioner,
            written_with,
            self._embedder,
            lambda: keep_settings(self._context, self._build, self._settings),
        )
        self.report.stages.append(validated.report)
        self._context.progress.say(
            f"how captions were validated is in {validated.page}"
            if validated.page
            else "captions stand as they were validated before something was withdrawn"
        )
        self._review(self._captions)
        if not self.report.waiting:
            self._say_what_is_lost()

    def _select_images(self) -> None:
        """Asks people which images fit their task; the next best is proposed where one does not.

        Once captions were validated, images are as they are.
        """
        store, dataset = self._context.store, self._build.dataset
        is_auto = self._selections.policy.policy == "auto"
        if is_validated(self._context, dataset) or (is_auto and not has_selections(store, dataset)):
            return
        is_open = True
        while is_open:
            if not is_auto:
                self.report.stages.append(propose_selections(self._context, dataset))
            self._review(self._selections)
            follow_selections(self._context, self._selections)
            is_open = not is_auto and self._take_instead()

    def _take_instead(self) -> bool:
        """Takes other images for those that were turned down; says whether there were any."""
        rejected = turned_down(self._context.store, self._build.dataset)
        taken = [
            take_instead(
                self._context,
                self._build.dataset,
                task,
                source,
                self._build.seed,
                self._embedder,
                rejected,
            )
            for task, source in self._taken
        ]
        reports = [report for report in taken if report is not None and report.done]
        self.report.stages += reports
        return bool(reports)

    def _say_what_is_lost(self) -> None:
        """Names the tasks of which no caption was accepted: they are in no release."""
        begun = load_v0(self._context.store, self._build.dataset)
        left = {task_of(image) for image in begun.images}
        for task in self._build.tasks:
            if task.task not in left:
                self._context.progress.say(
                    f"{task.task}: no caption was accepted, so that the task is left out; look at "
                    f"the page above (with people at captions_gate, under another dataset name, "
                    f"they would decide)"
                )

    def _take_images(self) -> None:
        """Imports the sources, and takes the images of each task out of its own."""
        imported: dict[str, NewEntity] = {}
        refusals: list[Rejection] = []
        for task in self._build.tasks:
            spec, further = self._source_of(task)
            if isinstance(spec, Rejection):
                refusals.append(spec)
                self.report.stages.append(leave_out(self._context, self._build.dataset, task, spec))
                continue
            if spec.name not in imported:
                if format_name(spec.format) == FORMAT:
                    imported[spec.name], report = import_rendered(self._context, spec, further)
                else:
                    imported[spec.name], report = import_source(self._context, spec)
                self.report.stages.append(report)
            self._taken.append((task, imported[spec.name]))
            self.report.stages.append(
                take_task_images(
                    self._context,
                    self._build.dataset,
                    task,
                    imported[spec.name],
                    self._build.seed,
                    self._embedder,
                )
            )
        if not imported:
            raise ConfigurationError(f"no task can be drawn: {refusals[0].detail}")
        self._pool = Pool(
            self._context,
            list(imported.values()),
            self._embedder,
            self._settings.near_duplicates,
            self.report.stages.append,
        )

    def confuse(self) -> None:
        """v1: finds similar images, has captions written to confuse, asks people what fits both.

        Where a caption of v0 turns out to fit the similar image, that one falls away, and the next
        is looked for, as often as `flows.recos.similar_images` allows.
        """
        store, dataset = self._context.store, self._build.dataset
        begun = load_v0(store, dataset)
        judge = load_judge(self._context, begun, self._embedder, self._settings.confusion)
        fallen = 1
        while fallen:
            self.report.stages += [
                match_images(self._context, dataset, begun, self._pool, judge),
                write_confusing_captions(self._captioner, begun),
            ]
            reopen(self._context, self._confusions)
            sync_active(self._context, dataset, begun)
            self.report.stages.append(
                check_pairs(
                    self._context, dataset, begun, judge, self._embedder, self._settings.confusion
                )
            )
            self._review(self._confusions)
            fallen = follow_answers(self._context, self._confusions, begun)

    def expand(self) -> None:
        """v2: adds what resembles v1, without captions; asks people what of it is there twice."""
        counts, reports = expand_gallery(
            self._context,
            self._build.dataset,
            self._pool,
            self._build.neighbours,
            self._settings.near_duplicates,
            str(self._embedder.ref),
        )
        self.report.stages += reports
        self._review(self._duplicates)
        left = follow_duplicates(self._context, self._duplicates)
        self._context.progress.say(
            f"expanded {counts.images:,} images of v1: {counts.found:,} neighbours, "
            f"{counts.outside:,} different ones outside v1, less {counts.exact:,} equal and "
            f"{counts.near:,} near-duplicates: {counts.new:,} new "
            f"({counts.doubtful:,} pairs in doubt{self._what_of_doubts(counts.doubtful, left)})"
        )

    def _what_of_doubts(self, doubtful: int, left: int) -> str:
        """What became of the pairs that may be the same."""
        if left:
            return f"; {left:,} images left, as people found them the same as others"
        if doubtful and self._duplicates.policy.policy == "auto":
            return "; nobody looks at them, and all stay (duplicates_gate)"
        return ""

    def release(self, tier: Tier) -> None:
        """Releases a version."""
        release(self._context, self.report, self._build, self._build.version(tier), tier)

    def _source_of(self, task: TaskSpec) -> tuple[SourceSpec | Rejection, FurtherPairs | None]:
        """Where the images of a task come from, and what a model wrote to draw them with."""
        if task.source is not None:
            return next(spec for spec in self._build.sources if spec.name == task.source), None
        home, options = self._context.settings.home, self._drawing or RenderOptions()
        with sole_run(self._context, "rendered", "draw_task_images", "1"):
            if not task.further_pairs:
                return drawn_source(home, task, self._build.seed, options), None
            if refusal := task_refusal(task.task, options):
                return refusal, None
            further, reports = write_sign_pairs(self._captioner, task, options)
            self.report.stages += reports
            return drawn_source(home, task, self._build.seed, options, further), further

    def _review(self, queue: Queue) -> None:
        self.report.waiting = review(self._context, queue, self._open_desks, wait=self._wait)
        if self.report.waiting:
            self._context.progress.say(f"queue {queue.name} waits for people")
