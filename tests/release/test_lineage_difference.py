"""Lineage tables in the difference of two releases."""

import shutil
from pathlib import Path

import pyarrow.parquet as pq

from db.entities import NewDecision
from db.work import register_plan
from release.diff import compare_releases
from release.lineage import DECISIONS, DERIVATIONS, TABLES, same_rows
from tests.release.lineage_worlds import KINDS
from tests.release.worlds import PERSON, World, decide


def test_another_decision_with_an_equal_result_changes_only_the_metadata(
    world: World, tmp_path: Path
) -> None:
    before = KINDS["plain"].build(world, tmp_path / "before").folder
    image = pq.read_table(before / "data/test-00000-of-00001.parquet")["image_entity_id"][0]
    plan = register_plan(world.store, "another", "1", {})
    decide(world.store, plan, [NewDecision(image.as_py(), "accept", PERSON, "looked again")])
    later = KINDS["plain"]._replace(version="1.0.1")
    after = later.build(world, tmp_path / "after").folder
    found = compare_releases(before, after)
    assert found.rows.same == 12
    changed = {one.field for one in found.metadata}
    assert {f"files.{DECISIONS.path}", "lineage.decisions"} <= changed
    assert f"files.{DERIVATIONS.path}" not in changed


def test_equal_rows_in_different_bytes_are_no_difference(world: World, tmp_path: Path) -> None:
    folder = KINDS["plain"].build(world, tmp_path / "out").folder
    other = shutil.copytree(folder, tmp_path / "other")
    for table in TABLES:
        rows = pq.read_table(folder / table.path)
        pq.write_table(rows, other / table.path, compression="NONE")
        assert (folder / table.path).read_bytes() != (other / table.path).read_bytes()
        assert same_rows(folder / table.path, other / table.path)
        pq.write_table(rows.slice(1), other / table.path)
        assert same_rows(folder / table.path, other / table.path) == (not len(rows))
