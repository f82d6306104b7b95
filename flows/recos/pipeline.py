"""`build-recos`: images of twelve tasks, their captions, and confusing captions (ReCoS)."""

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import Any

from loupe.db.entities import LIVE, NewEntity, StoredEntity, children_of, find, parents_of
from loupe.db.store import Store
from loupe.flows.caption_judging import judge_captions
from loupe.flows.engine.importing import import_source
from loupe.flows.engine.pipeline import (
    Gate,
    Loop,
    PipelineSpec,
    Release,
    Step,
    demonstration,
    reopen,
)
from loupe.flows.engine.quotas import count_accepted_captions
from loupe.flows.engine.runner import sole_run, store_settings
from loupe.flows.engine.scope import Scope
from loupe.flows.recos.caption_validation import Validation, validate_captions
from loupe.flows.recos.captioning import Captioning, task_of
from loupe.flows.recos.completing import complete, further_settings
from loupe.flows.recos.confusing import (
    check_pairs,
    follow_answers,
    sync_confusions,
    write_confusing_captions,
    write_further_captions,
)
from loupe.flows.recos.expanding import expand_gallery, follow_duplicates
from loupe.flows.recos.feasibility import check_recos
from loupe.flows.recos.rendered_images import drawn_source, import_rendered, leave_out
from loupe.flows.recos.run import Pool, RecosRun, load_v0
from loupe.flows.recos.sign_pairs import FurtherPairs, require_writer, sign_prompt, write_sign_pairs
from loupe.flows.recos.similar_images import load_judge, match_images
from loupe.flows.recos.steps import Captions
from loupe.flows.recos.task_images import (
    follow_selections,
    propose_selections,
    take_images,
    take_instead,
)
from loupe.flows.recos.text_reading import read_texts
from loupe.prompts.loader import load_prompt
from loupe.schemas.build import RENDERED_IMAGES, RecosBuild, SourceSpec, TaskSpec, format_name
from loupe.schemas.errors import ConfigurationError
from loupe.schemas.profile import Profile
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Image, Rejection
from loupe.schemas.recos import Selection
from loupe.schemas.release import QuotaStatistics
from loupe.schemas.requests import CAPTION_PURPOSE, CAPTIONS_OF_AN_IMAGE
from loupe.schemas.retrieval_task import TaskForm
from loupe.schemas.taxonomy import Tier
from loupe.schemas.video import StageSettings
from loupe.services.diagnosis import ModelSpec
from loupe.sources.rendered import RenderOptions, task_refusal


def recos_pipeline(drawing: RenderOptions | None = None) -> PipelineSpec[RecosBuild, RecosRun]:
    """Build and release v0, v1 and v2, up to the `last` version of the build.

    People decide whether images fit their task, whether captions are right, whether confusable
    captions fit only one image, and which images are duplicates. Images of tasks without a source
    are drawn with `drawing`; a task that cannot be drawn because a font is missing is left out.
    """
    return PipelineSpec(
        form=RecosBuild,
        demonstrate=demonstration("build-recos"),
        models=_models,
        checks=check_recos,
        start=partial(RecosRun, drawing=drawing),
        version=lambda build: build.version(build.last),
        name="build-recos",
        quotas=task_quotas,
        takes_rendered_images=True,
        steps=(
            Step(_refuse_other_settings),
            Step(_take_images),
            Loop(
                _until_complete,
                (
                    Loop(
                        _until_images_fit,
                        (
                            Step(propose_selections, enabled=_asks_for_selections),
                            Gate("selections", "selection_gate"),
                        ),
                    ),
                    Step(
                        partial(read_texts, tier="v0"), enabled=lambda run: run.reader is not None
                    ),
                    _TaskCaptions(),
                    Step(partial(judge_captions, gate="captions")),
                    Gate("captions", "captions_gate"),
                ),
            ),
            _release("v0"),
            Loop(
                _until_captions_stay,
                (
                    Step(match_images),
                    Step(
                        partial(read_texts, tier="v1"), enabled=lambda run: run.reader is not None
                    ),
                    Step(write_confusing_captions),
                    Step(lambda run: reopen(run.context, run.queues["confusions"])),
                    Step(sync_confusions),
                    Step(check_pairs),
                    Step(partial(judge_captions, gate="confusions")),
                    Gate("confusions", "confusions_gate"),
                ),
                enabled=_reaches("v1"),
            ),
            _release("v1"),
            Step(expand_gallery, enabled=_reaches("v2")),
            Gate("duplicates", "duplicates_gate", apply=follow_duplicates, enabled=_reaches("v2")),
            _release("v2"),
        ),
    )


def _models(_build: RecosBuild, profile: Profile) -> list[ModelSpec]:
    judge = profile.caption_judge
    judges = [judge.model] if judge is not None else []
    return [profile.captioning.model, profile.captioning.embedder, *judges]


