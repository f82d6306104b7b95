"""The versions of a benchmark of tasks: v0 within v1 within v2 (ReCoS, section 3.5).

The first number of a version is that of its tier: 0.3.1, 1.3.1 and 2.3.1 are v0, v1 and v2 of one
state.
"""

from typing import get_args

from schemas.errors import UsageError
from schemas.retrieval_task import Tier

TIERS: tuple[Tier, ...] = get_args(Tier)
CANDIDATES: Tier = "v2"
"""The tier whose images are candidates only and have no captions."""


def tier_called(name: str | None) -> Tier | None:
    """The tier with this name; None for None.

    Raises:
        UsageError: if there is no such tier.
    """
    if name is None:
        return None
    for tier in TIERS:
        if tier == name:
            return tier
    raise UsageError(f"a tier must be one of {', '.join(TIERS)}; got {name!r}")


def tiers_within(tier: Tier) -> tuple[Tier, ...]:
    """The tiers whose images a release of `tier` contains, `tier` last."""
    return TIERS[: TIERS.index(tier) + 1]


def version_in(tier: Tier, version: str) -> str:
    """The name of `version` in another tier: 1.3.1 becomes 0.3.1 in v0."""
    return ".".join([str(TIERS.index(tier)), *version.split(".")[1:]])


def check_version(tier: Tier, version: str) -> None:
    """Raise unless a version belongs to its tier.

    Raises:
        UsageError: if its first number is that of another tier.
    """
    if version != version_in(tier, version):
        raise UsageError(
            f"a version of tier {tier} must begin with {TIERS.index(tier)}, "
            f"such as {version_in(tier, version)}; got {version!r}"
        )
