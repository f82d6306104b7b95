"""Licences of images under one name each, and which of them let an altered image be released.

Names are SPDX identifiers where SPDX has one (`CC0-1.0`, `CC-PDM-1.0`, `CC-BY-SA-4.0`,
`CC-BY-3.0-DE`); `CC-BY` is one whose version nobody told. What is no licence that we know has no
name: None.
"""

import re
from collections.abc import Iterable
from typing import Final

PUBLIC_DOMAIN: Final = "LicenseRef-Public-Domain"
US_GOVERNMENT_WORK: Final = "LicenseRef-US-Government-Work"

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
_PLAIN: Final = {
    "cc0": "CC0-1.0",
    "cc 0": "CC0-1.0",
    "cc zero": "CC0-1.0",
    "cc cc0": "CC0-1.0",
    "zero": "CC0-1.0",
    "pdm": "CC-PDM-1.0",
    "cc pdm": "CC-PDM-1.0",
    "public domain mark": "CC-PDM-1.0",
    "cc public domain mark": "CC-PDM-1.0",
    "cc0 public domain": "CC0-1.0",
    "public domain": PUBLIC_DOMAIN,
    "pd": PUBLIC_DOMAIN,
    "licenseref public domain": PUBLIC_DOMAIN,
    "united states government work": US_GOVERNMENT_WORK,
    "us government work": US_GOVERNMENT_WORK,
    "licenseref us government work": US_GOVERNMENT_WORK,
}
_ONE_OF: Final = "one of "

# Flickr's numbers (flickr.photos.licenses.getInfo); those of COCO's lists are the first nine.
_OF_FLICKR: Final = {
    1: "CC-BY-NC-SA-2.0",
    2: "CC-BY-NC-2.0",
    3: "CC-BY-NC-ND-2.0",
    4: "CC-BY-2.0",
    5: "CC-BY-SA-2.0",
    6: "CC-BY-ND-2.0",
    8: US_GOVERNMENT_WORK,
    9: "CC0-1.0",
    10: "CC-PDM-1.0",
    11: "CC-BY-4.0",
    12: "CC-BY-SA-4.0",
    13: "CC-BY-ND-4.0",
    14: "CC-BY-NC-4.0",
    15: "CC-BY-NC-SA-4.0",
    16: "CC-BY-NC-ND-4.0",
}


def licence_name(text: str | None, url: str | None = None) -> str | None:
    """The one name of the licence that `text`, `url` or both tell of; None where it is not known.

    `text` is a name (`by-nc`, `CC BY-SA 4.0`, `Attribution License`), an address, or a name with
    its address, as the sources write them. Where text and address tell of different licences
    nothing is known; of two names of which one tells more (a version, a country) that one is taken.
    """
    stated, linked = _of_text(text or ""), _of_address(url or "")
    if not (text or "").strip():
        return linked
    if linked is not None:
        return None if stated is None else _united(stated, linked)
    return None if _COMMONS.search(url or "") else stated


def _united(one: str, other: str) -> str | None:
    """The one that tells more, where both may be the same licence."""
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
    """The name of a licence of which is known only that it is one of `licences`."""
    return _ONE_OF + ", ".join(dict.fromkeys(licences))


def is_one_of(licence: str) -> bool:
    """Whether of a licence is known only that it is one of several, by a filter that it passed."""
    return licence.startswith(_ONE_OF)


def flickr_licence(number: int) -> str | None:
    """The licence that Flickr and COCO mean by `number`.

    None for 0 (all rights reserved) and 7 (no *known* copyright restrictions: nobody gives a
    licence), as for numbers that are not theirs.
    """
    return _OF_FLICKR.get(number)


def permits_use(licence: str | None) -> bool:
    """Whether a work derived from the image may be released, to be used at least without profit.

    Not where the licence is unknown, and not under a licence that forbids derived works (ND). Of a
    licence that is one of several each must permit it.
    """
    if licence is None:
        return False
    if is_one_of(licence):
        return all(permits_use(one) for one in licence.removeprefix(_ONE_OF).split(", "))
    name = licence_name(licence)
    if name is None:
        return False
    return name in _FREE or "ND" not in name.split("-")


def _of_text(text: str) -> str | None:
    if is_one_of(text):
        parts = [licence_name(part) for part in text.removeprefix(_ONE_OF).split(", ")]
        known = [part for part in parts if part is not None]
        return one_of(known) if len(known) == len(parts) else None
    if address := _ANY_ADDRESS.search(text):  # `Name (address)`, as COCO lists licences, or without
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
    parts = ["CC", "BY", *(mark.upper() for mark in ("nc", "nd", "sa") if mark in elements)]
    if version:
        parts.append(version)
        if country:
            parts.append(country.upper())
    return "-".join(parts)
