"""Describe in one sentence why data does not fit its record."""

import difflib
import re
from collections.abc import Iterable, Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

_SHOWN_CHARACTERS = 80
_MESSAGE_CHARACTERS = 1000
_OURS = "Value error, "


def fault_of(error: Exception, form: type[BaseModel] | None = None, *, see: str = "") -> str:
    """Describe the first error: where it is, what is expected there, and what was found.

    Args:
        error: an error of pydantic, such as "statistics.images: Input should be a valid integer,
            got 'many'"; of other errors, the first line or the class is used.
        form: the expected record; for an unknown key, the most similar known key is named.
        see: the page that lists the known keys.
    """
    if not isinstance(error, ValidationError):
        return next(iter(str(error).splitlines()), "") or type(error).__name__
    first = error.errors(include_url=False)[0]
    place = "".join(map(_printable, ".".join(map(str, first["loc"]))))
    message = first["msg"].removeprefix(_OURS)[:_MESSAGE_CHARACTERS]  # it may contain the value
    if not place:
        return message
    if first["type"] == "extra_forbidden":
        return unknown_key(place, known_keys(form, first["loc"]), see)
    if first["type"] == "missing":
        return f"{place} is missing"
    if "; got " in message:  # one of our messages
        return f"{place}: {message}"
    return f"{place}: {message}, got {_short(repr(first['input']))}{_nearest(first)}"


def _nearest(fault: ErrorDetails) -> str:
    """Return the allowed value that was probably meant, if values are listed and one is similar."""
    if fault["type"] not in ("enum", "literal_error"):
        return ""
    allowed = re.findall(r"'(.*?)'", fault["ctx"]["expected"])
    nearest = difflib.get_close_matches(str(fault["input"]), allowed, n=1)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""


def unknown_key(place: str, known: list[str], see: str = "") -> str:
    """Return the message on an unknown key, with the most similar known key if there is one."""
    nearest = difflib.get_close_matches(place.rpartition(".")[2], known, n=1)
    if nearest:
        return f"unknown key {place!r:.80}; did you mean {nearest[0]!r}?"
    if see:
        return f"unknown key {place!r:.80}; see {see}"
    return f"unknown key {place!r:.80}" + (f"; known keys are {', '.join(known)}" if known else "")


def nearest_hint(name: str, known: Iterable[str]) -> str:
    """Return the known name that was probably meant, or all known names."""
    among = sorted(known)
    nearest = difflib.get_close_matches(name, among, n=1)
    return f"did you mean {nearest[0]}?" if nearest else f"known are {', '.join(among) or 'none'}"


def known_keys(form: type[BaseModel] | None, place: tuple[int | str, ...]) -> list[str]:
    """Return the keys that are allowed beside the one at `place` in `form`, sorted."""
    forms = [] if form is None else [form]
    for part in place[:-1]:
        inner = [found for one in forms for found in _records(_fields(one).get(str(part)))]
        forms = inner or forms  # positions and tags of unions do not lead to another record
    return sorted({name for one in forms for name in _fields(one)})


def _fields(form: type[BaseModel]) -> dict[str, Any]:
    """Return the types of the fields of a record, by their names in files."""
    fields = form.model_fields.items()
    return {field.alias or name: field.annotation for name, field in fields}


def _records(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the record types in a type such as `tuple[Record, ...] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _records(inner)


def _printable(character: str) -> str:
    return character if character.isprintable() else ascii(character)[1:-1]


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"
