"""The content of an annotator's request: JSON objects that can be read in only one way.

The gate decides by its own reading of a body, and Label Studio acts on its own reading. To keep
both the same, everything ambiguous is refused (other charsets, duplicate names, byte order marks,
NaN and infinity), and Label Studio receives a body serialized again from the gate's reading.

The same holds for the filters of a tab, which may be sent in a body or in the query of an address.
A filter with a regular expression could occupy Label Studio and its database for hours, so only
operators of bounded cost are accepted.
"""

import json
import math
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any
from urllib.parse import quote, unquote

MOST_BYTES = 1 << 20
MOST_LEVELS = 16
"""A page's answer has five levels, a tab's filters have nine."""
_DIGITS = 19
_INTEGERS = range(-(2**63), 2**63)
_SOUND_TEXT = re.compile("[^\0\ud800-\udfff]*")
# Only the charset may follow the type, and only once.
_CONTENT_TYPE = re.compile(r'([\w.+-]+/[\w.+-]+)\s*(?:;\s*charset="?utf-?8"?\s*)?', re.IGNORECASE)
_QUERY_FIELDS = ("filters", "ordering", "selectedItems")
_MOST_FILTERS = 20
_OPERATORS = frozenset(
    {
        *("equal", "not_equal", "less", "greater", "less_or_equal", "greater_or_equal"),
        *("in", "not_in", "in_list", "not_in_list", "empty", "contains", "not_contains"),
    }
)
# Two underscores, or a second point, would add a lookup of the database (`data.text__regex`).
_COLUMN = re.compile(r"filter:tasks:-?(?:data\.)?(?!_)(?:(?!__)\w)+", re.ASCII)


class BodyRefusedError(ValueError):
    """A body that is refused; the message says what is wrong with it."""


def media_type(content_type: str) -> str:
    """Return the media type of a `Content-Type` header, or "" if there is none.

    Raises:
        BodyRefusedError: it names a charset other than UTF-8, or other parameters.
    """
    if not content_type.strip():
        return ""
    match = _CONTENT_TYPE.fullmatch(content_type.strip())
    if match is None:
        raise BodyRefusedError(
            "the Content-Type must be a media type, with no parameter but charset=utf-8; "
            f"got {content_type[:100]!r}"
        )
    return match[1].lower()


def read_body(content_type: str, body: bytes, fields: Collection[str]) -> dict[str, Any]:
    """Return the fields of a JSON object, which may contain only `fields`.

    Raises:
        BodyRefusedError: it is not an object, is too large, has other fields, or a filter that is
            refused.
    """
    if len(body) > MOST_BYTES:
        raise BodyRefusedError(f"a body must have at most {MOST_BYTES:,} bytes; got {len(body):,}")
    kind = media_type(content_type)
    if not body:
        return {}
    if kind != "application/json":
        raise BodyRefusedError(f"a body must be of the type application/json; got {kind!r}")
    value = _parsed(body)
    if not isinstance(value, dict):
        raise BodyRefusedError("a body must be a JSON object")
    if unknown := sorted(value.keys() - set(fields)):
        allowed = ", ".join(sorted(fields)) or "nothing"
        raise BodyRefusedError(f"a body may hold {allowed} here; got {unknown[0][:100]!r}")
    _check(value)
    for name, (fits, expected) in _SHAPES.items():
        if value.get(name) is not None and not fits(value[name]):
            raise BodyRefusedError(f"{name!r} must be {expected}")
    check_filters(value.get("filters"))
    if isinstance(tab := value.get("data"), dict):
        check_filters(tab.get("filters"))
    return value


def read_query(text: str) -> str:
    """Return the `query` of an address, serialized again: Label Studio decodes it a second time.

    Raises:
        BodyRefusedError: it is not a JSON object, or has a filter that is refused.
    """
    value = _parsed(unquote(text).encode("utf-8", "surrogatepass"))
    if not isinstance(value, dict):
        raise BodyRefusedError("a query must be a JSON object")
    _check(value)
    check_filters(value.get("filters"))
    return quote(json.dumps({name: value[name] for name in _QUERY_FIELDS if name in value}))


