"""Import rendered images, whose truth is known."""

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import PIL.Image

from loupe.db.entities import AgentRef, NewEntity, WorkResult, new_entity
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.importing import Tombstones, describe_source, register_source
from loupe.flows.engine.report import StageReport
from loupe.flows.engine.runner import Stage, quarantine, run_stream
from loupe.flows.recos.sign_pairs import FurtherPairs
from loupe.models.ocr import TextReader, by_columns
from loupe.schemas.build import RENDERED_IMAGES, SourceSpec, TaskSpec
from loupe.schemas.processes import usual_workers
from loupe.schemas.provenance import Role
from loupe.schemas.records import Image, Rejection
from loupe.schemas.recos import RenderedTruth
from loupe.sources.images import ImageProblem, inspect_image
from loupe.sources.rendered import (
    GENERATOR,
    TRUTHS_FILE,
    CollectionEntry,
    RenderOptions,
    checked_pairs,
    read_rendered_collection,
    task_refusal,
    write_rendered_collection,
)
from loupe.sources.rendered.signs import MOST_UNREAD, drawn_texts, unread_share

STAGE = "import_rendered"
VERSION = "1"
"""The format of sources that are a folder of images with a `truths.jsonl`."""

_LICENCE = "CC0-1.0"
_CITATION = f"Drawn by {GENERATOR} of Loupe; texts and programs are its own"


def drawn_source(
    home: Path,
    task: TaskSpec,
    seed: int,
    options: RenderOptions,
    further: FurtherPairs | None = None,
) -> SourceSpec | Rejection:
    """Return the drawn images of a task as a source, or why they cannot be drawn (no font).

    Existing images are not drawn again and need no font. With `further` pairs of texts, the source
    is a different one.

    Raises:
        UsageError: there are not enough different images.
    """
    title = task.task.value.replace(" ", "-").casefold()
    folder = home / "rendered" / f"{title}-{seed}-{task.drawn}"
    if further is not None:
        folder = folder.with_name(f"{folder.name}-{further.digest}")
        options = replace(options, pairs=checked_pairs((*options.pairs, *further.pairs)))
    truths = folder / TRUTHS_FILE
    refusal = task_refusal(task.task, options)
    if refusal is None:
        write_rendered_collection(folder, task.task, seed, task.drawn, options)
    elif not truths.exists():
        return refusal
    return SourceSpec(
        name=f"drawn-{folder.name}",
        format=RENDERED_IMAGES,
        annotations=truths,
        images=folder,
        licence=_LICENCE,
        citation=_CITATION,
    )


def rendered_folder(spec: SourceSpec) -> Path:
    """Return the folder of a collection with truths."""
    return Path(spec.images or Path(spec.annotations).parent)


def leave_out(context: RunContext, dataset: str, task: TaskSpec, refusal: Rejection) -> StageReport:
    """Quarantine a task that cannot be drawn; the other tasks of `dataset` go on."""
    stage = Stage(
        name=refusal.stage,
        version=VERSION,
        dataset=dataset,
        configuration={"refusal": refusal.model_dump(mode="json")},
        label=f"draw {task.task}",
    )
    context.progress.say(f"task {task.task} is left out: {refusal.detail}")
    return quarantine(context, stage, [(0, refusal)])


def import_rendered(
    context: RunContext,
    spec: SourceSpec,
    further: FurtherPairs | None = None,
    reader: TextReader | None = None,
) -> tuple[NewEntity, StageReport]:
    """Import a folder of images with their truths, drawn or made by hand.

    Images drawn from pairs of `further` are derived from these. With a `reader`, images whose text
    it cannot read are rejected.

    Raises:
        FormatError: there is no readable `truths.jsonl`.
    """
    folder = rendered_folder(spec)
    described = describe_source(spec, folder / TRUTHS_FILE)
    entity, source = register_source(context, described, spec)
    stage = Stage(
        name=STAGE,
        version=VERSION,
        dataset=spec.name,
        configuration={
            "source": source.model_dump(mode="json"),
            **({"reader": str(reader.ref), "most_unread": MOST_UNREAD} if reader else {}),
        },
        agents=(AgentRef.of_model(reader.ref),) if reader else (),
        workers=usual_workers(),  # each thread waits for a decoding process
        label=f"import {spec.name}",
    )

    tombstones = Tombstones(context.store)
    written = further.entities if further is not None else {}

    def result(number: int, item: CollectionEntry | Rejection) -> WorkResult:
        if isinstance(item, Rejection):
            return WorkResult(number, rejection=item)
        file_path = item.path.relative_to(folder).as_posix()
        inspected = inspect_image(folder, file_path)
        if isinstance(inspected, ImageProblem):  # it could be decoded a moment ago
            return WorkResult(number, rejection=inspected.as_rejection(STAGE))
        digests = (inspected.sha256, inspected.source_sha256)
        if gone := tombstones.refusal(STAGE, file_path, digests):
            return WorkResult(number, rejection=gone)
        if reader and (illegible := _illegible(reader, file_path, inspected.data, item.truth)):
            return WorkResult(number, rejection=illegible)
        context.blobs.put(inspected.data, inspected.media_type)
        imported = (Role.IMPORTED_FROM, entity.id)
        shown = [pair["chinese"] for pair in item.truth.truth.get("pairs", ())] if written else []
        worded = [(Role.WORDED_BY, written[text]) for text in shown if text in written]
        truth = new_entity(item.truth, spec.name, parents=[imported, *worded])
        record = Image(
            source=spec.name,
            identity=file_path,
            split=spec.split,
            **inspected.facts(),
        )
        image = new_entity(
            record,
            spec.name,
            parents=[imported, (Role.RENDERED_FROM, truth.id)],
            split=spec.split,
            group=f"{spec.name}/{file_path}",
        )
        return WorkResult(number, entities=(truth, image))

    def work(items: Sequence[tuple[int, CollectionEntry | Rejection]]) -> list[WorkResult]:
        tombstones.look()
        return [result(number, item) for number, item in items]

    items = enumerate(read_rendered_collection(folder))
    return entity, run_stream(context, stage, items, work)


def _illegible(
    reader: TextReader, file_path: str, data: bytes, truth: RenderedTruth
) -> Rejection | None:
    """Return a rejection if the drawn text cannot be read."""
    if not (drawn := drawn_texts(truth)):
        return None
    with PIL.Image.open(io.BytesIO(data)) as picture:
        lines = reader.read(picture)
    read = [line.text for line in lines]
    unread = unread_share(drawn, read, [line.text for line in by_columns(lines)])
    if unread <= MOST_UNREAD:
        return None
    detail = (
        f"{reader.ref} cannot read {unread:.0%} of what is written in {file_path!r}; at most "
        f"{MOST_UNREAD:.0%} may be unread"
    )
    about = {"file_path": file_path, "unread": unread, "drawn": list(drawn), "read": read}
    return Rejection.of(STAGE, "illegible_text", detail, **about)
