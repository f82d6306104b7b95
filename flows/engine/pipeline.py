"""A pipeline: a declared list of steps and gates, and the loop that runs it.

A build is run repeatedly until it is released. Every step continues from what is stored, so a run
costs only what is missing. At a gate, items that people must decide are pushed to Label Studio.
Steps whose result for an item depends only on that item (`per_item`) continue with the decided
items; at the first other step the run ends. A release waits for all gates. If `wait` is set, the
run stays at each gate until every item is decided.
"""

import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Generic

from loupe.annotate.backend import Desks
from loupe.annotate.pull import pull
from loupe.annotate.push import push
from loupe.annotate.queues import (
    Queue,
    apply_policy,
    candidates,
    count_proposed,
    load_queues,
    parse_policy,
    reopen_for_people,
)
from loupe.db.calls import cost_rows
from loupe.db.plugin_agents import plugin_agents
from loupe.db.quarantine import dropped_counts
from loupe.db.reviews import active_annotators
from loupe.db.store import Store, is_there
from loupe.flows.engine.contamination import missing_others
from loupe.flows.engine.context import (
    IN_PROCESS,
    BuildReport,
    BuildT,
    PipelineRun,
    PipelineStep,
    RunContext,
    RunT,
)
from loupe.flows.engine.desks import desks_in_use, images_url
from loupe.flows.engine.importing import (
    address_of,
    are_unpermitted,
    correct_terms,
    describe_source,
    imported_licence,
    locate,
    refusal_of_terms,
    survey,
    survey_key,
)
from loupe.flows.engine.ledger import require_prices
from loupe.flows.engine.quotas import QUOTAS_STAGE, Missing, Quotas, quota_statistics
from loupe.flows.engine.releasing import release, release_signer
from loupe.flows.engine.runner import store_settings
from loupe.flows.engine.software import code_revision
from loupe.flows.engine.unusable_models import refuse_unusable_models
from loupe.flows.engine.video_import import SPLIT
from loupe.flows.engine.waiting import forget_waiting, note_waiting
from loupe.models.profiles.loader import load_profile
from loupe.models.profiles.settings import Settings
from loupe.prompts.loader import load_prompt
from loupe.schemas.build import (
    RENDERED_IMAGES,
    SourceSpec,
    VideoSourceSpec,
    format_name,
)
from loupe.schemas.errors import (
    ConfigurationError,
    FormatError,
    LoupeError,
    MissingExtraError,
    UsageError,
)
from loupe.schemas.plugins import load_plugin, plugins
from loupe.schemas.profile import OpenAIChat, Profile
from loupe.schemas.taxonomy import Tier
from loupe.schemas.text_files import read_toml
from loupe.schemas.validation import validated
from loupe.schemas.wording import first_of, many
from loupe.services.diagnosis import Finding, ModelSpec, Verdict, check_specs, lacking
from loupe.services.label_studio import (
    WATCHER,
    adding_people,
    has_label_studio,
    label_studio_address,
)
from loupe.services.process import running
from loupe.sources.annotations import Importer
from loupe.sources.files import exported_licence, is_pattern
from loupe.sources.importer import Surveyed, importer_for

_KEYS = "docs/build-files.md"
_SHIPPED = Path(__file__).parents[1] / "builds"
_REVIEW_POLL_SECONDS = 5.0
_SHOWN_LICENCES = 3
_WHO_REVIEWS = (
    'write, above the first table, gate = "required" (people decide every item; the most work), '
    '"sample:0.1" (people decide a tenth of the items, and all that the checks doubt) or "auto" '
    "(nobody decides: no work; what the checks doubt is dropped, and the release says so)"
)
PEOPLE = "people"
"""The subject of findings that a warning tells, as a run is useful without people."""


