import json
from pathlib import Path

import pytest

from loupe.schemas.errors import FormatError
from loupe.sources.importer import importer_for
from loupe.sources.records import DEFAULT_OPTIONS, BadRow, ReadOptions, Row, SourceRow

DATA = Path("../shared/data/coco_captions/annotations.jsonl")
LINE = '{"file_name": "0.jpg", "url": "http://x", "captions": [{"caption": "A cat."}, "A dog."]}'


def read(folder: Path, text: str, options: ReadOptions = DEFAULT_OPTIONS) -> list[Row]:
    path = folder / "annotations.jsonl"
    path.write_text(text, encoding="utf-8")
    return list(importer_for("json-lines").rows(path, options))


@pytest.mark.skipif(not DATA.is_file(), reason=f"{DATA} is not on this machine")
def test_real_annotations_are_read_without_loss() -> None:
    rows = list(importer_for("json-lines").rows(DATA))
    lines = DATA.read_text(encoding="utf-8").splitlines()
    assert len(rows) == len(lines)
    for row, line in zip(rows, lines, strict=True):
        record = json.loads(line)
        assert isinstance(row, SourceRow)
        assert row.file_path == row.identity == record["file_name"]
        assert row.split == "test"
        assert row.captions == tuple(c["caption"].strip() for c in record["captions"])


def test_captions_may_be_objects_or_strings(tmp_path: Path) -> None:
    (row,) = read(tmp_path, LINE)
    assert isinstance(row, SourceRow)
    assert row.captions == ("A cat.", "A dog.")


def test_the_split_of_a_record_takes_precedence_over_the_options(tmp_path: Path) -> None:
    own = '{"file_name": "1.jpg", "identity": 7, "split": "val", "captions": ["A cat."]}'
    rows = read(tmp_path, f"{LINE}\n{own}\n", ReadOptions(split="train"))
    found = [(r.identity, r.split) for r in rows if isinstance(r, SourceRow)]
    assert found == [("0.jpg", "train"), ("7", "val")]


def test_a_field_with_two_values_is_refused_with_its_record_alone(tmp_path: Path) -> None:
    twice = '{"file_name": "1.jpg", "captions": ["A cat."], "captions": ["A dog."]}'
    inner = '{"file_name": "2.jpg", "captions": [{"caption": "A cat.", "caption": "A dog."}]}'
    equal = '{"file_name": "3.jpg", "file_name": "3.jpg", "captions": ["A cat."]}'
    lines = [twice, inner, equal]
    for text, name in (("\n".join(lines), "json-lines"), (f"[{', '.join(lines)}]", "json")):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        rows = list(importer_for(name).rows(path))
        bad = [(one.index, one.reason, one.detail) for one in rows if isinstance(one, BadRow)]
        assert bad == [
            (0, "duplicate_field", "captions is there twice, with different values, wanted one"),
            (1, "duplicate_field", "caption is there twice, with different values, wanted one"),
        ]
        assert [row.file_path for row in rows if isinstance(row, SourceRow)] == ["3.jpg"]


def test_two_ways_to_write_a_path_are_one_image(tmp_path: Path) -> None:
    lines = [LINE, LINE.replace("0.jpg", "./0.jpg")]
    rows = read(tmp_path, "\n".join(lines))
    assert [one.identity for one in rows if isinstance(one, SourceRow)] == ["0.jpg", "0.jpg"]


def test_an_identity_of_endless_digits_is_a_sentence(tmp_path: Path) -> None:
    (row,) = read(tmp_path, LINE.replace('"url"', f'"identity": {"1" * 5000}, "url"'))
    assert isinstance(row, BadRow)
    assert row.detail == "identity is a number of more than 400 digits, wanted a name"


def test_a_malformed_line_is_rejected_alone(tmp_path: Path) -> None:
    lines = [LINE, "", '{"file_name": "1.jpg", "captions": [', "[1]", f"\ufeff  {LINE}\r"]
    rows = read(tmp_path, "\n".join(lines))
    bad = [(b.index, b.reason, b.detail) for b in rows if isinstance(b, BadRow)]
    assert bad == [
        (1, "malformed_json", "line 3 is not JSON at character 36: expecting value"),
        (2, "wrong_type", "the record has the wrong type: got [1], wanted an object"),
    ]
    assert [r.index for r in rows if isinstance(r, SourceRow)] == [0, 3]


def test_a_line_over_the_length_limit_is_rejected_alone(tmp_path: Path) -> None:
    long = json.dumps({"file_name": "1.jpg", "captions": ["x" * 5000]})
    rows = read(tmp_path, f"{LINE}\n{long}\n{LINE}", ReadOptions(max_record_characters=1000))
    assert [(b.index, b.reason, b.detail) for b in rows if isinstance(b, BadRow)] == [
        (1, "record_too_large", "line 2 is too long, wanted at most 1,000 characters")
    ]
    assert [r.index for r in rows if isinstance(r, SourceRow)] == [0, 2]


def test_a_file_of_another_format_is_refused(subtests: pytest.Subtests, tmp_path: Path) -> None:
    cases: list[tuple[str, str]] = [
        ("", "is empty; expected an annotation file"),
        ("\n \n", "is not a json-lines file: it has no records"),
        ("[\n" + LINE + "\n]", "line 1, its first, is not a JSON object"),
        ("file;words\n1.jpg;A cat.\n", "its first line, .* is neither a JSON object with"),
        ("\n{\n", "line 2, its first, is not a JSON object"),
        (
            '{"id": 1}',
            "is not a JSON object with the fields file_name and captions or caption or text",
        ),
    ]
    for text, message in cases:
        with (
            subtests.test(text=text, message=message),
            pytest.raises(FormatError, match=message),
        ):
            read(tmp_path, text)


@pytest.mark.parametrize(
    "text",
    [
        '{"file_name": "0.jpg", "text": "A cat.", "split": "validation"}',
        '{"file_name": "0.jpg", "caption": "A cat.", "split": "dev"}',
        '{"file_name": "0.jpg", "captions": "A cat.", "split": " Valid "}',
        '{"file_name": "0.jpg", "captions": ["A cat."], "split": "val"}',
        "file_name,text,split\n0.jpg,A cat.,validation\n",
        'sep=;\r\nFile_Name;Caption;Split\r\n0.jpg;"A cat.";val\r\n',
        "file_name\ttext\tsplit\n0.jpg\tA cat.\tval\n",
    ],
)
def test_the_metadata_of_an_image_folder_is_read(tmp_path: Path, text: str) -> None:
    (row,) = read(tmp_path, text)
    assert isinstance(row, SourceRow)
    assert (row.file_path, row.captions, row.split) == ("0.jpg", ("A cat.",), "val")


def test_a_caption_with_an_unquoted_comma_is_rejected_and_not_cut(tmp_path: Path) -> None:
    bad, good = read(tmp_path, "file_name,text\n0.jpg,A red coat, blue jeans.\n1.jpg,A cat.\n")
    assert isinstance(bad, BadRow)
    assert isinstance(good, SourceRow)
    assert (bad.scope, bad.reason) == ("record", "malformed_csv")
    assert bad.detail == (
        "line 2 has 3 cells, wanted 2: file_name, text; a text that contains ',' must be in "
        "double quotes"
    )
