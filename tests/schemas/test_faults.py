"""Validation errors as one sentence."""

import json
from typing import Any

import pytest
from pydantic import BaseModel, Field, ValidationError, model_validator

from loupe.schemas.base import DatasetName, NonBlank, Record, Version
from loupe.schemas.build import Build
from loupe.schemas.chat import ServerAddress
from loupe.schemas.errors import ConfigurationError
from loupe.schemas.profile import Profile
from loupe.schemas.validation import fault_of, validated


class Inner(Record):
    count: int = Field(ge=0)


class Outer(Record):
    name: str
    inner: tuple[Inner, ...] = ()
    dataset: DatasetName = "d"
    version: Version = "1.0.0"
    server: ServerAddress = "http://127.0.0.1"
    title: NonBlank = "t"
    answer: str = Field(default="yes", pattern="^(yes|no)$")

    @model_validator(mode="after")
    def _is_named(self) -> "Outer":
        if not self.name:
            raise ValueError("a name is wanted")
        return self


class Outermost(Record):
    outer: Outer


def error_of(text: str) -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate_json(text)
    return caught.value


def test_a_fault_names_the_field_the_rule_and_the_value(subtests: pytest.Subtests) -> None:
    cases: list[tuple[object, str]] = [
        ({}, "name is missing"),
        ({"name": "a", "nmae": "b"}, "unknown key 'nmae'; did you mean 'name'?"),
        ({"name": ""}, "a name is wanted"),
        ({"name": 3}, "name: must be a text, got 3"),
        (
            {"name": "a", "inner": [{"count": 1}, {"count": -1}]},
            "inner.1.count: must be greater than or equal to 0, got -1",
        ),
        ({"inner": "x"}, "name is missing"),
        (
            {"name": "a", "dataset": "my people"},
            (
                "dataset: must be up to 64 letters, digits, '.', '_' and '-', the first a letter "
                "or a digit, got 'my people'"
            ),
        ),
        ({"name": "a", "version": "1"}, "version: must be three numbers, such as 1.0.0, got '1'"),
        (
            {"name": "a", "server": "localhost:8000/v1"},
            (
                "server: must be an address that begins with https:// or http://, "
                "got 'localhost:8000/v1'"
            ),
        ),
        ({"name": "a", "title": " "}, "title: must not be blank, got ' '"),
        (
            {"name": "a", "answer": "maybe"},
            "answer: must match pattern '^(yes|no)$', got 'maybe'",
        ),
    ]
    for values, fault in cases:
        with subtests.test(fault=fault):
            assert fault_of(error_of(json.dumps(values)), Outer) == fault


def test_a_fault_of_a_record_as_a_whole_does_not_repeat_its_values() -> None:
    with pytest.raises(ValidationError) as caught:
        Outermost.model_validate({"outer": {"name": ""}})
    assert fault_of(caught.value) == "outer: a name is wanted"


def test_invalid_json_and_long_values() -> None:
    assert fault_of(error_of("{")).startswith("Invalid JSON: EOF while parsing")
    fault = fault_of(error_of(json.dumps({"name": ["x" * 1000]})))
    assert fault.startswith("name: must be a text, got ['xxxx")
    assert (fault[-1], len(fault) < 130, len(fault.splitlines())) == ("…", True, 1)


def test_a_table_of_an_array_is_named_as_its_author_names_it() -> None:
    for table, called in (({"name": "a"}, "[[inner]] 'a'"), ({}, "[[inner]] number 2")):
        values = {"name": "n", "inner": [{"count": 1}, {"count": -1, **table}]}
        with pytest.raises(ConfigurationError) as caught:
            validated(Outer, values, "file")
        assert str(caught.value).startswith(f"file: {called}: ")


def test_an_unknown_key_is_reported_with_the_most_similar_known_key() -> None:
    error = error_of('{"name": "a", "b": 1}')
    assert fault_of(error) == "unknown key 'b'"
    assert fault_of(error, Outer) == (
        "unknown key 'b'; known keys are answer, dataset, inner, name, server, title, version"
    )
    assert fault_of(error, Outer, see="the page") == "unknown key 'b'; see the page"
    inner = error_of('{"name": "a", "inner": [{"count": 1, "cuont": 1}]}')
    assert fault_of(inner, Outer) == "unknown key 'inner.0.cuont'; did you mean 'count'?"


def test_what_one_of_several_types_lacks_is_said_as_it_is_written() -> None:
    server = {"provider": "openai", "name": "m", "revision": "1"}
    source = {"name": "s", "format": "csv", "annotations": "a.csv"}
    model = "rewrite.models.0"
    cases: list[tuple[type[BaseModel], dict[str, Any], str]] = [
        (Profile, {**server, "provider": "openia"}, f"{model}.provider: there is no 'openia'; did"),
        (Profile, {"providr": "openai"}, f"unknown key '{model}.providr'; did you mean 'provider'"),
        (Profile, {**server, "temperature": 1}, f"'{model}.temperature'; it belongs in sampling: "),
        (Profile, {**server, "base_ulr": ""}, f"'{model}.base_ulr'; did you mean 'base_url'?"),
        (Build, {"images": {"quality": 500}}, "images.quality: must be less than or equal"),
        (Build, {"images": "stord"}, "images: must be 'stored', got 'stord'; did you mean"),
        (Build, {"sources": [{**source, "zzz": 1}]}, "unknown key 'sources.0.zzz'; known keys are"),
    ]
    for form, values, fault in cases:
        if form is Profile:
            values = {"name": "p", "description": "d", "rewrite": {"models": [values]}}
        else:
            values = {"dataset": "d", "sources": [source], **values}
        with pytest.raises(ValidationError) as caught:
            form.model_validate(values)
        said = fault_of(caught.value, form)
        assert fault in said
        assert "engine_arguments" not in said, "keys of another provider"


def test_other_errors_are_reduced_to_their_first_line() -> None:
    assert fault_of(ValueError("one\ntwo")) == "one"
    assert fault_of(ValueError()) == "ValueError"
