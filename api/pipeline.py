"""Pipelines: sources, steps, gates and a release, written as one value and run anywhere."""

import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from loupe.annotate.interfaces.own_pages import OwnPage, page_problem
from loupe.annotate.interfaces.registry import interface_of, page_like
from loupe.annotate.queues import Queue, apply_policy, declare_queues, parse_policy
from loupe.annotate.queues import Step as QueueStep
from loupe.api.models import MODELS
from loupe.api.pairs import SimilarPair
from loupe.api.parts import OwnBuild, OwnRun, Part, Place, decide_again
from loupe.api.records import Record, column_of, own_forms
from loupe.api.selecting import Select
from loupe.api.signatures import checking_arguments, checking_names, kind_of
from loupe.api.values import Caption, Image
from loupe.flows.engine.context import BuildReport, RunContext, open_context
from loupe.flows.engine.pipeline import Gate as EngineGate
from loupe.flows.engine.pipeline import PipelineSpec, check_build, models_of, run_build
from loupe.flows.engine.pipeline import Release as EngineRelease
from loupe.flows.engine.pipeline import Step as EngineStep
from loupe.flows.engine.report import Progress, console_progress
from loupe.flows.engine.runner import get_or_create_entity
from loupe.flows.engine.stopping import Budget
from loupe.flows.engine.video_import import FORMAT as VIDEOS
from loupe.flows.engine.video_import import check_videos
from loupe.flows.withdrawal.execution import resume_reopened
from loupe.models.profiles.loader import load_profile
from loupe.models.profiles.settings import Settings, load_settings
from loupe.release.card.model_use import BUILTIN_PREFIX, is_drawn
from loupe.release.format.publishable import published_name
from loupe.schemas import records
from loupe.schemas.base import DATASET_PATTERN, VERSION_PATTERN, EntityRecord
from loupe.schemas.build import SourceSpec, VideoSourceSpec, format_name
from loupe.schemas.chat import NamedModel
from loupe.schemas.embedding import BuiltinEmbedder
from loupe.schemas.errors import ConfigurationError, UsageError
from loupe.schemas.faces import Faces
from loupe.schemas.faithfulness import FaithfulnessReport
from loupe.schemas.plugins import plugins
from loupe.schemas.profile import BuiltinRewriter, Profile
from loupe.schemas.proposals import Candidate, Strategy, Tracklet
from loupe.schemas.provenance import Role
from loupe.schemas.release import DatasetForm, ReleasedColumn, ReleasedStep
from loupe.schemas.validation import nearest_hint, validated
from loupe.schemas.video import Track, Video
from loupe.services.diagnosis import Finding, lacking
from loupe.sources.annotations import Importer
from loupe.sources.importer import Surveyed, declare_format, known_formats

if TYPE_CHECKING:
    from loupe.api.previewing import Preview
    from loupe.api.reading import OpenedRelease

_TEXT_PAGES = {
    records.Image.kind: "description-writing",
    records.Caption.kind: "caption-verification",
    records.Rewrite.kind: "rewrite-revision",
    Strategy.kind: "strategy-check",
    Candidate.kind: "image-filter",
    Tracklet.kind: "tracklet-selection",
}
_DECIDED: dict[str, tuple[str, type]] = {
    records.Caption.kind: ("captions", Caption),
    records.Rewrite.kind: ("rewrites", records.Rewrite),
    Strategy.kind: ("strategies", Strategy),
    Candidate.kind: ("candidates", Candidate),
    Tracklet.kind: ("tracklets", Tracklet),
}
"""What a gate decides on where a part awaits it and the pipeline has none, by kind."""
_MAKERS = {
    records.Image.kind: "loupe.steps.form_identities()",
    records.Caption.kind: "loupe.describe()",
    records.Rewrite.kind: "loupe.steps.rewrite()",
    Track.kind: "loupe.steps.track()",
    Tracklet.kind: "loupe.steps.filter_tracks()",
    SimilarPair.kind: "loupe.steps.pair_similar()",
    Strategy.kind: "loupe.steps.propose_contrasts()",
    Candidate.kind: "loupe.steps.search()",
}
"""A step that makes what a later one takes, by kind; sources have images and captions, too."""
_DECIDABLE = (Image, *(form for _, form in _DECIDED.values()))
_OWN_PAGES = {name: f"own-{name}" for name in ("text", "choice", "compare", "image")}


