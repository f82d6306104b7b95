"""What a rejection says about its item: the file of its image, and the text of a caption."""

from collections.abc import Collection, Sequence
from typing import Any

from loupe.db.entities import StoredEntity, WorkResult, fetch
from loupe.db.store import Store
from loupe.flows.engine.report import StageResult
from loupe.schemas.records import Caption, Image, Rejection


def images_of(store: Store, entities: Collection[StoredEntity]) -> dict[str, StoredEntity]:
    """Return the image that each entity is about, by the id of the entity."""
    wanted = {str(one.group) for one in entities if one.kind != Image.kind}
    images = {id_: one for id_, one in fetch(store, wanted).items() if one.kind == Image.kind}
    found = {one.id: images.get(str(one.group)) for one in entities if one.kind != Image.kind}
    own = {one.id: one for one in entities if one.kind == Image.kind}
    return own | {id_: image for id_, image in found.items() if image is not None}


def naming(rejection: Rejection, entity: StoredEntity, image: StoredEntity | None) -> Rejection:
    """Return the rejection of an item with the file of its image, and the text of a caption."""
    context: dict[str, Any] = {}
    if entity.kind == Image.kind:
        image = entity
    if image is not None:
        context["file"] = image.record(Image).file_path
    if entity.kind == Caption.kind:
        context["text"] = entity.record(Caption).text
    return rejection.model_copy(update={"context": {**context, **rejection.context}})


def naming_inputs(
    store: Store, inputs: Sequence[StoredEntity], results: Sequence[StageResult]
) -> list[StageResult]:
    """Return the results of inputs; rejections name theirs."""
    by_number = {one.seq: one for one in inputs}
    refused = [one for one in results if isinstance(one, WorkResult) and one.rejection]
    images = images_of(store, [by_number[one.input] for one in refused])

    def named(result: StageResult) -> StageResult:
        if not isinstance(result, WorkResult) or result.rejection is None:
            return result
        entity = by_number[result.input]
        rejection = naming(result.rejection, entity, images.get(entity.id))
        return result._replace(rejection=rejection)

    return [named(one) for one in results]
