"""Any JSON value in any field gives a row or a bad row, and no record is lost."""

import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loupe.sources.importer import importer_for
from loupe.sources.records import BadRow, Row, SourceRow

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.just(10**399)
    | st.floats()
    | st.text()
    | st.sampled_from(["\ud800", "\x00", "../x", "train", "\ufeff", "\u200b", "𝔄 man"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
GOOD: dict[str, dict[str, Any]] = {
    "cuhk-pedes": {"id": 1, "split": "train", "file_path": "1.jpg", "captions": ["A man."]},
    "rstpreid": {"id": 1, "split": "train", "img_path": "1.jpg", "captions": ["A man."]},
    "karpathy-coco": {
        "cocoid": 1,
        "split": "restval",
        "filepath": "val2014",
        "filename": "1.jpg",
        "sentences": [{"raw": "A man."}],
    },
    "json-lines": {"file_name": "1.jpg", "captions": [{"caption": "A man."}, "A tall man."]},
}


@contextmanager
def file_of(format: str, records: list[Any]) -> Iterator[Path]:  # noqa: A002
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "annotations.json"
        if format == "json-lines":
            path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
        elif format.startswith("karpathy"):
            path.write_text(json.dumps({"images": records}))
        else:
            path.write_text(json.dumps(records))
        yield path


def assert_accounted_for(rows: list[Row], records: int) -> None:
    """Check that each record gave exactly one row or one bad row."""
    outcomes = Counter(
        row.index for row in rows if isinstance(row, SourceRow) or row.scope == "record"
    )
    assert outcomes == dict.fromkeys(range(records), 1)
    for row in rows:
        row.model_dump_json().encode("utf-8")


@settings(max_examples=100)
@given(format=st.sampled_from(sorted(GOOD)), data=st.data())
def test_any_value_in_a_field_is_accounted_for(format: str, data: st.DataObject) -> None:  # noqa: A002
    good = GOOD[format]
    field = data.draw(st.sampled_from(sorted(good)))
    records = [good, good | {field: data.draw(json_values)}, good]
    with file_of(format, records) as path:
        assert_accounted_for(list(importer_for(format).rows(path)), len(records))


@given(format=st.sampled_from(sorted(GOOD)), record=json_values)
def test_any_record_is_accounted_for(format: str, record: Any) -> None:  # noqa: A002
    records = [GOOD[format], record, GOOD[format]]
    with file_of(format, records) as path:
        assert_accounted_for(list(importer_for(format).rows(path)), len(records))


@given(format=st.sampled_from(sorted(GOOD)), caption=json_values)
def test_any_caption_is_accounted_for(format: str, caption: Any) -> None:  # noqa: A002
    field = "sentences" if format.startswith("karpathy") else "captions"
    good = GOOD[format]
    records = [good, good | {field: [caption, good[field][0]]}]
    with file_of(format, records) as path:
        rows = list(importer_for(format).rows(path))
    assert_accounted_for(rows, len(records))
    (second,) = [row for row in rows if isinstance(row, SourceRow) and row.index == 1]
    bad = [row for row in rows if isinstance(row, BadRow)]
    assert len(second.captions) + len(bad) == len(records[1][field])
    assert second.captions[-1] == "A man."


def test_paths_are_normalised(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str]] = [
        ("a/b.jpg", "a/b.jpg"),
        ("a\\b.jpg", "a/b.jpg"),
        ("./a//b.jpg", "a/b.jpg"),
        ("a/./b.jpg", "a/b.jpg"),
        ("../a.jpg", "../a.jpg"),
        ("\\etc\\passwd", "/etc/passwd"),
        ("a b/c d.jpg", "a b/c d.jpg"),
        ("a/.hidden.jpg", "a/.hidden.jpg"),
    ]
    for path, normal in cases:
        with subtests.test(path=path, normal=normal):
            with file_of("cuhk-pedes", [GOOD["cuhk-pedes"] | {"file_path": path}]) as file:
                (row,) = importer_for("cuhk-pedes").rows(file)
            assert isinstance(row, SourceRow)
            assert row.file_path == normal
