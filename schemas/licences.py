"""Licences of images: their names, SPDX expressions, and what they require of users."""

import difflib
import re
import tomllib
from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, get_args

# Normalised names of image licences, and which of them permit the release of altered images.
#
# Names are SPDX identifiers if SPDX has one (`CC0-1.0`, `CC-PDM-1.0`, `CC-BY-SA-4.0`,
# `CC-BY-3.0-DE`). `CC-BY` is a licence whose version is not stated. The name of an unknown licence
# is None.

PUBLIC_DOMAIN: Final = "LicenseRef-Public-Domain"
US_GOVERNMENT_WORK: Final = "LicenseRef-US-Government-Work"

_DATA: Final = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_PLAIN: Final[dict[str, str]] = _DATA["names"]
_FREE: Final = frozenset({PUBLIC_DOMAIN, US_GOVERNMENT_WORK, "CC0-1.0", "CC-PDM-1.0"})
_ADDRESS: Final = re.compile(
    r"(?:https?:)?(?://)?(?:www\.)?creativecommons\.org/(licenses|publicdomain)/([a-z0-9+-]+)"
    r"(?:/(\d\.\d))?(?:/([a-z]{2,5})(?=[/)\s.,]|$))?",
    re.IGNORECASE,
)
_COMMONS: Final = re.compile(r"creativecommons\.org", re.IGNORECASE)
_ANY_ADDRESS: Final = re.compile(r"https?://|(?:www\.)?creativecommons\.org", re.IGNORECASE)
_GOVERNMENT_ADDRESS: Final = re.compile(r"https?://(?:www\.)?usa\.gov/(?:\S*copyright)\S*")
_TOOLS: Final = {"zero": "CC0-1.0", "mark": "CC-PDM-1.0"}

_WORDS: Final = (
    (r"\bcreative\s+commons\b", "cc"),
    (r"\battribution\b", "by"),
    (r"\bnon[\s-]?commercial\b", "nc"),
    (r"\bno[\s-]?deriv(?:ative)?(?:s|\s+works)?\b", "nd"),
    (r"\bshare[\s-]?alike\b", "sa"),
    (r"\b(?:licen[cs]es?|unported|international|generic|deed|the|universal|dedication)\b", " "),
)
_ELEMENTS: Final = re.compile(
    r"(?:cc[\s-]+)?by((?:[\s,/-]+(?:nc|nd|sa))*)(?:[\s-]+v?(\d\.\d)(?:[\s-]+(igo|[a-z]{2}))?)?"
)
_VERSIONS: Final = ("1.0", "2.0", "2.1", "2.5", "3.0", "4.0")
_ONE_OF: Final = "one of "


def licence_name(text: str | None, url: str | None = None) -> str | None:
    """Normalise the licence stated by `text`, `url` or both; None if it is unknown.

    `text` is a name (`by-nc`, `CC BY-SA 4.0`, `Attribution License`), an address, or a name with
    its address, as the sources write them. The result is None if text and address state different
    licences. If one is more specific (a version, a country), it is returned.
    """
    stated, linked = _of_text(text or ""), _of_address(url or "")
    if not (text or "").strip():
        return linked
    if linked is not None:
        return None if stated is None else _more_specific(stated, linked)
    return None if _COMMONS.search(url or "") else stated


def _more_specific(one: str, other: str) -> str | None:
    """The more specific name if both may be the same licence, else None."""
    if one == other or (one.startswith(f"{other}-") and not _adds_condition(one, other)):
        return one
    if other.startswith(f"{one}-") and not _adds_condition(other, one):
        return other
    if one == PUBLIC_DOMAIN and other in _FREE:
        return other
    return None


def _adds_condition(longer: str, shorter: str) -> bool:
    return longer[len(shorter) + 1 :].split("-")[0] in ("NC", "ND", "SA")


def one_of(licences: Iterable[str]) -> str:
    """The name of an unknown licence that is one of `licences`."""
    return _ONE_OF + ", ".join(dict.fromkeys(licences))


def is_one_of(licence: str) -> bool:
    """Whether a name says that the licence is one of several, as known from a search filter."""
    return licence.startswith(_ONE_OF)


def _of_text(text: str) -> str | None:
    if is_one_of(text):
        parts = [licence_name(part) for part in text.removeprefix(_ONE_OF).split(", ")]
        known = [part for part in parts if part is not None]
        return one_of(known) if len(known) == len(parts) else None
    # `Name (address)`, as COCO lists licences, or an address only
    if address := _ANY_ADDRESS.search(text):
        start = address.start()
        return licence_name(text[:start].strip(" (<"), text[start:])
    words = text.casefold()
    for pattern, word in _WORDS:
        words = re.sub(pattern, word, words)
    words = " ".join(re.sub(r"[()\[\]_:]", " ", words).split()).strip(" .-")
    if plain := _PLAIN.get(" ".join(words.replace("-", " ").replace("1.0", "").split())):
        return plain
    found = _ELEMENTS.fullmatch(words)
    return _composed(found[1], found[2], found[3]) if found else None


