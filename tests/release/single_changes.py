"""Change one value of a release and reseal it so that all digests match.

This simulates a forger who knows the format: everything that follows from the change (documents,
sizes, digests, the root, the id) is written again by our own code.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from loupe.release.lineage import TABLES, LineageTable, write_table
from loupe.release.manifest import MANIFEST, Listing, read_files
from loupe.release.row_files import shards_among
from loupe.schemas.base import canonical_json
from tests.release.forging import listable_files, reseal

_COMPUTED = ("id", "files", "files_root", "files_count")
"""Fields that sealing computes."""


class Change(NamedTuple):
    """A change of `where`, e.g. `lineage/calls.status` or `manifest.json:models.0.calls`."""

    where: str
    seed: int


def places_in(folder: Path) -> list[str]:
    """All places of a release that can be changed."""
    columns = [f"{table.path}:{name}" for table in TABLES for name in table.schema.names]
    shard = shards_among(listable_files(folder))[0]
    rows = [f"{shard}:{name}" for name in pq.read_schema(folder / shard).names if name != "image"]
    values = json.loads((folder / MANIFEST).read_text("utf-8"))
    stated = [
        f"{MANIFEST}:{'.'.join(path)}" for path in _leaves(values) if path[0] not in _COMPUTED
    ]
    (published,) = (
        path
        for path in listable_files(folder)
        if path.endswith(".json")
        and "/" not in path
        and path not in ("croissant.json", "leaks.json", "withdrawals.json")
    )
    entries = json.loads((folder / published).read_text("utf-8"))
    in_json = [f"{published}:{name}" for name in entries[0]]
    texts = [
        f"{path}:" for path in listable_files(folder) if path.endswith((".md", ".svg", ".cff"))
    ]
    return [*columns, *rows, *stated, *in_json, *texts]


def changed(sound: Path, folder: Path, change: Change) -> bool:
    """Apply the change to a copy of `sound` in `folder`; return whether it changed anything."""
    _link(sound, folder)
    chance = Random(f"{change.where} {change.seed}")
    path, _, name = change.where.partition(":")
    tables = {table.path: table for table in TABLES}
    if path in tables:
        done = _change_table(folder, tables[path], name, chance)
    elif path == MANIFEST:
        done = _change_manifest(folder, name.split("."), chance)
    elif path.endswith(".parquet"):
        done = _change_parquet(folder, path, name, chance)
    elif path.endswith(".json"):
        done = _change_json(folder, path, name, chance)
    else:
        done = _change_text(folder, path, chance)
        reseal(folder, left=[path])
        return done
    if path != MANIFEST:
        reseal(folder)
    return done


def _link(sound: Path, folder: Path) -> None:
    shutil.copytree(sound, folder, copy_function=os.link)


def _write(path: Path, data: bytes) -> None:
    path.unlink()  # a link to the file of the valid release
    path.write_bytes(data)


def _change_table(folder: Path, table: LineageTable, name: str, chance: Random) -> bool:
    rows = pq.read_table(folder / table.path).to_pylist()
    if not rows:
        return False
    number = chance.randrange(len(rows))
    known = [row[name] for row in rows]
    before, after = rows[number][name], _other_value(rows[number][name], known, chance)
    rows[number][name] = after
    if name in table.key_columns:  # keep the order of keys
        rows.sort(key=lambda row: tuple(row[key] for key in table.key_columns))
    (folder / table.path).unlink()
    write_table(folder, table, [tuple(row.values()) for row in rows])
    return bool(before != after)


def _change_parquet(folder: Path, path: str, name: str, chance: Random) -> bool:
    table = pq.read_table(folder / path)
    rows = table.to_pylist()
    number = chance.randrange(len(rows))
    before = rows[number][name]
    rows[number][name] = _other_value(before, [row[name] for row in rows], chance)
    try:
        made = pa.Table.from_pylist(rows, table.schema)
    except (pa.ArrowException, OverflowError):
        return False
    (folder / path).unlink()
    pq.write_table(made, folder / path)
    return bool(made.to_pylist() != table.to_pylist())


def _change_json(folder: Path, path: str, name: str, chance: Random) -> bool:
    entries = json.loads((folder / path).read_text("utf-8"))
    number = chance.randrange(len(entries))
    before = entries[number][name]
    entries[number][name] = _other_value(before, [one[name] for one in entries], chance)
    lines = ",\n".join(json.dumps(one, ensure_ascii=False) for one in entries)
    _write(folder / path, f"[\n{lines}\n]\n".encode())
    return bool(entries[number][name] != before)


def _change_text(folder: Path, path: str, chance: Random) -> bool:
    text = (folder / path).read_text("utf-8")
    _write(folder / path, _corrupted(text, chance).encode())
    return True


def _change_manifest(folder: Path, path: list[str], chance: Random) -> bool:
    """Change the manifest and write its documents again if possible."""
    sealed = (folder / MANIFEST).read_bytes()
    values = json.loads(sealed)
    files = list(read_files(folder / MANIFEST))
    above: Any = values
    for step in path[:-1]:
        above = above[int(step) if isinstance(above, list) else step]
    last: Any = int(path[-1]) if isinstance(above, list) else path[-1]
    before = above[last]
    above[last] = _other_value(before, [], chance)
    if above[last] == before:
        return False
    listing = Listing()
    for file in files:
        listing.add(file)
    head = {key: value for key, value in values.items() if key not in ("id", "files")}
    values["id"] = hashlib.sha256(canonical_json(head).encode()).hexdigest()
    _write(folder / MANIFEST, json.dumps(values, ensure_ascii=False).encode())
    try:
        reseal(folder)
    except Exception:  # noqa: BLE001 - no documents can be rendered: keep it as it is
        return True
    return (folder / MANIFEST).read_bytes() != sealed  # otherwise only the spelling changed


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict) and value:
        for key, one in value.items():
            yield from _leaves(one, (*path, key))
    elif isinstance(value, list) and value:
        for number, one in enumerate(value):
            yield from _leaves(one, (*path, str(number)))
    else:
        yield path


def _other_value(value: Any, known: list[Any], chance: Random) -> Any:
    """Another value: that of another row, or a slightly changed one."""
    others = [one for one in known if one != value]
    if others and chance.random() < 0.4:
        return chance.choice(others)
    match value:
        case bool():
            return not value
        case int():
            return value + chance.choice((-1, 1, 7, -value - 1, 10**6))
        case float():
            return value + chance.choice((-0.5, 0.001, 1.0))
        case str():
            return _corrupted(value, chance)
        case [*items]:
            return _other_list(items, chance)
        case {**fields} if fields:
            key = chance.choice(sorted(map(str, fields)))
            return {**fields, key: _other_value(fields[key], [], chance)}
        case None:
            return chance.choice(others) if others else None
    return value


def _other_list(items: list[Any], chance: Random) -> list[Any]:
    if not items:
        return ["payload"]
    number = chance.randrange(len(items))
    match chance.randrange(3):
        case 0:
            return items[:number] + items[number + 1 :]
        case 1 if len(items) > 1:
            return items[::-1]
        case _:
            return [*items[:number], _other_value(items[number], [], chance), *items[number + 1 :]]


def _corrupted(text: str, chance: Random) -> str:
    """The text with one character changed, added or removed, or another text."""
    if not text:
        return "other"
    place = chance.randrange(len(text))
    match chance.randrange(4):
        case 0:
            return text[:place] + text[place + 1 :]
        case 1:
            return text[:place] + chance.choice("abcdef0123456789") + text[place:]
        case 2:
            return text[:place] + chance.choice("0123456789abcdef") + text[place + 1 :]
        case _:
            return chance.choice(("unknown", "f" * len(text), text.swapcase()))
