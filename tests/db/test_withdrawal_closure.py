"""The closure of a withdrawal, compared with a literal recursion on random graphs."""

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loupe.db.entities import NewEntity, new_entity
from loupe.db.roles import ROLES, CascadePolicy, cascade_policy, empties
from loupe.db.store import Store
from loupe.db.tables import Base
from loupe.db.withdrawal_graph import EMPTY, SAME, TARGET, Blob, closure, own_blobs, own_digests
from loupe.schemas.base import sha256_of
from loupe.schemas.errors import IntegrityError
from loupe.schemas.proposals import Tracklet, TrackletFrame
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Contrast, Image
from loupe.schemas.records import Picture as ReviewBatch
from loupe.schemas.taxonomy import DifferenceType
from tests.db.samples import store_entities

CHANGED = next(iter(DifferenceType))


def image(
    number: int, digest: int, *, dataset: str = "people", method: str | None = None, **links: Any
) -> NewEntity:
    """Return an image with one of a few contents, so that several images share one."""
    sha256 = sha256_of(b"%d" % digest)
    contrast = Contrast(anchor_id="a", difference=CHANGED, detail="d", plan="p", method=method)
    record = Image(
        source="s",
        identity=str(number),
        split="test",
        file_path=f"{number}.jpg",
        sha256=sha256,
        source_sha256=sha256,
        media_type="image/jpeg",
        width_px=1,
        height_px=1,
        contrast=contrast if method else None,
    )
    return new_entity(record, dataset, parents=links.get("parents", ()))


def text(number: int, parents: Sequence[tuple[Role, str]] = ()) -> NewEntity:
    return new_entity(
        Caption(source="s", text=f"said {number}", position=0), "people", parents=parents
    )


def tracklet(number: int, parents: Sequence[tuple[Role, str]] = ()) -> NewEntity:
    crop = ReviewBatch(
        sha256=sha256_of(b"crop %d" % number), media_type="image/png", width_px=1, height_px=1
    )
    frame = TrackletFrame(frame=0, time_seconds=0, crop=crop, box_xyxy=(0, 0, 1, 1), score=1)
    record = Tracklet(
        source="s", video="v", video_sha256="0" * 64, track=number, frames=(frame,), author="t"
    )
    return new_entity(record, "people", parents=parents)


def reached(store: Store, targets: Sequence[NewEntity], *, reaches: bool = True) -> set[str]:
    with store.read() as connection:
        return set(closure(connection, [one.id for one in targets], reaches=reaches))


def empty(store: Store) -> None:
    with store.write() as connection:
        for table in reversed(Base.metadata.sorted_tables):
            connection.execute(table.delete())


class Graph(NamedTuple):
    """Entities; parents come before their children."""

    entities: tuple[NewEntity, ...]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    entities: list[NewEntity] = []
    for number in range(draw(st.integers(1, 12))):
        chosen = draw(st.lists(st.tuples(st.sampled_from(Role), st.integers(0, 11)), max_size=3))
        parents = sorted({(role, entities[at].id) for role, at in chosen if at < len(entities)})
        kind = draw(st.sampled_from(("image", "found", "edited", "text", "tracklet")))
        if kind == "text":
            entities.append(text(number, parents))
        elif kind == "tracklet":
            entities.append(tracklet(number, parents))
        else:
            method = {"found": "search", "edited": "edit"}.get(kind)
            digest = draw(st.integers(0, 3))
            entities.append(image(number, digest, method=method, parents=parents))
    return Graph(tuple({one.id: one for one in entities}.values()))


def literal(graph: Graph, targets: Sequence[str], reaches: bool) -> dict[str, bool]:
    """Return whether each withdrawn entity is erased: apply all rules until nothing changes."""
    entities = {one.id: one for one in graph.entities}
    withdrawn = dict.fromkeys(targets, True)
    while True:
        before = dict(withdrawn)
        for child in entities.values():
            for role, parent in child.parents:
                method = _method(child)
                policy = cascade_policy(role, method)
                if parent in withdrawn and policy is not CascadePolicy.KEEP:
                    withdrawn[child.id] = withdrawn.get(child.id, False) or (
                        withdrawn[parent] and policy is CascadePolicy.ERASE
                    )
                if reaches and withdrawn.get(child.id) and role == Role.SAMPLED_FROM:
                    withdrawn[parent] = True
        if reaches:
            for one in entities.values():
                if withdrawn.get(one.id):
                    for other in entities.values():
                        if own_digests(one.kind, one.payload) & own_digests(
                            other.kind, other.payload
                        ):
                            withdrawn[other.id] = True
            for parent_id, parent_ in entities.items():
                hanging = [
                    child.id
                    for child in entities.values()
                    for role, of in child.parents
                    if of == parent_id and empties(role, parent_.kind)
                ]
                if hanging and all(withdrawn.get(one) for one in hanging):
                    withdrawn[parent_id] = True
        if withdrawn == before:
            return withdrawn