def check_build(
    settings: Settings,
    spec: "PipelineSpec[BuildT, Any]",
    build: BuildT,
    profile: Profile,
    surveys: dict[str, Surveyed] | None = None,
) -> list[Finding]:
    """Check whether a run of `build` has what it needs; nothing is stored or paid for.

    What is read of the sources is kept in `surveys`, for the run.
    """
    surveys = {} if surveys is None else surveys
    models = spec.models(build, profile)
    findings: list[Finding] = []
    for source in build.sources:
        findings += _check_source(
            settings, source, surveys, may_be_rendered=spec.takes_rendered_images
        )
    if all(one.verdict is Verdict.OK for one in findings):
        findings += spec.checks_of_surveys(surveys.values())
    try:
        release_signer(settings)
    except ConfigurationError as error:
        findings.append(lacking("signing key", str(error), "loupe doctor"))
    for missing in missing_others(settings, build.against, [one.name for one in build.sources]):
        findings.append(lacking("against", missing, "name a folder, a dataset or a release"))
    of_build = list(spec.checks(build, profile))
    return [
        *findings,
        *of_build,
        *_check_people(settings, spec, build, profile),
        *_check_prompts(profile),
        *_check_others(models, of_build),
    ]


def _check_others(models: Iterable[ModelSpec], known: Iterable[Finding]) -> Iterator[Finding]:
    """Check the models that no known finding is about."""
    subjects = {one.subject for one in known}
    return (one for one in check_specs(models, of_build=True) if one.subject not in subjects)


def _check_people(
    settings: Settings, spec: "PipelineSpec[BuildT, Any]", build: BuildT, profile: Profile
) -> Iterator[Finding]:
    """Check whether people can be asked at the gates of a build that ask them."""
    asked = {key: policy for key, policy in build.gates.items() if policy != "auto"}
    if not asked:
        return
    said = ", ".join(f'{key} = "{policy}"' for key, policy in asked.items())
    if not has_label_studio(settings):
        detail = f"{said}: people decide, but Label Studio is not running; a run will end and wait"
        unasked = build.model_copy(update=dict.fromkeys(asked, "auto"))
        needs_people = set(spec.checks(unasked, profile)) - set(spec.checks(build, profile))
        advice = "" if needs_people else '; or write "auto", and nobody decides'
        yield lacking(PEOPLE, detail, f"loupe up{advice}")
        return
    declared = load_queues(settings.queues_file)
    most = max(
        declared.queue(build.dataset, name, parse_policy(asked[key])).overlap
        for name, key in gates_of(spec.steps).items()
        if key in asked
    )
    people = _count_annotators(settings) if most > 1 else most
    if people < most:
        detail = f"{said}: {most} people decide the same item, and there are {people}"
        yield lacking(PEOPLE, detail, adding_people(settings))
    else:
        yield Finding(subject=PEOPLE, verdict=Verdict.OK, detail=f"{said}: Label Studio is running")


def _count_annotators(settings: Settings) -> int:
    if not is_there(settings.database_url):
        return 0
    with closing(Store.open(settings.database_url)) as store:
        return len(active_annotators(store, "annotator"))


def _check_prompts(profile: Profile) -> Iterator[Finding]:
    """Check the prompt files that the tables of a profile name."""
    tables = [table for table in profile.model_dump().values() if isinstance(table, Mapping)]
    for key, value in chain.from_iterable(table.items() for table in tables):
        if isinstance(value, str) and key.endswith("prompt"):
            try:
                load_prompt(value)
            except ConfigurationError as error:
                yield lacking(f"prompt {value}", str(error), "see docs/profiles.md")


