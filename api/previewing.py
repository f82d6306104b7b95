"""Previews: the first records of a pipeline, run through all steps in a temporary store."""

import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Protocol

from loupe.api.parts import ABOVE, OwnBuild, OwnRun, Part
from loupe.db.calls import CostRow, cost_rows
from loupe.db.entities import LIVE, StoredEntity, find, parents_of
from loupe.db.quarantine import quarantined
from loupe.flows.engine.context import PREVIEW, open_context
from loupe.flows.engine.embedding import picture_of
from loupe.flows.engine.importing import open_source
from loupe.flows.engine.pages import figure, flow_pages, thumbnail_uri
from loupe.flows.engine.pipeline import PipelineSpec, require_models
from loupe.flows.engine.report import Progress, duration
from loupe.models.profiles.loader import load_profile
from loupe.models.profiles.settings import load_settings
from loupe.schemas import records
from loupe.schemas.build import SourceSpec, VideoSourceSpec
from loupe.schemas.errors import LoupeError
from loupe.schemas.faithfulness import FaithfulnessReport
from loupe.schemas.proposals import Candidate, Strategy
from loupe.schemas.quality import CaptionCheck
from loupe.schemas.records import Rejection
from loupe.schemas.video import TrackedVideo, Video
from loupe.schemas.wording import shortened
from loupe.sources.video.finding import find_all_videos


class Previewed(Protocol):
    """What a preview needs of a pipeline."""

    name: str
    version: str

    @property
    def parts(self) -> Sequence[Part]:
        """The parts, in order."""

    def build(self, limit: int | None = None) -> OwnBuild:
        """Return the build of the engine."""

    def spec(self, limit: int | None = None) -> PipelineSpec[OwnBuild, OwnRun]:
        """Return the pipeline of the engine."""

    def walk(self, run: OwnRun) -> None:
        """Run all steps but gates and the release."""


_SHOWN_CHARACTERS = 90  # in a terminal
_LONGEST = 1_000  # characters of an output
_PICTURE_PX = 200
_TEXTS = {
    records.Caption.kind: "text",
    records.Rewrite.kind: "text",
    Strategy.kind: "plan",
    Candidate.kind: "plan",
}
"""What is shown of the records of Loupe, by kind; of others, all fields."""
_FINDINGS = (CaptionCheck.kind, FaithfulnessReport.kind)
"""What is shown as a doubt about the text that it is about."""
_NOTHING = ""
_STATES = {"superseded": "replaced", "inactive": "left out"}
_MARKS = {
    "kept": "passed",
    "doubted": "suspected",
    "rejected": "dropped",
    "not imported": "dropped",
}
"""The colour of a state on the page; others have none."""
_WIDTH = 150  # columns, unless COLUMNS states them
_COLUMNS = ("item, and what was made of it", "state", "because")


@dataclass(frozen=True)
class PreviewedOutput:
    """What was made of an image: below what it was made of (`depth` from 1), with its state."""

    output: str
    depth: int
    state: str
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class PreviewedItem:
    """One image of a preview, or a record that is none: its state, why, and what was made of it.

    States are "kept", "doubted" (a check speaks against it, so a gate asks people or drops it),
    "rejected", "replaced" (by what was made of it), "left out" (it is of something rejected) and
    "not imported". `split` and `identity` are those of an image; an image that is its own identity
    has none. `picture` is a small copy of the image as a `data:` URI.
    """

    item: str
    state: str
    reasons: tuple[str, ...]
    outputs: tuple[PreviewedOutput, ...] = ()
    split: str = ""
    identity: str = ""
    picture: str = field(default="", repr=False)

    def rows(self) -> Iterator[PreviewedOutput]:
        """Yield the item itself, and each output."""
        about = ", ".join(one for one in (self.identity, self.split) if one)
        named = f"{self.item} ({about})" if about else self.item
        yield PreviewedOutput(named, 0, self.state, self.reasons)
        yield from self.outputs


