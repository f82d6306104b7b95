import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loupe.release.format.manifest import (
    MANIFEST,
    FileEntry,
    Listing,
    file_entry,
    read_files,
    read_values,
    stays_below,
)
from loupe.schemas.base import canonical_json
from loupe.schemas.errors import IntegrityError
from loupe.schemas.release import Manifest, ReleasedFile

FILE = ReleasedFile("images/1.jpg", "ab" * 32, 20_000, "cd" * 16)
DOCUMENT = ReleasedFile("README.md", "0" * 64, 0)


def hexes(digits: int) -> st.SearchStrategy[str]:
    return st.text("0123456789abcdef", min_size=digits, max_size=digits)


PATHS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1
).filter(stays_below)
FILES = st.lists(
    st.builds(
        ReleasedFile,
        PATHS,
        hexes(64),
        st.integers(0, 2**63 - 1),
        st.none() | hexes(32),
    )
)
WRITERS: list[Callable[[ReleasedFile], str]] = [
    lambda file: file_entry(file).decode(),
    lambda file: json.dumps(file._asdict()),
    lambda file: json.dumps(file._asdict(), indent=2, ensure_ascii=False),
]


def listing(folder: Path, *entries: str) -> Path:
    path = folder / MANIFEST
    path.write_text('{"dataset": "D",\n"files": [\n' + ",\n".join(entries) + "\n]\n}\n", "utf-8")
    return path


@given(FILES, st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_listed_files_are_read_from_any_json_formatting(
    tmp_path: Path, files: list[ReleasedFile], data: st.DataObject
) -> None:
    entries = [data.draw(st.sampled_from(WRITERS))(file) for file in files]
    assert list(read_files(listing(tmp_path, *entries))) == files


def test_entries_across_read_buffers_are_read(tmp_path: Path) -> None:
    files = [FILE._replace(path=f"images/{number}.jpg") for number in range(5000)]
    path = listing(tmp_path, *(file_entry(file).decode() for file in files))
    assert path.stat().st_size > 2 * 256 * 1024
    assert list(read_files(path)) == files


@given(st.builds(ReleasedFile, PATHS, hexes(64), st.integers(0, 2**63 - 1), st.none() | hexes(32)))
def test_an_entry_is_canonical_json(file: ReleasedFile) -> None:
    entry = FileEntry.model_validate(file._asdict())
    assert entry.file() == file
    assert file_entry(file).decode() == canonical_json(entry.model_dump())


def test_invalid_entries_are_reported_with_their_index(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"path": "../1.jpg"}, "path: .*must name a file below"),
        ({"path": "a\0b"}, "path: .*must name a file below"),
        ({"path": "/1.jpg"}, "path: .*must name a file below"),
        ({"path": "images//1.jpg"}, "path: .*must name a file below"),
        ({"path": ""}, "path: "),
        ({"sha256": "AB" * 32}, "sha256: "),
        ({"size_bytes": -1}, "size_bytes: "),
        ({"size_bytes": 2**63}, "size_bytes: "),
        ({"entity_id": "x"}, "entity_id: "),
        ({"more": 1}, "more: "),
        ({"sha256": None}, "sha256: "),
    ]
    whole = file_entry(FILE).decode()
    missing = {name: value for name, value in FILE._asdict().items() if name != "sha256"}
    for entry, details in [
        *((FILE._asdict() | change, details) for change, details in cases),
        (missing, "sha256: "),
    ]:
        broken = json.dumps(entry, separators=(",", ":"))
        path = listing(tmp_path, whole, broken, whole)
        with pytest.raises(IntegrityError, match=rf"files\[1\].{details}"):
            list(read_files(path))
        found: list[object] = []
        read_values(path, found.extend)
        assert [isinstance(one, ReleasedFile) for one in found] == [True, False, True], entry


def test_a_truncated_list_is_invalid_json(tmp_path: Path) -> None:
    path = tmp_path / MANIFEST
    for left in (",\n]\n}\n", "\n]", ",", ""):
        path.write_text('{"files": [\n' + file_entry(FILE).decode() + left, "utf-8")
        with pytest.raises(IntegrityError, match="not valid JSON"):
            list(read_files(path))


def test_files_and_other_values_are_read_separately(tmp_path: Path) -> None:
    found: list[object] = []
    assert read_values(listing(tmp_path, file_entry(DOCUMENT).decode()), found.extend) == {
        "dataset": "D"
    }
    assert found == [DOCUMENT]


def literal_root(entries: list[bytes]) -> bytes:
    """Literal reference of MTH in RFC 6962, section 2.1."""
    if len(entries) < 2:
        return hashlib.sha256(b"\x00" + entries[0] if entries else b"").digest()
    k = 1
    while k * 2 < len(entries):
        k *= 2
    left, right = literal_root(entries[:k]), literal_root(entries[k:])
    return hashlib.sha256(b"\x01" + left + right).digest()


def test_the_literal_root_equals_a_published_test_vector() -> None:
    """Root of the first three entries in the test vectors of the RFC 6962 implementation."""
    published = "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77"
    assert literal_root([b"", b"\x00", b"\x10"]).hex() == published


@given(FILES)
def test_the_root_equals_the_literal_root_of_all_entries(files: list[ReleasedFile]) -> None:
    listing = Listing()
    for file in files:
        listing.add(file)
    stated = listing.stated_in(cast("Any", Manifest).model_construct())
    assert stated.files_root == literal_root([file_entry(file) for file in files]).hex()
    assert stated.files_count == len(files)