@checking_arguments
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
    """Return a source: annotations with their images, or videos.

    Args:
        format: the format, such as "csv", "parquet", "hf" or "folder", or a subclass of
            `loupe.Format`; "videos" for videos, which `loupe.steps.track` reads.
        annotations: a file, folder, pattern or address (`s3://…`); relative paths start at the
            folder of the pipeline.
        images: the folder or address that image paths are relative to (default: the folder of the
            annotations).
        name: its name in the release (default: that of the file).
        licence: its terms, an SPDX identifier if possible.
        split: the split of all records, for formats without splits.
        options: further keys of a source (docs/build-files.md), and its columns: `identity`,
            `captions`, `image`, `split_column`, `licence_column`, `attribution`, `source_url`.
            For videos: `detections`, `every_nth_frame`, `frame_rate`.

    Raises:
        UsageError: there is no such format or key, or a class is not a format or has the name of
            another one.
    """
    if not isinstance(annotations, str | Path):
        raise UsageError(f"source: annotations must be a path or an address; got {annotations!r}")
    if isinstance(format, type):
        if not issubclass(format, Importer):
            raise UsageError(
                f"source {str(annotations)!r}: {format.__name__} is not a format; "
                f"expected a subclass of loupe.Format, or the name of a format"
            )
        format = declare_format(format)  # noqa: A001
    elif format_name(format) not in (formats := (VIDEOS, *known_formats())):
        raise UsageError(f"no format is called {format!r}; {nearest_hint(format, formats)}")
    known = set(SourceSpec.model_fields)
    if format_name(format) == VIDEOS:
        format = VIDEOS  # noqa: A001
        known = (VideoSourceSpec.model_fields.keys() - {"videos"}) | {"annotations", "format"}
    if unknown := sorted(options.keys() - known):
        hint = nearest_hint(unknown[0], known)
        what = f"source {name or str(annotations)!r}"
        raise UsageError(f"{what}: unknown key {unknown[0]!r}; {hint}")
    stated = {"images": images, "name": name, "licence": licence, "split": split}
    given = {key: value for key, value in stated.items() if value is not None}
    return {"format": format, "annotations": annotations, **given, **options}


def _source_spec(
    stated: Mapping[str, Any], dataset: str, folder: Path, where: str
) -> SourceSpec | VideoSourceSpec:
    """Return the source that is stated, by default called after its annotations.

    `where` is the place of its pipeline, for errors.

    Raises:
        ConfigurationError: a key is unknown, missing or invalid.
    """
    values = dict(stated)
    stem = Path(str(values.get("annotations", ""))).stem
    stem = "".join(one if one.isalnum() or one in "._-" else "-" for one in stem).strip("._-")
    values.setdefault("name", stem if stem and stem != dataset else f"{dataset}-source")
    if values.get("format") == VIDEOS:
        del values["format"]
        values["videos"] = str(values.pop("annotations", ""))
        return validated(
            VideoSourceSpec, values, f"{where}: source {values['name']!r}", folder=folder
        )
    return validated(SourceSpec, values, f"{where}: source {values['name']!r}", folder=folder)


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
        self.needs = (kind_of(of),)
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

    @property
    def _shown_page(self) -> str:
        """The page that people see: of what Loupe makes, that of the papers."""
        return _TEXT_PAGES.get(kind_of(self.of), "text") if self.page == "text" else self.page

    @property
    def asks_for_captions(self) -> bool:
        """Whether people write captions of images."""
        return self.of is Image and self.page == "text"

    def queue(self) -> QueueStep:
        """Return its queue; captions of sources are not asked about where others are written."""
        kind, page = kind_of(self.of), self._shown_page
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
            of_model=kind == Candidate.kind,
        )

    def decide_alone(self, run: OwnRun) -> None:
        """Decide as if nobody looked, which lets a preview go on."""
        policy = parse_policy("auto")
        queue = self._queue_of(run.dataset)
        apply_policy(run.store, queue.model_copy(update={"policy": policy}))

    def check_page(self, dataset: str) -> Iterator[Finding]:
        """Find what makes a page of a plugin unusable."""
        page = interface_of(self._queue_of(dataset))
        if isinstance(page, OwnPage) and (problem := page_problem(page)) is not None:
            yield lacking(
                f"page {self._shown_page}",
                f"gate {self.name!r} cannot ask people: {problem}",
                "correct page_xml (docs/python.md#a-labelling-page-of-your-own)",
            )

    def _queue_of(self, dataset: str) -> Queue:
        return Queue(**{**dict(self.queue()), "name": self.name, "dataset": dataset})

    def described(self) -> str:
        """Return what it decides on, and how."""
        return (
            f"gate {self.name}: {self.of.__name__}, page {self._shown_page}, policy {self.policy}"
        )


