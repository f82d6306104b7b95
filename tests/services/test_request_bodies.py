"""Request bodies that the desk server accepts: one JSON object, the same for all parsers."""

import json
from itertools import product

import pytest

from services.desk_server.loupe_desk.body import (
    MOST_BYTES,
    MOST_LEVELS,
    BodyRefusedError,
    read_body,
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
