"""Steps: plain functions on images, captions and records, run with all guarantees of the engine."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import update_wrapper
from typing import Any, Literal, cast, overload

from pydantic import Field, ValidationError

from loupe.api.applying import FAULTS, Applied
from loupe.api.models import MODELS, ChatModel, build_model, chat_model
from loupe.api.parts import (
    OwnRun,
    Part,
    in_order_of_content,
    pending,
)
from loupe.api.records import own_forms
from loupe.api.references import code_digest, reference_to
from loupe.api.signatures import Signature, kind_of, signature_of
from loupe.api.values import Crop, Image
from loupe.db.decisions import decide
from loupe.db.entities import (
    LIVE,
    AgentRef,
    NewDecision,
    StoredEntity,
    count_entities,
    fetch,
)
from loupe.db.quarantine import quarantined
from loupe.db.work import drop_rejections, register_plan, rejected_inputs
from loupe.flows.engine.rejections import images_of
from loupe.flows.engine.report import StageReport, StageResult
from loupe.flows.engine.runner import Stage, run_stage, run_stream
from loupe.flows.engine.software import software
from loupe.schemas import records
from loupe.schemas.base import Record as SettingsRecord
from loupe.schemas.base import canonical_json, digest_of
from loupe.schemas.chat import NamedModel
from loupe.schemas.errors import LoupeError, UsageError
from loupe.schemas.profile import ChatModelSpec, Profile
from loupe.schemas.validation import fault_of, nearest_hint
from loupe.schemas.video import StageSettings

Parallel = Literal["thread", "process", "ray"]
_ENGINES: Mapping[str, str] = {"thread": "", "process": "processes", "ray": "ray"}
_CHUNK, _CHUNK_OUTSIDE = 200, 16
_FEWEST_FAULTS = 5


class StepSettings(SettingsRecord):
    """How a step is run; see `step`."""

    version: str = Field(default="1", min_length=1)
    name: str = ""
    parallel: Parallel = "thread"
    workers: int = Field(default=2, ge=1)
    batch: int | None = Field(default=None, ge=1)
    by: Literal["", "image", "identity", "source", "split"] = ""
    max_failed: float = Field(default=0.5, ge=0, le=1)
    cpus: float = Field(default=1.0, gt=0)
    gpus: float = Field(default=0.0, ge=0)
    parameters: dict[str, Any] = Field(default_factory=dict)


class Step(Part):
    """A step that is a function; it can still be called as one."""

    def __init__(self, function: Callable[..., Any], settings: StepSettings) -> None:
        update_wrapper(cast("Callable[..., Any]", self), function)
        self.function = function
        self.settings = settings
        self.signature: Signature = signature_of(function, MODELS)
        self.name = settings.name or function.__name__
        self.version = settings.version
        self.takes = kind_of(self.signature.takes)
        self.makes = tuple(kind_of(one) for one in self.signature.gives)
        self.forms = own_forms(self.signature.takes, *self.signature.gives)
        is_replaced = self.signature.takes is Image and Crop in self.signature.gives
        self.decides = self.signature.is_filter or is_replaced
        self._check()

    def _check(self) -> None:
        """Refuse settings that do not fit the function.

        Raises:
            UsageError: one does not.
        """
        signature, settings = self.signature, self.settings
        if unknown := sorted(settings.parameters.keys() - signature.parameters.keys()):
            known = ", ".join(signature.parameters) or "none"
            raise UsageError(
                f"step {self.name!r} has no parameter {unknown[0]!r}; its parameters are: {known}"
            )
        if settings.batch and not (signature.takes_list and signature.gives_list):
            raise UsageError(
                f"step {self.name!r} has a batch size, so it must take a list and return a list "
                f"of as many results"
            )
        if not settings.batch and signature.takes_list and signature.is_filter:
            raise UsageError(
                f"step {self.name!r} takes a list and returns bool; a filter takes one value, or "
                f"a batch (batch=32) and returns list[bool]"
            )
        for name, value in settings.parameters.items():
            _require_kind(self.name, name, value, signature.parameters[name])
        for name, value in self.parameters.items():
            _require_plain(self.name, name, value)
        if settings.by and not self.gathers:
            raise UsageError(
                f"step {self.name!r} takes one {signature.takes.__name__} at a time; by= is for "
                f"steps that take a list of them"
            )
        if settings.parallel != "thread" and ChatModel in signature.models.values():
            raise UsageError(
                f"step {self.name!r} asks a chat model, whose answers this process stores: use "
                f'parallel="thread"; requests are sent in parallel anyway'
            )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.function(*args, **kwargs)

    @property
    def batch(self) -> int | None:
        """The number of values that the function takes at once; None for one at a time."""
        return self.settings.batch

    @property
    def gathers(self) -> bool:
        """Whether it takes groups of values."""
        return self.signature.takes_list and not self.batch

    @property
    def parameters(self) -> dict[str, Any]:
        """The values of its parameters."""
        return {**self.signature.parameters, **self.settings.parameters}

    def using(self, **parameters: Any) -> "Step":
        """Return the step with other values of its parameters."""
        changed = {**self.settings.parameters, **parameters}
        return self._copied(self.settings.model_copy(update={"parameters": changed}))

    def named(self, name: str) -> "Step":
        """Return the step under another name, to use it twice in a pipeline."""
        return self._copied(self.settings.model_copy(update={"name": name}))

    def _copied(self, settings: StepSettings) -> "Step":
        copy = Step(self.function, settings)
        copy.plugin = self.plugin
        return copy

    def _models(self, profile: Profile) -> dict[str, NamedModel]:
        found = {}
        for name, form in self.signature.models.items():
            spec = MODELS[form].spec(profile)
            if spec is None:
                raise UsageError(
                    f"step {self.name!r} asks for {form.__name__} ({name}), and profile "
                    f"{profile.name!r} has none: set {MODELS[form].missing} in a profile"
                )
            found[name] = spec
        return found

    def _chats(self, run: OwnRun) -> dict[str, ChatModel]:
        specs = self._models(run.profile)
        return {
            name: ChatModel(chat_model(run, cast("ChatModelSpec", specs[name])), self.name)
            for name, form in self.signature.models.items()
            if form is ChatModel
        }

    def specs(self, profile: Profile) -> list[NamedModel]:
        """Return the models that its function asks for."""
        return list(self._models(profile).values())

    def values(self, profile: Profile) -> dict[str, Any]:
        """Return what determines its results, and the digest of its code."""
        values: dict[str, Any] = {"parameters": self.parameters}
        if self.settings.by:
            values["by"] = self.settings.by
        if models := self.specs(profile):
            values["uses"] = [
                {"model": str(one.ref), "parameters": one.parameters} for one in models
            ]
        return {**values, "code": code_digest(self.function)}

    def described(self) -> str:
        """Return its name, what it takes and gives, stated parameters, and its first sentence."""
        takes = self.signature.takes.__name__
        takes = f"list[{takes}]" if self.gathers else takes
        gives = " | ".join(one.__name__ for one in self.signature.gives)
        values = ", ".join(f"{name}={value!r}" for name, value in self.settings.parameters.items())
        said = (self.function.__doc__ or "").strip().partition("\n")[0].rstrip(".")
        parts = (f"{takes} -> {gives or 'bool'}", values, said)
        return f"{self.name}: {'; '.join(part for part in parts if part)}"

    def run(self, run: OwnRun) -> None:
        """Call the function on all inputs that have no result yet."""
        scope = run.begin(self)
        is_here = self.settings.parallel == "thread"
        stage = Stage(
            name=self.name,
            version=self.version,
            dataset=run.dataset,
            configuration=run.plan_of(self),
            agents=(
                AgentRef("software", f"{run.dataset}.{self.name}", self.version),
                *scope.packages,
            ),
            chunk_size=max(self.batch or 0, _CHUNK if is_here else _CHUNK_OUTSIDE),
            workers=self.settings.workers,
        )
        self._retry_after_a_fix(run, stage)
        applied = Applied(
            blobs_url=run.context.settings.blobs_url,
            step=self if is_here else reference_to(self.function, self.name),
            name=self.name,
            dataset=run.dataset,
            author=f"{run.dataset}.{self.name}@{self.version}",
            specs=self._models(run.profile),
            build=build_model,
            parameters=self.parameters,
            scope=scope,
            cpus=self.settings.cpus,
            gpus=self.settings.gpus,
            engine=_ENGINES[self.settings.parallel],
        )
        if self.gathers:
            report = self._gather(run, stage, applied.opened(self._chats(run)))
        elif is_here:
            report = self._map(run, stage, applied.opened(self._chats(run)))
        else:
            inputs = pending(run, self.takes)
            report = run_stage(run.context, stage, inputs, applied)
        run.add(report)
        if self.decides:
            run.refuse_again(self, stage, self.takes)
        if records.Image.kind in self.makes:
            run.replace_again(self)
        self._stop_if_most_fail(run, stage, report)

    def _map(self, run: OwnRun, stage: Stage, applied: Applied) -> StageReport:
        def work(entities: Sequence[StoredEntity]) -> list[StageResult]:
            return applied.results(applied.prepare(entities, run.store))

        return run_stage(run.context, stage, pending(run, self.takes), work)

    def _gather(self, run: OwnRun, stage: Stage, applied: Applied) -> StageReport:
        """Call the function on each group; a group with other members is another one."""
        groups: dict[str, list[StoredEntity]] = defaultdict(list)
        for one in run.taken(self, applied.scope):
            groups[_group_of(one, self.settings.by)].append(one)
        numbered = []
        for unordered in groups.values():
            members = in_order_of_content(unordered, images_of(run.store, unordered))
            ids = sorted(one.id for one in members)
            numbered.append((int(digest_of(*ids)[:15], 16), members))
        numbered.sort(key=lambda one: one[0])

        def work(chunk: Sequence[tuple[int, list[StoredEntity]]]) -> list[StageResult]:
            return [applied.gathered(number, members, run.store) for number, members in chunk]

        report = run_stream(run.context, stage, numbered, work, total=len(numbered))
        run.keep_groups(self, ([one.id for one in members] for _, members in numbered))
        return report

    def _retry_after_a_fix(self, run: OwnRun, stage: Stage) -> None:
        """Try what raised again if the code has changed since."""
        settings = [one.record(StageSettings) for one in run.stage_settings(self.name)]
        codes = {one.values.get("code") for one in settings if one.version == self.version}
        if len(codes) < 2:
            return
        plan_id = register_plan(run.store, stage.name, stage.version, stage.configuration)
        kind = self.takes
        failed = rejected_inputs(run.store, plan_id, run.dataset, kind, (*LIVE, "rejected"))
        raised = fetch(run.store, [id_ for id_, reason in failed if reason in FAULTS])
        if not raised:
            return
        drop_rejections(run.store, plan_id, [one.seq for one in raised.values()])
        reason = "the step that raised has changed"
        refused = [one.id for one in raised.values() if one.state == "rejected"]
        decide(run.store, [NewDecision(one, "reopen", software(), reason) for one in refused])
        run.say(
            f"{self.name}: its code changed; {len(raised):,} inputs that raised are tried again"
        )

    def _failed_before(self, run: OwnRun, stage: Stage) -> tuple[int, int]:
        """Return on how many inputs earlier runs failed, and how many there are."""
        plan_id = register_plan(run.store, stage.name, stage.version, stage.configuration)
        states = (*LIVE, "rejected")
        found = rejected_inputs(run.store, plan_id, run.dataset, self.takes, states)
        failed = sum(reason in FAULTS for _, reason in found)
        return failed, count_entities(run.store, run.dataset, self.takes, states=states)

    def _stop_if_most_fail(self, run: OwnRun, stage: Stage, report: StageReport) -> None:
        """Stop the run if the step itself failed on too many inputs.

        Raises:
            LoupeError: it did.
        """
        failed = sum(report.rejected[reason] for reason in FAULTS)
        inputs = report.finished - report.passed_over
        if report.is_idle:  # a run again, with the same code: it failed before
            failed, inputs = self._failed_before(run, stage)
        is_few = failed < min(_FEWEST_FAULTS, inputs)
        if not failed or is_few or failed / inputs <= self.settings.max_failed:
            return
        faults = (
            one
            for one in quarantined(run.store, run.dataset, stage=self.name)
            if one.reason in FAULTS
        )
        first = next(faults)
        raise LoupeError(
            f"step {self.name!r} failed on {failed:,} of {inputs:,} inputs, more than "
            f"{self.settings.max_failed:.0%} (max_failed); the first is "
            f"{first.context.get('file', 'a group')}: {first.detail.rstrip('.')}. All are shown "
            f"by: loupe quarantine {run.dataset}. Correct the step and run again"
        )


def _group_of(entity: StoredEntity, by: str) -> str:
    """Return the group of an input: its image by default, or its identity, source or split."""
    if by in ("", "image"):
        return str(entity.group) if entity.kind != records.Image.kind else entity.id
    if by == "split":
        return str(entity.split)
    record = entity.record(records.Image) if entity.kind == records.Image.kind else None
    if record is None:
        return str(entity.group)
    return record.source if by == "source" else f"{record.source}/{record.identity}"


def _require_kind(step: str, name: str, value: Any, default: Any) -> None:
    """Refuse a value of another type than a plain default, such as a text for a number.

    Raises:
        UsageError: it is one.
    """
    if isinstance(default, bool | str):
        wanted, fits = type(default).__name__, isinstance(value, type(default))
    elif isinstance(default, int | float):
        wanted = "number"
        fits = isinstance(value, int | float) and not isinstance(value, bool)
    else:
        return
    if not fits:
        raise UsageError(f"step {step!r}: {name} must be a {wanted}, as its default; got {value!r}")


def _require_plain(step: str, name: str, value: Any) -> None:
    """Refuse a value that cannot be part of a plan.

    Raises:
        UsageError: it is one.
    """
    try:
        canonical_json(value)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"step {step!r}: {name} must be a text, a number, a truth value, None, or a list or "
            f"dict of these, as it is part of what determines results; got {value!r:.80}"
        ) from error


@overload
def step(function: Callable[..., Any], /) -> Step: ...


@overload
def step(
    *,
    version: str = "1",
    parallel: Parallel = "thread",
    workers: int = 2,
    batch: int | None = None,
    by: str = "",
    max_failed: float = 0.5,
    cpus: float = 1.0,
    gpus: float = 0.0,
) -> Callable[[Callable[..., Any]], Step]: ...


def step(
    function: Callable[..., Any] | None = None, /, **settings: Any
) -> Step | Callable[[Callable[..., Any]], Step]:
    """Make a step from a function; its types say what it takes and returns.

    `X -> bool` and `X -> X` filter, `X -> Y` makes one record from each item, `X -> list[Y]` any
    number, and `list[X] -> Y` one from each group; with `… | Rejection`, the function may refuse
    an item. X and Y are `loupe.Image`, `loupe.Caption` or subclasses of `loupe.Record`; Y may also
    be `loupe.Crop`, and X `loupe.Rewrite`, `loupe.Strategy` or `loupe.Candidate`. Further
    parameters are models of the profile (`loupe.ChatModel`, `loupe.Embedder`, `loupe.Detector`,
    `loupe.PoseModel`) or values with defaults.

    Args:
        function: the function.
        settings: `version`: raise it when results change; results of an earlier version no longer
            count. `parallel`: "thread" (of this process), "process" (always in worker processes)
            or "ray" (a cluster). `workers`: the number of threads. `batch`: the function takes a
            list of up to this many values and returns a list of the same length. `by`: what groups
            are formed by: "image", "identity", "source" or "split". `max_failed`: the maximum
            share of inputs for which the function may raise; above it, the run ends. `cpus` and
            `gpus`: what a worker on a cluster needs.

    Raises:
        UsageError: types are missing or unknown, or settings do not fit them.
    """
    if function is not None:
        return Step(function, StepSettings())
    known = [one for one in StepSettings.model_fields if one not in ("name", "parameters")]
    if unknown := sorted(settings.keys() - set(known)):
        raise UsageError(
            f"loupe.step has no setting {unknown[0]!r}; {nearest_hint(unknown[0], known)}"
        )
    try:
        chosen = StepSettings(**settings)
    except ValidationError as error:
        raise UsageError(f"loupe.step: {fault_of(error, StepSettings)}") from error
    return lambda one: Step(one, chosen)


def filter(one: Step) -> Step:  # noqa: A001 - the field's word
    """Return a step, after checking that it is a filter.

    Raises:
        UsageError: the step makes something instead of keeping and dropping items.
    """
    if not isinstance(one, Step):
        raise UsageError(f"loupe.filter takes a step (@loupe.step); got {type(one).__name__}")
    if not one.signature.is_filter:
        raise UsageError(f"step {one.name!r} is not a filter: it returns {one.makes[0]}, not bool")
    return one