def _check_source(
    settings: Settings,
    source: SourceSpec | VideoSourceSpec,
    surveys: dict[str, Surveyed],
    *,
    may_be_rendered: bool,
) -> Iterator[Finding]:
    """Check whether the files of a source exist and its terms permit a release."""
    subject, licence = f"source {source.name}", source.licence
    has_own, count, left_out = False, "", ""
    if isinstance(source, VideoSourceSpec):
        wrong, videos = _check_videos(subject, source)
        if wrong:
            yield from wrong
            return
        count = f"{many(videos, 'video')}; " if videos else ""
    else:
        has_own = source.has_own_licences
        licence = licence or _stored_licence(settings, source)
        if may_be_rendered and format_name(source.format) == RENDERED_IMAGES:
            importer = None
        else:
            try:
                importer = importer_for(source.format)
            except LoupeError as error:
                yield lacking(subject, str(error), "see docs/build-files.md#formats")
                return
        wrong = list(_check_files(subject, source, importer, settings.home, surveys))
        if wrong:
            yield from wrong
            return
        if importer is not None:
            path = locate(source, settings.home).annotations
            licence = licence or exported_licence(path) or importer.licence
            stated = surveys[survey_key(source, locate(source, settings.home))].licences
            forbidding = {one: stated[one] for one in stated if are_unpermitted(one, source)}
            shown = first_of(list(map(repr, forbidding)), _SHOWN_LICENCES)
            if has_own and forbidding and len(forbidding) == len(stated):
                detail = f"no licence of its images permits a release: {shown}"
                yield lacking(subject, detail, "see docs/licences.md#known-licences")
                return
            if forbidding:
                images = many(sum(forbidding.values()), "image")
                left_out = f"; {images} left out, whose licence permits no release: {shown}"
    refusal = refusal_of_terms(
        settings, source.name, licence or "", source.permitted_by, own_licences=has_own
    )
    if refusal:
        yield lacking(subject, refusal, "set licence or permitted_by of the source")
    else:
        terms = "each image has its own" if has_own else licence
        yield Finding(
            subject=subject, verdict=Verdict.OK, detail=f"{count}terms: {terms}{left_out}"
        )


def _check_files(
    subject: str,
    source: SourceSpec,
    importer: Importer | None,
    home: Path,
    surveys: dict[str, Surveyed],
) -> Iterator[Finding]:
    """Check whether the files of a source exist and, with an importer, whether they can be read."""
    remedy = "correct the source where it is stated"
    named = {"annotations": address_of(source), "images": source.images}
    local = {key: path for key, path in named.items() if isinstance(path, Path)}
    missing = next(
        (key for key, path in local.items() if not (path.exists() or is_pattern(path))), None
    )
    if missing:
        remedy = f"correct {missing} of the source; paths are relative to the file that states it"
        yield lacking(subject, f"there is no {named[missing]}", remedy)
        return
    try:
        images = (place := locate(source, home)).images
        if isinstance(images, Path) and not images.is_dir():
            remedy = "give the folder that image paths are relative to"
            yield lacking(subject, f"{images} is no folder of images", remedy)
            return
        if importer is None:
            return
        surveys[survey_key(source, place)] = found = survey(source, importer, place)
        misplaced = found.misplaced
    except (FormatError, MissingExtraError) as error:
        yield lacking(subject, str(error), remedy)
        return
    if misplaced:
        detail = f"none of its images is in {images}, such as {misplaced}"
        remedy = "correct images of the source: image paths are relative to it"
        yield lacking(subject, detail, remedy)


def _stored_licence(settings: Settings, spec: SourceSpec) -> str | None:
    """Return the present licence of the same files if they were imported before, else None."""
    if not is_there(settings.database_url):
        return None
    try:
        described = describe_source(spec, locate(spec, settings.home).annotations)
    except LoupeError:
        return None  # the checks of its format and files say why
    with closing(Store.open(settings.database_url)) as store:
        return imported_licence(store, described)


def _check_videos(subject: str, source: VideoSourceSpec) -> tuple[list[Finding], int]:
    """Check the local addresses of a source; return what is wrong, and the number of videos."""
    from loupe.sources.video.finding import FoundVideo, find_videos

    wrong, videos = [], 0
    if (folder := source.detections) is not None and not any(folder.rglob("*.txt")):
        what = f"{folder} has no .txt file" if folder.exists() else f"there is no {folder}"
        wanted = "the folder with a MOTChallenge file for each video (street.mp4: street.txt)"
        remedy = f"give {wanted}, or leave detections out"
        wrong.append(lacking(subject, f"detections: {what}", remedy))
    for address in source.videos:
        found = [] if "://" in address else list(find_videos(address))
        count = sum(isinstance(one, FoundVideo) for one in found)
        videos += count
        if found and not count:
            detail = next(one.detail for one in found if not isinstance(one, FoundVideo))
            wrong.append(lacking(subject, detail, "see docs/video.md#naming-videos"))
    return wrong, videos


