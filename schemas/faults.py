"""What is wrong with data that does not fit its record, in one sentence for people."""

from pydantic import ValidationError

_SHOWN_CHARACTERS = 80
_OURS = "Value error, "


def fault_of(error: Exception, *, unknown: str = "is unknown") -> str:
    """The first fault that an error tells of: its place, what is wanted there, and what it got.

    Of a pydantic error "statistics.images: Input should be a valid integer, got 'many'"; `unknown`
    is what is said of a key that no record has. Of others the first line, or the kind of error.
    """
    if not isinstance(error, ValidationError):
        return next(iter(str(error).splitlines()), "") or type(error).__name__
    first = error.errors(include_url=False)[0]
    place = "".join(map(_printable, ".".join(map(str, first["loc"]))))
    told = first["msg"].removeprefix(_OURS)
    if not place:
        return told
    if first["type"] == "extra_forbidden":
        return f"{place} {unknown}"
    if first["type"] == "missing":
        return f"{place} is missing"
    if "; got " in told:  # said in words of ours
        return f"{place}: {told}"
    return f"{place}: {told}, got {_short(repr(first['input']))}"


def _printable(character: str) -> str:
    return character if character.isprintable() else ascii(character)[1:-1]


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"