def _method(entity: NewEntity) -> str | None:
    if entity.kind != "image":
        return None
    contrast = Image.model_validate_json(entity.payload).contrast
    return contrast.method if contrast else None


@pytest.fixture(scope="module")
def reused_store(
    migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Store]:
    """A store that every example empties first."""
    file = tmp_path_factory.mktemp("graphs") / "loupe.db"
    shutil.copy(migrated_sqlite, file)
    store = Store.open(f"sqlite:///{file}")
    yield store
    store.close()


@settings(max_examples=50, deadline=None)
@given(
    graph=graphs(),
    at=st.lists(st.integers(0, 11), min_size=1, max_size=2),
    reaches=st.booleans(),
)
def test_the_closure_equals_that_of_a_literal_recursion(
    reused_store: Store, graph: Graph, at: list[int], reaches: bool
) -> None:
    empty(reused_store)
    store_entities(reused_store, graph.entities)
    targets = [graph.entities[place % len(graph.entities)].id for place in at]
    with reused_store.read() as connection:
        found = closure(connection, targets, reaches=reaches)
        backwards = closure(connection, targets[::-1], reaches=reaches)
    assert {id_: one.holds for id_, one in found.items()} == literal(graph, targets, reaches)
    assert found.keys() == backwards.keys()


def texts_of_an_image_are_withdrawn_with_it_and_others_are_kept(store: Store) -> None:
    one, other = image(1, 1), image(2, 2)
    caption, answer = text(1, [(Role.DESCRIBES, one.id)]), text(2, [(Role.DESCRIBES, other.id)])
    rewritten = text(3, [(Role.REWRITE_OF, caption.id), (Role.PROMPTED_BY, answer.id)])
    store_entities(store, [one, other, caption, answer, rewritten])
    assert reached(store, [one]) == {one.id, caption.id, rewritten.id}
    assert reached(store, [answer]) == {answer.id}


def the_same_bytes_in_other_datasets_are_withdrawn_with_their_descendants(store: Store) -> None:
    original, copy_elsewhere = image(1, 1), image(7, 1, dataset="others")
    caption = text(1, [(Role.DESCRIBES, copy_elsewhere.id)])
    store_entities(store, [original, copy_elsewhere, caption])
    assert reached(store, [original]) == {original.id, copy_elsewhere.id, caption.id}
    assert reached(store, [original], reaches=False) == {original.id}


def the_original_of_a_copy_and_its_other_copies_are_withdrawn(store: Store) -> None:
    original = text(1)
    copy = text(2, [(Role.SAMPLED_FROM, original.id)])
    other = text(3, [(Role.SAMPLED_FROM, original.id)])
    store_entities(store, [original, copy, other])
    assert reached(store, [copy]) == {original.id, copy.id, other.id}
    assert reached(store, [copy], reaches=False) == {copy.id}


def candidates_of_an_anchor_are_withdrawn_but_not_copies_of_found_ones(store: Store) -> None:
    anchor = image(1, 1)
    found = image(2, 2, method="search", parents=[(Role.CONTRAST_OF, anchor.id)])
    elsewhere = image(3, 2, dataset="others")
    edited = image(4, 3, method="edit", parents=[(Role.CONTRAST_OF, anchor.id)])
    copied = image(5, 3, dataset="others")
    store_entities(store, [anchor, found, elsewhere, edited, copied])
    assert reached(store, [anchor]) == {anchor.id, found.id, edited.id, copied.id}


def a_tracklet_is_withdrawn_once_none_of_its_images_is_left(store: Store) -> None:
    shown = tracklet(1)
    edited = tracklet(2, [(Role.EDITED_FROM, shown.id)])
    one = image(1, 1, parents=[(Role.SELECTED_IN, edited.id)])
    two = image(2, 2, parents=[(Role.SELECTED_IN, edited.id)])
    store_entities(store, [shown, edited, one, two])
    assert reached(store, [one]) == {one.id}
    assert reached(store, [one, two]) == {one.id, two.id, edited.id, shown.id}
    assert reached(store, [one, two], reaches=False) == {one.id, two.id}


def an_entity_first_removed_and_then_erased_also_erases_its_descendants(store: Store) -> None:
    """The report is first removed as it needs the image, then erased as it repeats a text."""
    one = image(1, 1)
    caption = text(1, [(Role.DESCRIBES, one.id)])
    late = text(2, [(Role.ANNOTATES, one.id), (Role.REVISED_FROM, caption.id)])
    copy = text(3, [(Role.SAMPLED_FROM, late.id)])
    store_entities(store, [one, caption, late, copy])
    with store.read() as connection:
        found = closure(connection, [one.id], reaches=True)
    assert found[late.id].holds
    assert found[copy.id].holds


