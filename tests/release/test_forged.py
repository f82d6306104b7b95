"""Verification finds contradictions in carefully changed and resealed releases."""

import hashlib
import json
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from loupe.release.files import ReleasedFile, digest_of_file
from loupe.release.lineage import (
    AGENTS,
    DECISIONS,
    DERIVATIONS,
    ENTITIES,
    LineageTable,
    write_table,
)
from loupe.release.manifest import MANIFEST, manifest_text, named, read_files, read_manifest
from loupe.release.verify import verify_release
from loupe.schemas.base import canonical_json, digest_of
from loupe.schemas.release import Manifest
from tests.release import forging
from tests.release.cases import check_on_copies
from tests.release.worlds import DATASET

JSON = f"{DATASET}.json"
SHARD = "data/test-00000-of-00001.parquet"


def reseal(folder: Path) -> None:
    """Adapt digests, root and id to the current files."""
    entities = {one.path: one.entity_id for one in read_files(folder / MANIFEST)}
    paths = sorted(one.relative_to(folder).as_posix() for one in folder.rglob("*") if one.is_file())
    files = [
        ReleasedFile(
            path=path,
            sha256=digest_of_file(folder / path),
            size_bytes=(folder / path).stat().st_size,
            entity_id=entities.get(path),
        )
        for path in paths
        if path != MANIFEST
    ]
    text = manifest_text(named(read_manifest(folder), files), files)
    (folder / MANIFEST).write_bytes(b"".join(text))


