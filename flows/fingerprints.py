"""Fingerprints of the images of a dataset, each made once, for who looks for near-duplicates."""

from collections.abc import Sequence

from db.entities import StoredEntity, children_of, fetch, new_entity
from db.work import Pending, WorkResult
from flows.context import RunContext
from flows.report import StageReport
from flows.runner import Stage, run_stage
from flows.task_images import stored_image
from schemas.near_duplicates import FINGERPRINT, ImageFingerprint
from schemas.records import Image, Rejection
from stages.near_duplicates.fingerprints import STAGE, VERSION, fingerprint

LOOKS_LIKE = "looks_like"
"""The role in which an image stands to its fingerprint."""


def fingerprint_images(context: RunContext, dataset: str) -> StageReport:
    """Makes the fingerprints of all images of a dataset that have none yet."""
    stage = Stage(
        name=STAGE,
        version=VERSION,
        dataset=dataset,
        configuration={"dataset": dataset, "made_by": FINGERPRINT},
        label=f"fingerprint {dataset}",
    )

    def work(images: Sequence[StoredEntity]) -> list[WorkResult]:
        return [_result(context, image) for image in images]

    return run_stage(context, stage, Pending(dataset, Image.kind, ("proposed",)), work)


def fingerprints_of(
    context: RunContext, images: Sequence[StoredEntity]
) -> dict[str, ImageFingerprint]:
    """The fingerprints of images by their ids, in order; those without one are left out."""
    found = children_of(context.store, [image.id for image in images], LOOKS_LIKE)
    stored = fetch(context.store, {one for made in found.values() for one in made})
    records = {id_: one.record(ImageFingerprint) for id_, one in stored.items()}
    return {
        image.id: records[made]
        for image in images
        for made in found.get(image.id, ())
        if records[made].made_by == FINGERPRINT
    }


def _result(context: RunContext, image: StoredEntity) -> WorkResult:
    stored = stored_image(context, image)
    found = fingerprint(stored.read(), stored.name)
    if isinstance(found, Rejection):
        return WorkResult(image.seq, rejection=found)
    return WorkResult(
        image.seq, entities=(new_entity(found, image.dataset, parents=[(LOOKS_LIKE, image.id)]),)
    )
