import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loupe.schemas.errors import FormatError
from loupe.schemas.records import Attribution
from loupe.sources.importer import importer_for, read_source
from loupe.sources.records import DEFAULT_OPTIONS, BadRow, ReadOptions, Row, SourceRow

ADA = {
    "file_name": "people/ada.jpg",
    "licence": "CC BY 4.0",
    "name": "Ada Lovelace",
    "creator": "A. E. Chalon",
    "source_url": "https://example.org/ada",
}
ADA_ROW = SourceRow(
    index=0,
    identity="people/ada.jpg",
    split="test",
    file_path="people/ada.jpg",
    captions=(),
    positions=(),
    facts=("It shows Ada Lovelace.",),
    attribution=Attribution(
        licence="CC BY 4.0", creator="A. E. Chalon", source_url="https://example.org/ada"
    ),
)


def read(path: Path, text: str, options: ReadOptions = DEFAULT_OPTIONS) -> list[Row]:
    path.write_text(text, encoding="utf-8", newline="")
    return list(read_source(importer_for("licensed-images"), path, options))


def lines(*records: Any) -> str:
    return "".join(f"{json.dumps(record)}\n" for record in records)


def test_json_lines_and_csv_give_the_same_rows(tmp_path: Path) -> None:
    table = ",".join(ADA) + "\r\n" + ",".join(f'"{value}"' for value in ADA.values()) + "\r\n"
    assert read(tmp_path / "a.jsonl", lines(ADA)) == [ADA_ROW]
    assert read(tmp_path / "a.csv", "\ufeff" + table) == [ADA_ROW]


def test_the_licence_is_the_only_required_term(tmp_path: Path) -> None:
    (row,) = read(tmp_path / "a.csv", "license,file_name,name,creator\nCC0-1.0,1.jpg,,\n\n,,,\n")
    assert isinstance(row, SourceRow)
    assert (row.facts, row.attribution) == ((), Attribution(licence="CC0-1.0"))


def test_an_image_without_a_licence_is_rejected_with_a_message(
    subtests: pytest.Subtests, tmp_path: Path
) -> None:
    for case, licence in enumerate((None, "", "  ", "Unknown", "n/a", "-")):
        with subtests.test(case=case):
            (bad, good) = read(tmp_path / "a.jsonl", lines(ADA | {"licence": licence}, ADA))
            assert isinstance(bad, BadRow)
            assert (bad.scope, bad.field, bad.reason) == ("record", "licence", "missing_licence")
            assert bad.detail == (
                f'image "people/ada.jpg" has no licence: got {json.dumps(licence)}, wanted the '
                f"terms that it may be used under"
            )
            assert isinstance(good, SourceRow)


def test_a_bad_field_rejects_its_record(subtests: pytest.Subtests, tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"licence": 4}, "wrong_type"),
        ({"name": ["Ada"]}, "wrong_type"),
        ({"source_url": "javascript:alert(1)"}, "not_an_address"),
        ({"file_name": ""}, "empty_field"),
        ({"creator": "A\x00"}, "control_characters"),
    ]
    for change, reason in cases:
        with subtests.test(reason=reason):
            bad, good = read(tmp_path / "a.jsonl", lines(ADA | change, ADA))
            assert isinstance(bad, BadRow)
            assert bad.reason == reason
            assert isinstance(good, SourceRow)


def test_an_image_that_occurs_twice_is_reported(tmp_path: Path) -> None:
    _, bad = read(tmp_path / "a.jsonl", lines(ADA, ADA | {"licence": "CC0-1.0"}))
    assert isinstance(bad, BadRow)
    assert (bad.index, bad.reason) == (1, "duplicate_image")


def test_a_malformed_table_keeps_the_rows_before_the_error(tmp_path: Path) -> None:
    table = 'file_name,licence\n1.jpg,CC0-1.0\n2.jpg,"CC0\n3.jpg,CC0\n'
    good, bad = read(tmp_path / "a.csv", table)
    assert isinstance(good, SourceRow)
    assert isinstance(bad, BadRow)
    assert (bad.scope, bad.reason, bad.index) == ("file", "malformed_csv", 1)


def test_a_file_of_another_format_is_refused(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for text in ("", "1.jpg\n2.jpg\n", "[1]\n", '{"file_name": "1.jpg"}\n', "{\n"):
        with (
            subtests.test(text=text),
            pytest.raises(FormatError, match=r"is not a licensed-images file|is empty"),
        ):
            read(tmp_path / "a", text)


@given(
    cells=st.lists(
        st.tuples(st.text(max_size=9), st.text(max_size=9), st.text(max_size=9)), max_size=6
    )
)
def test_every_line_of_a_table_is_accounted_for(
    tmp_path_factory: pytest.TempPathFactory, cells: list[tuple[str, str, str]]
) -> None:
    def quoted(text: str) -> str:
        return '"' + text.replace('"', '""') + '"'

    table = "".join(",".join(map(quoted, row)) + "\n" for row in cells)
    path = tmp_path_factory.mktemp("any") / "a.csv"
    path.write_text(f"file_name,licence,name\n{table}", encoding="utf-8", newline="")
    rows = list(importer_for("licensed-images").rows(path))
    assert len(rows) == sum(any(cell.strip() for cell in row) for row in cells)
    for row in rows:
        row.model_dump_json().encode("utf-8")
