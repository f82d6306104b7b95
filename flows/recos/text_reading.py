"""Read the text in photographs of tasks that are about it, as facts for captions."""

import io

import PIL.Image

from db.entities import LIVE, AgentRef, NewDecision, StoredEntity, WorkResult, new_entity
from flows.engine.runner import Stage, run_each
from flows.recos.captioning import facts_of, task_of
from flows.recos.run import RecosRun
from flows.recos.task_images import images_of_tier
from schemas.provenance import Role
from schemas.records import Image, Rejection
from schemas.recos import TextReading
from schemas.taxonomy import Tier

STAGE = "read_texts"
VERSION = "1"


def read_texts(run: RecosRun, tier: Tier) -> None:
    """Read the text in images of a tier of which nothing is known, if their task is about it.

    An image without readable text is rejected, because it is useless for the task.
    """
    context, dataset, reader = run.context, run.dataset, run.reader
    assert reader is not None  # noqa: S101 - the step is enabled with one alone
    tasks = {task.task for task in run.build.tasks if task.form.known == "texts"}
    live = [one for one in images_of_tier(context.store, dataset, tier) if one.state in LIVE]
    images = [one for one in live if task_of(one) in tasks]
    known = facts_of(context.store, [one.id for one in images])
    agent = AgentRef.of_model(reader.ref)
    stage = Stage(
        name=STAGE,
        version=VERSION,
        dataset=dataset,
        configuration={"dataset": dataset, "reader": str(reader.ref)},
        agents=(agent,),
        chunk_size=20,
        label=f"read texts of {tier}",
    )

    def read(number: int, image: StoredEntity) -> WorkResult:
        record = image.record(Image)
        data = context.blobs.read(record.sha256, record.media_type)
        with PIL.Image.open(io.BytesIO(data)) as picture:
            lines = sorted(reader.read(picture), key=lambda line: -line.height_px)
        texts = dict.fromkeys(text for line in lines if (text := " ".join(line.text.split())))
        if texts:
            reading = TextReading(reader=str(reader.ref), texts=tuple(texts))
            entity = new_entity(reading, image.dataset, parents=[(Role.READ_IN, image.id)])
            return WorkResult(number, (entity,))
        rejection = Rejection(
            stage=STAGE,
            reason="no_text_found",
            detail=(
                f"{reader.ref} finds no text in {record.file_path!r}, which is for the task "
                f"{record.task}"
            ),
            context={"file_path": record.file_path},
        )
        decision = NewDecision(image.id, "reject", agent, rejection.detail)
        return WorkResult(number, decisions=(decision,), rejection=rejection)

    unknown = [(one.seq, one) for one in images if one.id not in known]
    run.add(run_each(context, stage, unknown, read))
