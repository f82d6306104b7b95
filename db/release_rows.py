"""The content of a release: images, their captions and the decisions on them, as one snapshot.

The graph below an image::

    image ◄─describes─ caption ◄─rewrite_of─ rewrite ◄─edited_from─ rewrite (a person's)
      │                                         └─prompted_by─► prompt
      └─imported_from─► source   (or by way of `sampled_from`, an image of the source's dataset;
                                  or of `crop_of`, a video)

A caption drafted by a model is also `prompted_by` a prompt; people's captions are not. A caption
that a person made from a draft is `edited_from` it. One that a model rewrote is `revised_from` the
earlier one, and `prompted_by` its own prompt.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import NamedTuple

from sqlalchemy import Connection, select

from db.decisions import decided_by_people
from db.entities import (
    LIVE,
    StoredEntity,
    children_in,
    entities_by_id,
    links,
    rows_in,
    scan,
    select_entities,
)
from db.origins import CropOrigin, crop_origins
from db.releases import StoreVersion, time_travel
from db.store import Store, faults_as_errors, retried
from db.tables import Agent, Entity, ModelCall, Release, ReleaseItem
from schemas.provenance import CallRow, Role
from schemas.records import TermsCorrection

_DOWN = (Role.DESCRIBES, Role.REWRITE_OF, Role.EDITED_FROM)
_UP = (Role.IMPORTED_FROM, Role.SAMPLED_FROM, Role.CROP_OF)
_ROW_KINDS = ("image", "caption", "rewrite")


class DescribedText(NamedTuple):
    """A caption or rewrite of an image, in any state.

    `origin` is the id of the caption that a rewrite rephrases (its own id for a caption).
    `by_person` is True for a person's edit, `reviewed` if a person decided on it. `draft` is the
    text of a model that a person's caption started from.
    """

    entity: StoredEntity
    origin: str
    by_person: bool
    reviewed: bool
    model_call: str | None
    prompts: tuple[str, ...]
    draft: StoredEntity | None = None


class DescribedImage(NamedTuple):
    """An image with all its captions and rewrites.

    `source_id` is None if the source is not known. `crop` is None unless the image was cut out of a
    video, and `selected` tells whether a person decided on the tracklet that it was selected in.
    """

    image: StoredEntity
    source_id: str | None
    texts: tuple[DescribedText, ...]
    crop: CropOrigin | None
    selected: bool = False


class _Node(NamedTuple):
    entity: StoredEntity
    image: str
    origin: str
    model_call: str | None


@contextmanager
def snapshot(store: Store, past: StoreVersion | None = None) -> Iterator[Connection]:
    """Open a read-only connection that sees one state of the database until it is closed.

    That state is the present one, or `past`.

    The present state has a mark (`db.releases.current_mark`), because the snapshot begins while no
    transaction is writing: PostgreSQL numbers rows before they are visible, so a row stored later
    could have a smaller number. States of the past are identified by such a mark.

    Raises:
        ServiceError: the database does not answer or failed.
    """
    with faults_as_errors(store.engine), store.engine.connect() as connection:
        is_postgres = connection.dialect.name == "postgresql"
        if is_postgres:  # not read-only yet: views are created in it
            connection.execution_options(isolation_level="REPEATABLE READ")
        with connection.begin() as transaction:
            try:
                with store.no_writers() if past is None else nullcontext():
                    connection.execute(select(Release.id).limit(1))  # the snapshot begins here
                if past is not None:
                    time_travel(connection, past)
                if is_postgres:
                    connection.exec_driver_sql("SET TRANSACTION READ ONLY")
                yield connection
            finally:
                transaction.rollback()


def live_images(connection: Connection, dataset: str) -> Iterator[StoredEntity]:
    """Iterate over the images of a dataset that are neither rejected nor withdrawn, unordered."""
    query = select_entities().where(
        Entity.dataset == dataset, Entity.kind == "image", Entity.state.in_(LIVE)
    )
    yield from map(StoredEntity._make, scan(connection, query))


def described_images(connection: Connection, ids: Sequence[str]) -> list[DescribedImage]:
    """Return the images with these ids, in this order, with their captions and rewrites."""
    images = entities_by_id(connection, ids)
    sources = _sources_of(connection, ids)
    nodes = _texts_below(connection, ids)
    edited = {link.child for link in links(connection, nodes, (Role.EDITED_FROM,))}
    reviewed = decided_by_people(connection, nodes)
    prompts = _prompts_of(connection, nodes)
    drafts = _drafts_of(connection, edited)
    texts: dict[str, list[DescribedText]] = defaultdict(list)
    for node_id, node in nodes.items():
        by_person = node_id in edited
        texts[node.image].append(
            DescribedText(
                node.entity,
                node.origin,
                by_person,
                by_person or node_id in reviewed,
                node.model_call,
                tuple(prompts[node_id]),
                drafts.get(node_id),
            )
        )
    crops = crop_origins(connection, images)
    tracklets = {id_: crop.tracklet_id for id_, crop in crops.items()}
    selected = decided_by_people(connection, set(tracklets.values()))
    return [
        DescribedImage(
            images[id_],
            sources.get(id_),
            tuple(texts[id_]),
            crops.get(id_),
            tracklets.get(id_) in selected,
        )
        for id_ in ids
    ]


def _texts_below(connection: Connection, ids: Sequence[str]) -> dict[str, _Node]:
    """Return captions and rewrites below images, level by level.

    Nothing below a rejected caption or a withdrawn entity is included. Drafts of models are
    included even if they were rejected, as the call was made for the image.
    """
    nodes: dict[str, _Node] = {}
    level = list(ids)
    while level:
        below = []
        for parent_id, model_call, entity in children_in(connection, level, _DOWN):
            if entity.id in nodes or not _counts(entity, model_call):
                continue
            parent = nodes.get(parent_id)
            image, origin = (parent.image, parent.origin) if parent else (parent_id, entity.id)
            nodes[entity.id] = _Node(entity, image, origin, model_call)
            if not _is_left_out(entity):
                below.append(entity.id)
        level = below
    return nodes


def _counts(entity: StoredEntity, model_call: str | None) -> bool:
    if _is_left_out(entity):
        return model_call is not None
    return entity.state != "withdrawn"


def _is_left_out(entity: StoredEntity) -> bool:
    return entity.kind == "caption" and entity.state in ("rejected", "inactive")


def _sources_of(connection: Connection, ids: Sequence[str]) -> dict[str, str]:
    """Return the id of the source that each image was imported from."""
    sources: dict[str, str] = {}
    below: dict[str, list[str]] = {id_: [id_] for id_ in ids}
    while below:
        above: dict[str, list[str]] = defaultdict(list)
        for child, _, parent, kind in links(connection, list(below), _UP):
            for image in below[child]:
                if kind == "source":
                    sources[image] = min(sources.get(image, parent), parent)
                elif kind in ("image", "video"):
                    above[parent].append(image)
        below = above
    return sources


def corrections_of(
    connection: Connection, source_ids: Iterable[str]
) -> dict[str, tuple[str, TermsCorrection]]:
    """Return the last correction of each source's terms, if there is one, and its id."""
    newest: dict[str, tuple[int, int]] = {}
    corrections: dict[str, tuple[str, TermsCorrection]] = {}
    for source_id, _, entity in children_in(connection, source_ids, (Role.CORRECTS,)):
        record = entity.record(TermsCorrection)
        place = record.number, entity.seq  # two concurrent runs can store the same number
        if entity.state in LIVE and place > newest.get(source_id, (0, 0)):
            newest[source_id] = place
            corrections[source_id] = entity.id, record
    return corrections


