"""Row differences: empty for equal rows, symmetric, and sufficient to turn A into B."""

from collections import Counter
from contextlib import closing
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from loupe.release.changes import RowDifference
from loupe.release.diff import ANCHOR, RowPairs, comparable_row, row_differences
from loupe.schemas.base import canonical_json
from tests.release.mirrored import mirrored

Row = dict[str, Any]

_VOCABULARY = ("a", "tall", "man", "red", "coat", "left")
_WORDS = st.lists(st.sampled_from(_VOCABULARY), max_size=5)
_TEXT = _WORDS.map(" ".join)
_ID = st.sampled_from([digit * 32 for digit in "012345"])


@st.composite
def _rows(draw: st.DrawFn) -> list[Row]:
    """Random rows; several may have the same source and path."""
    rows = [_row(draw, number) for number in range(draw(st.integers(0, 5)))]
    for row in rows:
        if row["contrast"] is not None:
            anchor = draw(st.sampled_from(rows))
            row["contrast"]["anchor"] = anchor["file_path"]
            row["contrast"]["anchor_entity_id"] = anchor["image_entity_id"]
    return rows


def _row(draw: st.DrawFn, number: int) -> Row:
    captions = draw(st.lists(st.tuples(_TEXT, _ID), max_size=4))
    coarse = draw(st.lists(st.tuples(_TEXT, _ID), max_size=2))
    languages = st.sampled_from(["zh", "de"])
    translations = draw(st.lists(st.tuples(languages, _TEXT, _ID), max_size=2 * bool(captions)))
    row: Row = {
        "id": number + 1,
        "source": draw(st.sampled_from("xy")),
        "identity": draw(st.sampled_from("12")),
        "split": draw(st.sampled_from(["train", "test"])),
        "file_path": f"images/{number + 1}.jpg",
        "source_file_path": draw(st.sampled_from(["1.jpg", "2.jpg", "10.jpg"])),
        "captions": [text for text, _ in captions],
        "caption_entity_ids": [entity for _, entity in captions],
        "caption_authors": [draw(st.sampled_from("xp")) for _ in captions],
        "caption_origins": ["written" for _ in captions],
        "caption_reviewed": [draw(st.booleans()) for _ in captions],
        "image_entity_id": draw(_ID),
        "width_px": 12,
        "height_px": 24,
        "sha256": draw(st.sampled_from(["a" * 64, "b" * 64])),
        "crop": None,
        "coarse_captions": [text for text, _ in coarse],
        "coarse_caption_entity_ids": [entity for _, entity in coarse],
        "translations": [
            {"language": language, "caption": 0, "text": text, "entity_id": id_, "author": "m"}
            for language, text, id_ in translations
        ],
        "contrast": draw(
            st.none()
            | st.fixed_dictionaries(
                {
                    "difference": st.just("attribute"),
                    "detail": _TEXT,
                    "plan": st.just("blue"),
                    "method": st.none(),
                }
            )
        ),
    }
    if draw(st.booleans()):
        row |= {"licence": draw(st.sampled_from(["CC0", "mine"])), "creator": None}
        row |= {"source_url": draw(st.none() | st.just("https://example.org"))}
    return row


LICENCES = {"x": "CC0", "y": "CC0"}


def differences(before: list[Row], after: list[Row]) -> list[RowDifference]:
    with closing(RowPairs()) as pairs:
        pairs.add((comparable_row(row, LICENCES) for row in before), later=False)
        pairs.add((comparable_row(row, LICENCES) for row in after), later=True)
        return list(row_differences(pairs))


def comparable_contents(rows: list[Row]) -> list[Row]:
    """Comparable contents of rows, built independently of the compared code."""
    named = {
        id_: min(
            f"{one['source']}: {one['source_file_path']}"
            for one in rows
            if one["image_entity_id"] == id_
        )
        for id_ in {row["image_entity_id"] for row in rows}
    }
    found = []
    for row in rows:
        compared = comparable_row(row, LICENCES)
        values = compared.values()
        if compared.anchor_id is not None:
            values["fields"][ANCHOR] = named[compared.anchor_id]
        found.append(
            {
                "at": (compared.source, compared.source_file_path),
                **values,
                "place": compared.place,
            }
        )
    return found


def apply_differences(rows: list[Row], changes: list[RowDifference]) -> list[Row]:
    """Apply differences to the comparable contents of rows."""
    left = list(rows)
    for change in changes:
        at = (change.source, change.source_file_path)
        old: Row = {"fields": {}, "texts": {}}
        if change.before is not None:
            old = next(one for one in left if (one["at"], one["place"]) == (at, change.before))
            left.remove(old)
        if change.after is None:
            assert change.row == {"fields": old["fields"], "texts": old["texts"]}
            continue
        new = change.row or {
            "fields": _changed_fields(old["fields"], change),
            "texts": _changed_texts(old["texts"], change),
        }
        left.append({"at": at, **new, "place": change.after})
    return left


def _changed_fields(fields: Row, change: RowDifference) -> Row:
    after = fields | {one.field: one.after for one in change.fields}
    return {name: value for name, value in after.items() if value is not None}


def _changed_texts(texts: dict[str, list[Row]], change: RowDifference) -> dict[str, list[Row]]:
    result = {}
    for field in texts.keys() | {one.field for one in change.texts}:
        done = [one for one in change.texts if one.field == field]
        gone = {one.before.place for one in done if one.before}
        placed = {one.after.place: one.after.values for one in done if one.after}
        kept = [one for place, one in enumerate(texts.get(field, [])) if place not in gone]
        listed = [
            placed[place] if place in placed else kept.pop(0)
            for place in range(len(placed) + len(kept))
        ]
        if listed:
            result[field] = listed
    return result


def _count_rows(rows: list[Row]) -> Counter[str]:
    """Count rows without their places, which may change."""
    return Counter(canonical_json([*one["at"], one["fields"], one["texts"]]) for one in rows)


@settings(max_examples=20, deadline=None)
@given(_rows(), st.randoms(use_true_random=False))
def test_row_numbers_and_file_names_are_no_difference(rows: list[Row], chance: Any) -> None:
    moved = [{**row, "id": row["id"] + 7, "file_path": f"new/{row['id']}"} for row in rows]
    chance.shuffle(moved)
    assert differences(rows, moved) == []


@settings(max_examples=25, deadline=None)
@given(_rows(), _rows())
def test_differences_are_symmetric(before: list[Row], after: list[Row]) -> None:
    there, back = differences(before, after), differences(after, before)
    assert list(map(mirrored, there)) == back
    assert list(map(mirrored, back)) == there


@settings(max_examples=40, deadline=None)
@given(_rows(), _rows())
def test_applied_differences_give_the_other_release(before: list[Row], after: list[Row]) -> None:
    done = apply_differences(comparable_contents(before), differences(before, after))
    assert _count_rows(done) == _count_rows(comparable_contents(after))