def _require_ready(
    context: RunContext,
    spec: "PipelineSpec[BuildT, Any]",
    build: BuildT,
    profile: Profile,
    *,
    wait: bool,
) -> None:
    """Stop a run that cannot finish, before anything is paid for.

    A run that lacks only people starts, and ends at their gate, which a warning says; if it is to
    wait for them, it is stopped.

    A server that has already answered for this dataset may be unavailable: possibly no further
    answer is needed from it.

    Raises:
        ConfigurationError: something is missing; the message lists everything that is.
    """
    servers = [one for one in spec.models(build, profile) if isinstance(one, OpenAIChat)]
    for model in servers:
        require_prices(model.ref, model.prices, context.budget)
    findings = check_build(context.settings, spec, build, profile, context.surveys)
    wrong = [one for one in findings if one.verdict is not Verdict.OK]
    if not wrong:
        return
    rows = cost_rows(context.store, build.dataset)
    answered = {row.model for row in rows if row.calls > row.failed}
    dispensable = {f"model {one.ref}" for one in servers if str(one.ref) in answered}
    dispensable |= {SPLIT} if wait else {SPLIT, PEOPLE}
    missing: list[Finding] = []
    for one in wrong:
        if one.subject in dispensable:
            context.progress.say(f"warning: {one.subject}: {one.detail}; fix: {one.remedy}")
        else:
            missing.append(one)
    _refuse(missing)


def require_models(spec: "PipelineSpec[BuildT, Any]", build: BuildT, profile: Profile) -> None:
    """Stop a preview whose models or prompts a run would refuse, before anything is paid for.

    Raises:
        ConfigurationError: something is missing; the message lists everything that is.
    """
    findings = [*spec.checks(build, profile), *_check_prompts(profile)]
    findings += _check_others(spec.models(build, profile), findings)
    _refuse([one for one in findings if one.verdict is not Verdict.OK])


def _refuse(missing: Sequence[Finding]) -> None:
    if missing:
        details = "".join(
            f"\n  {one.subject}: {one.detail}\n    fix: {one.remedy}" for one in missing
        )
        raise ConfigurationError(f"the run cannot start, and no model was called:{details}")


def always(_run: object) -> bool:
    """Return True: the step is part of every run."""
    return True


def never(_run: object) -> bool:
    """Return False: the step needs all decisions of earlier gates."""
    return False


@dataclass(frozen=True, kw_only=True)
class _Declared(PipelineStep[RunT]):
    """A step that functions of the run include (`enabled`), or let go on (`per_item`)."""

    enabled: Callable[[RunT], bool] = always
    per_item: Callable[[RunT], bool] = never

    def is_enabled(self, run: RunT) -> bool:
        """Tell whether this build includes it."""
        return self.enabled(run)

    def is_per_item(self, run: RunT) -> bool:
        """Tell whether it also runs while items wait at earlier gates."""
        return self.per_item(run)


@dataclass(frozen=True)
class Step(_Declared[RunT]):
    """A step that is a function."""

    work: Callable[[RunT], None]

    def run(self, run: RunT) -> None:
        """Call the function."""
        self.work(run)


@dataclass(frozen=True)
class Gate(_Declared[RunT]):
    """A gate that decides queue `name` under the policy in the build's `key`.

    `apply` applies the decisions made so far, also while other items wait.
    """

    name: str
    key: str
    apply: Callable[[RunT], None] | None = None

    @property
    def gates(self) -> Mapping[str, str]:
        """The queue, with the key of its policy in a build."""
        return {self.name: self.key}

    def run(self, run: RunT) -> None:
        """Apply the policy and ask people to decide the rest."""
        queue = run.queues[self.name]
        run.report.waiting_in.pop(self.name, None)
        waiting, run.report.pages[self.name] = review(
            run.context, queue, run.open_desks, wait=run.wait
        )
        if waiting:
            run.report.waiting_in[self.name] = waiting
            run.report.lacks_desk = run.open_desks() is None
            run.say(f"queue {queue.name} waits for people")
        if self.apply is not None:
            self.apply(run)


