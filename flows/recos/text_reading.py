"""Read the text in photographs of tasks that are about it, as facts for captions."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import PIL.Image

from loupe.db.entities import LIVE, AgentRef, NewDecision, StoredEntity, WorkResult, new_entity
from loupe.flows.engine.programs import BlobProgram
from loupe.flows.engine.runner import Stage, run_stream
from loupe.flows.image_facts import facts_of
from loupe.flows.recos.captioning import task_of
from loupe.flows.recos.run import RecosRun
from loupe.models.ocr import TextReader
from loupe.schemas.provenance import Role
from loupe.schemas.records import Image
from loupe.schemas.recos import TextReading
from loupe.schemas.taxonomy import Tier

STAGE = "read_texts"
VERSION = "1"


def read_texts(run: RecosRun, tier: Tier) -> None:
    """Read the text in images of a tier of which nothing is known, if their task is about it.

    An image without readable text is rejected, because it is useless for the task.
    """
    reader = run.reader
    assert reader is not None  # noqa: S101 - the step is enabled with one alone
    tasks = {task.task for task in run.build.tasks if task.form.known == "texts"}
    live = [one for one in run.images_of(tier) if one.state in LIVE]
    images = [one for one in live if task_of(one) in tasks]
    known = facts_of(run.store, [one.id for one in images])
    stage = Stage(
        STAGE,
        VERSION,
        run.dataset,
        {"dataset": run.dataset, "reader": str(reader.ref)},
        agents=(AgentRef.of_model(reader.ref),),
        chunk_size=20,
        label=f"read texts of {tier}",
    )
    unknown = [(one.seq, one) for one in images if one.id not in known]
    program = TextReadings(run.context.blobs.url, run.dataset)
    run.add(run_stream(run.context, stage, unknown, program, total=len(unknown)))


@dataclass(frozen=True)
class TextReadings(BlobProgram):
    """A program that reads the texts in images for a dataset."""

    stage = STAGE
    seconds = 1.0

    dataset: str

    def open(self) -> None:
        """Load the reader, which several threads would otherwise load at once."""
        _ = self.reader

    @cached_property
    def reader(self) -> TextReader:
        """The reader of texts."""
        return TextReader()

    def work(self, items: Sequence[StoredEntity]) -> list[WorkResult]:
        """Return the texts in each image; an image without any is rejected."""
        return [self._result(image) for image in items]

    def _result(self, image: StoredEntity) -> WorkResult:
        record, ref = image.record(Image), self.reader.ref
        data = self.blobs.read(record.sha256, record.media_type)
        with PIL.Image.open(io.BytesIO(data)) as picture:
            lines = sorted(self.reader.read(picture), key=lambda line: -line.height_px)
        texts = dict.fromkeys(text for line in lines if (text := " ".join(line.text.split())))
        if texts:
            reading = TextReading(reader=str(ref), texts=tuple(texts))
            made = new_entity(reading, self.dataset, parents=[(Role.READ_IN, image.id)])
            return WorkResult(image.seq, (made,))
        name = record.file_path
        detail = f"{ref} finds no text in {name!r}, which is for the task {record.task}"
        rejected = WorkResult.rejected(image.seq, STAGE, "no_text_found", detail, file_path=name)
        decision = NewDecision(image.id, "reject", AgentRef.of_model(ref), detail)
        return rejected._replace(decisions=(decision,))