@checking_arguments
def gate(
    name: str,
    *,
    of: type = Caption,
    page: str = "",
    policy: str = "required",
    field: str = "",
    choices: Sequence[str] = (),
) -> Gate:
    """Return a gate, at which people decide in Label Studio.

    Args:
        name: the name of its queue.
        of: what is decided on: `loupe.Caption`, `loupe.Rewrite`, `loupe.Image`,
            `loupe.Strategy`, `loupe.Candidate`, `loupe.Tracklet` or a class of `loupe.Record`.
        page: the labelling page: "text" (for images, people describe the person shown),
            "choice", "compare", "image", or one of a plugin (default: "image" for images,
            "compare" for `loupe.SimilarPair`, "text" for everything else).
        policy: which items people decide on: "required" (all), "sample:0.1" (a tenth, and all
            that a check doubts) or "auto" (none; items that a check doubts are dropped, and the
            release says so).
        field: the field of a record that people may change on the pages "text" and "choice"
            (default: `text`).
        choices: the values to choose from on the page "choice" (default: those of a `Literal`).

    Raises:
        UsageError: the policy is invalid, there is no such page, or the record lacks the fields
            that the page shows.
    """
    stated: Any = name
    if not isinstance(stated, str) or not name.strip():
        raise UsageError(f"the name of a gate must be a text, such as 'captions'; got {name!r}")
    try:
        parse_policy(policy)
    except UsageError as error:
        raise UsageError(f"gate {name!r}: {error}") from error
    form: Any = of  # which a file may state as a text
    if not (form in _DECIDABLE or (isinstance(form, type) and issubclass(form, Record))):
        known = ", ".join(f"loupe.{one.__name__}" for one in _DECIDABLE)
        raise UsageError(
            f"gate {name!r}: of must be one of {known}, or a class of loupe.Record; got {of!r}"
        )
    page = page or {Image: "image", SimilarPair: "compare"}.get(form, "text")
    if page not in _OWN_PAGES and page not in plugins("pages"):
        hint = nearest_hint(page, (*_OWN_PAGES, *plugins("pages")))
        raise UsageError(f"gate {name!r}: no page is called {page!r}; {hint}")
    like = page if page in _OWN_PAGES else page_like(page)
    if of is Image and like == "text" and page != "text":
        raise UsageError(
            f"gate {name!r}: the page {page!r} is for a text, and an image has none; use the page "
            f"'image', or state like = \"image\" in the class of the page"
        )
    if issubclass(of, Record):
        choices = _require_fields(name, of, like, field, choices)
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
        if not one:
            listed = ", ".join(of.model_fields)
            what = f"which field of {of.__name__} people choose (field=…): {listed}"
            raise UsageError(f"gate {gate_name!r}: the page {page!r} needs to know {what}")
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
    awaits = (records.Caption.kind, records.Rewrite.kind)
    needs = (records.Image.kind, records.Caption.kind)

    def __init__(self, test_share: float | None) -> None:
        self.test_share = test_share
        self._formats: set[str] = set()

    def placed(self, place: Place) -> None:
        """Note whether images are of videos."""
        self._formats = {str(one.get("format")) for one in place.sources}

    def run(self, run: OwnRun) -> None:
        """Release the dataset."""
        run.refresh()
        EngineRelease[OwnRun](lambda one: one.build.version).run(run)

    def described(self) -> str:
        """Return its test split."""
        if self.test_share is None:
            return "release"
        said = []
        if self._formats - {VIDEOS}:
            probability = f"{self.test_share:.0%}"
            said.append(f"each identity goes to the test split with a probability of {probability}")
        if VIDEOS in self._formats:
            people = f"about {self.test_share:.0%} of the people of videos are for testing"
            said.append(f"{people}, all of a video or none")
        return f"release, {'; '.join(said)}"


