"""Erase references to withdrawn entities: questions, answers, vectors, checkpoints, names."""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence

from sqlalchemy import ColumnElement, Connection, Select, and_, delete, exists, or_, select, update

from loupe.db.annotations import counted_answers
from loupe.db.decisions import decided_states
from loupe.db.desk_events import erase_events, erase_words_of
from loupe.db.entities import AgentRef, change_in, pages, rows_in
from loupe.db.reviews import WAITING
from loupe.db.store import Store, acquire_release_lock, writes
from loupe.db.tables import (
    IS_LAST,
    Annotation,
    Annotator,
    Checkpoint,
    Decision,
    Derivation,
    Embedding,
    Entity,
    Pseudonym,
    ReviewImage,
    ReviewTask,
    WithdrawnDigest,
    alias,
    insert_new,
)
from loupe.schemas.base import sha256_of
from loupe.schemas.provenance import Role

_JUDGED = ("accepted", "rejected", "superseded")
_VERDICTS = {"accepted": "accept", "rejected": "reject"}
"""The verdict that confirms a state."""
_EMBEDDED_TEXTS = ("caption", "rewrite", "confusion")


@writes
def close_reviews(
    connection: Connection,
    entity_ids: Collection[str],
    digests: Collection[str] = (),
    erased_by: int | None = None,
) -> int:
    """Close the open questions about entities, and those that show them; return their number.

    Images with one of the `digests` are removed from all questions. The next push removes closed
    tasks from the server. If the number of a withdrawal that erases is given, all these tasks are
    marked to be deleted there, whatever their state, and so are those with answers in which a text
    was written (`tasks_to_erase`); what was said about the entities on the desk is deleted.
    """
    closed = 0
    for page in pages(sorted(entity_ids)):
        shows = exists().where(
            ReviewImage.task_key == ReviewTask.key, ReviewImage.image_id.in_(page)
        )
        concerned = or_(ReviewTask.entity_id.in_(page), shows)
        if erased_by is not None:
            answers = or_(ReviewTask.state.not_in(WAITING), ReviewTask.purpose == "adjudication")
            written_in = and_(ReviewTask.entity_id.in_(_answered_with(page)), answers)
            _note_to_erase(connection, or_(concerned, written_in), erased_by)
            erase_events(connection, page)
        closed += connection.execute(
            update(ReviewTask)
            .where(ReviewTask.state.in_(WAITING), concerned)
            .values(state="closed")
        ).rowcount
    change_in(connection, delete(ReviewImage), ReviewImage.sha256, sorted(digests))
    return closed


def _answered_with(entity_ids: Sequence[str]) -> Select[str]:
    """Return the entities that people were shown when they wrote these."""
    made, asked = alias(Entity), alias(Entity)
    by, about = alias(Derivation), alias(Derivation)
    return (
        select(asked.id)
        .join(about, about.parent_seq == asked.seq)
        .join(by, by.parent_seq == about.child_seq)
        .join(made, made.seq == by.child_seq)
        .where(made.id.in_(entity_ids), by.role == Role.ANNOTATED_BY, about.role == Role.ANNOTATES)
    )


def _note_to_erase(connection: Connection, those: ColumnElement[bool], withdrawal: int) -> None:
    """Mark those tasks that may be on a server as to be deleted there."""
    may_lie_there = or_(ReviewTask.task_id.is_not(None), ReviewTask.state.in_(WAITING))
    connection.execute(
        update(ReviewTask)
        .where(those, may_lie_there, ReviewTask.erased_by.is_(None))
        .values(erased_by=withdrawal)
    )


@writes
def erase_answers_of(connection: Connection, person: str, withdrawal: int) -> None:
    """Mark a person's tasks, and the adjudications that show their answers, as to be deleted.

    What they asked the lead, and the answers, are deleted here.
    """
    answered = (
        select(ReviewTask.entity_id)
        .join(Annotation, Annotation.review_task_key == ReviewTask.key)
        .where(Annotation.agent_id == AgentRef("person", person).id)
    )
    settled = and_(ReviewTask.purpose == "adjudication", ReviewTask.entity_id.in_(answered))
    _note_to_erase(connection, or_(ReviewTask.assignee == person, settled), withdrawal)
    erase_words_of(connection, person)


