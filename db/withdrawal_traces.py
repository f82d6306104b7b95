"""What is left of withdrawn things beside themselves: vectors, checkpoints, questions, answers."""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    delete,
    exists,
    or_,
    select,
    update,
)
from sqlalchemy.orm import aliased

from db.agents import AgentRef
from db.annotations import ANNOTATED_BY, ANNOTATES, counted_answers
from db.embeddings import Kind
from db.engine import insert_new
from db.entities import pages
from db.reviews import WAITING
from db.store import Store, retried
from db.tables.embeddings import Embedding, EmbeddingSpace
from db.tables.provenance import Decision, Derivation, Entity
from db.tables.review import Annotation, Annotator, Pseudonym, ReviewImage, ReviewTask
from db.tables.withdrawals import WithdrawnDigest
from db.tables.work import Checkpoint
from db.turns import take_turn
from schemas.base import digest_of, sha256_of

_JUDGED = ("accepted", "rejected", "superseded")
_SAID = {"accepted": "accept", "rejected": "reject"}
"""What an answer says that is borne out by a state."""
_TEXTS = ("caption", "rewrite", "confusion")


@retried
def close_reviews(
    store: Store,
    entity_ids: Collection[str],
    digests: Collection[str] = (),
    erased_by: int | None = None,
) -> int:
    """Closes the open questions about entities, and those that show them; gives how many.

    Images with one of the `digests` are shown by no question any more. What lies on the desk is
    removed from it by the next push. With the number of a withdrawal that erases, all these tasks
    are noted as to be deleted there, whatever their state, and with them those in whose answers a
    text was written (`tasks_to_erase`).
    """
    closed = 0
    with store.write() as connection:
        for page in pages(sorted(entity_ids)):
            shows = exists().where(
                ReviewImage.task_key == ReviewTask.key, ReviewImage.image_id.in_(page)
            )
            concerned = or_(ReviewTask.entity_id.in_(page), shows)
            if erased_by is not None:
                answers = or_(
                    ReviewTask.state.not_in(WAITING), ReviewTask.purpose == "adjudication"
                )
                written_in = and_(ReviewTask.entity_id.in_(_answered_with(page)), answers)
                _note_to_erase(connection, or_(concerned, written_in), erased_by)
            closed += connection.execute(
                update(ReviewTask)
                .where(ReviewTask.state.in_(WAITING), concerned)
                .values(state="closed")
            ).rowcount
        for page in pages(sorted(digests)):
            connection.execute(delete(ReviewImage).where(ReviewImage.sha256.in_(page)))
    return closed


def _answered_with(entity_ids: Sequence[str]) -> Select[str]:
    """The entities that people were shown when they wrote these."""
    made, asked = aliased(Entity), aliased(Entity)
    by, about = aliased(Derivation), aliased(Derivation)
    return (
        select(asked.id)
        .join(about, about.parent_seq == asked.seq)
        .join(by, by.parent_seq == about.child_seq)
        .join(made, made.seq == by.child_seq)
        .where(made.id.in_(entity_ids), by.role == ANNOTATED_BY, about.role == ANNOTATES)
    )


def _note_to_erase(connection: Connection, those: ColumnElement[bool], withdrawal: int) -> None:
    """Of tasks that may lie on a server; one that was deleted there lies nowhere, and is closed."""
    may_lie_there = or_(ReviewTask.task_id.is_not(None), ReviewTask.state.in_(WAITING))
    connection.execute(
        update(ReviewTask)
        .where(those, may_lie_there, ReviewTask.erased_by.is_(None))
        .values(erased_by=withdrawal)
    )


@retried
def erase_answers_of(store: Store, person: str, withdrawal: int) -> None:
    """Notes as to be deleted on the desk what a person was asked, and where the answers are shown.

    That is where somebody else had to settle them.
    """
    answered = (
        select(ReviewTask.entity_id)
        .join(Annotation, Annotation.review_task_key == ReviewTask.key)
        .where(Annotation.agent_id == AgentRef("person", person).id)
    )
    settled = and_(ReviewTask.purpose == "adjudication", ReviewTask.entity_id.in_(answered))
    with store.write() as connection:
        _note_to_erase(connection, or_(ReviewTask.assignee == person, settled), withdrawal)


@retried
def forget_vectors(store: Store, kind: Kind, digests: Iterable[str]) -> int:
    """Deletes the cached vectors of images or texts in all spaces; gives how many."""
    deleted = 0
    with store.write() as connection:
        spaces = list(connection.execute(select(EmbeddingSpace.key)).scalars())
        for page in pages(sorted(digests), 200):
            keys = [digest_of(space, kind, sha256) for space in spaces for sha256 in page]
            deleted += _delete_vectors(connection, keys)
    return deleted