@dataclass(frozen=True)
class Loop(_Declared[RunT]):
    """Steps that run once for each item of `passes`.

    `passes` is resumed after every pass, also if items wait for people, and closed at the end.
    """

    passes: Callable[[RunT], Generator[None]]
    steps: Sequence[PipelineStep[RunT]]

    @property
    def gates(self) -> Mapping[str, str]:
        """The queues of its gates."""
        return gates_of(self.steps)

    def run(self, run: RunT) -> None:
        """Run the steps for each pass."""
        with closing(self.passes(run)) as passes:
            for _ in passes:
                for name in self.gates:  # ask again in this pass
                    run.report.waiting_in.pop(name, None)
                _run_steps(run, self.steps)


@dataclass(frozen=True)
class Release(_Declared[RunT]):
    """Release the dataset as `version`, in a tier for a benchmark of tasks."""

    version: Callable[[RunT], str]
    tier: Tier | None = None

    def run(self, run: RunT) -> None:
        """Build the release, unless most answers of a model are unusable."""
        version = self.version(run)
        most = run.build.max_unusable_share
        refuse_unusable_models(run.store, run.dataset, run.report.stages, most, run.queues.values())
        _count_missing(run, version, self.tier)
        release(run.context, run.report, run.build, version, self.tier, run.compared_by)


def _count_missing(run: PipelineRun[Any], version: str, tier: Tier | None) -> None:
    """Report what the build asked for and does not have.

    Raises:
        UsageError: something is missing, and the build is strict.
    """
    quotas = quota_statistics(run.store, run.dataset, tier)
    run.report.missing = [
        *run.other_missing,
        *(Missing.of(one) for one in quotas if one.reached < one.asked),
    ]
    if not run.report.missing:
        return
    said = "; ".join(one.sentence for one in run.report.missing)
    if run.build.strict:
        raise UsageError(
            f"{run.dataset} {version} is not released, as strict = true and it lacks what was "
            f"asked for: {said}; give it more sources, allow further rounds, ask for less, or "
            f"leave strict out"
        )
    run.say(f"{run.dataset} {version} lacks what was asked for: {said}")


@dataclass(frozen=True)
class PipelineSpec(Generic[BuildT, RunT]):
    """Specification of how a kind of dataset is built.

    Attributes:
        form: the schema of a build file.
        demonstrate: writes the sources of a demonstration below a folder and returns their build.
        start: creates the state that the steps share: a `PipelineRun` or a subclass of it.
        steps: the steps, gates and release, in order.
        version: returns the version that a build releases (the last if several).
        models: the models and services of a profile that a build needs.
        checks: finds what makes a build impossible with a profile, besides missing files, terms,
            people and models.
        checks_of_surveys: finds what makes it impossible in what was read of its sources.
        is_demonstration: whether `demonstrate` draws data; otherwise its build is a user's.
        quotas: what its builds ask of a dataset; needs the `name` by which it is found later, that
            of its entry point (`loupe.pipelines`).
        takes_rendered_images: whether its sources may be rendered images with their truths.
    """

    form: type[BuildT]
    demonstrate: Callable[[Path], BuildT]
    start: Callable[[RunContext, BuildT, Profile, Callable[[], Desks | None], bool], RunT]
    steps: Sequence[PipelineStep[RunT]]
    version: Callable[[BuildT], str]
    models: Callable[[BuildT, Profile], Sequence[ModelSpec]] = lambda _build, _profile: ()
    checks: Callable[[BuildT, Profile], Iterable[Finding]] = lambda _build, _profile: ()
    checks_of_surveys: Callable[[Collection[Surveyed]], Iterable[Finding]] = lambda _surveys: ()
    is_demonstration: bool = True
    name: str = ""
    quotas: Quotas | None = None
    takes_rendered_images: bool = False


