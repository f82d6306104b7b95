"""Read the text in photographs of tasks that are about it, as facts for captions."""

import io

import PIL.Image

from loupe.db.entities import LIVE, AgentRef, NewDecision, StoredEntity, WorkResult
from loupe.flows.engine.runner import Stage, run_each
from loupe.flows.image_facts import facts_of
from loupe.flows.recos.captioning import task_of
from loupe.flows.recos.run import RecosRun
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
    agent = AgentRef.of_model(reader.ref)
    stage = Stage(
        STAGE,
        VERSION,
        run.dataset,
        {"dataset": run.dataset, "reader": str(reader.ref)},
        agents=(agent,),
        chunk_size=20,
        label=f"read texts of {tier}",
    )

    def read(number: int, image: StoredEntity) -> WorkResult:
        record = image.record(Image)
        data = run.context.blobs.read(record.sha256, record.media_type)
        with PIL.Image.open(io.BytesIO(data)) as picture:
            lines = sorted(reader.read(picture), key=lambda line: -line.height_px)
        texts = dict.fromkeys(text for line in lines if (text := " ".join(line.text.split())))
        if texts:
            reading = TextReading(reader=str(reader.ref), texts=tuple(texts))
            return WorkResult(number, (run.create(reading, [(Role.READ_IN, image.id)]),))
        name = record.file_path
        detail = f"{reader.ref} finds no text in {name!r}, which is for the task {record.task}"
        rejected = WorkResult.rejected(number, STAGE, "no_text_found", detail, file_path=name)
        return rejected._replace(decisions=(NewDecision(image.id, "reject", agent, detail),))

    unknown = [(one.seq, one) for one in images if one.id not in known]
    run.add(run_each(run.context, stage, unknown, read))
