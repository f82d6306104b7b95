"""Hostile releases with correct digests end every command with an error for users."""

import json
import os
import time
from collections.abc import Callable
from itertools import cycle, product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from loupe.flows.cli.main import app
from loupe.release.export.formats import FORMATS
from loupe.release.format.manifest import MANIFEST
from loupe.release.format.parquet import bounded_batches, opened_parquet
from loupe.release.lineage import CALLS, DERIVATIONS, ENTITIES, LineageTable
from loupe.schemas.errors import IntegrityError, LoupeError
from tests.release.cases import check_on_copies
from tests.release.forging import listable_files, reseal

SHARD = "data/test-00000-of-00001.parquet"
SECONDS = 120
"""Time limit of each command; on an idle machine they take about two seconds."""
Rows = list[dict[str, Any]]


def rewrite(folder: Path, path: str, change: Callable[[Rows], object], **options: Any) -> None:
    table = pq.read_table(folder / path)
    rows = table.to_pylist()
    change(rows)
    (folder / path).unlink()
    pq.write_table(
        pa.Table.from_pylist(rows, table.schema), folder / path, compression="zstd", **options
    )


def first(**values: Any) -> Callable[[Rows], object]:
    return lambda rows: rows[0].update(values)


def every(**values: Any) -> Callable[[Rows], object]:
    return lambda rows: [row.update(values) for row in rows]


def in_rows(change: Callable[[Rows], object]) -> Callable[[Path], object]:
    return lambda folder: rewrite(folder, SHARD, change)


def in_table(table: LineageTable, change: Callable[[Rows], object]) -> Callable[[Path], object]:
    return lambda folder: rewrite(folder, table.path, change)


def in_json(text: str) -> Callable[[Path], object]:
    """Replace the first identity in JSON by another value."""

    def write(folder: Path) -> None:
        path = folder / "ufine3c.json"
        known = path.read_text("utf-8")
        path.unlink()
        path.write_text(known.replace('"id": 1,', f'"id": {text},', 1), "utf-8")

    return write


def stated(*path: str, value: Any) -> Callable[[Path], object]:
    """Change a value of the manifest; the wrong id does not hide other faults."""

    def write(folder: Path) -> None:
        values = json.loads((folder / MANIFEST).read_text("utf-8"))
        above = values
        for step in path[:-1]:
            above = above[int(step) if isinstance(above, list) else step]
        above[path[-1]] = value
        (folder / MANIFEST).write_text(json.dumps(values), "utf-8")

    return write


def wide(folder: Path) -> None:
    (folder / SHARD).unlink()
    columns = {f"c{number}": pa.nulls(1, pa.int8()) for number in range(5_000)}
    pq.write_table(pa.table(columns), folder / SHARD)


def numbers_as_ids(folder: Path) -> None:
    table = pq.read_table(folder / SHARD)
    place = table.schema.names.index("image_entity_id")
    numbers = pa.array(range(len(table)), pa.int64())
    (folder / SHARD).unlink()
    pq.write_table(table.set_column(place, "image_entity_id", numbers), folder / SHARD)


def numbers_as_caption_ids(folder: Path) -> None:
    table = pq.read_table(folder / SHARD)
    place = table.schema.names.index("caption_entity_ids")
    numbers = pa.array([[1, 2]] * len(table), pa.list_(pa.int64()))
    (folder / SHARD).unlink()
    pq.write_table(table.set_column(place, "caption_entity_ids", numbers), folder / SHARD)


def many_empty_rows(folder: Path) -> None:
    (folder / CALLS.path).unlink()
    nothing = [pa.nulls(400_000, type_) for type_ in CALLS.schema.types]
    table = pa.Table.from_arrays(nothing, schema=CALLS.schema)
    pq.write_table(table, folder / CALLS.path, compression="zstd")


def linked(folder: Path) -> None:
    (folder / SHARD).unlink()
    (folder / SHARD).symlink_to("/etc/hostname")


def piped(folder: Path) -> None:
    (folder / ENTITIES.path).unlink()
    os.mkfifo(folder / ENTITIES.path)


def cyclic(rows: Rows) -> None:
    rows[0]["parent"] = rows[0]["child"]
    rows[1].update(child=rows[0]["child"], parent=rows[0]["child"])


