"""The lineage in a release equals that of the store without times, in reproducible bytes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest

from loupe.db.lineage import ActivityNode, DecisionNode, EntityNode, Lineage, prov_json, trace
from loupe.db.store import Store
from loupe.release.build import BuiltRelease
from loupe.release.lineage import ENTITIES, TABLES
from loupe.release.lineage.reading import NO_PAYLOAD, open_lineage
from loupe.release.lineage.tree import lineage_tree
from loupe.release.verify import verify_release
from tests.release.later import bytes_of
from tests.release.lineage_worlds import KINDS, Kind, store_one_by_one
from tests.release.worlds import released_entities, store_world


class Made(NamedTuple):
    """The store of a world and the release built from it."""

    kind: Kind
    store: Store
    release: BuiltRelease


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Made]]:
    made = []
    for name, kind in KINDS.items():
        home = tmp_path_factory.mktemp(name)
        world = store_world(home / "world", kind.composed().contents())
        made.append(Made(kind, world.store, kind.build(world, home / "out")))
    yield made
    for one in made:
        one.store.close()


def comparable_activity(activity: ActivityNode) -> tuple[object, ...]:
    return activity.stage, activity.version, activity.configuration, activity.agent_ids


def without_withheld(payload: str, withheld: tuple[str, ...]) -> Any:
    """The payload without the fields that a release withholds."""
    if withheld == ("*",):
        return json.loads(NO_PAYLOAD)
    values = json.loads(payload)
    for field in withheld:
        *above, last = field.split(".")
        inner = values
        for name in above:
            inner = inner[name]
        del inner[last]
    return values


def assert_same(released: Lineage, known: Lineage) -> None:
    """Check that lineages are equal except for times, runs and withheld payloads."""
    assert released.root == known.root
    assert list(released.entities) == list(known.entities)
    for id_, node in released.entities.items():
        assert_same_entity(node, known.entities[id_])
        ours = released.activities[node.activity_id]
        theirs = known.activities[known.entities[id_].activity_id]
        assert comparable_activity(ours) == comparable_activity(theirs)
        assert ours.run is None
    assert released.agents == known.agents
    assert released.calls == {k: v._replace(called_at=None) for k, v in known.calls.items()}
    assert released.decisions == {
        id_: [DecisionNode(*one[:5]) for one in many] for id_, many in known.decisions.items()
    }


def assert_same_entity(ours: EntityNode, theirs: EntityNode) -> None:
    assert (ours.parents, ours.model_call_key) == (theirs.parents, theirs.model_call_key)
    wanted = without_withheld(theirs.entity.payload, ours.entity.withheld)
    assert json.loads(ours.entity.payload) == wanted
    assert ours.entity._replace(payload="", withheld=()) == theirs.entity._replace(payload="")


def entity_ids(folder: Path) -> list[str]:
    ids: list[str] = pq.read_table(folder / ENTITIES.path)["id"].to_pylist()
    return ids


def test_every_released_entity_has_the_same_lineage_as_in_the_store(every: list[Made]) -> None:
    for _, store, built in every:
        released = set(released_entities(store, built.manifest.id))
        traced = {}
        with open_lineage(built.folder) as lineage:
            known = entity_ids(built.folder)
            assert released < set(known)
            for number, id_ in enumerate(sorted(released)):
                found, traced[id_] = lineage.trace(id_), trace(store, id_)
                assert_same(found, traced[id_])
                if number % 5 == 0:
                    assert_drawn_alike(found, traced[id_])
        ancestors = {above for id_ in released for above in traced[id_].entities}
        assert set(known) == ancestors, "the release contains only ancestors of its entities"


def test_the_worlds_cover_all_kinds_of_entities(every: list[Made]) -> None:
    kinds: set[str] = set()
    for one in every:
        kinds.update(pq.read_table(one.release.folder / ENTITIES.path)["kind"].to_pylist())
    assert kinds == {
        *("source", "image", "caption", "rewrite", "prompt", "strategy", "candidate"),
        *("video", "track", "filter_report", "tracklet"),
    }


def test_equal_decisions_give_identical_releases(every: list[Made], tmp_path: Path) -> None:
    """Whatever the order of storing, and although runs were killed and resumed."""
    for place, (kind, _, built) in enumerate(every):
        contents = kind.composed().contents()
        home = tmp_path / str(place)
        worlds = [store_world(home / "shuffled", contents, shuffle=7, days=3)]
        if place == 0:
            worlds.append(store_one_by_one(home / "resumed", contents))
        for number, world in enumerate(worlds):
            again = kind.build(world, home / f"out{number}")
            assert bytes_of(again.folder) == bytes_of(built.folder), kind
            world.store.close()


@pytest.mark.postgres
def test_a_release_from_postgres_has_the_same_bytes(
    every: list[Made], postgres_store: Store, tmp_path: Path
) -> None:
    kind, _, built = every[0]
    url = postgres_store.engine.url.render_as_string(hide_password=False)
    world = store_world(tmp_path / "world", kind.composed().contents(), url=url, shuffle=7)
    again = kind.build(world, tmp_path / "out")
    world.store.close()
    assert bytes_of(again.folder) == bytes_of(built.folder)


def test_a_release_with_lineage_is_verified(every: list[Made]) -> None:
    for _, _, built in every:
        assert verify_release(built.folder).problems == []
        rows = {one.name: pq.read_metadata(built.folder / one.path).num_rows for one in TABLES}
        assert built.manifest.lineage.model_dump() == rows


def assert_drawn_alike(released: Lineage, known: Lineage) -> None:
    """Check that tree and PROV document equal those of the store without times."""
    assert len(lines_of(released)) >= len(lines_of(known))
    ours, theirs = prov_json(released), prov_json(known)
    assert set(ours["entity"]) == set(theirs["entity"])
    assert ours.get("wasDerivedFrom", {}).keys() == theirs.get("wasDerivedFrom", {}).keys()
    details = json.dumps(ours)
    times = ("Time", "code_revision", "flow_run", "xsd:dateTime")
    assert not any(word in details for word in times)


def lines_of(traced: Lineage) -> list[str]:
    from io import StringIO

    from rich.console import Console

    out = StringIO()
    Console(file=out, width=4000).print(lineage_tree(traced))
    return out.getvalue().splitlines()


def test_a_traced_page_equals_its_traced_entities(every: list[Made], tmp_path: Path) -> None:
    built = every[0].release
    (tmp_path / "spool").mkdir()
    with (
        open_lineage(built.folder) as packed,
        open_lineage(built.folder, spool=tmp_path / "spool") as spooled,
    ):
        ids = entity_ids(built.folder)
        page = packed.trace_page(ids[:20])
        assert page == spooled.trace_page(ids[:20])
        assert page.root == ids[0]
        reached: set[str] = set()
        for id_ in ids[:20]:
            traced = spooled.trace(id_)
            assert traced == packed.trace(id_)
            reached |= traced.entities.keys()
        assert page.entities.keys() == reached
        assert page.decisions.keys() <= reached