def _release(tier: Tier) -> Release[RecosRun]:
    return Release(lambda run: run.build.version(tier), tier, enabled=_reaches(tier))


def _reaches(tier: Tier) -> Callable[[RecosRun], bool]:
    return lambda run: run.build.last >= tier


# v0: images and their captions


def _take_images(run: RecosRun) -> None:
    """Import the sources, and take the images of each task from its source."""
    context = run.context
    imported: dict[str, NewEntity] = {}
    refusals: list[Rejection] = []
    for task in run.build.tasks:
        spec, further = _source_of(run, task)
        if isinstance(spec, Rejection):
            refusals.append(spec)
            run.add(leave_out(context, run.dataset, task, spec))
            continue
        if spec.name not in imported:
            if format_name(spec.format) == RENDERED_IMAGES:
                imported[spec.name], report = import_rendered(context, spec, further, run.reader)
            else:
                imported[spec.name], report = import_source(context, spec)
            run.add(report)
        source = imported[spec.name]
        run.taken.append((task, source))
        run.add(take_images(run, task, source))
    if not imported:
        raise ConfigurationError(f"no task can be drawn: {refusals[0].detail}")
    run.pool = Pool(run, run.captioning, list(imported.values()))


def _source_of(run: RecosRun, task: TaskSpec) -> tuple[SourceSpec | Rejection, FurtherPairs | None]:
    """Return the source of a task's images, and the pairs that a model wrote to draw them."""
    if task.source is not None:
        return next(spec for spec in run.build.sources if spec.name == task.source), None
    home, seed = run.context.settings.home, run.build.seed
    options = run.drawing or RenderOptions()
    with sole_run(run.context, "rendered", "draw_task_images"):
        if not task.further_pairs:
            return drawn_source(home, task, seed, options), None
        if refusal := task_refusal(task.task, options):
            return refusal, None
        further, reports = write_sign_pairs(run.captioner, task, options)
        run.add(*reports)
        return drawn_source(home, task, seed, options, further), further


def _until_complete(run: RecosRun) -> Generator[None]:
    """Repeat until each image has its captions and each task its images, or the rounds are over."""
    is_open = True
    while is_open:
        yield
        if run.report.waiting:
            return
        # otherwise parallel runs could take one image too many
        with sole_run(run.context, run.dataset, "complete"):
            is_open = complete(run)


def _until_images_fit(run: RecosRun) -> Generator[None]:
    """Repeat until no rejected image can be replaced; images with validated captions stay."""
    asks = _asks_for_selections(run)
    if not (asks or run.find(Selection)):
        return
    images = [one.id for one in run.images_of("v0") if one.state in LIVE]
    described = children_of(run.store, images, Role.DESCRIBES).keys()
    fixed = described if _validated_with(run) else ()
    if fixed and described >= set(images):
        return
    is_open = True
    while is_open:
        yield
        follow_selections(run, fixed)
        with sole_run(run.context, run.dataset, "take_instead"):
            is_open = asks and take_instead(run)


def _asks_for_selections(run: RecosRun) -> bool:
    return run.queues["selections"].policy.policy != "auto"


class _TaskCaptions(Captions):
    """Captions of the images of v0, each for its task; their settings fix those of the build."""

    group = "v0"

    def __init__(self) -> None:
        super().__init__(CAPTION_PURPOSE)

    def models(self, run: RecosRun) -> Captioning:
        """Return the models of the run."""
        return run.captioning

    def begin(self, run: RecosRun) -> Scope:
        """Link captions to the settings of all tasks; those with other settings are inactive."""
        about = {task.task: task.form.captions for task in run.build.tasks}
        prompt = load_prompt(run.settings.prompt)
        settings = run.captioner.settings_of(CAPTION_PURPOSE, self.version, prompt, tasks=about)
        _sync_active_captions(run, settings.id)
        return Scope(links=((Role.WRITTEN_WITH, settings.id),))

    def form_of(self, run: RecosRun) -> Callable[[StoredEntity], TaskForm]:
        """Return the task of an image; of one that left the build, its name is known."""
        forms = {task.task: task.form for task in run.build.tasks}

        def form(image: StoredEntity) -> TaskForm:
            task = task_of(image)
            return forms.get(task) or TaskForm(task=task, captions=task)

        return form

    def validate(self, run: RecosRun, of: Validation) -> None:
        """Validate further captions as well, and keep the settings before results are stored."""
        written_with = (*of.written_with, further_settings(run).id)
        of = of._replace(gallery="v0", links=(), is_strict=True, written_with=written_with)
        validate_captions(of, lambda: _keep_settings(run))


# v1: similar images with confusing captions


