"""Queries of the explorer: what is shown of images, and which changed since it was last read."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable

from sqlalchemy import Connection, func, select

from loupe.db.entities import StoredEntity, children_in, rows_in
from loupe.db.releases import StateMark, current_mark
from loupe.db.store import reads
from loupe.db.tables import (
    Activation,
    Agent,
    Decision,
    Derivation,
    Embedding,
    Entity,
    ParentEntity,
    Release,
    ReleaseItem,
    ReviewTask,
)
from loupe.schemas.provenance import TEXT_ROLES


@reads
def mark_now(connection: Connection) -> StateMark:
    """Return the mark of the store, to ask later what changed."""
    return current_mark(connection)


@reads
def image_ids(connection: Connection, dataset: str) -> list[str]:
    """Return the images of a dataset that are not withdrawn, oldest first."""
    query = (
        select(Entity.id)
        .where(Entity.dataset == dataset, Entity.kind == "image", Entity.state != "withdrawn")
        .order_by(Entity.seq)
    )
    return list(connection.execute(query).scalars())


@reads
def texts_of(connection: Connection, image_ids: Iterable[str]) -> dict[str, list[StoredEntity]]:
    """Return all captions and rewrites of images in any state but withdrawn, captions first."""
    found: dict[str, list[StoredEntity]] = defaultdict(list)
    image_of = {id_: id_ for id_ in image_ids}
    level = list(image_of)
    while level:
        below = []
        for parent, _, text in children_in(connection, level, TEXT_ROLES):
            if text.id not in image_of and text.state != "withdrawn":
                image_of[text.id] = image_of[parent]
                found[image_of[parent]].append(text)
                below.append(text.id)
        level = below
    return found


def _images_above(connection: Connection, ids: Collection[str]) -> set[str]:
    """Return the images among these entities, and those that the others describe."""
    query = (
        select(Entity.id, Entity.kind, ParentEntity.id)
        .outerjoin(
            Derivation, (Derivation.child_seq == Entity.seq) & Derivation.role.in_(TEXT_ROLES)
        )
        .outerjoin(ParentEntity, ParentEntity.seq == Derivation.parent_seq)
    )
    images: set[str] = set()
    level = set(ids)
    while level:
        above = set()
        for id_, kind, parent in rows_in(connection, query, Entity.id, level):
            if kind == "image":
                images.add(id_)
            elif parent is not None:
                above.add(parent)
        level = above
    return images


@reads
def changed_images(connection: Connection, dataset: str, since: StateMark) -> set[str]:
    """Return the images of a dataset with anything new, or decided, since a mark.

    What belongs to an image by its group, such as a check or a question, counts as well.
    """
    new = select(Entity.id, Entity.group_key).where(
        Entity.dataset == dataset, Entity.seq > since.entity
    )
    ids = {one for row in connection.execute(new) for one in row if one is not None}
    for table, number in ((Decision, since.decision), (Activation, since.activation)):
        touched = select(table.entity_id).where(table.id > number)
        ids.update(connection.execute(touched).scalars())
    query = select(Entity.id).where(Entity.dataset == dataset, Entity.kind == "image")
    above = _images_above(connection, ids)
    return {id_ for (id_,) in rows_in(connection, query, Entity.id, above)}


@reads
def open_queues(connection: Connection) -> dict[str, set[str]]:
    """Return the queues with an open task on each entity, or on one that belongs to it by group."""
    query = (
        select(ReviewTask.entity_id, Entity.group_key, ReviewTask.queue)
        .join(Entity, Entity.id == ReviewTask.entity_id)
        .where(ReviewTask.state == "open")
    )
    found: dict[str, set[str]] = defaultdict(set)
    for entity_id, group, queue in connection.execute(query):
        found[entity_id].add(queue)
        if group is not None:
            found[group].add(queue)
    return found


@reads
def spaces_of(connection: Connection, digests: Iterable[str]) -> Counter[str]:
    """Count the stored vectors of these files or texts by space."""
    query = select(Embedding.space, func.count()).group_by(Embedding.space)
    found: Counter[str] = Counter()
    for space, count in rows_in(connection, query, Embedding.sha256, digests):
        found[space] += count
    return found


@reads
def model_names(connection: Connection) -> list[tuple[str, str]]:
    """Return the names and revisions of the models that worked for this store, sorted."""
    query = select(Agent.name, Agent.revision).where(Agent.kind == "model").distinct()
    return sorted((row[0], row[1]) for row in connection.execute(query))


def releases_with(connection: Connection, ids: Iterable[str]) -> list[str]:
    """Return the releases that hold any of these entities, as `dataset@version`."""
    query = select(Release.dataset, Release.version).distinct()
    query = query.join(ReleaseItem, ReleaseItem.release_id == Release.id)
    return sorted(
        {f"{row[0]}@{row[1]}" for row in rows_in(connection, query, ReleaseItem.entity_id, ids)}
    )


@reads
def rejected_images(connection: Connection, dataset: str) -> list[str]:
    """Return the rejected images of a dataset."""
    query = select(Entity.id).where(
        Entity.dataset == dataset, Entity.kind == "image", Entity.state == "rejected"
    )
    return list(connection.execute(query).scalars())
