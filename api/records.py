"""Record kinds of users: pydantic classes that are stored and released like built-in ones."""

import enum
import inspect
import re
import types
from collections.abc import Iterator
from typing import Any, Literal, Union, get_args, get_origin

from loupe.schemas.base import EntityRecord
from loupe.schemas.errors import UsageError
from loupe.schemas.release import ReleasedColumn, ReleasedPart

_KIND = re.compile(r"[a-z][a-z0-9_]{0,39}")


class Record(EntityRecord):
    """Base of your own kinds of records: `class Attributes(loupe.Record, kind="attributes")`.

    A record is immutable; unknown fields are errors. Its fields become a column of the release,
    with their types and descriptions.
    """

    def __init_subclass__(cls, *, kind: str | None = None, **settings: Any) -> None:
        if kind is None:
            raise UsageError(
                f"{cls.__name__} has no kind: write class {cls.__name__}(loupe.Record, "
                f'kind="{cls.__name__.lower()}")'
            )
        if not _KIND.fullmatch(str(kind)):
            raise UsageError(
                f"the kind of {cls.__name__} must be up to 40 small letters, digits and '_'; "
                f"got {kind!r}"
            )
        if kind in built_in_kinds():
            raise UsageError(
                f"the kind of {cls.__name__} must be a name of its own; {kind!r} is one of Loupe's"
            )
        for name, annotation in inspect.get_annotations(cls).items():
            if _is_taken(name) and "ClassVar" not in str(annotation):
                raise UsageError(
                    f"the field {name!r} of {cls.__name__} must have another name, as records of "
                    f"Loupe have something of that name"
                )
        super().__init_subclass__(kind=kind, **settings)


def _is_taken(name: str) -> bool:
    return name == "kind" or hasattr(Record, name)


def built_in_kinds() -> frozenset[str]:
    """Return the kinds of Loupe's own records and the columns of its releases."""
    from loupe.release.format.rows import COLUMNS

    kinds = {one.kind for one in _below(EntityRecord) if hasattr(one, "kind")}
    return frozenset(kinds | {column.name for column in COLUMNS})


def _below(form: type[EntityRecord]) -> Iterator[type[EntityRecord]]:
    for one in form.__subclasses__():
        if not issubclass(one, Record):
            yield one
            yield from _below(one)


def own_forms(*forms: type) -> tuple[type[Record], ...]:
    """Return those of some classes that are records of one's own."""
    return tuple(one for one in forms if issubclass(one, Record))


_TYPES: dict[type, Literal["string", "int64", "float64", "bool"]] = {
    bool: "bool",
    int: "int64",
    float: "float64",
    str: "string",
}
_RESERVED = ("entity_id", "caption")


def column_of(form: type[Record]) -> ReleasedColumn:
    """Return the column of a release that has the records of a class.

    A field of another type than text, number, truth value or a list of these is written as JSON.

    Raises:
        UsageError: the class has no fields, or one with a name that releases need.
    """
    if not form.model_fields:
        raise UsageError(f"{form.__name__} has no fields, so there is nothing to release of it")
    parts = []
    for name, field in form.model_fields.items():
        if name in _RESERVED or not _KIND.fullmatch(name):
            raise UsageError(
                f"the field {name!r} of {form.__name__} must have another name: small letters, "
                f"digits and '_', and none of {', '.join(_RESERVED)}"
            )
        inner, is_list = _inner_type(field.annotation)
        meaning = field.description or ""
        parts.append(ReleasedPart(name=name, type=inner, is_list=is_list, meaning=meaning))
    meaning = " ".join((inspect.cleandoc(form.__doc__) if form.__doc__ else "").split())
    return ReleasedColumn(name=form.kind, meaning=meaning, parts=tuple(parts))


def _inner_type(annotation: Any) -> tuple[Literal["string", "int64", "float64", "bool"], bool]:
    """Return the type of a field in a release, and whether it is a list."""
    members = [annotation]
    if get_origin(annotation) in (Union, types.UnionType):
        members = [one for one in get_args(annotation) if one is not type(None)]
    if len(members) != 1:
        return "string", False
    (member,) = members
    if get_origin(member) in (list, tuple, set, frozenset) and get_args(member):
        inside = {_inner_type(one) for one in get_args(member) if one is not Ellipsis}
        inner, is_nested = inside.pop()
        return "string" if is_nested or inside else inner, True
    if get_origin(member) is Literal:
        kinds = {type(one) for one in get_args(member)}
        return _TYPES.get(kinds.pop(), "string") if len(kinds) == 1 else "string", False
    if isinstance(member, type) and issubclass(member, enum.Enum):
        kinds = {type(one.value) for one in member}
        return _TYPES.get(kinds.pop(), "string") if len(kinds) == 1 else "string", False
    return _TYPES.get(member, "string"), False