def state(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the manifest, with a matching id, even if `Manifest` would not accept it."""
    values = json.loads((folder / MANIFEST).read_text("utf-8"))
    files = values.pop("files")
    change(values)
    del values["id"]
    values["id"] = hashlib.sha256(canonical_json(values).encode()).hexdigest()
    text = json.dumps({**values, "files": files})
    (folder / MANIFEST).write_text(text, "utf-8")


def faults(folder: Path) -> set[str]:
    return {one.fault for one in verify_release(folder).problems}


def test_required_fields_of_the_manifest_cannot_be_left_out(sound: Path, tmp_path: Path) -> None:
    def check(copy: Path, case: tuple[str, bool]) -> None:
        name, is_there = case

        def leave_out(values: dict[str, Any]) -> None:
            del values[name]
            if is_there:
                values[name] = None

        if name == "lineage":
            shutil.rmtree(copy / "lineage")
        state(copy, leave_out)
        problems = verify_release(copy).problems
        assert any(one.fault == "manifest_invalid" and name in one.message for one in problems)

    check_on_copies(sound, tmp_path, product(["terms", "lineage"], [True, False]), check)


def test_terms_that_forbid_the_release_are_reported(copy: Path) -> None:
    def forbid(values: dict[str, Any]) -> None:
        for source in values["sources"]:
            source["licence"] = "all rights reserved"

    state(copy, forbid)
    reseal(copy)
    assert {"licence_forbids", "terms_differ"} <= faults(copy)


def change_rows(folder: Path, change: Callable[[list[dict[str, Any]]], object]) -> None:
    """Change the Parquet rows and adapt the captions in JSON."""
    table = pq.read_table(folder / SHARD)
    rows = table.to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, table.schema), folder / SHARD)
    published = json.loads((folder / JSON).read_text("utf-8"))
    for one, row in zip(published, rows, strict=True):
        one["captions"] = row["captions"]
    lines = ",\n".join(json.dumps(one, ensure_ascii=False) for one in published)
    (folder / JSON).write_text(f"[\n{lines}\n]\n", "utf-8")


def change_text(rows: list[dict[str, Any]]) -> None:
    rows[3]["captions"][0] = "A person in a red hat."


def swap_captions(rows: list[dict[str, Any]]) -> None:
    """Swap all caption columns of two rows."""
    for name in [name for name in rows[0] if name.startswith("caption")]:
        rows[3][name], rows[4][name] = rows[4][name], rows[3][name]


def swap_images(rows: list[dict[str, Any]]) -> None:
    """Swap only the image entities of two rows, not the images."""
    name = "image_entity_id"
    rows[3][name], rows[4][name] = rows[4][name], rows[3][name]


def repeat_caption_entity(rows: list[dict[str, Any]]) -> None:
    rows[4]["caption_entity_ids"][0] = rows[3]["caption_entity_ids"][0]


def test_rows_that_contradict_their_lineage_are_reported(sound: Path, tmp_path: Path) -> None:
    cases: list[Callable[[list[dict[str, Any]]], object]] = [
        change_text,
        swap_captions,
        swap_images,
        repeat_caption_entity,
    ]

    def check(copy: Path, change: Callable[[list[dict[str, Any]]], object]) -> None:
        change_rows(copy, change)
        reseal(copy)
        found = [one for one in verify_release(copy).problems if one.fault == "lineage_differs"]
        assert found
        assert {one.row for one in found} <= {4, 5}
        assert all(one.file == SHARD and f"row {one.row}" in one.message for one in found)

    check_on_copies(sound, tmp_path, cases, check)


def change_table(
    folder: Path, table: LineageTable, change: Callable[[list[dict[str, Any]]], object]
) -> None:
    rows = pq.read_table(folder / table.path).to_pylist()
    change(rows)
    (folder / table.path).unlink()
    write_table(folder, table, [tuple(row.values()) for row in rows])


def test_captions_that_all_describe_one_image_are_reported(copy: Path) -> None:
    def describe_one(rows: list[dict[str, Any]]) -> None:
        described = [row for row in rows if row["role"] == "describes"]
        for row in described:
            row["parent"] = described[0]["parent"]

    change_table(copy, DERIVATIONS, describe_one)
    reseal(copy)
    assert "lineage_differs" in faults(copy)


def test_what_nothing_refers_to_is_reported(copy: Path) -> None:
    agent = ("person", "nobody", "")

    def add_agent(rows: list[dict[str, Any]]) -> None:
        values: tuple[object, ...] = (digest_of("agent", *agent), *agent, [])
        rows.append(dict(zip(rows[0], values, strict=True)))
        rows.sort(key=lambda row: str(row["id"]))

    change_table(copy, AGENTS, add_agent)

    def counted(manifest: Manifest) -> Manifest:
        lineage = manifest.lineage.model_copy(update={"agents": manifest.lineage.agents + 1})
        return manifest.model_copy(update={"lineage": lineage})

    forging.reseal(copy, change=counted)
    (problem,) = verify_release(copy).problems
    assert (problem.fault, problem.file) == ("lineage_unused", AGENTS.path)
    assert f"has {digest_of('agent', *agent)}, which is never referenced" in problem.message


def test_unknown_words_in_the_lineage_are_reported(sound: Path, tmp_path: Path) -> None:
    def check(copy: Path, case: tuple[LineageTable, str]) -> None:
        table, column = case
        change_table(copy, table, lambda rows: rows[0].update({column: "robot"}))
        reseal(copy)
        found = [one for one in verify_release(copy).problems if one.file == table.path]
        said = {one.message for one in found if one.fault == "lineage_unknown_word"}
        assert any(f"says {column} 'robot', which is unknown" in one for one in said), found

    cases = [(AGENTS, "kind"), (ENTITIES, "state"), (DERIVATIONS, "role"), (DECISIONS, "verdict")]
    check_on_copies(sound, tmp_path, cases, check)


def test_empty_and_malformed_payloads_are_reported(sound: Path, tmp_path: Path) -> None:
    def check(copy: Path, case: tuple[str, str | None]) -> None:
        kind, payload = case

        def replace_payloads(rows: list[dict[str, Any]]) -> None:
            for row in rows:
                if row["kind"] == kind:
                    row["payload"] = payload

        change_table(copy, ENTITIES, replace_payloads)
        reseal(copy)
        assert {"lineage_unreadable", "lineage_differs"} & faults(copy)

    check_on_copies(
        sound,
        tmp_path,
        [
            *product(["image", "caption", "rewrite", "source", "prompt"], ["lies", "{}"]),
            *product(["image", "caption"], ["[]", None]),
        ],
        check,
    )


def test_a_manifest_that_contradicts_the_lineage_is_reported(sound: Path, tmp_path: Path) -> None:
    cases: list[tuple[str, str]] = [("sources", "licence"), ("prompts", "text")]

    def check(copy: Path, case: tuple[str, str]) -> None:
        name, field = case

        def restate(values: dict[str, Any]) -> None:
            values[name][0][field] = "CC-BY-4.0"

        state(copy, restate)
        reseal(copy)
        found = [one for one in verify_release(copy).problems if one.fault == "lineage_differs"]
        assert [one.file for one in found] == [MANIFEST]

    check_on_copies(sound, tmp_path, cases, check)
