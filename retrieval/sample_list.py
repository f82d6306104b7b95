"""Lists of samples as JSON files have them, checked element by element.

What is wrong is said in a sentence: the list, the place in it, what was found and what is wanted.
"""

import difflib
import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from schemas.errors import FormatError

_MOST_SHOWN = 80

Kind = TypeVar("Kind", bound=StrEnum)


def read_list(path: Path) -> object:
    """What a JSON file holds; whether it is a list is for others to say.

    Raises:
        FormatError: it cannot be read, or is no JSON.
    """
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise FormatError(
            f"{path} must be a JSON list of samples; it is no JSON: {error}"
        ) from None


def listed_objects(listed: object, fields: Sequence[str], name: str) -> list[dict[str, Any]]:
    """The objects of a list, each with at least `fields`; `name` is what to call the list.

    Raises:
        FormatError: it is no list or empty, or an element is no object or lacks a field.
    """
    if not isinstance(listed, list) or not listed:
        raise FormatError(f"{name} must be a list of at least one sample; got {shown(listed)}")
    for at, sample in enumerate(listed):
        if not isinstance(sample, dict):
            raise FormatError(f"{place(name, at)} must be an object; got {shown(sample)}")
        missing = [field for field in fields if field not in sample]
        if missing:
            wanted = ", ".join(fields)
            raise FormatError(f"{place(name, at)} must have {wanted}; {missing[0]!r} is missing")
    return listed


def names_in(samples: Sequence[dict[str, Any]], field: str, name: str) -> list[str]:
    """The names that the samples have in a field.

    Raises:
        FormatError: one of them is no text, or empty.
    """
    for at, sample in enumerate(samples):
        if not isinstance(sample[field], str) or not sample[field]:
            found = shown(sample[field])
            raise FormatError(f"{place(name, at)}: {field!r} must be a name; got {found}")
    return [sample[field] for sample in samples]


def refuse_twice(images: Sequence[str], name: str) -> None:
    """Raises `FormatError` where an image is listed more than once."""
    first: dict[str, int] = {}
    for at, image in enumerate(images):
        if first.setdefault(image, at) != at:
            raise FormatError(
                f"{name} must list each image once; {image!r} is sample {first[image]} and "
                f"sample {at} (from 0)"
            )


def kind_or_none(
    kinds: type[Kind], sample: dict[str, Any], field: str, name: str, at: int
) -> Kind | None:
    """The kind that a field names, by any of its spellings; None where it is null.

    Raises:
        FormatError: there is no such kind; the nearest one is named.
    """
    value = sample[field]
    if value is None:
        return None
    try:
        return kinds(value)
    except ValueError:
        known = [str(one) for one in kinds]
        by_plain = {one.casefold(): one for one in known}
        near = difflib.get_close_matches(str(value).casefold(), list(by_plain), n=1)
        hint = f"did you mean {by_plain[near[0]]!r}?" if near else f"known are {', '.join(known)}"
        raise FormatError(
            f"{place(name, at)}: {field!r} must be null or a kind that is known; "
            f"got {shown(value)}; {hint}"
        ) from None


def check_rows(got: int, wanted: int, name: str, rule: str) -> None:
    """Raises `FormatError` where embeddings have not as many rows as the samples ask for."""
    if got != wanted:
        raise FormatError(f"{name} must have {wanted:,} rows, {rule}; got {got:,}")


def place(name: str, at: int) -> str:
    """Where a sample stands, for messages."""
    return f"{name}: sample {at} (from 0)"


def shown(value: object) -> str:
    """A value for messages, cut where it is long."""
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