@retried
def last_correction(store: Store, source_id: str) -> tuple[str, TermsCorrection] | None:
    """Return the last correction of the terms of a source and its id; None if there is none."""
    with store.read() as connection:
        return corrections_of(connection, [source_id]).get(source_id)


def _prompts_of(connection: Connection, ids: Iterable[str]) -> dict[str, list[str]]:
    prompts: dict[str, list[str]] = defaultdict(list)
    for link in links(connection, ids, (Role.PROMPTED_BY,)):
        prompts[link.child].append(link.parent)
    return prompts


def _drafts_of(connection: Connection, ids: Iterable[str]) -> dict[str, StoredEntity]:
    """Return the model's draft of each caption that started from one, withdrawn drafts included."""
    began = {id_: id_ for id_ in ids}
    while above := {
        link.child: link.parent
        for link in links(connection, set(began.values()), (Role.EDITED_FROM,))
        if link.parent_kind == "caption"
    }:
        began = {id_: above.get(earlier, earlier) for id_, earlier in began.items()}
    earlier = {id_: first for id_, first in began.items() if first != id_}
    drafted = _prompts_of(connection, set(earlier.values()))
    drafts = entities_by_id(connection, drafted)
    return {id_: drafts[first] for id_, first in earlier.items() if first in drafts}


def candidates_of(connection: Connection, ids: Iterable[str]) -> dict[str, StoredEntity]:
    """Return the candidate of each contrastive image among `ids` that was made here."""
    parents = {link.child: link.parent for link in links(connection, ids, (Role.ACCEPTED_FROM,))}
    candidates = entities_by_id(connection, set(parents.values()))
    return {child: candidates[parent] for child, parent in parents.items()}


def released_rows(connection: Connection, release_id: str) -> Iterator[str]:
    """Return the ids of the images and texts in a release."""
    query = (
        select(Entity.id)
        .join(ReleaseItem, ReleaseItem.entity_id == Entity.id)
        .where(ReleaseItem.release_id == release_id, Entity.kind.in_(_ROW_KINDS))
    )
    yield from connection.execute(query).scalars()


def model_calls(connection: Connection, keys: Iterable[str]) -> Iterator[CallRow]:
    """Return the model calls with these keys, unordered."""
    query = select(
        Agent.name,
        Agent.revision,
        ModelCall.parameters,
        ModelCall.tokens_in,
        ModelCall.tokens_out,
        ModelCall.cost,
        ModelCall.currency,
        ModelCall.served,
    ).join(Agent, Agent.id == ModelCall.agent_id)
    for row in rows_in(connection, query, ModelCall.key, keys):
        yield CallRow(*row)