def check_filters(filters: Any) -> None:
    """Accept the filters of a tab, as its page sends them, or None.

    Raises:
        BodyRefusedError: a filter has a regular expression or another unknown operator.
    """
    if filters is None or filters == {}:
        return
    items = filters.get("items", []) if isinstance(filters, dict) else None
    if not isinstance(items, list):
        raise BodyRefusedError("'filters' must be an object with a list of items")
    waiting = list(items)
    seen = 0
    while waiting:
        item = waiting.pop()
        seen += 1
        if not isinstance(item, dict) or seen > _MOST_FILTERS:
            raise BodyRefusedError(f"filters must be at most {_MOST_FILTERS} objects")
        check_filter(item.get("filter"), item.get("operator"))
        if item.get("child_filter") is not None:
            waiting.append(item["child_filter"])


def check_filter(column: Any, operator: Any) -> None:
    """Accept one filter of a tab.

    Raises:
        BodyRefusedError: the operator or the column is not among those of bounded cost.
    """
    if operator not in _OPERATORS:
        raise BodyRefusedError(
            f"a filter must use one of {', '.join(sorted(_OPERATORS))}; got {str(operator)[:100]!r}"
        )
    if not isinstance(column, str) or not _COLUMN.fullmatch(column):
        raise BodyRefusedError(
            f"a filter must name a column as filter:tasks:NAME or filter:tasks:data.NAME; got "
            f"{str(column)[:100]!r}"
        )


def written(value: Mapping[str, Any]) -> bytes:
    """Serialize the body in ASCII, which Label Studio reads the same in every allowed charset."""
    return json.dumps(value, allow_nan=False).encode("ascii")


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(
            body.decode("utf-8"), object_pairs_hook=_without_doubles, parse_constant=_no_constant
        )
    except BodyRefusedError:
        raise
    except RecursionError as error:
        raise BodyRefusedError(f"a body must have at most {MOST_LEVELS} levels") from error
    except ValueError as error:
        raise BodyRefusedError("a body must be JSON in UTF-8") from error


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise BodyRefusedError("a body must not hold a name twice in the same object")
    return found


def _no_constant(name: str) -> Any:
    raise BodyRefusedError(f"a body must not hold {name}")


def _check(value: Any, level: int = 0) -> None:
    """Refuse values that a database or a JSON reader cannot return unchanged."""
    if level > MOST_LEVELS:
        raise BodyRefusedError(f"a body must have at most {MOST_LEVELS} levels")
    if isinstance(value, str) and not _SOUND_TEXT.fullmatch(value):
        raise BodyRefusedError("a text must hold no zero bytes and no lone surrogates")
    if isinstance(value, float) and not math.isfinite(value):
        raise BodyRefusedError("a number must be finite")
    if isinstance(value, int) and value not in _INTEGERS:
        raise BodyRefusedError("an integer must have at most 64 bits")
    if isinstance(value, dict | list):
        for child in (*value, *value.values()) if isinstance(value, dict) else value:
            _check(child, level + 1)


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    """Tell whether it is an integer, or its digits: the page takes some numbers from its URL."""
    if isinstance(value, str):
        return value.isascii() and value.isdigit() and len(value) < _DIGITS
    return isinstance(value, int) and not isinstance(value, bool)


def _is_selection(value: Any) -> bool:
    """Tell whether it is a selection of tasks, the excluded ones by number."""
    excluded = value.get("excluded") or [] if isinstance(value, dict) else None
    return isinstance(excluded, list) and all(map(_is_whole, excluded))


# Label Studio would parse a text as JSON or as a number ("nan"), which is not checked here.
_SHAPES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "result": (_is_list_of_objects, "a list of objects"),
    "lead_time": (_is_number, "a number"),
    "project": (_is_whole, "a whole number"),
    "selectedItems": (_is_selection, "an object, with task numbers in a list 'excluded'"),
    "data": (_is_object, "an object"),
    "draft_id": (_is_whole, "a whole number"),
    "annotation": (_is_whole, "a whole number"),
    "parent_annotation": (_is_whole, "a whole number"),
    "parent_prediction": (_is_whole, "a whole number"),
}