def models_of(steps: Sequence[PipelineStep[Any]]) -> Callable[[Any, Profile], list[ModelSpec]]:
    """Return the function that lists the models that some steps ask, each once."""

    def models(_build: Any, profile: Profile) -> list[ModelSpec]:
        found: list[ModelSpec] = []
        for step in steps:
            found += [one for one in step.specs(profile) if one not in found]
        return found

    return models


def demonstration(name: str) -> Callable[[Path], Any]:
    """Return the function of the plugin (`loupe.demonstrations`) that makes a demonstration.

    It raises a `UsageError` if none of this name is installed.
    """

    def demonstrate(home: Path) -> Any:
        if name not in plugins("demonstrations"):
            raise UsageError(
                f"no demonstration of {name} is installed; give a build file: --config FILE; "
                f"see {_KEYS}"
            )
        return load_plugin("demonstrations", name)(home)

    return demonstrate


def load_build(path: Path, form: type[BuildT]) -> BuildT:
    """Load the build in `path`, or the shipped build of that name.

    Relative paths in the file are resolved against the folder of `path`.

    Raises:
        ConfigurationError: the file does not exist, is not TOML, has an unknown or invalid key, or
            does not state who reviews at one of its gates.
    """
    shipped = _SHIPPED / f"{path.name}.toml"
    is_shipped = shipped.exists() and not path.exists()
    if not path.suffix and not path.exists() and not is_shipped:
        names = ", ".join(sorted(one.stem for one in _SHIPPED.glob("*.toml")))
        raise ConfigurationError(
            f"{path} is neither a build file nor the name of a paper's build ({names})"
        )
    values = read_toml(shipped if is_shipped else path, f"build file {path}")
    build = validated(form, values, f"build file {path}", see=_KEYS, folder=path.parent)
    if unstated := [key for key in build.gates if key not in build.model_fields_set]:
        raise ConfigurationError(
            f"build file {path} does not say who reviews: {_WHO_REVIEWS}, or one of "
            f"{', '.join(unstated)} for each gate; see {_KEYS}"
        )
    return build


def run_build(
    context: RunContext,
    spec: PipelineSpec[BuildT, RunT],
    config: str | None,
    profile: str | None,
    at_end: Callable[[RunContext], None],
    *,
    wait: bool = False,
) -> BuildReport:
    """Run the build in file `config` (None: the demonstration) with `profile` (None: the setting).

    `at_end` is called even after an error, to withdraw what the run derived from items that were
    withdrawn in the meantime (`loupe.flows.withdrawal.execution.resume_reopened`).

    Raises:
        LoupeError: see `run_pipeline`.
    """
    settings = context.settings
    profile = profile or settings.profile
    chosen = load_profile(profile)
    context = replace(context, packages=plugin_agents("profiles", profile))
    build = load_build(Path(config), spec.form) if config else spec.demonstrate(settings.home)
    if config is None and spec.is_demonstration:
        context.progress.say(
            "no build file (--config): building the demonstration, from drawn data"
        )
    for source in build.sources:
        correct_terms(context, source)
    _require_ready(context, spec, build, chosen, wait=wait)
    try:
        report = run_pipeline(
            context, spec, build, chosen, lambda: desks_in_use(settings, context.store), wait=wait
        )
        report.warnings += context.losses
    finally:
        for sentence in context.losses:
            context.progress.say(f"warning: {sentence}")
        at_end(context)
    if report.waiting:
        in_prefect = context.flow_run != IN_PROCESS
        noted = note_waiting(settings, report.dataset, profile, in_prefect=in_prefect)
        is_watched = running(settings.home, WATCHER) is not None
        restarts = settings.continue_builds and noted.is_command and not noted.keys
        report.goes_on = in_prefect or (is_watched and restarts)
    else:
        forget_waiting(settings.home, report.dataset)
    return report