@dataclass(frozen=True)
class Preview:
    """The result of a preview, as a table in a terminal or a notebook.

    Attributes:
        name: the pipeline.
        items: the items, in the order of the sources.
        rejections: everything that was refused, with its stage and reason.
        costs: calls, tokens and money by model.
        records: the number of records of all sources, from which the whole is estimated; of
            videos, their frames.
        read: how many of them were read.
        seconds: how long the preview took.
        stopped: why it ended early; empty if it did not.
        noun: what is counted: "frames" if all sources are videos.
    """

    name: str
    items: tuple[PreviewedItem, ...]
    rejections: tuple[Rejection, ...]
    costs: tuple[CostRow, ...]
    records: int
    read: int
    seconds: float
    stopped: str = ""
    noun: str = "records"

    @property
    def estimate(self) -> str:
        """What the whole run would take, in a sentence; one-time costs are counted too often."""
        share = self.records / max(1, self.read)
        tokens = sum((one.tokens_in or 0) + (one.tokens_out or 0) for one in self.costs)
        parts = [f"{self.records:,} {self.noun}", f"at most about {duration(self.seconds * share)}"]
        if tokens:
            parts.append(f"about {round(tokens * share):,} tokens")
        for currency in sorted({one.currency for one in self.costs if one.currency}):
            cost = sum(one.cost or 0 for one in self.costs if one.currency == currency)
            parts.append(f"about {figure(cost * share)} {currency}")
        return f"the whole run: {', '.join(parts)}"

    def as_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        items = [asdict(one) for one in self.items]
        for one in items:
            del one["picture"]
        return {
            "pipeline": self.name,
            "items": items,
            "rejections": [one.model_dump(mode="json") for one in self.rejections],
            "costs": [one._asdict() for one in self.costs],
            "records": self.records,
            "read": self.read,
            "seconds": round(self.seconds, 3),
            "stopped": self.stopped,
        }

    def as_html(self) -> str:
        """Return it as a page in a single file, with small copies of the images."""
        states = Counter(one.state for one in self.items)
        refused = Counter((one.stage, one.reason) for one in self.rejections)
        template = flow_pages().get_template("preview.html.j2")
        return template.render(
            preview=self, states=states, refused=refused.most_common(), marks=_MARKS
        )

    def _summary(self) -> Iterator[str]:
        yield f"{self.name}: {min(self.read, self.records):,} of {self.records:,} {self.noun}"
        for one in self.costs:
            if one.tokens_in or one.tokens_out:
                yield (
                    f"{one.model}: {one.calls:,} calls, {one.tokens_in or 0:,} tokens in, "
                    f"{one.tokens_out or 0:,} out"
                )
        yield self.estimate
        if self.stopped:
            yield f"stopped: {self.stopped}"

    def __str__(self) -> str:
        from rich.console import Console
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        table = Table(*_COLUMNS)
        for one in self.items:
            for row in one.rows():
                shown = Text(shortened(row.output, _SHOWN_CHARACTERS))
                what = Padding(shown, (0, 0, 0, 2 * row.depth))
                table.add_row(what, row.state, Text("\n".join(row.reasons)))
            table.add_section()
        width = None if "COLUMNS" in os.environ else _WIDTH
        console = Console(width=width, force_jupyter=False)  # it would show itself there
        with console.capture() as captured:
            console.print(table, markup=False)
        return captured.get() + "\n".join(self._summary())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        lines = ["<tr>" + "".join(f"<th>{one}</th>" for one in _COLUMNS) + "</tr>"]
        for item in self.items:
            shown = f'<img src="{item.picture}" alt=""><br>' if item.picture else ""
            for row in item.rows():
                reasons = "<br>".join(map(escape, row.reasons))
                indent = f'style="text-align: left; padding-left: {1 + row.depth}em"'
                lines.append(
                    f"<tr><td {indent}>{shown}{escape(row.output)}</td><td>{row.state}</td>"
                    f"<td>{reasons}</td></tr>"
                )
                shown = ""
        summary = "".join(f"<p>{escape(line)}</p>" for line in self._summary())
        return f"<table>{''.join(lines)}</table>{summary}"


