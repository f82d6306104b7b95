"""Previews: the first records of a pipeline through all steps, in a store that is thrown away."""

import os
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from loupe.api.parts import OwnBuild, OwnRun, Part
from loupe.db.calls import CostRow, cost_rows
from loupe.db.entities import StoredEntity, find
from loupe.db.quarantine import quarantined
from loupe.flows.engine.context import RunContext, open_context
from loupe.flows.engine.importing import open_source
from loupe.flows.engine.report import Progress, duration
from loupe.models.profiles.loader import load_profile
from loupe.models.profiles.settings import load_settings
from loupe.schemas import records
from loupe.schemas.errors import LoupeError
from loupe.schemas.records import Rejection
from loupe.schemas.wording import shortened


class Previewed(Protocol):
    """What a preview needs of a pipeline."""

    name: str
    version: str

    @property
    def parts(self) -> Sequence[Part]:
        """The parts, in order."""

    def build(self, limit: int | None = None) -> OwnBuild:
        """Return the build of the engine."""

    def walk(self, run: OwnRun) -> None:
        """Run all steps but gates and the release."""


_SHOWN_CHARACTERS = 90
_WIDTH = 150  # columns, unless COLUMNS states them


@dataclass(frozen=True)
class PreviewedItem:
    """One item of a preview: what it was, what was made of it, and why it was refused."""

    item: str
    state: str
    outputs: tuple[str, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Preview:
    """The result of a preview, as a table in a terminal or a notebook.

    Attributes:
        name: the pipeline.
        items: the items, in the order of the sources.
        rejections: everything that was refused, with its stage and reason.
        costs: calls, tokens and money by model.
        records: the number of records of all sources, from which the whole is estimated.
        read: how many of them were read.
        seconds: how long the preview took.
        stopped: why it ended early; empty if it did not.
    """

    name: str
    items: tuple[PreviewedItem, ...]
    rejections: tuple[Rejection, ...]
    costs: tuple[CostRow, ...]
    records: int
    read: int
    seconds: float
    stopped: str = ""

    @property
    def estimate(self) -> str:
        """What the whole would take, in a sentence; what is started once is counted too often."""
        share = self.records / max(1, self.read)
        tokens = sum((one.tokens_in or 0) + (one.tokens_out or 0) for one in self.costs)
        parts = [f"{self.records:,} records", f"at most about {duration(self.seconds * share)}"]
        if tokens:
            parts.append(f"about {round(tokens * share):,} tokens")
        for currency in sorted({one.currency for one in self.costs if one.currency}):
            cost = sum(one.cost or 0 for one in self.costs if one.currency == currency)
            parts.append(f"about {cost * share:,.2f} {currency}")
        return f"the whole: {', '.join(parts)}"

    def as_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return {
            "pipeline": self.name,
            "items": [asdict(one) for one in self.items],
            "rejections": [one.model_dump(mode="json") for one in self.rejections],
            "costs": [one._asdict() for one in self.costs],
            "records": self.records,
            "read": self.read,
            "seconds": round(self.seconds, 3),
            "stopped": self.stopped,
        }

    def _summary(self) -> Iterator[str]:
        yield f"{self.name}: {min(self.read, self.records):,} of {self.records:,} records"
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
        from rich.table import Table

        table = Table("item", "state", "outputs", "refused because")
        for one in self.items:
            table.add_row(one.item, one.state, "\n".join(one.outputs), "\n".join(one.reasons))
        width = None if "COLUMNS" in os.environ else _WIDTH
        console = Console(width=width, force_jupyter=False)  # it would show itself there
        with console.capture() as captured:
            console.print(table, markup=False)
        return captured.get() + "\n".join(self._summary())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = []
        for one in self.items:
            cells = (one.item, one.state, "\n".join(one.outputs), "\n".join(one.reasons))
            texts = (escape(cell).replace("\n", "<br>") for cell in cells)
            rows.append("<tr>" + "".join(f"<td>{text}</td>" for text in texts) + "</tr>")
        head = "<tr><th>item</th><th>state</th><th>outputs</th><th>refused because</th></tr>"
        summary = "".join(f"<p>{escape(line)}</p>" for line in self._summary())
        return f"<table>{head}{''.join(rows)}</table>{summary}"


def preview(pipeline: Previewed, items: int, profile: str | None, progress: Progress) -> Preview:
    """Run the first records of each source through all steps; see `Pipeline.preview`."""
    own = load_settings()
    chosen = load_profile(profile or own.profile)
    with TemporaryDirectory(prefix="loupe-preview-") as folder:
        home = Path(folder) / "home"
        settings = load_settings(
            home=home,
            database_url=f"sqlite:///{home / 'loupe.db'}",
            blobs_url=str(home / "blobs"),
            queues_file=home / "queues.toml",
        )
        context = open_context(settings, progress=progress, flow_run="preview")
        with closing(context.store):
            run = OwnRun(context, pipeline.build(items), chosen, lambda: None, parts=pipeline.parts)
            started, stopped = time.monotonic(), ""
            try:
                pipeline.walk(run)
            except LoupeError as error:
                stopped = str(error)
            seconds = time.monotonic() - started
            return Preview(
                name=f"{pipeline.name} {pipeline.version}",
                items=tuple(_items(run)),
                rejections=tuple(_rejections(run)),
                costs=tuple(cost_rows(context.store, run.dataset)),
                records=sum(_count(context, spec) for spec in run.build.sources),
                read=items * len(run.build.sources),
                seconds=seconds,
                stopped=stopped,
            )


def _count(context: RunContext, spec: Any) -> int:
    return sum(1 for _ in open_source(context, spec).rows())


def _rejections(run: OwnRun) -> Iterator[Rejection]:
    for dataset in (*(spec.name for spec in run.build.sources), run.dataset):
        yield from quarantined(run.store, dataset)


def _items(run: OwnRun) -> Iterator[PreviewedItem]:
    """Yield what became of each image, and of the records that gave none."""
    refused: list[Rejection] = []
    for spec in run.build.sources:
        refused += quarantined(run.store, spec.name)
    for rejection in refused:
        place = f"record {rejection.context.get('index', '?')}"
        yield PreviewedItem(place, "not imported", (), (rejection.detail,))
    made: dict[str, list[StoredEntity]] = defaultdict(list)
    for kind in run.kinds():
        for one in find(run.store, run.dataset, kind):
            made[one.id if kind == records.Image.kind else str(one.group)].append(one)
    why = _reasons(run)
    for entities in made.values():
        image = entities[0]
        if image.kind != records.Image.kind:
            continue
        outputs = tuple(_shown(one) for one in entities[1:])
        reasons = [reason for one in entities for reason in why.get(one.id, ())]
        path = image.record(records.Image).file_path
        yield PreviewedItem(path, image.state, outputs, tuple(reasons))


def _reasons(run: OwnRun) -> dict[str, list[str]]:
    """Return why items were refused, or what speaks against them, by item."""
    from loupe.annotate.queues import latest_flags
    from loupe.db.decisions import last_reasons
    from loupe.db.work import rejected_work

    found: dict[str, list[str]] = defaultdict(list)
    stages = [part.name for part in run.parts]
    for id_, rejection in rejected_work(run.store, run.dataset, stages):
        found[id_].append(f"{rejection.stage}: {rejection.detail}")
    for kind in run.kinds():
        ids = [one.id for one in find(run.store, run.dataset, kind)]
        for id_, flags in latest_flags(run.store, ids).items():
            found[id_] += flags
        refused = [one.id for one in find(run.store, run.dataset, kind, states=("rejected",))]
        for id_, reason in last_reasons(run.store, refused).items():
            if id_ not in found:
                found[id_].append(reason)
    return found


def _shown(entity: StoredEntity) -> str:
    import json

    fields = json.loads(entity.payload)
    text = fields["text"] if entity.kind == records.Caption.kind else json.dumps(fields)
    mark = "" if entity.state in ("proposed", "accepted") else f" ({entity.state})"
    return shortened(f"{entity.kind}: {text}", _SHOWN_CHARACTERS) + mark
