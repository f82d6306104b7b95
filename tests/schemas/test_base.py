"""Digests, entity ids, canonical JSON and records."""

from importlib import import_module
from pkgutil import iter_modules

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from loupe import schemas
from loupe.schemas.base import Record, canonical_json, digest_of, entity_id
from loupe.schemas.records import Caption

parts = st.lists(st.text(alphabet="0123:ab", max_size=4), max_size=4).map(tuple)


@given(parts, parts)
def test_digests_are_equal_only_for_equal_parts(
    first: tuple[str, ...], second: tuple[str, ...]
) -> None:
    assert (digest_of(*first) == digest_of(*second)) == (first == second)


def test_a_digest_has_32_hex_digits_and_stays_the_same() -> None:
    assert digest_of("a", "b") == "c04e17957d4ca3123b3afdaab02e4023"
    assert digest_of("ab") != digest_of("a", "b") != digest_of("a", "b", "")


@given(st.dictionaries(st.text(), st.integers()))
def test_canonical_json_does_not_depend_on_the_order_of_keys(value: dict[str, int]) -> None:
    assert canonical_json(value) == canonical_json(dict(reversed(value.items())))


def test_an_entity_id_does_not_depend_on_the_order_of_parents() -> None:
    parents = [("a", "1"), ("b", "2")]
    assert entity_id("d", "k", "{}", parents) == entity_id("d", "k", "{}", parents[::-1])
    assert entity_id("d", "k", "{}", parents) != entity_id("d", "k", "{}", [("a", "2"), ("b", "1")])


def test_a_record_is_frozen_and_refuses_unknown_fields() -> None:
    caption = Caption(source="s", text="t", position=0)
    with pytest.raises(ValidationError, match="frozen"):
        caption.text = "another"  # type: ignore[misc]
    with pytest.raises(ValidationError, match="colour"):
        Caption.model_validate({**caption.model_dump(), "colour": "blue"})
    assert caption.payload() == '{"source":"s","text":"t","position":0}'


def test_every_record_can_be_built() -> None:
    """Validators are otherwise built on first use."""
    for module in iter_modules(schemas.__path__, "loupe.schemas."):
        import_module(module.name)
    records = [Record]
    for record in records:
        records += record.__subclasses__()
        record.model_rebuild()
    assert len(records) > 100