@writes
def forget_vectors(connection: Connection, digests: Iterable[str]) -> int:
    """Delete the cached vectors of images or texts of all models; return their number."""
    return change_in(connection, delete(Embedding), Embedding.sha256, sorted(digests))


@writes
def forget_contents(connection: Connection, withdrawal: int, digests: Iterable[str]) -> int:
    """Delete the cached vectors of contents that a withdrawal erases; return their number.

    The contents are texts, and images as they were encoded for releases. Their vectors are not
    stored again, even if another entity has the same text, as texts are identified by their words
    alone.
    """
    acquire_release_lock(connection)
    contents = sorted(set(digests))
    row = {"withdrawal_id": withdrawal, "is_refused": False, "is_erased": False}
    insert_new(connection, WithdrawnDigest, [{**row, "sha256": one} for one in contents])
    return forget_vectors(connection, contents)


def text_digests(store: Store, entity_ids: Iterable[str]) -> Iterator[str]:
    """Return the digests of the texts among these entities, which identify their vectors."""
    query = select(Entity.payload).where(Entity.kind.in_(_EMBEDDED_TEXTS))
    with store.read() as connection:
        for (payload,) in rows_in(connection, query, Entity.id, entity_ids):
            yield sha256_of(json.loads(payload)["text"].encode())


@writes
def drop_checkpoints(connection: Connection, entity_ids: Iterable[str]) -> int:
    """Delete the checkpoints of work on these entities; return their number."""
    seqs = rows_in(connection, select(Entity.seq), Entity.id, entity_ids)
    return change_in(connection, delete(Checkpoint), Checkpoint.input, [seq for (seq,) in seqs])


def judged_alone(connection: Connection, person: str) -> list[str]:
    """Return the entities whose state depends on a person's judgement alone, in order of id.

    The person decided last, and the state is not confirmed by counted answers of others who all
    agree with it. If others disagree, the remaining answers decide again.
    """
    query = (
        select(Entity.id)
        .join(Decision, Entity.id == Decision.entity_id)
        .where(
            Decision.agent_id == AgentRef("person", person).id,
            Entity.state.in_((*_JUDGED, "inactive")),
            IS_LAST,
        )
        .order_by(Entity.id)
    )
    states = decided_states(connection, list(connection.execute(query).scalars()))
    answers = counted_answers(connection, None, list(states))
    return [
        id_
        for id_, state in states.items()
        if {one.answer["verdict"] for one in answers.get(id_, ()) if one.person != person}
        != {_VERDICTS.get(state)}  # an edited entity has none: its new text is the person's
    ]


@writes
def return_answers(connection: Connection, person: str) -> int:
    """Exclude all answers of a person and close the person's open tasks; return their number."""
    by_person = exists().where(
        Annotation.review_task_key == ReviewTask.key,
        Annotation.agent_id == AgentRef("person", person).id,
    )
    answered = ReviewTask.state == "answered", by_person
    waiting = ReviewTask.state.in_(WAITING), ReviewTask.assignee == person
    returned = connection.execute(
        update(ReviewTask).where(*answered).values(state="returned")
    ).rowcount
    connection.execute(update(ReviewTask).where(*waiting).values(state="closed"))
    return returned


@writes
def forget_person(connection: Connection, pseudonym: str) -> bool:
    """Erase the name behind a pseudonym permanently; return False if none was stored."""
    known = connection.execute(delete(Pseudonym).where(Pseudonym.name == pseudonym)).rowcount
    named = connection.execute(
        update(Annotator)
        .where(Annotator.pseudonym == pseudonym, Annotator.name != pseudonym)
        .values(name=pseudonym, user_id=-1, state="left")
    ).rowcount
    return known + named > 0
