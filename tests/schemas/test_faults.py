"""Faults of data in one sentence."""

import json

import pytest
from pydantic import Field, ValidationError, model_validator

from schemas.base import Record
from schemas.faults import fault_of


class Inner(Record):
    count: int = Field(ge=0)


class Outer(Record):
    name: str
    inner: tuple[Inner, ...] = ()

    @model_validator(mode="after")
    def _is_named(self) -> "Outer":
        if not self.name:
            raise ValueError("a name is wanted")
        return self


def error_of(text: str) -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate_json(text)
    return caught.value


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({}, "name is missing"),
        ({"name": "a", "nmae": "b"}, "nmae is unknown"),
        ({"name": ""}, "a name is wanted"),
        ({"name": 3}, "name: Input should be a valid string, got 3"),
        (
            {"name": "a", "inner": [{"count": 1}, {"count": -1}]},
            "inner.1.count: Input should be greater than or equal to 0, got -1",
        ),
        ({"inner": "x"}, "name is missing"),
    ],
)
def test_place_what_and_got(values: object, told: str) -> None:
    assert fault_of(error_of(json.dumps(values))) == told


def test_what_is_no_json_and_what_is_long() -> None:
    assert fault_of(error_of("{")).startswith("Invalid JSON: EOF while parsing")
    told = fault_of(error_of(json.dumps({"name": ["x" * 1000]})))
    assert told.startswith("name: Input should be a valid string, got ['xxxx")
    assert (told[-1], len(told) < 130, len(told.splitlines())) == ("…", True, 1)


def test_unknown_keys_are_said_as_wanted() -> None:
    error = error_of('{"name": "a", "b": 1}')
    assert fault_of(error, unknown="is no key of this") == "b is no key of this"


def test_other_errors_say_their_first_line() -> None:
    assert fault_of(ValueError("one\ntwo")) == "one"
    assert fault_of(ValueError()) == "ValueError"
