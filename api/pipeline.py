"""Pipelines: sources, steps, gates and a release, written as one value and run anywhere."""

import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from loupe.annotate.queues import Step as QueueStep
from loupe.annotate.queues import declare_queues, parse_policy
from loupe.api.models import MODELS
from loupe.api.parts import OwnBuild, OwnRun, Part, reopen_stale
from loupe.api.records import Record, column_of, own_forms
from loupe.api.selecting import Select
from loupe.api.signatures import kind_of
from loupe.api.values import Caption
from loupe.flows.engine.context import BuildReport, RunContext, open_context
from loupe.flows.engine.pipeline import Gate as EngineGate
from loupe.flows.engine.pipeline import PipelineSpec, check_build, models_of, run_build
from loupe.flows.engine.pipeline import Release as EngineRelease
from loupe.flows.engine.pipeline import Step as EngineStep
from loupe.flows.engine.report import Progress, console_progress
from loupe.flows.engine.runner import get_or_create_entity
from loupe.flows.engine.stopping import Budget
from loupe.flows.withdrawal.execution import resume_reopened
from loupe.models.profiles.loader import load_profile
from loupe.models.profiles.settings import Settings, load_settings
from loupe.release.card.model_use import BUILTIN_PREFIX, is_drawn
from loupe.schemas import records
from loupe.schemas.base import DATASET_PATTERN, VERSION_PATTERN
from loupe.schemas.build import SourceSpec
from loupe.schemas.chat import NamedModel
from loupe.schemas.errors import ConfigurationError, UsageError
from loupe.schemas.faithfulness import FaithfulnessReport
from loupe.schemas.plugins import plugins
from loupe.schemas.profile import BuiltinRewriter, Profile
from loupe.schemas.provenance import Role
from loupe.schemas.release import DatasetForm, ReleasedColumn
from loupe.schemas.validation import nearest_hint, validated
from loupe.services.diagnosis import Finding, lacking
from loupe.sources.annotations import Importer
from loupe.sources.importer import declare_format

if TYPE_CHECKING:
    from loupe.api.previewing import Preview
    from loupe.api.reading import OpenedRelease

_TEXT_PAGES = {
    records.Caption.kind: "caption-verification",
    records.Rewrite.kind: "rewrite-revision",
}
_TEXTS = (Caption, records.Rewrite)
"""What a gate decides on before the release, where the pipeline has none for it."""
_OWN_PAGES = {name: f"own-{name}" for name in ("text", "choice", "compare", "image")}


def source(
    format: str | type[Importer],  # noqa: A002 - the field's word
    annotations: str | Path,
    *,
    images: str | Path | None = None,
    name: str | None = None,
    licence: str | None = None,
    split: str | None = None,
    **options: Any,
) -> Mapping[str, Any]:
    """Return a source: annotations, and the folder of their images.

    Args:
        format: the format, such as "csv", "parquet", "hf" or "folder", or a class of
            `loupe.Format`.
        annotations: a file, folder, pattern or address (`s3://…`); relative paths start at the
            folder of the pipeline.
        images: the folder or address that image paths are relative to (default: the folder of the
            annotations).
        name: its name in the release (default: that of the file).
        licence: its terms, an SPDX identifier if possible.
        split: the split of all records, for formats without splits.
        options: further keys of a source (docs/build-files.md), and its columns: `identity`,
            `captions`, `image`, `split_column`, `licence_column`, `attribution`, `source_url`.

    Raises:
        UsageError: a class is no format, or has the name of another format.
    """
    if isinstance(format, type):
        if not issubclass(format, Importer):
            raise UsageError(
                f"source {str(annotations)!r}: {format.__name__} is no format; "
                f"expected a class of loupe.Format, or the name of a format"
            )
        format = declare_format(format)  # noqa: A001
    stated = {"images": images, "name": name, "licence": licence, "split": split}
    given = {key: value for key, value in stated.items() if value is not None}
    return {"format": format, "annotations": annotations, **given, **options}


def _source_spec(stated: Mapping[str, Any], dataset: str, folder: Path) -> SourceSpec:
    """Return the source that is stated, by default called after its annotations.

    Raises:
        ConfigurationError: a key is unknown, missing or invalid.
    """
    known, values = SourceSpec.model_fields.keys(), dict(stated)
    stem = Path(str(values.get("annotations", ""))).stem
    stem = "".join(one if one.isalnum() or one in "._-" else "-" for one in stem).strip("._-")
    values.setdefault("name", stem if stem and stem != dataset else f"{dataset}-source")
    if unknown := sorted(values.keys() - known):
        hint = nearest_hint(unknown[0], known)
        raise ConfigurationError(f"source {values['name']!r}: unknown key {unknown[0]!r}; {hint}")
    return validated(SourceSpec, values, f"source {values['name']!r}", folder=folder)


