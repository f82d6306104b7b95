"""One-line summaries of entity payloads."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from release.lineage.reading import summarize
from schemas.errors import IntegrityError

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def test_payloads_are_summarised_by_kind() -> None:
    cases: list[tuple[str, dict[str, object], str]] = [
        (
            "sample",
            {"identities_drawn": 10, "images_drawn": 30, "seed": 7, "images": ["a", "b"]},
            "10 identities drawn, 30 images drawn, seed 7",
        ),
        (
            "image",
            {"file_path": "demo/0012_3.jpg", "sha256": "0123456789abcdef", "contrast": None},
            "demo/0012_3.jpg, SHA-256 0123456789ab…",
        ),
        ("candidate", {"origin": {"method": "edit", "model": "shapes"}}, "by edit, shapes"),
        ("contrast_group", {"image_ids": ["a", "b", "c"]}, "3 image ids"),
        ("task_draw", {"per_task": 4, "seed": 7, "images": []}, "per task 4, seed 7"),
        ("unheard_of", {"a{b}": "x", "{0}": 1}, "a{b} x, {0} 1"),
    ]
    for kind, payload, details in cases:
        assert summarize(kind, json.dumps(payload)) == details, (kind, payload, details)


def test_long_values_are_shortened_and_unprintable_characters_replaced() -> None:
    assert (
        summarize("caption", json.dumps({"text": "a\u202eb  c\nd efg"}), 8)
        == "a\N{REPLACEMENT CHARACTER}b c d"
    )


@given(kind=st.sampled_from(["image", "sample", "unheard_of"]), payload=_VALUES)
def test_any_payload_is_summarised_in_one_printable_line(kind: str, payload: object) -> None:
    assert summarize(kind, json.dumps(payload)).isprintable()


def test_a_payload_that_is_no_json_is_refused() -> None:
    for payload in ("not json", "", "[" * 100_000):
        with pytest.raises(IntegrityError, match="kind 'image' is not JSON"):
            summarize("image", payload)
