"""What licences ask of users, and under which a work made of another one may be released.

The conditions of Creative Commons licences are their elements. The others are the ones that images,
texts and databases are often under; what each asks is as its own text says (SPDX names it).

Which licence a work made of another may have is Creative Commons' "adapter's license chart" (FAQ,
"If I derive or adapt material offered under a Creative Commons license, which CC license(s) can I
use?"): of public-domain works any; of BY any that keeps attribution; of BY-NC one with NC; of
BY-SA and BY-NC-SA the same licence in the same or a later version, or one that Creative Commons
lists as compatible; of ND none. Several works under different licences may stand together in a
collection, each under its own (FAQ, "Can I combine material under different Creative Commons
licenses in my work?").
"""

import re
from typing import Final, NamedTuple

from schemas.licences import PUBLIC_DOMAIN, US_GOVERNMENT_WORK


class Conditions(NamedTuple):
    """What a licence asks for.

    Attributes:
        attribution: the creator or source must be named.
        share_alike: what is made of the work must be under the same licence, or a compatible one.
        non_commercial: the work may be used without profit only.
    """

    attribution: bool = False
    share_alike: bool = False
    non_commercial: bool = False

    def __or__(self, other: "Conditions") -> "Conditions":
        """What both together ask for."""
        return Conditions(*(one or two for one, two in zip(self, other, strict=True)))


FREE: Final = Conditions()
_BY: Final = Conditions(attribution=True)
_BY_SA: Final = Conditions(attribution=True, share_alike=True)

_OTHERS: Final[dict[str, Conditions]] = {
    **dict.fromkeys(
        (
            *(PUBLIC_DOMAIN, US_GOVERNMENT_WORK, "CC0-1.0", "CC-PDM-1.0"),
            *("PDDL-1.0", "Unlicense", "0BSD", "MIT-0", "O-UDA-1.0"),
        ),
        FREE,
    ),
    **dict.fromkeys(
        (
            *("MIT", "ISC", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ODC-By-1.0"),
            *("CDLA-Permissive-1.0", "CDLA-Permissive-2.0"),
            *("OGL-UK-1.0", "OGL-UK-2.0", "OGL-UK-3.0", "OGL-Canada-2.0"),
            *("etalab-2.0", "DL-DE-BY-2.0", "NLOD-1.0", "NLOD-2.0"),
        ),
        _BY,
    ),
    **dict.fromkeys(
        (
            *("ODbL-1.0", "CDLA-Sharing-1.0", "LAL-1.2", "LAL-1.3"),
            *("GFDL-1.2-only", "GFDL-1.2-or-later", "GFDL-1.3-only", "GFDL-1.3-or-later"),
            *("GPL-3.0-only", "GPL-3.0-or-later"),
        ),
        _BY_SA,
    ),
}
_COMPATIBLE: Final = {"CC-BY-SA-4.0": ("LAL-1.3", "GPL-3.0-only", "GPL-3.0-or-later")}
"""What Creative Commons lists as compatible (creativecommons.org/compatiblelicenses)."""
_CREATIVE: Final = re.compile(r"(CC-BY(?:-NC)?(?:-SA)?(-ND)?)(?:-(\d\.\d))?(?:-[A-Z]{2,3})?")


def conditions_of(licence: str) -> Conditions | None:
    """What one licence, by its SPDX name, asks for; None where it is not known, or forbids changes.

    Of a Creative Commons licence whose version nobody told, the elements are known all the same.
    """
    if licence in _OTHERS:
        return _OTHERS[licence]
    found = _CREATIVE.fullmatch(licence)
    if found is None or found[2]:
        return None
    elements = found[1].split("-")
    return Conditions(True, "SA" in elements, "NC" in elements)


def may_become(original: str, made: str) -> bool:
    """Whether a work that was made of one under `original` may be released under `made`.

    Both are names of single licences. What is not known to be allowed is not.
    """
    if original == made:
        return conditions_of(original) is not None
    asked, given = conditions_of(original), conditions_of(made)
    if asked is None:
        return False
    if asked == FREE:
        return True
    if given is None or not given.attribution:
        return False
    if asked.share_alike:
        return made in _COMPATIBLE.get(original, ()) or _is_later(original, made)
    return given.non_commercial or not asked.non_commercial


def _is_later(original: str, made: str) -> bool:
    """Whether `made` is the same Creative Commons licence in the same or a later version."""
    one, other = _CREATIVE.fullmatch(original), _CREATIVE.fullmatch(made)
    if one is None or other is None or one[1] != other[1]:
        return False
    # Version 1.0 has no clause for later ones; of an unknown version nothing is known.
    return bool(one[3] and other[3]) and "1.0" < one[3] <= other[3]