@checking_arguments
def release(*, test_share: float | None = None) -> Release:
    """Return the step that makes the release: an immutable, verified folder.

    Args:
        test_share: the probability with which each identity goes to the test split; the others go
            to the train split. The split of an identity does not depend on the others, so with few
            identities the actual share may differ. For people in videos, it is the wanted share
            (`loupe.steps.form_identities`). None keeps the splits of the sources.

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
            UsageError: there is none yet, because people must decide first.
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

    It is a value that can be printed, previewed, run and deployed. Steps run in order. Finished
    work is stored, so a run only does, and pays for, what is missing.
    """

    @checking_names
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
        faces: Faces = "keep",
        folder: str | Path | None = None,
    ) -> None:
        """Declare a pipeline.

        Args:
            name: the name of the dataset.
            version: three numbers, such as "0.1.0"; raise it for another release.
            sources: from `loupe.source`.
            steps: steps, gates and the release, in order.
            tags: what the dataset is about, for search.
            seed: the seed of draws.
            max_unusable_share: the maximum share of unusable answers of a model; above it, nothing
                is released.
            faces: what is done to faces before images are stored: "keep", "blur" or "replace"; a
                source may override it.
            folder: where relative paths start (default: the folder of the file that calls this).

        Raises:
            UsageError: a source, step, gate or setting cannot be used as stated.
        """
        frame = sys._getframe(2)
        caller = frame.f_globals.get("__file__")
        here = Path(caller).parent if caller else Path.cwd()
        named = f"pipeline {name!r}"
        self.where = f"{Path(caller).name} (line {frame.f_lineno})" if caller else named
        self.folder = Path(folder).absolute() if folder is not None else here.absolute()
        self.name = name
        self.version = version
        self.seed = seed
        self.max_unusable_share = max_unusable_share
        self.faces: Faces = faces
        for key, value in (("sources", sources), ("steps", steps), ("tags", tags)):
            if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
                raise UsageError(f"pipeline {name!r}: {key} must be a list; got {value!r:.80}")
        self.tags = tuple(tags)
        self.sources = tuple(sources)
        self.steps = tuple(steps)
        self._of_captions: list[str] = []  # the parts that need some before a step writes any
        self.parts = tuple(self._arranged())

    def _arranged(self) -> Iterator[Part]:
        """Yield all parts, with the sources first and a gate for texts that have none.

        Raises:
            UsageError: something is no part, or two have the same name.
        """
        stated: tuple[tuple[Any, str, str], ...] = (
            (self.name, DATASET_PATTERN, "the name of a pipeline: letters, digits, '.', '_', '-'"),
            (self.version, VERSION_PATTERN, "its version: three numbers such as '0.1.0'"),
        )
        for value, pattern, what in stated:
            if not isinstance(value, str) or not re.fullmatch(pattern, value):
                raise UsageError(f"Pipeline needs {what}; got {value!r}")
        names: set[str] = set()
        for one in self.steps:
            if not isinstance(one, Part):
                named = getattr(one, "__name__", one)
                raise UsageError(
                    f"pipeline {self.name!r}: {named!r} is not a step; {_remedy_of(one)}"
                )
            if one.name in names:
                raise UsageError(
                    f"pipeline {self.name!r} has two parts called {one.name!r}; give one another "
                    f"name (name=…, or step.named(…))"
                )
            names.add(one.name)
        if any(isinstance(one, Release) for one in self.steps[:-1]):
            raise UsageError(
                f"pipeline {self.name!r}: the release must be the last step; move it after "
                f"{self.steps[-1].name!r}"
            )
        if any(not isinstance(one, Mapping) for one in self.sources):
            raise UsageError(f"pipeline {self.name!r}: sources must be a list: [loupe.source(…)]")
        if not self.sources:
            raise UsageError(f"pipeline {self.name!r} has no source: sources=[loupe.source(…)]")
        self._require_one_class_of_a_kind()
        yield Select()
        formats = {one.get("format") for one in self.sources}
        self._has_images = formats != {VIDEOS}
        made = {records.Image.kind} if self._has_images else set()
        if VIDEOS in formats:
            made.add(Video.kind)
        undecided: dict[str, None] = {}
        for one in self.steps:
            for kind in [kind for kind in undecided if kind in one.awaits]:
                del undecided[kind]
                name, form = _DECIDED[kind]
                name = name if name not in names else f"{name}-left"
                yield self._placed(Gate(name, form, "text", "auto"), made)
            yield self._placed(one, made)
            kinds = (*one.makes, *_kinds(one.proposes))
            made.update(kinds)
            if isinstance(one, Gate) and one.asks_for_captions:
                made.add(records.Caption.kind)
            undecided |= dict.fromkeys(kind for kind in kinds if kind in _DECIDED)
            if isinstance(one, Gate):
                undecided.pop(kind_of(one.of), None)

    def _placed(self, part: Part, made: Collection[str]) -> Part:
        """Return a part that knows its folder, and what is made before it.

        Raises:
            UsageError: it takes what nothing before it makes.
        """
        place = self.steps.index(part) if part in self.steps else len(self.steps)
        part.placed(Place(self.folder, self.sources, self.steps[:place]))
        for kind in filter(None, (part.takes, *part.needs)):
            if kind in made:
                continue
            if kind == records.Caption.kind and self._has_images:
                self._of_captions.append(part.name)  # a source may have some
            else:
                raise UsageError(f"pipeline {self.name!r}: {self._unmade(part, kind)}")
        if isinstance(part, Gate):
            before = self.steps[:place]
            part.skips_originals = any(records.Caption.kind in one.makes for one in before)
            part.is_checked = part.of is records.Rewrite and FaithfulnessReport.kind in made
        return part

    def _unmade(self, part: Part, kind: str) -> str:
        """Say that nothing before a part makes what it takes, and what to put before it."""
        what = f"gate {part.name!r}" if isinstance(part, Gate) else f"step {part.name!r}"
        if kind == Video.kind:
            add = f"add one: loupe.source({VIDEOS!r}, …)"
            return f"{what} takes videos, and no source has any; {add}"
        forms = (*part.forms, *_DECIDABLE)
        named = next((one.__name__ for one in forms if kind_of(one) == kind), kind)
        others = [one for one in self.steps if one is not part]
        later = [one.name for one in others if kind in (*one.makes, *_kinds(one.proposes))]
        maker = repr(later[0]) if later else _MAKERS.get(kind, "a step that makes it")
        return f"{what} takes {named}, which no step before it makes; put {maker} before it"

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
            if isinstance(part, Gate | Release):
                yield part.described()
            elif not isinstance(part, Select):
                yield f"{part.described()} (version {part.version})"

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
            "faces": self.faces,
            "policies": {one.name: one.policy for one in self.parts if isinstance(one, Gate)},
            "limit": limit,
            "test_share": released[-1].test_share if released else None,
            "sources": [
                _source_spec(one, self.name, self.folder, self.where) for one in self.sources
            ],
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
            checks_of_surveys=self._checks_of_surveys,
            is_demonstration=False,
        )

    def _begin(self, observe: Callable[[OwnRun], None] | None) -> Callable[[OwnRun], None]:
        def begin(run: OwnRun) -> None:
            for part in self.parts:
                run.count_current(part)
            decide_again(run)
            columns, steps = tuple(self._columns()), tuple(self._stated_steps(run.profile))
            form = DatasetForm(tags=self.tags, columns=columns, steps=steps)
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

    def _stated_steps(self, profile: Profile) -> Iterator[ReleasedStep]:
        """Yield the steps as the release states them."""
        for one in self.steps:
            if isinstance(one, Gate | Release):
                continue
            models = dict.fromkeys(published_name(str(spec.ref)) for spec in one.specs(profile))
            yield ReleasedStep(
                name=one.name,
                version=one.version,
                does=one.described().partition(": ")[2],
                settings=one.chosen(profile),
                models=tuple(models),
                selects=bool(models and (one.makes or one.proposes or one.decides)),
            )

    def queues(self) -> dict[str, QueueStep]:
        """Return the review queues of its gates, by name."""
        return {one.name: one.queue() for one in self.parts if isinstance(one, Gate)}

    def _checks(self, build: OwnBuild, profile: Profile) -> Iterator[Finding]:
        """Load every prompt and page; refuse models that only know drawn worlds elsewhere."""
        yield from check_videos(build.sources, build.test_share)
        for part in self.parts:
            try:
                part.values(profile)
            except ConfigurationError as error:
                remedy = "correct the step where it is stated"
                yield lacking(f"step {part.name}", f"{self.where}: {error}", remedy)
            if isinstance(part, Gate):
                yield from part.check_page(self.name)
        if all(map(is_drawn, build.sources)):
            return
        for part in self.parts:
            for spec in part.specs(profile):
                if spec.name.startswith(BUILTIN_PREFIX) and not isinstance(spec, BuiltinRewriter):
                    place = _place_of(spec, profile)
                    yield lacking(
                        f"model {spec.ref}",
                        f"it is built in and knows only the pictures of Loupe's demonstrations, "
                        f"not the images of these sources; step {part.name!r} asks the model of "
                        f"{place} of a profile",
                        f"state {place} in a profile ({_see(spec)})",
                    )

    def _checks_of_surveys(self, surveys: Collection[Surveyed]) -> Iterator[Finding]:
        """Find the steps that need captions if nothing has any."""
        if self._of_captions and not any(one.has_captions for one in surveys):
            first = self._of_captions[0]
            yield lacking(
                "captions",
                f"step {first!r} needs captions: no record of the sources has one, and no step "
                f"before it writes any",
                f"put {_MAKERS[records.Caption.kind]}, or another step that writes captions, "
                f"before {first!r}; or say which field of a source holds them (captions)",
            )

    def check(self, profile: str | None = None) -> list[Finding]:
        """Check whether a run can succeed: files, terms, people, keys, servers and models."""
        settings = load_settings()
        declare_queues(self.name, self.queues())
        chosen = load_profile(profile or settings.profile)
        return check_build(settings, self.spec(), self.build(), chosen)

    @checking_names
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
            profile: the models: name or file of a profile (default: the configured profile).
            max_cost: stop when model calls have cost this much.
            max_tokens: stop when model calls have used this many tokens.
            wait: wait at gates until people have decided, instead of ending.
            quiet: show no progress.
            settings: the installation (default: that of the working folder and the environment).

        Raises:
            LoupeError: it cannot be run; the message says what is missing.
        """
        from rich.console import Console

        limits: dict[str, Any] = {"max_cost": max_cost, "max_tokens": max_tokens}
        for name, most in limits.items():
            if not (most is None or (isinstance(most, int | float) and most >= 0)):
                raise UsageError(f"{name} must be a number of at least 0; got {most!r}")
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
        """Run all steps but the release, as a preview does; nobody is asked."""
        self._begin(None)(run)
        steps = [part for part in self.parts if not isinstance(part, Gate | Release)]
        awaited = {kind for step in steps for kind in step.awaits}
        for part in self.parts:
            if part in steps:
                part.run(run)
            elif isinstance(part, Gate) and kind_of(part.of) in awaited:
                part.decide_alone(run)
        run.refresh()

    @checking_names
    def preview(
        self, items: int = 10, profile: str | None = None, *, progress: Progress | None = None
    ) -> "Preview":
        """Run the first records of each source through all steps, in a temporary store.

        For videos, these are the first seconds of one video. Models are called and paid for as
        usual; people are not asked. `progress` shows each step.

        Raises:
            UsageError: `items` is less than 1.
            ConfigurationError: a run would refuse the models.
        """
        from loupe.api.previewing import preview

        stated: Any = items
        if not isinstance(stated, int) or items < 1:
            raise UsageError(f"a preview needs at least one record of each source; got {items!r}")
        return preview(self, items, profile, progress or Progress())


def _kinds(forms: Collection[type[EntityRecord]]) -> tuple[str, ...]:
    return tuple(form.kind for form in forms)


def _remedy_of(wrong: Any) -> str:
    """Return how what is no step becomes one."""
    if not callable(wrong):
        return "expected a step"
    if str(wrong.__module__).partition(".")[0] != "loupe":
        return "decorate it with @loupe.step"
    parameters = inspect.signature(wrong).parameters.values()
    is_bare = all(one.default != one.empty or one.kind == one.VAR_KEYWORD for one in parameters)
    name = str(wrong.__name__).rpartition(".")[2]  # `loupe.release` is a module, too
    return f"call it: {name}({'' if is_bare else '…'})"


def _see(spec: NamedModel) -> str:
    """Return the page that names models to state instead of a built-in one."""
    if isinstance(spec, BuiltinEmbedder):
        return "docs/embedders.md: one with weights, or a class of yours that needs no download"
    return "docs/python.md#models"


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
