"""`build-recos`: images for twelve tasks, their captions, what they are confused with (ReCoS)."""

from collections.abc import Callable
from pathlib import Path

from annotate.policies import parse_policy
from annotate.projects import Desks
from annotate.queues import Queue
from db.calls import cost_rows
from db.entities import NewEntity
from flows.caption_validation import validate_captions
from flows.captioning import Captioner, task_of, write_captions
from flows.configuration import load_recos_build
from flows.confusing import write_confusing_captions
from flows.confusion_checks import check_pairs, follow_answers
from flows.context import RunContext
from flows.demonstration import demonstration_recos_build
from flows.desk import open_desks
from flows.embedding import CachedEmbedder
from flows.expanding import expand_gallery
from flows.image_pools import Pool, load_pool
from flows.importing import import_source
from flows.queues import declared_queues
from flows.recos_settings import keep_settings, refuse_other_settings, retire_other_captions
from flows.releasing import release
from flows.rendered_images import FORMAT, drawn_source, import_rendered, leave_out
from flows.report import BuildReport
from flows.review import review
from flows.similar_images import load_begun, load_judge, match_images
from flows.task_images import take_task_images
from profiles.loader import load_profile
from retrieval.embedders import pinned
from schemas.build import RecosBuild, SourceSpec, TaskSpec, format_name
from schemas.errors import ConfigurationError
from schemas.profile import Profile
from schemas.records import Rejection
from schemas.retrieval_task import Tier
from sources.rendered import RenderOptions


def run_build(
    context: RunContext, config: str | None, profile: str | None, *, wait: bool = False
) -> BuildReport:
    """Builds what `config` says (None: the demonstration) by `profile` (None: the setting).

    Raises:
        LoupeError: see `build_dataset`.
    """
    settings = context.settings
    chosen = load_profile(profile or settings.profile)
    if config is None:
        context.progress.say(
            "the sources are the demonstration's stills, and images that are drawn"
        )
    build = load_recos_build(Path(config)) if config else demonstration_recos_build(settings.home)
    return build_dataset(
        context, build, chosen, lambda: open_desks(settings, context.store), wait=wait
    )


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

    Every step goes on from what is stored. People are asked twice: whether captions are right, and
    whether those that can be confused fit one image only. Each time what they need is pushed to the
    desk and the run ends (with `wait`: waits). Tasks without a source are drawn with `drawing`;
    those that cannot be, as a font is missing, are told of and left out.

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
        steps.count_costs()
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
        self._sources: list[NewEntity] = []
        self._pool: Pool | None = None
        self.report = BuildReport(build.dataset)

    def begin(self) -> None:
        """v0: takes images, has them captioned, holds captions against their likes, asks people."""
        refuse_other_settings(self._context, self._build, self._settings)
        self._take_images()
        written_with, report = write_captions(self._captioner)
        self.report.stages.append(report)
        retire_other_captions(self._context, self._build.dataset, written_with.id)
        validated = validate_captions(
            self._captioner,
            written_with,
            self._embedder,
            lambda: keep_settings(self._context, self._build, self._settings),
        )
        self.report.stages.append(validated.report)
        self._context.progress.say(f"how captions were validated is in {validated.page}")
        self._review(self._captions)
        if not self.report.waiting:
            self._say_what_is_lost()

    def _say_what_is_lost(self) -> None:
        """Names the tasks of which no caption was accepted: they are in no release."""
        begun = load_begun(self._context.store, self._build.dataset)
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
            spec = self._source_of(task)
            if isinstance(spec, Rejection):
                refusals.append(spec)
                self.report.stages.append(leave_out(self._context, self._build.dataset, task, spec))
                continue
            if spec.name not in imported:
                is_rendered = format_name(spec.format) == FORMAT
                take_in = import_rendered if is_rendered else import_source
                imported[spec.name], report = take_in(self._context, spec)
                self.report.stages.append(report)
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
        self._sources = list(imported.values())

    def confuse(self) -> None:
        """v1: finds similar images, has captions written to confuse, asks people what fits both.

        Where a caption of v0 turns out to fit the similar image, that one falls away, and the next
        is looked for, as often as `flows.similar_images` allows.
        """
        store, dataset = self._context.store, self._build.dataset
        begun = load_begun(store, dataset)
        pool = self._load_pool()
        judge = load_judge(begun, pool, self._embedder, self._settings.confusion)
        fallen = 1
        while fallen:
            self.report.stages += [
                match_images(self._context, dataset, begun, pool, judge),
                write_confusing_captions(self._captioner, begun),
                check_pairs(
                    self._context, dataset, begun, judge, self._embedder, self._settings.confusion
                ),
            ]
            self._review(self._confusions)
            fallen = follow_answers(self._context, self._confusions)

    def expand(self) -> None:
        """v2: adds what resembles v1, without captions."""
        counts, report = expand_gallery(
            self._context,
            self._build.dataset,
            self._load_pool(),
            self._build.neighbours,
            self._settings.near_duplicates,
            str(self._embedder.ref),
        )
        self.report.stages.append(report)
        self._context.progress.say(
            f"expanded {counts.images:,} images of v1: {counts.found:,} neighbours, "
            f"{counts.outside:,} different ones outside v1, less {counts.exact:,} equal and "
            f"{counts.near:,} near-duplicates: {counts.new:,} new "
            f"({counts.doubtful:,} pairs in doubt)"
        )

    def release(self, tier: Tier) -> None:
        """Releases a version."""
        release(self._context, self.report, self._build.version(tier), tier)

    def count_costs(self) -> None:
        """What models were paid so far."""
        rows = cost_rows(self._context.store, self._build.dataset)
        self.report.costs = [row for row in rows if row.tokens_in]

    def _source_of(self, task: TaskSpec) -> SourceSpec | Rejection:
        if task.source is None:
            home = self._context.settings.home
            return drawn_source(home, task, self._build.seed, self._drawing)
        return next(spec for spec in self._build.sources if spec.name == task.source)

    def _load_pool(self) -> Pool:
        if self._pool is None:
            self._pool, reports = load_pool(
                self._context, self._sources, self._embedder, self._settings.near_duplicates
            )
            self.report.stages += reports
        return self._pool

    def _review(self, queue: Queue) -> None:
        self.report.waiting = review(self._context, queue, self._open_desks, wait=self._wait)
        if self.report.waiting:
            self._context.progress.say(f"queue {queue.name} waits for people")