def _of_address(url: str) -> str | None:
    if _GOVERNMENT_ADDRESS.match(url.strip()):
        return US_GOVERNMENT_WORK
    found = _ADDRESS.match(url.strip())
    if found is None:
        return None
    kind, code, version, country = found.groups()
    if kind.casefold() == "publicdomain":
        return _TOOLS.get(code.casefold())
    elements = code.casefold().split("-")
    if elements[0] != "by":
        return None
    is_country = country and country.casefold() not in ("deed", "legal")
    return _composed(" ".join(elements[1:]), version, country if is_country else None)


def _composed(conditions: str, version: str | None, country: str | None) -> str | None:
    elements = set(re.findall(r"[a-z+]+", conditions))
    if not elements <= {"nc", "nd", "sa"} or {"nd", "sa"} <= elements:
        return None
    if version and version not in _VERSIONS:
        return None
    parts = ["CC", "BY", *(mark.upper() for mark in ("nc", "nd", "sa") if mark in elements)]
    if version:
        parts.append(version)
        if country:
            parts.append(country.upper())
    return "-".join(parts)


# What licences require of users, and which licences derived works may have.
#
# The conditions of Creative Commons licences are their elements. The other licences are those
# commonly used for images, texts and databases; their conditions follow from their own texts (SPDX
# names them).
#
# Licences of derived works follow Creative Commons' "adapter's license chart" (FAQ, "If I derive or
# adapt material offered under a Creative Commons license, which CC license(s) can I use?").
# Derivatives of public-domain works may have any licence, those of BY any that keeps attribution,
# those of BY-NC one with NC, those of BY-SA and BY-NC-SA the same licence in the same or a later
# version, or one that Creative Commons lists as compatible, those of ND none. Works under different
# licences may be combined in a collection, each under its own (FAQ, "Can I combine material under
# different Creative Commons licenses in my work?").


Condition = Literal["attribution", "share_alike", "non_commercial"]
CONDITIONS: Final[tuple[Condition, ...]] = get_args(Condition)


Conditions = frozenset[Condition]
"""The conditions of a licence.

`attribution`: the creator or source must be named; `share_alike`: derived works must be under the
same licence, or a compatible one; `non_commercial`: only non-commercial use is permitted.
"""
_OTHERS: Final[dict[str, Conditions]] = {
    licence: frozenset(group["asks"]) for group in _DATA["groups"] for licence in group["licences"]
}
_ELEMENT_CONDITIONS: Final[dict[str, Condition]] = {
    "BY": "attribution",
    "SA": "share_alike",
    "NC": "non_commercial",
}
_COMPATIBLE: Final[dict[str, list[str]]] = _DATA["compatible"]
_CREATIVE: Final = re.compile(r"(CC-BY(?:-NC)?(?:-SA)?(-ND)?)(?:-(\d\.\d))?(?:-[A-Z]{2,3})?")


def conditions_of(licence: str) -> Conditions | None:
    """The conditions of a licence, by SPDX name; None if it is unknown or forbids changes.

    The elements of a Creative Commons licence are known even if its version is not stated.
    """
    if licence in _OTHERS:
        return _OTHERS[licence]
    found = _CREATIVE.fullmatch(licence)
    if found is None or found[2]:
        return None
    elements = found[1].split("-")
    return frozenset(_ELEMENT_CONDITIONS[one] for one in elements if one in _ELEMENT_CONDITIONS)


def may_become(original: str, made: str) -> bool:
    """Whether a work derived from one under `original` may be released under `made`.

    Both are names of single licences. Returns False unless it is known to be allowed.
    """
    if original == made:
        return conditions_of(original) is not None
    asked, given = conditions_of(original), conditions_of(made)
    if asked is None:
        return False
    if not asked:
        return True
    if given is None or "attribution" not in given:
        return False
    if "share_alike" in asked:
        return made in _COMPATIBLE.get(original, ()) or _is_later(original, made)
    return "non_commercial" in given or "non_commercial" not in asked


def _is_later(original: str, made: str) -> bool:
    """Whether `made` is the same Creative Commons licence in the same or a later version."""
    one, other = _CREATIVE.fullmatch(original), _CREATIVE.fullmatch(made)
    if one is None or other is None or one[1] != other[1]:
        return False
    # version 1.0 has no clause for later ones; of an unknown version nothing is known
    return bool(one[3] and other[3]) and "1.0" < one[3] <= other[3]


# Stated licences: a known name, or an SPDX expression of several licences.

_OURS: Final = "LicenseRef-"
_ON_THE_LIST: Final = re.compile(r"CC-BY(?:-NC)?(?:-SA|-ND)?-(?:[1-4]\.0|2\.5)")