def preview(pipeline: Previewed, items: int, profile: str | None, progress: Progress) -> Preview:
    """Run the first records of each source through all steps; see `Pipeline.preview`.

    Raises:
        ConfigurationError: a run would refuse the models.
    """
    own = load_settings()
    chosen = load_profile(profile or own.profile)
    build = pipeline.build(items)
    require_models(pipeline.spec(items), build, chosen)
    with TemporaryDirectory(prefix="loupe-preview-") as folder:
        home = Path(folder) / "home"
        settings = load_settings(
            home=home,
            database_url=f"sqlite:///{home / 'loupe.db'}",
            blobs_url=str(home / "blobs"),
            queues_file=home / "queues.toml",
        )
        context = open_context(settings, progress=progress, flow_run=PREVIEW)
        with closing(context.store):
            run = OwnRun(context, build, chosen, lambda: None, parts=pipeline.parts)
            started, stopped = time.monotonic(), ""
            try:
                pipeline.walk(run)
            except LoupeError as error:
                stopped = str(error)
            seconds = time.monotonic() - started
            counts = [_count(run, spec) for spec in run.build.sources]
            return Preview(
                name=f"{pipeline.name} {pipeline.version}",
                items=tuple(_items(run)),
                rejections=tuple(_rejections(run)),
                costs=tuple(cost_rows(context.store, run.dataset)),
                records=sum(one.records for one in counts),
                read=sum(one.read for one in counts),
                seconds=seconds,
                stopped=stopped,
                noun="records" if any(map(_has_rows, run.build.sources)) else "frames",
            )


class _Count(NamedTuple):
    """The number of records of a source, and how many a preview read; of videos, their frames."""

    records: int
    read: int


def _has_rows(spec: SourceSpec | VideoSourceSpec) -> bool:
    return isinstance(spec, SourceSpec)


def _count(run: OwnRun, spec: SourceSpec | VideoSourceSpec) -> _Count:
    if isinstance(spec, SourceSpec):
        rows = sum(1 for _ in open_source(run.context, spec).rows())
        return _Count(rows, run.build.limit or rows)
    of_source = [one.record(Video) for one in run.find(Video, group=spec.name)]
    frames = max((one.facts.frame_count or 0 for one in of_source), default=0)
    followed = [one.record(TrackedVideo) for one in run.find(TrackedVideo)]
    read = sum(one.frames for one in followed if one.source == spec.name)
    videos = sum(1 for _ in find_all_videos(spec.videos))
    return _Count(max(read, videos * frames), read)


def _rejections(run: OwnRun) -> Iterator[Rejection]:
    for dataset in (*(spec.name for spec in run.build.sources), run.dataset):
        yield from quarantined(run.store, dataset)


def _items(run: OwnRun) -> Iterator[PreviewedItem]:
    """Yield what gave no image, then each image, before those that were made of it."""
    for spec in run.build.sources:
        for rejection in quarantined(run.store, spec.name):
            place = f"record {rejection.context.get('index', '?')}"
            yield PreviewedItem(place, "not imported", (rejection.detail,))
    entities: dict[str, StoredEntity] = {}
    for kind in run.all_kinds():
        entities |= {one.id: one for one in find(run.store, run.dataset, kind)}
    below = _below(run, entities)
    why = _reasons(run, list(entities.values()))
    images = {one.id: one for one in entities.values() if one.kind == records.Image.kind}
    names = {id_: one.record(records.Image).file_path for id_, one in images.items()}

    def outputs(id_: str, depth: int = 1) -> Iterator[PreviewedOutput]:
        for one in below[id_]:
            if one.id not in images and one.kind not in _FINDINGS:
                state, reasons = _state(one, why)
                yield PreviewedOutput(_shown(one, names), depth, state, reasons)
                yield from outputs(one.id, depth + 1)

    def made_of(id_: str) -> Iterator[PreviewedItem]:
        for one in below[id_]:
            if one.id in images:
                identity = one.record(records.Image).identity
                yield PreviewedItem(
                    names[one.id],
                    *_state(one, why),
                    tuple(outputs(one.id)),
                    split=str(one.split),
                    identity="" if identity == names[one.id] else identity,
                    picture=thumbnail_uri(run.context.blobs, picture_of(one), _PICTURE_PX) or "",
                )
            yield from made_of(one.id)

    for one in below[_NOTHING]:  # such as a track, of which no image was made
        refused = [f"{stage}: {reason}" for stage, reason in why.get(one.id, ()) if stage]
        if refused and one.id not in images:
            yield PreviewedItem(one.kind, "rejected", tuple(refused))
    yield from made_of(_NOTHING)