def _until_captions_stay(run: RecosRun) -> Generator[None]:
    """Repeat until no similar image is rejected, and each has its captions.

    One that a caption of v0 fits, or without the text that its task is about, is rejected and the
    next one is searched, at most as often as `loupe.flows.recos.similar_images` permits. The next
    one depends on all that were taken and rejected before, so parallel runs do this one after the
    other. Once people have decided, captions are written in the place of rejected ones.
    """
    with sole_run(run.context, run.dataset, "confuse"):
        run.base = load_v0(run)
        run.judge = load_judge(run)
        before, is_written = -1, False
        while (rejected := _count_rejected(run)) > before or is_written:
            before = rejected
            yield
            follow_answers(run)
            is_written = not run.report.waiting and write_further_captions(run)


def _count_rejected(run: RecosRun) -> int:
    return sum(one.state not in LIVE for one in run.images_of("v1"))


# The settings of a benchmark are fixed once its captions are validated, because the result of a
# caption depends on all images of v0 and on every setting.

_VERSION = "1"


def _refuse_other_settings(run: RecosRun) -> None:
    """Raise unless the settings are those that captions were validated with.

    Raises:
        ConfigurationError: settings differ, which the message lists; or a task needs texts that no
            model can write.
    """
    require_writer(run.build.tasks, run.settings)
    now = _values(run)
    for earlier in _validated_with(run):
        if earlier != now:
            other = ", ".join(key for key in now if earlier.get(key) != now[key])
            raise ConfigurationError(
                f"dataset {run.dataset!r} was validated with other settings ({other}); build "
                f"under another dataset name (stored model answers are reused at no cost), "
                f"or with the earlier settings"
            )


def _validated_with(run: RecosRun) -> list[dict[str, Any]]:
    """Return the settings that captions were validated with; these fix the images."""
    return [one.record(StageSettings).values for one in run.stage_settings(TASKS_STAGE)]


def _keep_settings(run: RecosRun) -> None:
    store_settings(run.context, run.dataset, TASKS_STAGE, _VERSION, _values(run))


def _sync_active_captions(run: RecosRun, settings_id: str) -> None:
    """Deactivate captions of v0 written with other settings, before any is validated."""
    written = parents_of(run.store, [one.id for one in run.find(Caption)], Role.WRITTEN_WITH)
    of_stage = {one.id for one in run.stage_settings(CAPTION_PURPOSE)}

    def is_current(caption: StoredEntity) -> bool | None:
        others = set(written.get(caption.id, ())) & of_stage
        return settings_id in others if others else None

    run.sync_active(Caption, is_current)


def _values(run: RecosRun) -> dict[str, Any]:
    build, settings = run.build, run.settings
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


TASKS_STAGE = "build_recos"
"""The stage whose settings have the tasks of a benchmark."""


def task_quotas(store: Store, dataset: str, tier: Tier | None) -> Iterator[QuotaStatistics]:
    """Yield the images of each task, and the captions of each version up to a tier.

    Images that are left out of a release, because they have no captions, do not count.
    """
    if tier is None:
        return
    images = [one for one in find(store, dataset, Image.kind) if one.state in LIVE]
    counts = count_accepted_captions(store, [one.id for one in images])
    released = [one for one in images if counts[one.id]]
    v0 = [one for one in released if one.group == "v0"]
    of_task = Counter(str(one.record(Image).task) for one in v0)
    for task, asked in _asked_images(store, dataset).items():
        yield QuotaStatistics(what=f"images of {task}", asked=asked, reached=of_task[task])
    yield _captions_of("v0", v0, counts)
    if tier > "v0":
        v1 = [one for one in released if one.group == "v1"]
        yield QuotaStatistics(what="similar images of v1", asked=len(v0), reached=len(v1))
        yield _captions_of("v1", v1, counts)


def _asked_images(store: Store, dataset: str) -> Counter[str]:
    """Return the images wanted of each task, also of those that could not be drawn."""
    tasks: Sequence[dict[str, Any]] = ()
    for one in find(store, dataset, StageSettings.kind):
        settings = one.record(StageSettings)
        if settings.stage == TASKS_STAGE:
            tasks = settings.values["tasks"]
    asked = Counter[str]()
    for task in tasks:
        asked[task["task"]] += task["images"]
    return asked


def _captions_of(
    tier: str, images: Sequence[StoredEntity], counts: Counter[str]
) -> QuotaStatistics:
    return QuotaStatistics(
        what=f"captions of {tier}, {CAPTIONS_OF_AN_IMAGE} an image",
        asked=CAPTIONS_OF_AN_IMAGE * len(images),
        reached=sum(min(counts[one.id], CAPTIONS_OF_AN_IMAGE) for one in images),
    )
