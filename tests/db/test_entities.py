"""Entities are stored once, linked to their parents, and found in a fixed order."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loupe.db.entities import (
    WorkResult,
    children_of,
    count_entities,
    fetch,
    find,
    find_children,
    find_in_groups,
    new_entity,
    parents_of,
)
from loupe.db.store import Store
from loupe.db.tables import Derivation, Entity, Work
from loupe.db.work import commit_chunk, register_plan
from loupe.schemas.base import digest_of
from loupe.schemas.errors import IntegrityError
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption
from tests.db.samples import DATASET, activity_of, caption, row_count, store_entities

RECORD = Caption(source="test", text="a person", position=0)
PARENTS = [
    (Role.REWRITE_OF, digest_of("a")),
    (Role.PROMPTED_BY, digest_of("b")),
    (Role.ANNOTATED_BY, digest_of("c")),
]


@given(st.permutations(PARENTS))
def test_an_id_does_not_depend_on_the_order_of_parents(parents: list[tuple[Role, str]]) -> None:
    assert new_entity(RECORD, DATASET, parents=parents).id == caption_id(PARENTS)


def caption_id(parents: list[tuple[Role, str]], dataset: str = DATASET) -> str:
    return new_entity(RECORD, dataset, parents=parents).id


def test_an_id_depends_on_dataset_content_and_every_parent() -> None:
    other_text = RECORD.model_copy(update={"text": "another person"})
    ids = [
        caption_id(PARENTS),
        caption_id(PARENTS, "other"),
        caption_id(PARENTS[1:]),
        caption_id([(Role.EDITED_FROM, PARENTS[0][1]), *PARENTS[1:]]),
        new_entity(other_text, DATASET, parents=PARENTS).id,
    ]
    assert len(set(ids)) == len(ids)


def test_storing_an_entity_again_changes_nothing(store: Store) -> None:
    parent, child = caption(1), caption(2, [(Role.EDITED_FROM, caption(1).id)])
    store_entities(store, [parent, child])
    before = fetch(store, [parent.id, child.id, "0" * 32])
    assert before.keys() == {parent.id, child.id}
    stored = before[parent.id]
    assert (stored.dataset, stored.kind, stored.split, stored.group, stored.state) == (
        DATASET,
        "caption",
        "test",
        "image 1",
        "proposed",
    )
    assert stored.record(Caption).text == "a person in coat 1"
    store_entities(store, [child, parent, child])
    assert fetch(store, [parent.id, child.id]) == before
    assert row_count(store, Entity) == 2
    assert row_count(store, Derivation) == 1


def test_children_and_parents_of_a_role_are_found(store: Store) -> None:
    parent = caption(0)
    several_pages = range(1, 2150)
    children = [caption(number, [(Role.EDITED_FROM, parent.id)]) for number in several_pages]
    other_role = caption(9999, [(Role.CHECKS, parent.id)])
    store_entities(store, [parent, *children, other_role])
    ids = sorted(child.id for child in children)
    assert children_of(store, [parent.id], Role.EDITED_FROM) == {parent.id: ids}
    assert parents_of(store, [*ids, other_role.id], Role.EDITED_FROM) == {
        i: [parent.id] for i in ids
    }
    assert [one.id for one in find_children(store, parent.id, Role.EDITED_FROM)] == [
        child.id for child in children
    ]


@pytest.mark.usefixtures("database_url")
def test_an_entity_with_a_missing_parent_is_refused_and_nothing_is_stored(store: Store) -> None:
    orphan = caption(1, [(Role.EDITED_FROM, digest_of("nobody"))])
    plan_id = register_plan(store, "edit", "1", {})
    with pytest.raises(IntegrityError, match=rf"{orphan.id} names {digest_of('nobody')}"):
        commit_chunk(store, activity_of(plan_id), [WorkResult(0, entities=(caption(2), orphan))])
    assert row_count(store, Entity) == 0
    assert row_count(store, Work) == 0


def test_entities_are_found_in_the_order_they_were_stored(store: Store) -> None:
    captions = [caption(number) for number in range(1100)]
    random.Random(0).shuffle(captions)
    store_entities(store, captions)
    assert [found.id for found in find(store, DATASET, "caption")] == [one.id for one in captions]
    assert count_entities(store, DATASET, "caption") == 1100
    assert count_entities(store, DATASET, "caption", states=("accepted",)) == 0
    groups = [f"image {number}" for number in range(1050)]
    assert len(find_in_groups(store, DATASET, "caption", groups)) == 1050
    assert find_in_groups(store, "elsewhere", "caption", groups) == []
