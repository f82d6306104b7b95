"""The images of a benchmark of tasks: which there are, where they come from, how they look."""

from collections.abc import Sequence

from db.entities import (
    NewEntity,
    StoredEntity,
    find_children,
    find_in_groups,
    new_entity,
    parents_of,
)
from db.store import Store
from flows.context import RunContext
from flows.embedding import CachedEmbedder
from flows.image_reading import StoredImage
from models.embedding import Vectors
from schemas.proposals import Picture
from schemas.records import Image
from schemas.retrieval_task import RetrievalTask, Tier

SAMPLED_FROM = "sampled_from"
"""The role of the image in its source's dataset, of which one in the build is a copy."""
MEMBER_OF = "member_of"
"""The role of the draw that an image of v0 was taken in."""


def images_of_source(store: Store, source_id: str) -> list[StoredEntity]:
    """The images that were imported from a source and not turned down, in the order of import."""
    children = find_children(store, source_id, "imported_from")
    return [one for one in children if one.kind == Image.kind and one.state == "proposed"]


def images_of_tier(store: Store, dataset: str, tier: str) -> list[StoredEntity]:
    """The images that first stand in a version, whatever was decided on them; none withdrawn."""
    found = find_in_groups(store, dataset, Image.kind, [tier])
    return [image for image in found if image.state != "withdrawn"]


def originals_of(store: Store, images: Sequence[StoredEntity]) -> dict[str, str]:
    """For each image of a benchmark the image of its source, by their ids."""
    parents = parents_of(store, [image.id for image in images], SAMPLED_FROM)
    return {id_: found[0] for id_, found in parents.items()}


def embed_stored(
    context: RunContext, embedder: CachedEmbedder, images: Sequence[StoredEntity]
) -> Vectors:
    """A row for each image, of shape (n, d)."""
    return embedder.embed_images([stored_image(context, image) for image in images])


def stored_image(context: RunContext, image: StoredEntity) -> StoredImage:
    """The picture of an image, in the blob store."""
    record = image.record(Image)
    name = f"{record.source}/{record.file_path}"
    return StoredImage(record.sha256, record.media_type, name, context.blobs)


def stored_picture(context: RunContext, picture: Picture) -> StoredImage:
    """A picture that a record holds, in the blob store."""
    name = f"picture {picture.sha256[:12]}"
    return StoredImage(picture.sha256, picture.media_type, name, context.blobs)


def picture_of(image: StoredEntity) -> Picture:
    """The picture of an image, for a record that holds all that people are shown."""
    record = image.record(Image)
    return Picture(
        sha256=record.sha256,
        media_type=record.media_type,
        width_px=record.width_px,
        height_px=record.height_px,
        image_id=image.id,
    )


def copied_image(
    image: StoredEntity,
    dataset: str,
    task: RetrievalTask,
    tier: Tier,
    parents: Sequence[tuple[str, str]],
) -> NewEntity:
    """An image of a source as one of the benchmark; all that is released is for testing.

    Its group is the tier: what is to be done with images hangs on that.
    """
    record = image.record(Image)
    return new_entity(
        record.model_copy(update={"split": "test", "task": task, "tier": tier}),
        dataset,
        parents=[(SAMPLED_FROM, image.id), *parents],
        split="test",
        group=tier,
    )
