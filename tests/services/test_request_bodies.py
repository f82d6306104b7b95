"""Bodies and queries that the desk server accepts: one JSON object, the same for all parsers."""

import json
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any
from urllib.parse import quote, unquote

import pytest

from loupe.services.desk_server.loupe_desk.body import (
    MOST_BYTES,
    MOST_LEVELS,
    BodyRefusedError,
    check_filters,
    read_body,
    read_query,
    written,
)

JSON = "application/json"
FIELDS = ("result", "lead_time", "draft_id", "started_at")
ANSWER = {
    "result": [{"from_name": "text", "value": {"text": ["a hat ✓", "ein Hut 🎩"]}}],
    "lead_time": 2.5,
    "draft_id": None,
}


def nested(levels: int) -> bytes:
    return b'{"result": [{"value": ' + b"[" * levels + b"]" * levels + b"}]}"


def test_a_forwarded_body_is_the_same_in_every_ascii_compatible_charset() -> None:
    read = read_body("application/json; charset=UTF-8", json.dumps(ANSWER).encode(), FIELDS)
    assert read == ANSWER
    for charset in ("ascii", "utf-8", "utf-8-sig", "latin-1", "cp1252"):
        assert json.loads(written(read).decode(charset)) == ANSWER, charset
    assert read_body("", b"", FIELDS) == read_body("text/plain", b"", ()) == {}


REFUSED_TYPES = (
    "application/json; charset=utf-7",
    "application/json; charset=unicode_escape",
    "application/json; charset=utf-8; charset=utf-7",
    "application/json; charset=utf-7; charset=utf-8",
    "application/json; x=1; charset=utf-8",
    "application/json; charset*=utf-8''utf-7",
    "application/json, application/json; charset=utf-7",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=b",
    "text/plain",
    "",
)
REFUSED_BODIES = (
    json.dumps(ANSWER).encode("utf-16"),
    json.dumps(ANSWER).encode("utf-8-sig"),
    b'{"lead_time": 1, "lead_time": 2}',
    b'{"result": [{"value": {}, "value": {"choices": ["accept"]}}]}',
    b'{"lead_time": 1, "task": 5}',
    b'{"+AHAAcgBvAGoAZQBjAHQ-": 5}',
    b'{"\\u0074ask": 5}',
    b'{"completed_by": 5}',
    b'{"lead_time": NaN}',
    b'{"lead_time": 1e999}',
    b'{"lead_time": "nan"}',
    b'{"lead_time": true}',
    b'{"result": "[]"}',
    b'{"result": {}}',
    b'{"result": [[]]}',
    b'{"result": [{"value": "\\ud800"}]}',
    b'{"result": [{"\\u0000": 1}]}',
    b'{"result": [{"value": 9223372036854775808}]}',
    b"[]",
    b"5",
    b"{",
    b"\xff",
    nested(MOST_LEVELS),
    nested(600),
    nested(200_000),
    b'{"started_at": "' + b"x" * MOST_BYTES + b'"}',
)
"""Bodies that parsers could read differently or cannot read."""


def accepted(content_type: str, body: bytes) -> bool:
    try:
        read_body(content_type, body, FIELDS)
    except BodyRefusedError:
        return False
    return True


def test_only_json_in_utf_8_is_accepted() -> None:
    body = b'{"lead_time": 1}'
    assert accepted(JSON, body)
    assert [kind for kind in REFUSED_TYPES if accepted(kind, body)] == []


def test_an_ambiguous_or_unreadable_body_is_refused() -> None:
    assert [body[:40] for body in REFUSED_BODIES if accepted(JSON, body)] == []


def test_forbidden_field_names_are_refused_in_every_charset() -> None:
    charsets = ("utf-7", "utf-16", "utf-16-le", "utf-32", "utf-8-sig", "unicode_escape", "cp037")
    for charset, name in product(charsets, ("task", "project", "completed_by")):
        body = json.dumps({name: 5}).encode(charset)
        hidden = b'{"' + "".join(f"\\u{ord(c):04x}" for c in name).encode() + b'": 5}'
        for one in (body, hidden):
            with pytest.raises(BodyRefusedError):
                read_body(JSON, one, FIELDS)


def condition(column: str = "filter:tasks:data.text", operator: str = "contains") -> dict[str, Any]:
    return {"filter": column, "operator": operator, "type": "String", "value": "(a+)+$"}


SLOW_FILTERS: tuple[dict[str, Any], ...] = (
    condition(operator="regex"),
    condition(operator="iregex"),
    condition("filter:tasks:data.text__regex", "equal"),
    condition("filter:tasks:data.text__iregex", "not_equal"),
    condition("filter:tasks:data.data.regex", "equal"),
    condition("filter:tasks:-data.data.regex", "equal"),
    condition("tasks:data.text"),
    {**condition(), "child_filter": condition(operator="regex")},
    {**condition(), "child_filter": {**condition(), "child_filter": condition(operator="regex")}},
)


def forms(item: Any) -> Iterator[Callable[[], Any]]:
    """Yield functions that read a filter as the gate does, for each way to send it."""
    filters = {"conjunction": "and", "items": [condition(), item]}
    action = {"project": 1, "filters": filters}
    tab = {"project": 1, "data": {"title": "mine", "filters": filters}}
    query = json.dumps({"filters": filters})
    fields = ("project", "filters", "data")
    yield lambda: read_body(JSON, json.dumps(action).encode(), fields)
    yield lambda: read_body(JSON, json.dumps(tab).encode(), fields)
    yield lambda: read_query(query)
    yield lambda: read_query(quote(query))
    yield lambda: read_query(json.dumps({"filters": filters, "x": 1}))


@pytest.mark.parametrize("item", SLOW_FILTERS, ids=json.dumps)
def test_a_filter_with_a_regular_expression_is_refused_in_every_form(item: dict[str, Any]) -> None:
    for read in forms(item):
        with pytest.raises(BodyRefusedError, match="a filter must"):
            read()


def test_filters_of_bounded_cost_are_passed_on_unchanged() -> None:
    item = {**condition(), "value": "100%25 ✓", "child_filter": condition("filter:tasks:id", "in")}
    for read in forms(item):
        read()
    sent = {"filters": {"conjunction": "or", "items": [item]}, "ordering": ["tasks:id"]}
    assert json.loads(unquote(read_query(quote(json.dumps(sent))))) == sent


@pytest.mark.parametrize(
    "query",
    ["", "[]", "{", '{"filters": [], "filters": []}', '{"filters": "regex"}', '{"filters": []}'],
)
def test_a_query_that_can_be_read_in_two_ways_is_refused(query: str) -> None:
    with pytest.raises(BodyRefusedError):
        read_query(query)


def test_there_are_few_filters() -> None:
    with pytest.raises(BodyRefusedError, match="at most 20"):
        check_filters({"conjunction": "or", "items": [condition()] * 21})
