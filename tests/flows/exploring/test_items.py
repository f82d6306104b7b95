"""What the explorer shows of a dataset and of its release."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from PIL import Image, ImageFilter

from loupe.db.decisions import decide
from loupe.db.entities import AgentRef, NewDecision
from loupe.db.exploring import changed_images, mark_now
from loupe.flows.exploring.items import Filter, Item, ReleaseItems, Value
from loupe.flows.exploring.looks import Looks
from loupe.flows.exploring.table import NOTHING_COMPARED, Compared, require_fields, write_table
from loupe.flows.exploring.vectors import best_space, image_vectors, neighbours
from loupe.models.profiles.loader import load_profile
from loupe.schemas.base import sha256_of
from loupe.schemas.errors import IntegrityError, UsageError
from tests.api.shop import draw_photograph
from tests.db.review_samples import Desk
from tests.flows.exploring.conftest import DATASET, People
from tests.release.notice_samples import notice_of


def test_a_dataset_and_its_release_show_the_same_images_and_texts(people: People) -> None:
    report = people.build("1.0.0")
    assert report.release is not None
    stored = {one.id: one for one in people.items.read(people.items.ids())}
    release = ReleaseItems(report.release)
    for item in release.read(release.ids()):
        same = stored[item.id]
        released = {text.id for text in item.texts}
        assert released == {one.id for one in same.texts if one.state in ("accepted", "proposed")}
        for name in ("split", "source", "identity", "licence"):
            assert item.fields[name] == same.fields[name], name
        assert sha256_of(release.image(item.id)[0]) == item.sha256
        assert people.items.image(item.id)[0] == release.image(item.id)[0]
        assert release.trace(item.id).entities.keys() == people.items.trace(item.id).entities.keys()
    rewrites = [text for one in stored.values() for text in one.texts if text.kind == "rewrite"]
    assert {text.author for text in rewrites} == {
        *("loupe-rule-rewriter-flowing@3", "loupe-rule-rewriter-plain@3")
    }
    assert all(f"{one.author} · rewrite · {one.state}" in one.shown for one in rewrites)
    assert {one.fields["faithfulness"] for one in stored.values()} <= {"faithful", "suspect"}


def test_a_release_is_shown_without_withdrawn_rows(people: People) -> None:
    release = people.build("1.0.0").release
    assert release is not None
    first, *others = ReleaseItems(release).ids()
    shown = ReleaseItems(release, [notice_of(release, 1)])
    assert shown.ids() == others
    with pytest.raises(IntegrityError, match="has no image"):
        shown.image(first)


def test_the_table_holds_vectors_neighbours_and_only_what_filters_keep(
    people: People, tmp_path: Path
) -> None:
    people.build("1.0.0")
    people.embed()
    store, items = people.run.store, people.items
    ids = items.ids()
    space = best_space(store, load_profile("builtin"), items.digests(ids))
    assert space is not None
    vectors = image_vectors(store, space.key, items.digests(ids))
    compared = Compared(store, vectors, neighbours(vectors.rows), space.text_space(store))
    path = tmp_path / "items.parquet"
    first = next(iter(items.read(ids[:1]))).fields["identity"]
    written = write_table(path, items, ids, compared, [Filter.parsed(f"identity={first}")])
    rows = pq.read_table(path).to_pylist()
    assert written.shown == sum(not row["gone"] for row in rows) == 2
    assert len(rows) == len(ids)
    for row in rows:
        if not row["gone"]:
            assert '"similarity"' in row["fields"]
            assert '"nearest_distance"' in row["fields"]
            assert len(row["vector"]) == vectors.rows.shape[1]


def test_files_tell_their_size_and_what_is_blurred(tmp_path: Path) -> None:
    draw_photograph(tmp_path / "sharp.jpg", 1)
    with Image.open(tmp_path / "sharp.jpg") as picture:
        picture.filter(ImageFilter.GaussianBlur(8)).save(tmp_path / "blurred.jpg")
    (tmp_path / "torn.jpg").write_bytes(b"torn")
    names = ("sharp", "blurred", "torn", "missing")
    items = [
        Item(name, name, str(tmp_path / f"{name}.jpg"), 320, 240, name, (), {}) for name in names
    ]
    looks = Looks(tmp_path / "looks.json")
    sharp, blurred, torn, missing = looks.fields(items)
    assert sharp["bytes"] == (tmp_path / "sharp.jpg").stat().st_size
    assert (sharp["blurred"], blurred["blurred"]) == (False, True)
    assert sharp["sharpness"] > blurred["sharpness"]  # type: ignore[operator]
    assert (torn, missing) == ({"bytes": 4}, {})
    looks.keep()
    (tmp_path / "sharp.jpg").write_bytes(b"torn")  # its digest is known, so it is not read again
    again = next(Looks(tmp_path / "looks.json").fields(items[:1]))
    assert again == {**sharp, "bytes": 4}


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("state=accepted", True),
        ("state!=accepted", False),
        ("queue=b", True),
        ("queue=c", False),
        ("similarity<0.5", True),
        ("similarity>0.5", False),
        ("captions=3", True),
        ("blurred=true", True),
        ("tier!=v1", True),
        ("tier=v1", False),
    ],
)
def test_filters(condition: str, kept: bool) -> None:
    fields: dict[str, Value] = {
        "state": "accepted",
        "queue": "a, b",
        "similarity": 0.4,
        "captions": 3,
        "blurred": True,
    }
    assert Filter.parsed(condition).keeps(fields) is kept


@pytest.mark.parametrize("condition", ["state", "=x", "similarity<high", ""])
def test_a_condition_of_another_form_is_refused(condition: str) -> None:
    with pytest.raises(UsageError, match="a filter is NAME=VALUE"):
        Filter.parsed(condition)


def test_an_unknown_field_is_refused_with_the_nearest(people: People, tmp_path: Path) -> None:
    people.build("1.0.0")
    written = write_table(
        tmp_path / "items.parquet", people.items, people.items.ids(), NOTHING_COMPARED
    )
    require_fields([Filter.parsed("source=x")], written.fields)
    with pytest.raises(UsageError, match="no image has a field 'sorce'; did you mean source"):
        require_fields([Filter.parsed("sorce=x")], written.fields)


def test_only_images_with_something_new_have_changed(people: People) -> None:
    store = people.run.store
    people.build("1.0.0")
    before = mark_now(store)
    assert changed_images(store, DATASET, before) == set()
    first, second = people.items.ids()[:2]
    text = next(iter(people.items.read([second]))).texts[-1]
    agent = AgentRef("person", "somebody")
    decide(store, [NewDecision(first, "reject", agent), NewDecision(text.id, "reject", agent)])
    assert changed_images(store, DATASET, before) == {first, second}


def test_images_of_a_build_that_goes_on_are_new(people: People, tmp_path: Path) -> None:
    people.build("1.0.0")
    before, known = mark_now(people.run.store), set(people.items.ids())
    people.grow(people=4, folder=tmp_path / "more")  # three of them are there already
    people.build("1.1.0")
    added = set(people.items.ids()) - known
    assert len(added) == 2
    assert changed_images(people.run.store, DATASET, before) == added


def test_open_tasks_and_the_agreement_of_people_are_fields(people: People) -> None:
    people.build("1.0.0")
    first, second = list(people.items.read(people.items.ids()))[:2]
    rewrites = [one.id for one in first.texts if one.kind == "rewrite"]
    desk = Desk(people.run.store, f"{DATASET}-rewrites")
    for person in ("a", "c"):
        desk.answer(rewrites[0], person, "accept")
    desk.answer(rewrites[0], "b", "reject")
    desk.give(rewrites[1], "a")
    shown, other = people.items.read([first.id, second.id])
    assert shown.fields["agreement"] == 0.67
    assert shown.fields["queue"] == f"{DATASET}-rewrites"
    assert not {"agreement", "queue"} & other.fields.keys()
