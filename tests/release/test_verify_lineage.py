"""Verification names each fault in changed lineage tables."""

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest

from loupe.db import roles
from loupe.release.format.findings import Findings, Problem
from loupe.release.format.manifest import MANIFEST, read_manifest
from loupe.release.lineage import (
    ACTIVITIES,
    AGENTS,
    CALLS,
    DECISIONS,
    DERIVATIONS,
    ENTITIES,
    TABLES,
    LineageTable,
    write_table,
)
from loupe.release.verify.lineage import LineageChecks
from loupe.schemas.provenance import Role
from loupe.schemas.release import LineageStatistics
from tests.release.cases import check_on_copies
from tests.release.lineage_worlds import KINDS, lineage_problems
from tests.release.worlds import store_world

Rows = list[dict[str, Any]]
SHARD = "data/test-00000-of-00001.parquet"
UNKNOWN_ID = "f" * 32
_FLIPS = 30


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("lineage")
    world = store_world(home / "world", KINDS["plain"].composed().contents())
    folder = KINDS["plain"].build(world, home / "out").folder
    world.store.close()
    return folder


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Path:
    """A copy of the release that a test may change."""
    return shutil.copytree(built, tmp_path / "out")


def found(folder: Path) -> list[Problem]:
    """Problems found with a manifest that states the correct row counts."""
    counts = {one.name: pq.read_metadata(folder / one.path).num_rows for one in TABLES}
    manifest = read_manifest(folder).model_copy(update={"lineage": LineageStatistics(**counts)})
    return lineage_problems(folder, manifest, [SHARD])


def change(folder: Path, table: LineageTable, how: Callable[[Rows], Rows]) -> None:
    """Rewrite a table with changed rows."""
    rows = how(pq.read_table(folder / table.path).to_pylist())
    (folder / table.path).unlink()
    write_table(folder, table, [tuple(row.values()) for row in rows])


def faults(folder: Path) -> set[str]:
    return {problem.fault for problem in found(folder)}


def without(kind: str) -> Callable[[Rows], Rows]:
    """A change that removes the first entity of a kind."""

    def how(rows: Rows) -> Rows:
        gone = next(row for row in rows if row["kind"] == kind)
        return [row for row in rows if row is not gone]

    return how


def test_every_role_has_a_cascade_policy() -> None:
    assert roles.ROLES.keys() == set(Role)


def test_an_unchanged_release_has_no_problems(folder: Path) -> None:
    assert found(folder) == []


def test_a_missing_entity_is_reported(built: Path, tmp_path: Path) -> None:
    def check(folder: Path, kind: str) -> None:
        gone = next(row for row in _rows(folder, ENTITIES) if row["kind"] == kind)["id"]
        change(folder, ENTITIES, without(kind))
        problems = found(folder)
        assert "lineage_broken" in {one.fault for one in problems}
        assert any(gone in one.message for one in problems)

    check_on_copies(built, tmp_path, ("source", "image", "caption", "rewrite", "prompt"), check)


def _rows(folder: Path, table: LineageTable) -> Rows:
    rows: Rows = pq.read_table(folder / table.path).to_pylist()
    return rows


def test_a_row_without_its_image_entity_is_reported(folder: Path) -> None:
    third = pq.read_table(folder / SHARD)["image_entity_id"].to_pylist()[2]
    change(folder, ENTITIES, lambda rows: [one for one in rows if one["id"] != third])
    (problem,) = (one for one in found(folder) if one.fault == "lineage_incomplete")
    assert (problem.file, problem.row) == (SHARD, 3)
    assert third in problem.message


def _set(
    folder: Path, table: LineageTable, name: str, value: object, where: Callable[[Any], bool]
) -> None:
    change(
        folder,
        table,
        lambda rows: [{**row, name: value} if where(row) else row for row in rows],
    )


def test_references_to_unknown_ids_are_reported(built: Path, tmp_path: Path) -> None:
    cases: list[tuple[LineageTable, str]] = [
        (DERIVATIONS, "parent"),
        (DERIVATIONS, "child"),
        (DECISIONS, "entity"),
        (DECISIONS, "agent"),
        (CALLS, "agent"),
        (ENTITIES, "activity"),
        (ENTITIES, "model_call"),
    ]

    def check(folder: Path, case: tuple[LineageTable, str]) -> None:
        table, column = case
        last = _rows(folder, table)[-1]
        _set(folder, table, column, UNKNOWN_ID, lambda row: row == last)
        problems = [one for one in found(folder) if one.fault == "lineage_broken"]
        assert any(UNKNOWN_ID in one.message and one.file == table.path for one in problems)

    check_on_copies(built, tmp_path, cases, check)