@retried
def forget_texts(store: Store, withdrawal: int, digests: Iterable[str]) -> int:
    """Likewise of texts that a withdrawal erases, of which none is stored again; gives how many.

    Nor is one of the same words elsewhere, as a text is known by its words alone.
    """
    texts = sorted(set(digests))
    rows = [
        {
            "sha256": sha256,
            "withdrawal_id": withdrawal,
            "media_type": None,
            "is_refused": False,
            "is_erased": False,
        }
        for sha256 in texts
    ]
    with store.write() as connection:
        take_turn(connection)
        for page in pages(rows):
            insert_new(connection, WithdrawnDigest, page)
    return forget_vectors(store, "text", texts)


def _delete_vectors(connection: Connection, keys: Iterable[str]) -> int:
    return sum(
        connection.execute(delete(Embedding).where(Embedding.key.in_(page))).rowcount
        for page in pages(keys)
    )


def text_digests(store: Store, entity_ids: Iterable[str]) -> Iterator[str]:
    """The digests by which the vectors of texts among these entities are known."""
    query = select(Entity.payload).where(Entity.kind.in_(_TEXTS))
    with store.read() as connection:
        for page in pages(entity_ids):
            for payload in connection.execute(query.where(Entity.id.in_(page))).scalars():
                yield sha256_of(json.loads(payload)["text"].encode())


@retried
def drop_checkpoints(store: Store, entity_ids: Iterable[str]) -> int:
    """Forgets how far the work on these entities had come; gives of how many."""
    dropped = 0
    with store.write() as connection:
        for page in pages(entity_ids):
            inputs = select(Entity.seq).where(Entity.id.in_(page))
            dropped += connection.execute(
                delete(Checkpoint).where(Checkpoint.input.in_(inputs))
            ).rowcount
    return dropped


def judged_alone(connection: Connection, person: str) -> list[str]:
    """What was last decided on by a person and stands on that judgement alone, in order of id.

    It does not where others judged it, too, and all of them say what stands. Where any of them says
    otherwise, it was the person's word that counted, and the answers that are left decide anew.
    """
    last = aliased(Decision)
    newer = exists().where(last.entity_id == Decision.entity_id, last.id > Decision.id)
    query = (
        select(Decision.entity_id)
        .join(Entity, Entity.id == Decision.entity_id)
        .where(
            Decision.agent_id == AgentRef("person", person).id,
            Entity.state.in_(_JUDGED),
            ~newer,
        )
        .order_by(Decision.entity_id)
    )
    found = list(connection.execute(query).scalars())
    borne_out = _borne_out(connection, found, person)
    return [id_ for id_ in found if id_ not in borne_out]


def _borne_out(connection: Connection, ids: Sequence[str], person: str) -> set[str]:
    """Those that others gave answers on that count, each of which says what stands.

    None that was edited: the text that stands in its place is the person's.
    """
    said = {
        id_: {one.answer["verdict"] for one in answers if one.person != person}
        for id_, answers in counted_answers(connection, None, ids).items()
    }
    states = select(Entity.id, Entity.state)
    return {
        id_
        for page in pages(sorted(said))
        for id_, state in connection.execute(states.where(Entity.id.in_(page)))
        if said[id_] == {_SAID.get(state)}
    }


@retried
def return_answers(store: Store, person: str) -> int:
    """Lets no answer of a person count any more; gives how many did.

    Questions that wait for the person are closed.
    """
    by_person = exists().where(
        Annotation.review_task_key == ReviewTask.key,
        Annotation.agent_id == AgentRef("person", person).id,
    )
    answered = ReviewTask.state == "answered", by_person
    waiting = ReviewTask.state.in_(WAITING), ReviewTask.assignee == person
    with store.write() as connection:
        returned = connection.execute(
            update(ReviewTask).where(*answered).values(state="returned")
        ).rowcount
        connection.execute(update(ReviewTask).where(*waiting).values(state="closed"))
    return returned


@retried
def forget_person(store: Store, pseudonym: str) -> bool:
    """Erases who a pseudonym stands for, for good; False where nobody could tell before."""
    with store.write() as connection:
        known = connection.execute(delete(Pseudonym).where(Pseudonym.name == pseudonym)).rowcount
        named = connection.execute(
            update(Annotator)
            .where(Annotator.pseudonym == pseudonym, Annotator.name != pseudonym)
            .values(name=pseudonym, user_id=-1, state="left")
        ).rowcount
    return known + named > 0