class Gate(Part):
    """A gate: people decide on what was made, under a policy."""

    version = "1"

    def __init__(
        self,
        name: str,
        of: type,
        page: str,
        policy: str,
        field: str = "",
        choices: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.field = field
        self.choices = tuple(choices)
        self.skips_originals = False
        self.is_checked = False
        self.of = of
        self.forms = own_forms(of)
        self.page = page
        self.policy = policy

    @property
    def gates(self) -> Mapping[str, str]:
        """Its queue, with the key of its policy in the build: its name, too."""
        return {self.name: self.name}

    def run(self, run: OwnRun) -> None:
        """Ask people."""
        run.refresh()
        EngineGate[OwnRun](self.name, self.name).run(run)
        run.is_fresh = False

    def queue(self) -> QueueStep:
        """Return its queue; captions of sources are not asked about where others are written."""
        kind = kind_of(self.of)
        page = self.page
        if page == "text" and kind in _TEXT_PAGES:
            page = _TEXT_PAGES[kind]
        is_of_written = self.of is Caption and self.skips_originals
        left_out = Role.SAMPLED_FROM if is_of_written else None
        return QueueStep(
            kind=kind,
            policy=parse_policy(self.policy),
            interface=_OWN_PAGES.get(page, page),
            left_out=left_out,
            field=self.field,
            choices=self.choices,
            checked=self.is_checked,
        )

    def described(self) -> str:
        """Return what it decides on, and how."""
        return f"gate {self.name}: {self.of.__name__}, page {self.page}, policy {self.policy}"


def gate(
    name: str,
    *,
    of: type = Caption,
    page: str = "text",
    policy: str = "required",
    field: str = "",
    choices: Sequence[str] = (),
) -> Gate:
    """Return a gate, at which people decide in Label Studio.

    Args:
        name: the name of its queue.
        of: what is decided on: `loupe.Caption`, `loupe.Rewrite`, `loupe.Image` or a class of
            `loupe.Record`.
        page: the labelling page: "text", "choice", "compare", "image", or one of a plugin.
        policy: "required" (all), "sample:0.1" (a tenth, and all that the checks doubt) or "auto"
            (nobody; what the checks doubt is dropped, and the release says so).
        field: the field of a record that people may change on the pages "text" and "choice"
            (default: `text`).
        choices: the values to choose from on the page "choice" (default: those of a `Literal`).

    Raises:
        UsageError: the policy cannot be read, there is no such page, or the record lacks what the
            page shows.
    """
    try:
        parse_policy(policy)
    except UsageError as error:
        raise UsageError(f"gate {name!r}: {error}") from error
    if page not in _OWN_PAGES and page not in plugins("pages"):
        hint = nearest_hint(page, (*_OWN_PAGES, *plugins("pages")))
        raise UsageError(f"gate {name!r}: no page is called {page!r}; {hint}")
    if issubclass(of, Record):
        choices = _require_fields(name, of, page, field, choices)
    return Gate(name, of, page, policy, field, choices)


def _require_fields(
    gate_name: str, of: type[Record], page: str, field: str, choices: Sequence[str]
) -> Sequence[str]:
    """Return the choices of a page, after checking that the record has the fields that it shows.

    Raises:
        UsageError: it lacks one, or there is nothing to choose from.
    """
    wanted = {"text": (field or "text",), "choice": (field,), "compare": ("first", "second")}
    for one in wanted.get(page, ()):
        if one not in of.model_fields:
            hint = nearest_hint(one, of.model_fields)
            what = f"needs a field {one!r} of {of.__name__}"
            raise UsageError(f"gate {gate_name!r}: the page {page!r} {what} (field=…); {hint}")
    if page != "choice" or choices:
        return choices
    found = _literals(of.model_fields[field].annotation)
    if not found:
        what = f"state what to choose from (choices=…), or make {field!r} a Literal"
        raise UsageError(f"gate {gate_name!r}: {what}")
    return found


def _literals(annotation: Any) -> list[str]:
    """Return the values of a `Literal`, which may be one of several types."""
    if get_origin(annotation) is Literal:
        return [str(one) for one in get_args(annotation)]
    found: list[str] = []
    for one in get_args(annotation):
        found += _literals(one)
    return found


class Release(Part):
    """The release at the end of a pipeline."""

    name = "release"

    def __init__(self, test_share: float | None) -> None:
        self.test_share = test_share

    def run(self, run: OwnRun) -> None:
        """Release the dataset."""
        run.refresh()
        EngineRelease[OwnRun](lambda one: one.build.version).run(run)

    def described(self) -> str:
        """Return its test split."""
        share = self.test_share
        chance = f"release, each identity is for testing with a chance of {share or 0:.0%}"
        return "release" if share is None else chance


def release(*, test_share: float | None = None) -> Release:
    """Return the release: an immutable, verified folder.

    Args:
        test_share: the chance of each identity to be for testing, the others are for training; the
            split of an identity does not depend on which others there are, so that of few
            identities another share is for testing. None keeps the splits of the sources.

    Raises:
        UsageError: the share is not between 0 and 1.
    """
    is_number = isinstance(test_share, int | float) and not isinstance(test_share, bool)
    if test_share is not None and not (is_number and 0 <= test_share <= 1):
        raise UsageError(f"test_share must be a number from 0 to 1; got {test_share!r}")
    return Release(test_share)


@dataclass(frozen=True)
class RunReport:
    """The result of a run; see `loupe.flows.engine.context.BuildReport` for `report`."""

    report: BuildReport

    @property
    def waiting(self) -> int:
        """The number of items that people must decide first."""
        return self.report.waiting

    @property
    def release_id(self) -> str | None:
        """The id of the release, if it was built."""
        return self.report.release_id

    @property
    def release(self) -> "OpenedRelease":
        """The release.

        Raises:
            UsageError: there is none yet, as people must decide first.
        """
        from loupe.api.reading import open_release

        if self.report.release is None:
            raise UsageError(f"there is no release yet: {self.report.sentence}")
        return open_release(self.report.release)

    def __str__(self) -> str:
        return self.report.sentence

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(one.stage)}</td><td>{escape(one.summary)}</td></tr>"
            for one in self.report.stages
        )
        return f"<p>{escape(self.report.sentence)}</p><table>{rows}</table>"