def run_pipeline(
    context: RunContext,
    spec: PipelineSpec[BuildT, RunT],
    build: BuildT,
    profile: Profile,
    open_desks: Callable[[], Desks | None],
    *,
    wait: bool = False,
) -> BuildReport:
    """Run the steps in order, as far as items are decided.

    Raises:
        UsageError: the build, a source or the profile cannot be used.
        BudgetReachedError: a limit of the run's budget, or a daily limit of a service, was reached.
        ModelError: a model or its server is unavailable; the answers received are stored.
        ServiceError: Label Studio is unavailable, or images cannot be downloaded at present.
    """
    run = spec.start(context, build, profile, open_desks, wait)
    declared = load_queues(context.settings.queues_file)
    for name, key in gates_of(spec.steps).items():
        if key in build.gates:
            policy = parse_policy(build.gates[key])
            run.queues[name] = declared.queue(build.dataset, name, policy)
    _run_steps(run, spec.steps[:1])  # which may refuse the build
    if spec.quotas is not None:
        store_settings(context, build.dataset, QUOTAS_STAGE, "1", {"pipeline": spec.name})
    _run_steps(run, spec.steps[1:])
    run.report.count_costs(context.store)
    return run.report


def _run_steps(run: RunT, steps: Sequence[PipelineStep[RunT]]) -> None:
    for step in steps:
        if not step.is_enabled(run):
            continue
        if run.report.waiting and not step.is_per_item(run):
            return
        step.run(run)


def gates_of(steps: Sequence[PipelineStep[RunT]]) -> dict[str, str]:
    """Return the queues of steps, each with the key of its policy in a build."""
    return {name: key for step in steps for name, key in step.gates.items()}


def review(
    context: RunContext, queue: Queue, open_desks: Callable[[], Desks | None], *, wait: bool
) -> tuple[int, dict[str, str]]:
    """Apply the policy of the queue and ask people for the rest.

    Returns how many items wait, and the Label Studio project of each annotator with open tasks.
    Items that the gate decided alone under an earlier policy are reviewed if the policy now asks
    people. Without desks, items only wait.

    Raises:
        UsageError: the queue requires more people than there are.
        ServiceError: Label Studio does not answer.
    """
    reopen(context, queue)
    waiting = _left_by_policy(context.store, queue)
    for one in dropped_counts(context.store, queue.dataset):
        if queue.name == f"{one.dataset}-{one.stage}":
            context.progress.say(
                f"queue {queue.name}: {one.inputs:,} dropped as {one.reason}, because nobody looks "
                f"(policy {queue.policy}); see them with: loupe quarantine {queue.dataset}"
            )
    if not waiting:
        return 0, {}
    if queue.policy.policy == "auto" and not any(
        one.reopened for one in candidates(context.store, queue)
    ):
        raise ConfigurationError(
            f"{waiting} items of queue {queue.name} are neither accepted nor rejected, "
            f"though its gate is 'auto'"
        )
    desks = open_desks()
    if desks is None:
        return waiting, {}
    pull_answers = partial(pull, context.store, desks, queue, code_revision(), context.flow_run)
    push_tasks = partial(push, context.store, desks, queue, images_url(context.settings))
    context.as_task(f"pull {queue.name}", pull_answers)
    pushed = context.as_task(f"push {queue.name}", push_tasks)
    while (waiting := count_proposed(context.store, queue)) and wait:
        time.sleep(_REVIEW_POLL_SECONDS)
        pull_answers()
        pushed = push_tasks()
    address = label_studio_address(context.settings)
    return waiting, {who: f"{address}/projects/{at}/data" for who, at in pushed.projects}


def _left_by_policy(store: Store, queue: Queue) -> int:
    """Apply the policy of the queue, and return how many items wait for people.

    With `auto`, items that another run proposes meanwhile are decided as well.
    """
    apply_policy(store, queue)
    while waiting := count_proposed(store, queue):
        if queue.policy.policy != "auto" or not apply_policy(store, queue):
            break
    return waiting


def reopen(context: RunContext, queue: Queue) -> None:
    """Reopen items that the gate decided alone if people are now asked, and say how many."""
    if reopened := reopen_for_people(context.store, queue):
        context.progress.say(
            f"{reopened:,} items of queue {queue.name} that no one had reviewed are open again: "
            f"its policy is {queue.policy} now"
        )
