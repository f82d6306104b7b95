"""Licences as they are stated: one of the names that we know, or an SPDX expression of several."""

from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

from schemas.licence_conditions import Conditions, conditions_of, may_become
from schemas.licences import licence_name

_ONE_OF: Final = "one of "
_OURS: Final = "LicenseRef-"


class Licence(NamedTuple):
    """What is understood of a stated licence.

    Attributes:
        expression: it, as an SPDX expression.
        choices: the licences to choose from, each a set of names that hold together; what is known
            to be one of several, and not which, holds as all of them do.
        permitted: those of the choices under which a work made of the work may be released.
    """

    expression: str
    choices: tuple[frozenset[str], ...]
    permitted: tuple[frozenset[str], ...]

    @property
    def conditions(self) -> Conditions | None:
        """What the choice that asks for least asks for; None where none permits a release."""
        asked = [_of_all(choice) for choice in self.permitted]
        known = [one for one in asked if one is not None]
        return min(known, key=lambda one: (sum(one), one), default=None)


@lru_cache(4096)
def licence_of(text: str) -> Licence | None:
    """What is understood of a licence as it is stated ("CC BY 4.0", "MIT OR CC-BY-4.0").

    None where it names no licence of SPDX's list, nor one that we have a name for: such are terms
    in words of their own ("Research use only").
    """
    if (name := licence_name(text)) is not None:
        names = name.removeprefix(_ONE_OF).split(", ")
        return _licence(" OR ".join(map(_spdx, names)), (frozenset(names),))
    return _parsed(text)


def spdx_page(text: str) -> str | None:
    """The address of a licence as it is stated, at SPDX; None where it is not one of its list."""
    known = licence_of(text)
    if known is None or " " in known.expression or known.expression.startswith(_OURS):
        return None
    return f"https://spdx.org/licenses/{known.expression}"


def permits_release(text: str) -> bool:
    """Whether works made of one that is under this may be released."""
    known = licence_of(text)
    return known is not None and bool(known.permitted)


def _spdx(name: str) -> str:
    """A name in SPDX's words: what is not on its list is a reference of ours."""
    is_known = name.startswith(_OURS) or not _licensing().validate(name).errors
    return name if is_known else f"{_OURS}{name}"


@cache
def _licensing() -> Any:
    """SPDX's list of licences; loaded once."""
    from license_expression import get_spdx_licensing

    return get_spdx_licensing()


def _parsed(text: str) -> Licence | None:
    from license_expression import ExpressionError

    try:
        parsed = _licensing().parse(text, validate=True)
    except (ExpressionError, IndexError):  # the latter for empty parentheses
        return None
    if parsed is None:
        return None
    choices = _choices(parsed)
    return None if choices is None else _licence(str(parsed), choices)


def _choices(parsed: Any) -> tuple[frozenset[str], ...] | None:
    """The choices that an expression gives, as sets of names; None where an exception is in it."""
    from license_expression import LicenseSymbol, LicenseWithExceptionSymbol

    if isinstance(parsed, LicenseWithExceptionSymbol):
        return None
    if isinstance(parsed, LicenseSymbol):
        return (frozenset([licence_name(parsed.key) or parsed.key]),)
    parts = [_choices(one) for one in parsed.args]
    known = [one for one in parts if one is not None]
    if len(known) < len(parts):
        return None
    if parsed.operator.strip() == "OR":
        return tuple(dict.fromkeys(choice for part in known for choice in part))
    together: tuple[frozenset[str], ...] = (frozenset(),)
    for part in known:
        together = tuple(one | other for one in together for other in part)
    return tuple(dict.fromkeys(together))


def _licence(expression: str, choices: tuple[frozenset[str], ...]) -> Licence:
    permitted = tuple(choice for choice in choices if _of_all(choice) is not None)
    return Licence(expression, choices, permitted)


def _of_all(names: frozenset[str]) -> Conditions | None:
    """What several licences together ask for; None where one of them is not known, or forbids."""
    asked = Conditions()
    for name in sorted(names):
        one = conditions_of(name)
        if one is None:
            return None
        asked = asked | one
    return asked


def is_compatible(original: str, made: str) -> bool:
    """Whether a work that was made of one under `original` may be released under `made`.

    Both as they are stated; the same words are compatible. Where `original` gives a choice one of
    it must allow it, and all of what `made` gives to choose from must be allowed by it.
    """
    if original == made:
        return True
    one, other = licence_of(original), licence_of(made)
    if one is None:
        return False
    if other is None:  # words of its own: nothing is known of them
        return any(_is_free(choice) for choice in one.permitted)
    return any(all(_covers(choice, target) for target in other.choices) for choice in one.permitted)


def _is_free(names: frozenset[str]) -> bool:
    return _of_all(names) == Conditions()


def _covers(original: frozenset[str], made: frozenset[str]) -> bool:
    """Whether every licence of the original allows one of those that hold together for the work."""
    return all(any(may_become(one, other) for other in made) for one in original)