def test_an_unknown_agent_of_an_activity_is_reported(folder: Path) -> None:
    _set(folder, ACTIVITIES, "agents", [UNKNOWN_ID], lambda _: True)
    assert any(one.fault == "lineage_broken" and UNKNOWN_ID in one.message for one in found(folder))


def test_unsorted_and_duplicated_rows_are_reported(built: Path, tmp_path: Path) -> None:
    def check(folder: Path, table: LineageTable) -> None:
        change(folder, table, lambda rows: rows[::-1])
        assert "lineage_unsorted" in faults(folder)
        if table is not DERIVATIONS:
            change(folder, table, lambda rows: [rows[-1], *rows[::-1]])
            assert "lineage_unsorted" in faults(folder)

    check_on_copies(built, tmp_path, (ENTITIES, DERIVATIONS, CALLS, AGENTS), check)


def test_row_counts_are_compared_with_the_manifest(built: Path, tmp_path: Path) -> None:
    def check(folder: Path, table: LineageTable) -> None:
        change(folder, table, lambda rows: rows[:-1])
        problems = lineage_problems(folder, read_manifest(folder), [SHARD])
        assert any(one.fault == "totals_differ" and one.file == table.path for one in problems)

    check_on_copies(built, tmp_path, TABLES, check)


def test_malformed_ids_make_a_table_unreadable(built: Path, tmp_path: Path) -> None:
    def check(folder: Path, value: str | None) -> None:
        last = _rows(folder, DERIVATIONS)[-1]
        _set(folder, DERIVATIONS, "parent", value, lambda row: row == last)
        unreadable = ("lineage_unreadable", DERIVATIONS.path)
        assert unreadable in {(one.fault, one.file) for one in found(folder)}

    check_on_copies(built, tmp_path, ("", "xyz", "G" * 32, None), check)


def test_missing_columns_make_a_table_unreadable(folder: Path) -> None:
    table = pq.read_table(folder / AGENTS.path).drop_columns(["revision"])
    pq.write_table(table, folder / AGENTS.path)
    (problem,) = found(folder)
    assert (problem.fault, problem.file) == ("lineage_unreadable", AGENTS.path)


def test_flipped_bits_are_reported_without_an_exception(built: Path, tmp_path: Path) -> None:
    """Bits of all tables are flipped, with matching digests."""

    def check(folder: Path, table: LineageTable) -> None:
        random = Random(table.name)
        sound = (folder / table.path).read_bytes()
        manifest = read_manifest(folder)
        unreadable = 0
        for place in range(0, len(sound), max(1, len(sound) // _FLIPS)):
            data = bytearray(sound)
            data[place] ^= 1 << random.randrange(8)
            (folder / table.path).write_bytes(data)
            problems = lineage_problems(folder, manifest, [SHARD])
            assert {one.file for one in problems} <= {
                *(one.path for one in TABLES),
                SHARD,
                MANIFEST,
            }
            unreadable += any(one.fault == "lineage_unreadable" for one in problems)
        assert unreadable > _FLIPS // 10

    check_on_copies(built, tmp_path, TABLES, check)


def test_null_values_make_a_table_unreadable(built: Path, tmp_path: Path) -> None:
    cases: list[tuple[LineageTable, str]] = [
        *((ENTITIES, "kind"), (ENTITIES, "withheld"), (DERIVATIONS, "role")),
        *((DECISIONS, "number"), (CALLS, "parameters"), (ACTIVITIES, "agents"), (AGENTS, "name")),
    ]

    def check(folder: Path, case: tuple[LineageTable, str]) -> None:
        table, column = case
        last = _rows(folder, table)[-1]
        _set(folder, table, column, None, lambda row: row == last)
        (problem,) = found(folder)
        assert (problem.fault, problem.file) == ("lineage_unreadable", table.path)
        assert column in problem.message

    check_on_copies(built, tmp_path, cases, check)


def test_a_table_already_known_to_be_damaged_is_not_read(folder: Path) -> None:
    (folder / CALLS.path).write_bytes(b"PAR1")
    findings = Findings()
    findings.add("file_changed", f"{CALLS.path} is damaged", CALLS.path)
    LineageChecks(folder, read_manifest(folder), findings).check_tables()
    assert [one.fault for one in findings.problems] == ["file_changed"]
