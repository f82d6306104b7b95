"""The lowest version a release may have, given its differences from the previous one.

Rows that were changed, removed or moved between splits require a new first number (major), added
rows a new second number (minor), everything else a new third number (patch). Withdrawn rows only
require a patch, so that withdrawals are never delayed for the sake of a number. If the first number
has another meaning, the second takes its place: before 1.0.0, when nothing is stable yet (Semantic
Versioning 2.0.0, section 4), and for benchmarks in tiers, where it is the tier.
"""

from enum import IntEnum

from release.diff.records import Difference
from schemas.withdrawal import version_numbers


class Bump(IntEnum):
    """The number of a version that must increase, ordered by significance."""

    NONE = 0
    PATCH = 1
    MINOR = 2
    MAJOR = 3


_WORDS = {"moved": "moved between splits"}
"""Names of kinds of rows in messages, if they differ from the kind."""
_REQUIRING = {
    Bump.MAJOR: ("removed", "changed", "moved"),
    Bump.MINOR: ("added",),
    Bump.PATCH: ("withdrawn", "restated"),
}


def required_bump(difference: Difference) -> Bump:
    """The number that must increase from the first release to the second."""
    for bump, kinds in _REQUIRING.items():
        if any(getattr(difference.rows, kind) for kind in kinds):
            return bump
    return Bump.NONE if difference.is_empty else Bump.PATCH


def least_version(difference: Difference) -> str:
    """The lowest version of the second release."""
    before = difference.before
    return _raised(before.version, required_bump(difference), in_tier=before.tier is not None)


def is_successor(difference: Difference) -> bool:
    """Whether the releases are of one dataset and tier, so that their versions are comparable."""
    before, after = difference.before, difference.after
    return (before.dataset, before.tier) == (after.dataset, after.tier)


def check_version(old_version: str, new_version: str, difference: Difference) -> str | None:
    """The problem with the new version, or None: "is 0.1.1, must be at least 0.2.0: …".

    None for releases of different datasets, or of different tiers of a benchmark.
    """
    if not is_successor(difference):
        return None
    in_tier = difference.before.tier is not None
    wanted = _raised(old_version, required_bump(difference), in_tier=in_tier)
    if version_numbers(new_version) >= version_numbers(wanted):
        return None
    return f"is {new_version}, must be at least {wanted}: {_reason(difference)}"


def is_earlier(version: str, other: str) -> bool:
    """Whether `version` comes before `other`."""
    return version_numbers(version) < version_numbers(other)


def _raised(version: str, bump: Bump, *, in_tier: bool) -> str:
    major, minor, patch = version_numbers(version)
    if bump is Bump.MAJOR and (in_tier or major == 0):
        bump = Bump.MINOR
    match bump:
        case Bump.NONE:
            return version
        case Bump.PATCH:
            return f"{major}.{minor}.{patch + 1}"
        case Bump.MINOR:
            return f"{major}.{minor + 1}.0"
        case Bump.MAJOR:
            return f"{major + 1}.0.0"


def _reason(difference: Difference) -> str:
    """The reason for a bump: the rows that require it, or other differences."""
    kinds = _REQUIRING.get(required_bump(difference), ())
    counts = [(_WORDS.get(kind, kind), getattr(difference.rows, kind)) for kind in kinds]
    found = [(word, count) for word, count in counts if count]
    if not found:
        if difference.is_empty:
            return "nothing is different"
        count = len(difference.metadata)
        others = "1 other value differs" if count == 1 else f"{count:,} other values differ"
        return f"rows are equal, but {others}"
    rows = f"{found[0][1]:,} {'row was' if found[0][1] == 1 else 'rows were'} {found[0][0]}"
    return ", ".join([rows, *(f"{count:,} {word}" for word, count in found[1:])])