UNREAD: dict[str, Callable[[Path], object]] = {
    "deep nesting": in_table(CALLS, every(parameters='{"a":' * 50_000 + "1" + "}" * 50_000)),
    "a payload of deep nesting": in_table(ENTITIES, every(payload="[" * 100_000)),
    "a cost that is no number": in_table(CALLS, every(cost=float("nan"))),
    "tokens of another sign": in_table(CALLS, every(tokens_in=-(2**63))),
    "a cycle": in_table(DERIVATIONS, cyclic),
}
"""Values of the lineage that `verify` does not read, because only their digests matter to it."""
HOSTILE: dict[str, Callable[[Path], object]] = {
    "a giant caption": in_rows(first(captions=["a" * 100_000_000, "b", "c", "d"])),
    "a giant word of a dictionary in every row": in_rows(every(source="s" * 2_000_000)),
    "many columns": wide,
    "numbers as ids": numbers_as_ids,
    "many rows of nothing": many_empty_rows,
    "a huge number": in_json("1" * 1_000_000),
    "not a number": in_json("NaN"),
    "ids twice": in_table(ENTITIES, lambda rows: rows.insert(0, rows[0])),
    "paths that lead out": in_rows(every(file_path="../../out.jpg", source_file_path="/etc/x")),
    "control characters": in_rows(first(source="\x1b[2J\u202e=cmd|' /C calc'!A0 <script>")),
    "a row without a source": in_rows(first(source=None)),
    "a row without a digest": in_rows(first(sha256=None)),
    "a row without an entity": in_rows(first(image_entity_id=None)),
    "a row without a name": in_rows(first(file_path=None)),
    "a caption without words": in_rows(first(captions=[None, "b", "c", "d"])),
    "a caption without an id": in_rows(lambda rows: rows[0]["caption_entity_ids"].append(None)),
    "numbers as ids of captions": numbers_as_caption_ids,
    "a name with a null character": stated("files", "0", "path", value="a\0b"),
    "a dataset that leads out": stated("dataset", value="../../out"),
    "a manifest of wrong types": stated("statistics", value=[{}]),
    "a manifest of absurd numbers": stated("statistics", "images", value=10**400),
    "a link": linked,
    "a pipe": piped,
    **UNREAD,
}
FEW = ("a giant caption", "many columns", "paths that lead out", "a pipe", "a cycle")


def test_hostile_releases_end_with_an_error_for_users(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each release is verified and read by half of the other commands, in turn."""
    monkeypatch.setenv("LOUPE_HOME", str(tmp_path / "home"))
    cases = zip(FEW, cycle(FORMATS), cycle((0, 1)), strict=False)
    check_on_copies(sound, tmp_path, cases, lambda copy, case: check_commands(sound, copy, *case))


@pytest.mark.soak
def test_hostile_releases_end_with_an_error_for_users_in_every_format(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOUPE_HOME", str(tmp_path / "home"))
    cases = product(HOSTILE, FORMATS)
    check_on_copies(sound, tmp_path, cases, lambda copy, case: check_commands(sound, copy, *case))


def check_commands(
    sound: Path, folder: Path, name: str, format_name: str, half: int | None = None
) -> None:
    """Check that commands that read a release end in time, without unexpected errors."""
    home, out = folder.parent, folder.parent / "out"
    paths = listable_files(folder)
    HOSTILE[name](folder)
    if all((folder / path).is_file() and not (folder / path).is_symlink() for path in paths):
        seal(folder, paths)
    verify = ["release", "verify", folder]
    others = [
        ["release", "show", folder],
        ["release", "diff", sound, folder],
        ["release", "report", folder, "--out", out / "report"],
        ["lineage", "1", "--release", folder],
        ["release", "contamination", folder, sound],
        ["release", "export", folder, "--format", format_name, "--out", out / format_name],
    ]
    before = paths_outside_out(home)
    for command in (verify, *(others if half is None else others[half::2])):
        start = time.monotonic()
        details = CliRunner().invoke(app, list(map(str, command)))
        assert time.monotonic() - start < SECONDS, command
        assert ends_for_users(details), (name, command, details.exception, details.output[-500:])
        if command is verify:
            assert details.exit_code == (name not in UNREAD), (name, details.output[-500:])
    assert paths_outside_out(home) == before


def seal(folder: Path, paths: list[str]) -> None:
    """Reseal the release, if its documents can be rendered."""
    try:
        reseal(folder, paths)
    except IntegrityError:
        assert not (folder / MANIFEST).is_symlink()


def paths_outside_out(home: Path) -> set[str]:
    """All paths outside the folder that commands may write to."""
    found = (path.relative_to(home).as_posix() for path in home.rglob("*"))
    return {path for path in found if path.partition("/")[0] != "out"}


def ends_for_users(details: Result) -> bool:
    """Whether a command ended normally or with an error meant for users."""
    error = details.exception
    return error is None or isinstance(error, (LoupeError, SystemExit))


def test_unpacked_sizes_are_limited_while_reading(tmp_path: Path) -> None:
    path = tmp_path / "words.parquet"
    words = pa.array(["w" * 1_000_000] * 80)
    pq.write_table(pa.table({"word": words}), path, compression="zstd")
    with opened_parquet(path) as file, pytest.raises(ValueError, match="unpacks to more than 200"):
        for _ in bounded_batches(file, path, 10):
            pass
