"""Record kinds of users: pydantic classes that are stored and released like built-in ones."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from loupe.schemas.base import EntityRecord
from loupe.schemas.errors import UsageError

_KIND = re.compile(r"[a-z][a-z0-9_]{0,39}")


class Record(EntityRecord):
    """A kind of record of one's own: `class Attributes(loupe.Record, kind="attributes")`.

    A record is immutable; unknown fields are errors. Its fields become a column of the release,
    with their types and descriptions.
    """

    def __init_subclass__(cls, *, kind: str | None = None, **settings: Any) -> None:
        if kind is None:
            raise UsageError(f'{cls.__name__} has no kind: write class {cls.__name__}(loupe.Record, '
                             f'kind="{cls.__name__.lower()}")')
        if not _KIND.fullmatch(kind):
            raise UsageError(
                f"the kind of {cls.__name__} must be up to 40 small letters, digits and '_'; "
                f"got {kind!r}"
            )
        if kind in built_in_kinds():
            raise UsageError(
                f"the kind of {cls.__name__} must be a name of its own; {kind!r} is one of Loupe's"
            )
        super().__init_subclass__(kind=kind, **settings)


@cache
def built_in_kinds() -> frozenset[str]:
    """Return the kinds of Loupe's own records and the columns of its releases."""
    from loupe.release.rows import COLUMNS

    kinds = {one.kind for one in _below(EntityRecord) if hasattr(one, "kind")}
    return frozenset(kinds | {column.name for column in COLUMNS})


def _below(form: type[EntityRecord]) -> Iterator[type[EntityRecord]]:
    for one in form.__subclasses__():
        if not issubclass(one, Record):
            yield one
            yield from _below(one)