class Licence(NamedTuple):
    """A parsed licence statement.

    Attributes:
        expression: the SPDX expression.
        choices: the licences to choose from, each a set of names that apply together. If the
            licence is an unknown one of several, all of them apply.
        permitted: the choices under which derived works may be released.
    """

    expression: str
    choices: tuple[frozenset[str], ...]
    permitted: tuple[frozenset[str], ...]

    @property
    def conditions(self) -> Conditions | None:
        """The conditions of the least restrictive choice; None if no choice permits a release."""
        asked = [_combined_conditions(choice) for choice in self.permitted]
        known = [one for one in asked if one is not None]
        return min(
            known,
            key=lambda one: (len(one), [name in one for name in CONDITIONS]),
            default=None,
        )


@lru_cache(4096)
def licence_of(text: str) -> Licence | None:
    """Parse a licence statement ("CC BY 4.0", "MIT OR CC-BY-4.0").

    Returns None for terms in other words ("Research use only"), which name neither a licence on
    SPDX's list nor another known one.
    """
    if (name := licence_name(text)) is not None:
        names = name.removeprefix(_ONE_OF).split(", ")
        return _licence(" OR ".join(map(_spdx, names)), (frozenset(names),))
    return _parsed(text)


_NEAR: Final = 0.7
_MOST_CHARACTERS: Final = 40


def nearest_licence(text: str) -> str | None:
    """Return the SPDX name that `text` probably misspells.

    Returns None for known licences, for terms in words of their own, and for a `LicenseRef-`.
    """
    if len(text) > _MOST_CHARACTERS or text.startswith(_OURS) or licence_of(text) is not None:
        return None
    listed = [one for one in _licensing().known_symbols if one in _OTHERS or one.startswith("CC-")]
    names = {_plain(one): one for one in listed if not one.startswith(_OURS)}
    near = difflib.get_close_matches(_plain(text), names, n=1, cutoff=_NEAR)
    return names[near[0]] if near else None


def _plain(name: str) -> str:
    words = re.findall(r"[a-z0-9.]+", name.casefold())
    return "-".join(one for one in words if one not in ("licence", "license", "the"))


def condition_names(text: str) -> tuple[Condition, ...] | None:
    """The conditions of a stated licence; None if it is unknown or forbids a release."""
    known = licence_of(text)
    conditions = known.conditions if known else None
    if conditions is None:
        return None
    return tuple(name for name in CONDITIONS if name in conditions)


def spdx_page(text: str) -> str | None:
    """The SPDX page of a stated licence; None if it is not on SPDX's list."""
    known = licence_of(text)
    if known is None or " " in known.expression or known.expression.startswith(_OURS):
        return None
    return f"https://spdx.org/licenses/{known.expression}"


def permits_release(text: str | None) -> bool:
    """Whether works derived from one under the licence `text` may be released.

    Returns False if the licence is unknown. If it is one of several, each of them must permit it.
    """
    known = licence_of(text or "")
    return known is not None and bool(known.permitted)


def _spdx(name: str) -> str:
    """The SPDX form of a name; names that are not on SPDX's list become a `LicenseRef`."""
    if name in _OTHERS or _ON_THE_LIST.fullmatch(name):  # the list takes a while to load
        return name
    is_known = name.startswith(_OURS) or not _licensing().validate(name).errors
    return name if is_known else f"{_OURS}{name}"


@cache
def _licensing() -> Any:
    """SPDX's list of licences, loaded once."""
    from license_expression import get_spdx_licensing

    return get_spdx_licensing()


def _parsed(text: str) -> Licence | None:
    from license_expression import ExpressionError

    try:
        parsed = _licensing().parse(text, validate=True)
    # IndexError for empty parentheses, AssertionError for an operator after an open one
    except (ExpressionError, IndexError, AssertionError):
        return None
    if parsed is None:
        return None
    choices = _choices(parsed)
    return None if choices is None else _licence(str(parsed), choices)


def _choices(parsed: Any) -> tuple[frozenset[str], ...] | None:
    """The choices of an expression, as sets of names; None if it contains an exception."""
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
    return tuple(dict.fromkeys(frozenset().union(*together) for together in product(*known)))


def _licence(expression: str, choices: tuple[frozenset[str], ...]) -> Licence:
    permitted = tuple(choice for choice in choices if _combined_conditions(choice) is not None)
    return Licence(expression, choices, permitted)


def _combined_conditions(names: frozenset[str]) -> Conditions | None:
    """The conditions of several licences together; None if one is unknown or forbids changes."""
    known = [one for one in map(conditions_of, names) if one is not None]
    return Conditions().union(*known) if len(known) == len(names) else None


def is_compatible(original: str, made: str) -> bool:
    """Whether a work derived from one under `original` may be released under `made`.

    Both are licence statements; equal statements are compatible. If `original` offers a choice, one
    of its licences must permit all choices of `made`.
    """
    if original == made:
        return True
    one, other = licence_of(original), licence_of(made)
    if one is None:
        return False
    if other is None:  # terms in other words: their conditions are unknown
        return any(not _combined_conditions(choice) for choice in one.permitted)
    return any(all(_covers(choice, target) for target in other.choices) for choice in one.permitted)


def _covers(original: frozenset[str], made: frozenset[str]) -> bool:
    """Whether each original licence permits one of those that apply together to the work."""
    return all(any(may_become(one, other) for other in made) for one in original)