class Pipeline:
    """A dataset: its sources, steps, gates and release.

    It is a value: it can be printed, previewed, run and deployed. Steps run in order; each goes on
    from what is stored, so that a run costs only what is missing.
    """

    def __init__(
        self,
        name: str,
        *,
        version: str,
        sources: Sequence[Mapping[str, Any]],
        steps: Sequence[Part],
        tags: Sequence[str] = (),
        seed: int = 0,
        max_unusable_share: float = 0.5,
        folder: str | Path | None = None,
    ) -> None:
        """State a pipeline.

        Args:
            name: the name of the dataset.
            version: three numbers; raise it for another release.
            sources: from `loupe.source`.
            steps: steps, gates and the release, in order.
            tags: what the dataset is about, for search.
            seed: the seed of draws.
            max_unusable_share: the share of unusable answers of a model above which nothing is
                released.
            folder: where relative paths start (default: the folder of the file that calls this).

        Raises:
            UsageError: a part cannot be used as stated.
        """
        caller = sys._getframe(1).f_globals.get("__file__")
        here = Path(caller).parent if caller else Path.cwd()
        self.folder = Path(folder).absolute() if folder is not None else here.absolute()
        self.name = name
        self.version = version
        self.seed = seed
        self.max_unusable_share = max_unusable_share
        self.tags = tuple(tags)
        self.sources = tuple(sources)
        self.steps = tuple(steps)
        self.parts = tuple(self._arranged())

    def _arranged(self) -> Iterator[Part]:
        """Yield all parts, with the sources first and a gate for texts that have none.

        Raises:
            UsageError: something is no part, or two have the same name.
        """
        for value, pattern, what in (
            (self.name, DATASET_PATTERN, "the name of a pipeline: letters, digits, '.', '_', '-'"),
            (self.version, VERSION_PATTERN, "its version: three numbers such as '0.1.0'"),
        ):
            if not re.fullmatch(pattern, value):
                raise UsageError(f"Pipeline needs {what}; got {value!r}")
        names: set[str] = set()
        for one in self.steps:
            if not isinstance(one, Part):
                hint = "decorate it with @loupe.step" if callable(one) else "expected a step"
                raise UsageError(
                    f"pipeline {self.name!r}: {getattr(one, '__name__', one)!r} is no step; {hint}"
                )
            if one.name in names:
                raise UsageError(
                    f"pipeline {self.name!r} has two parts called {one.name!r}; give one another "
                    f"name (name=…, or step.named(…))"
                )
            names.add(one.name)
        if any(isinstance(one, Release) for one in self.steps[:-1]):
            raise UsageError(
                f"pipeline {self.name!r}: the release must be the last step; move it behind "
                f"{self.steps[-1].name!r}"
            )
        if any(not isinstance(one, Mapping) for one in self.sources):
            raise UsageError(f"pipeline {self.name!r}: sources must be a list: [loupe.source(…)]")
        if not self.sources:
            raise UsageError(f"pipeline {self.name!r} has no source: sources=[loupe.source(…)]")
        self._require_one_class_of_a_kind()
        yield Select()
        made: set[str] = set()
        undecided: dict[str, type] = {}
        for one in self.steps:
            if isinstance(one, Release):
                for kind, form in undecided.items():
                    name = f"{kind}s" if f"{kind}s" not in names else f"{kind}s-left"
                    yield self._placed(Gate(name, form, "text", "auto"), made)
            yield self._placed(one, made)
            made.update(one.makes)
            undecided |= {kind_of(form): form for form in _TEXTS if kind_of(form) in one.makes}
            if isinstance(one, Gate):
                undecided.pop(kind_of(one.of), None)

    def _placed(self, part: Part, made: Collection[str]) -> Part:
        """Return a part that knows its folder, and what is made before it."""
        part.placed(self.folder)
        if isinstance(part, Gate):
            part.skips_originals = records.Caption.kind in made
            part.is_checked = part.of is records.Rewrite and FaithfulnessReport.kind in made
        return part

    def _require_one_class_of_a_kind(self) -> None:
        """Refuse two classes of one kind, as the records of one of them would be lost.

        A class that was declared again as it was, such as by a cell of a notebook, is the same.

        Raises:
            UsageError: there are two.
        """
        known: dict[str, tuple[type[Record], Part]] = {}
        for part in self.steps:
            for form in part.forms:
                first, user = known.setdefault(form.kind, (form, part))
                if first is form:
                    continue
                if first.__qualname__ != form.__qualname__:
                    raise UsageError(
                        f"pipeline {self.name!r}: {first.__name__} of step {user.name!r} and "
                        f"{form.__name__} of step {part.name!r} are both of the kind "
                        f"{form.kind!r}; give one of them another kind"
                    )
                if column_of(first) != column_of(form):
                    raise UsageError(
                        f"pipeline {self.name!r}: steps {user.name!r} and {part.name!r} use "
                        f"{form.__name__} as it was before and after a change; declare both steps "
                        f"again after the class"
                    )

    def __repr__(self) -> str:
        lines = [f"Pipeline {self.name} {self.version}"]
        lines += [f"  {one}" for one in self._described()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{escape(one)}</li>" for one in self._described())
        return f"<p><b>{escape(self.name)} {escape(self.version)}</b></p><ol>{items}</ol>"

    def _described(self) -> Iterator[str]:
        """Yield each source and each part in a line, for people."""
        for one in self.sources:
            yield f"source {Path(str(one.get('annotations', '?'))).name} ({one.get('format', '?')})"
        for part in self.parts:
            if not isinstance(part, Select):
                yield part.described()

    def build(self, limit: int | None = None) -> OwnBuild:
        """Return the build of the engine.

        Raises:
            ConfigurationError: a source cannot be used as stated.
        """
        released = [one for one in self.steps if isinstance(one, Release)]
        values = {
            "dataset": self.name,
            "version": self.version,
            "seed": self.seed,
            "max_unusable_share": self.max_unusable_share,
            "policies": {one.name: one.policy for one in self.parts if isinstance(one, Gate)},
            "limit": limit,
            "test_share": released[-1].test_share if released else None,
            "sources": [_source_spec(one, self.name, self.folder) for one in self.sources],
        }
        return validated(OwnBuild, values, f"pipeline {self.name!r}")

    def spec(
        self, limit: int | None = None, observe: Callable[[OwnRun], None] | None = None
    ) -> PipelineSpec[OwnBuild, OwnRun]:
        """Return the pipeline of the engine; `observe` is called with the run before it starts."""

        def start(context: RunContext, build: OwnBuild, profile: Profile, *rest: Any) -> OwnRun:
            return OwnRun(context, build, profile, *rest, parts=self.parts)

        return PipelineSpec(
            form=OwnBuild,
            demonstrate=lambda _: self.build(limit),
            start=start,
            steps=(EngineStep(self._begin(observe)), *self.parts),
            version=lambda build: build.version,
            models=models_of(self.parts),
            checks=self._checks,
            is_demonstration=False,
        )

    def _begin(self, observe: Callable[[OwnRun], None] | None) -> Callable[[OwnRun], None]:
        def begin(run: OwnRun) -> None:
            for part in self.parts:
                run.count_current(part)
            reopen_stale(run)
            form = DatasetForm(tags=self.tags, columns=tuple(self._columns()))
            stored = get_or_create_entity(run.context, form, run.dataset)
            run.sync_active(DatasetForm, lambda one: one.id == stored.id)
            if observe is not None:
                observe(run)

        return begin

    def _columns(self) -> Iterator[ReleasedColumn]:
        """Yield the columns of the records that the steps make."""
        made: dict[str, type[Record]] = {}
        for one in self.steps:
            for form in one.forms:
                if form.kind in one.makes:
                    made.setdefault(form.kind, form)
        for form in made.values():
            yield column_of(form)

    def queues(self) -> dict[str, QueueStep]:
        """Return the review queues of its gates, by name."""
        return {one.name: one.queue() for one in self.parts if isinstance(one, Gate)}

    def _checks(self, build: OwnBuild, profile: Profile) -> Iterator[Finding]:
        """Load every prompt, and refuse models that know only drawn worlds for other sources."""
        for part in self.parts:
            part.values(profile)
        if all(map(is_drawn, build.sources)):
            return
        for part in self.parts:
            for spec in part.specs(profile):
                if spec.name.startswith(BUILTIN_PREFIX) and not isinstance(spec, BuiltinRewriter):
                    place = _place_of(spec, profile)
                    yield lacking(
                        f"model {spec.ref}",
                        f"it is built in and knows only drawn pictures, not the images of these "
                        f"sources; step {part.name!r} asks the model of {place} of a profile",
                        f"state {place} in a profile (docs/python.md#models)",
                    )

    def check(self, profile: str | None = None) -> list[Finding]:
        """Check whether a run can succeed: files, terms, people, keys, servers and models."""
        settings = load_settings()
        declare_queues(self.name, self.queues())
        chosen = load_profile(profile or settings.profile)
        return check_build(settings, self.spec(), self.build(), chosen)

    def run(
        self,
        profile: str | None = None,
        *,
        max_cost: float | None = None,
        max_tokens: int | None = None,
        wait: bool = False,
        quiet: bool = False,
        settings: Settings | None = None,
    ) -> RunReport:
        """Run the pipeline as far as it can be done now; run it again to continue.

        Args:
            profile: the models: a profile's name or file (default: the configured profile).
            max_cost: stop when model calls have cost this much.
            max_tokens: stop when model calls have used this many tokens.
            wait: wait at gates until people have decided, instead of ending.
            quiet: show no progress.
            settings: the installation (default: that of the working folder and the environment).

        Raises:
            LoupeError: it cannot be run; the message says what is missing.
        """
        from rich.console import Console

        progress = Progress() if quiet else console_progress(Console(stderr=True))
        context = open_context(
            settings or load_settings(), budget=Budget(max_cost, max_tokens), progress=progress
        )
        with closing(context.store):
            return self.run_in(context, profile, wait=wait)

    def run_in(
        self, context: RunContext, profile: str | None = None, *, wait: bool = False
    ) -> RunReport:
        """Run it in the context of a run, such as that of a command or of Prefect."""
        declare_queues(self.name, self.queues(), context.settings.queues_file)
        return RunReport(run_build(context, self.spec(), None, profile, resume_reopened, wait=wait))

    def walk(self, run: OwnRun) -> None:
        """Run all steps but gates and the release, as a preview does."""
        self._begin(None)(run)
        for part in self.parts:
            if not isinstance(part, Gate | Release):
                part.run(run)
        run.refresh()

    def preview(
        self, items: int = 10, profile: str | None = None, *, progress: Progress | None = None
    ) -> "Preview":
        """Run the first records of each source through all steps, in a store that is thrown away.

        Models are asked and paid as usual; people are not asked. `progress` shows each step.

        Raises:
            UsageError: `items` is less than 1.
        """
        from loupe.api.previewing import preview

        if items < 1:
            raise UsageError(f"a preview needs at least one record of each source; got {items}")
        return preview(self, items, profile, progress or Progress())


def _place_of(spec: NamedModel, profile: Profile) -> str:
    """Return the table of a profile that states a model."""
    places = {kind.missing: kind.spec(profile) for kind in MODELS.values()}
    contrast = profile.contrast
    places |= {
        "contrast.strategist": contrast.strategist,
        "contrast.editor": contrast.editor,
        "contrast.embedder": contrast.embedder,
    }
    found = [place for place, one in places.items() if one == spec]
    return f"[{found[0]}]" if found else "its table"