def _below(run: OwnRun, entities: Mapping[str, StoredEntity]) -> dict[str, list[StoredEntity]]:
    """Return what was made of each item, oldest first.

    What was made of several is below the last of those that are about its image, or of all.
    """
    above: dict[str, list[str]] = defaultdict(list)
    for role in ABOVE:
        for id_, parents in parents_of(run.store, list(entities), role).items():
            above[id_] += [one for one in parents if one in entities]
    below: dict[str, list[StoredEntity]] = defaultdict(list)
    for one in sorted(entities.values(), key=lambda one: one.seq):
        image = str(one.group)
        about = [id_ for id_ in above[one.id] if image in (id_, entities[id_].group)]
        about = about or ([image] if image in entities else above[one.id])
        last = max(about, key=lambda id_: entities[id_].seq, default=_NOTHING)
        below[last].append(one)
    return below


def _state(
    entity: StoredEntity, why: Mapping[str, Sequence[tuple[str, str]]]
) -> tuple[str, tuple[str, ...]]:
    """Return the state of an item in words, and the reasons."""
    found = why.get(entity.id, ())
    reasons = tuple(f"{stage}: {reason}" if stage else reason for stage, reason in found)
    if entity.state in LIVE:
        return ("doubted" if any(not stage for stage, _ in found) else "kept"), reasons
    if entity.state == "rejected" and any(one.startswith("replaced by") for one in reasons):
        return "replaced", reasons
    return _STATES.get(entity.state, entity.state), reasons


def _reasons(run: OwnRun, entities: list[StoredEntity]) -> dict[str, list[tuple[str, str]]]:
    """Return (step, reason) of what was refused, and ("", doubt) of what speaks against an item."""
    from loupe.annotate.queues import latest_flags, newest_reports
    from loupe.db.decisions import last_reasons
    from loupe.db.work import rejected_work

    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    stages = [part.name for part in run.parts]
    for id_, rejection in rejected_work(run.store, run.dataset, stages):
        found[id_].append((rejection.stage, rejection.detail))
    ids = [one.id for one in entities]
    for id_, flags in latest_flags(run.store, ids).items():
        found[id_] += [("", flag) for flag in flags]
    for id_, report in newest_reports(run.store, ids).items():
        if report.verdict == "suspect":
            found[id_] += [("", one.message) for one in report.findings]
    refused = [one.id for one in entities if one.state == "rejected"]
    for id_, reason in last_reasons(run.store, refused).items():
        if id_ not in found:
            found[id_].append(("", reason))
    return found


def _shown(entity: StoredEntity, names: Mapping[str, str]) -> str:
    """Return an item in a line; images are called by their files."""
    fields = {
        name: names.get(value, value) if isinstance(value, str) else value
        for name, value in json.loads(entity.payload).items()
        if value is not None and not isinstance(value, dict)
    }
    listed = ", ".join(f"{name}={value}" for name, value in fields.items())
    text = fields[_TEXTS[entity.kind]] if entity.kind in _TEXTS else listed
    return shortened(f"{entity.kind}: {text}", _LONGEST)
