"""Briefs: what a model is told, as lines `Name: value` that a program can read, too."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self, get_origin

from pydantic import ValidationError

from schemas.base import Record
from schemas.errors import FormatError


class Brief(Record):
    """What a model is told, in values.

    Attributes:
        called: what messages call a brief of this kind.
        lines: for each name of a line its field, in the order of the lines. A field that is a tuple
            has a line for each of its values; one that is None has none.
    """

    called: ClassVar[str]
    lines: ClassVar[Mapping[str, str]]

    def text(self) -> str:
        """The brief as lines. White space within a value becomes single spaces."""
        return "\n".join(
            f"{name}: {' '.join(str(value).split())}"
            for name, field in self.lines.items()
            for value in _values(getattr(self, field))
        )

    @classmethod
    def parse(cls, text: str) -> Self:
        """The brief in such lines, which may stand in any order.

        Raises:
            FormatError: a line is not of the form, stands twice, or is missing.
        """
        once: dict[str, str] = {}
        repeated: dict[str, list[str]] = {f: [] for f in cls.lines.values() if cls._repeats(f)}
        for number, line in enumerate(text.split("\n"), start=1):
            name, _, value = line.partition(": ")
            field = cls.lines.get(name)
            if field in repeated:
                repeated[field].append(value)
            elif field is not None and field not in once:
                once[field] = value
            else:
                raise FormatError(f"{cls.called}, line {number}: cannot read {line!r}")
        try:
            return cls.model_validate({**once, **repeated})
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "lines"
            raise FormatError(f"{cls.called}: {place}: {first['msg']}") from error

    @classmethod
    def _repeats(cls, field: str) -> bool:
        return get_origin(cls.model_fields[field].annotation) is tuple


def _values(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    return value if isinstance(value, tuple) else (value,)