def every_withdrawn_entity_has_a_reason(store: Store) -> None:
    one, same = image(1, 1), image(2, 1)
    caption = text(1, [(Role.DESCRIBES, one.id)])
    held = tracklet(9)
    crop = image(3, 1, parents=[(Role.SELECTED_IN, held.id)])
    store_entities(store, [one, same, caption, held, crop])
    with store.read() as connection:
        found = closure(connection, [one.id], reaches=True)
    output = {id_: (reached_.because, reached_.of) for id_, reached_ in found.items()}
    assert output[one.id] == (TARGET, "")
    assert output[caption.id] == (Role.DESCRIBES, one.id)
    assert output[same.id] == (SAME, one.id)
    assert output[held.id] == (EMPTY, crop.id)


def a_group_and_its_fine_captions_are_withdrawn_with_any_of_its_images(
    store: Store,
) -> None:
    anchor = image(1, 1)
    contrast = image(2, 2, method="edit", parents=[(Role.CONTRAST_OF, anchor.id)])
    other = image(3, 3, method="edit", parents=[(Role.CONTRAST_OF, anchor.id)])
    group = text(1, [(Role.MEMBER, one.id) for one in (anchor, contrast, other)])
    coarse = text(2, [(Role.DESCRIBES, anchor.id)])
    written = text(3, [(Role.REFINED_FOR, group.id)])
    fine = [
        text(
            4 + place,
            [(Role.DESCRIBES, one.id), (Role.WRITTEN_IN, written.id), (Role.REFINES, coarse.id)],
        )
        for place, one in enumerate((anchor, contrast, other))
    ]
    store_entities(store, [anchor, contrast, other, group, coarse, written, *fine])
    withdrawn = {one.id for one in (contrast, group, written, *fine)}
    assert reached(store, [contrast]) == withdrawn
    assert reached(store, [anchor]) == withdrawn | {anchor.id, other.id, coarse.id}


def a_confusing_caption_is_withdrawn_with_the_caption_it_imitates(store: Store) -> None:
    one, like = image(1, 1), image(2, 2, parents=[(Role.SIMILAR_TO, image(1, 1).id)])
    caption = text(1, [(Role.DESCRIBES, one.id)])
    confusing = text(2, [(Role.DESCRIBES, like.id), (Role.CONFUSES, caption.id)])
    question = text(3, [(Role.ASKS_ABOUT, caption.id), (Role.ASKS_WITH, like.id)])
    store_entities(store, [one, like, caption, confusing, question])
    assert reached(store, [one]) == {one.id, caption.id, confusing.id, question.id}
    assert reached(store, [like]) == {like.id, confusing.id, question.id}


EXAMPLES = (
    texts_of_an_image_are_withdrawn_with_it_and_others_are_kept,
    the_same_bytes_in_other_datasets_are_withdrawn_with_their_descendants,
    the_original_of_a_copy_and_its_other_copies_are_withdrawn,
    candidates_of_an_anchor_are_withdrawn_but_not_copies_of_found_ones,
    a_tracklet_is_withdrawn_once_none_of_its_images_is_left,
    an_entity_first_removed_and_then_erased_also_erases_its_descendants,
    every_withdrawn_entity_has_a_reason,
    a_group_and_its_fine_captions_are_withdrawn_with_any_of_its_images,
    a_confusing_caption_is_withdrawn_with_the_caption_it_imitates,
)


@pytest.mark.usefixtures("database_url")
def test_closures_of_example_graphs(store: Store, subtests: pytest.Subtests) -> None:
    """Every example, on both databases; the random graphs run only on SQLite."""
    for example in EXAMPLES:
        empty(store)
        with subtests.test(example.__name__):
            example(store)


def test_a_downloaded_picture_is_also_known_by_its_original_digest() -> None:
    payload = json.dumps(
        {
            "picture": {"sha256": "kept", "media_type": "image/jpeg", "width_px": 9},
            "source_sha256": "sent",
        }
    )
    assert own_digests("found_picture", payload) == {"kept", "sent"}
    assert own_blobs("found_picture", payload) == {Blob("kept", "image/jpeg")}


REPOSITORY = Path(__file__).parents[2]


def test_every_role_has_a_policy_with_a_reason_and_is_used() -> None:
    """The type checker ensures that the code uses no undefined roles."""
    assert ROLES.keys() == set(Role)
    assert all(role.why.strip() for role in ROLES.values())
    folders = (REPOSITORY / name for name in ("flows", "annotate", "db", "sources"))
    modules = [path for folder in folders for path in folder.rglob("*.py")]
    code = "".join(path.read_text(encoding="utf-8") for path in modules if path.name != "roles.py")
    assert [role for role in Role if f"Role.{role.name}" not in code] == []


def test_some_policies_depend_on_more_than_the_role() -> None:
    assert cascade_policy("contrast_of", "search") is CascadePolicy.REMOVE
    for method in ("edit", None):
        assert cascade_policy("contrast_of", method) is CascadePolicy.ERASE
    assert empties("edited_from", "tracklet")
    assert not empties("edited_from", "caption")
    with pytest.raises(IntegrityError, match="inspired_by"):
        cascade_policy("inspired_by")
