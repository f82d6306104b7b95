"""Entities of a lineage in one line each."""

import json
import tomllib
from collections.abc import Iterator, Mapping
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final

from loupe.release.format.findings import ADVICE
from loupe.schemas.errors import IntegrityError

_BARE: Final = "{}"
_LONG: Final = 40
_OF_NOTHING: Final = sha256(b"").hexdigest()
"""The digest of the annotations of a source of videos, which has none."""


_SUMMARIES: Final[Mapping[str, Mapping[str, str]]] = tomllib.loads(
    files("loupe.release.lineage").joinpath("summaries.toml").read_text("utf-8")
)


def summarize(kind: str, payload: str, longest: int | None = None) -> str:
    """Summarize an entity's payload (JSON) on one line.

    Values are truncated to `longest` characters, lists are shown by their length, nested objects
    are left out, and unprintable characters are replaced. Kinds without their own format show all
    values with their names. The result is empty for a payload without fields.

    Raises:
        IntegrityError: if the payload is not JSON, as in a manipulated release.
    """
    try:
        values = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise IntegrityError(
            f"the payload of an entity of the kind {kind!r} is not JSON; {ADVICE}"
        ) from error
    if not isinstance(values, Mapping):
        return ""
    words = _SUMMARIES.get(kind) or {name: _named(name) for name in values}
    details = [_details(values, field, form, longest) for field, form in words.items()]
    if kind == "settings":
        details += _small_values(values.get("values"))
    return printable(", ".join(one for one in details if one))


def _small_values(values: Any) -> Iterator[str]:
    """The numbers and short texts of settings; those of functions are under `parameters`."""
    if not isinstance(values, Mapping):
        return
    stated = values.get("parameters")
    for name, value in {**values, **(stated if isinstance(stated, Mapping) else {})}.items():
        is_small = isinstance(value, int | float) or (isinstance(value, str) and len(value) < _LONG)
        if is_small and name != "code":
            yield f"{name} {value}"


def printable(text: str) -> str:
    """A text on one line, with unprintable characters replaced."""
    text = " ".join(text.split())
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _named(field: str) -> str:
    name = field.replace("_", " ").replace("{", "{{").replace("}", "}}")
    return f"{name} {_BARE}"


def _details(payload: Mapping[str, Any], field: str, form: str, longest: int | None) -> str:
    value: Any = payload
    for name in field.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    if value is None or value == _OF_NOTHING or isinstance(value, Mapping):
        return ""
    if isinstance(value, list):
        words = field.rpartition(".")[2].replace("_", " ")
        return f"{len(value):,} {words}" if value else ""
    return form.format(" ".join(str(value)[:longest].split()))
