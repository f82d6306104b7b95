"""The tasks of a retrieval benchmark (ReCoS, section 3) and its tiers.

The tiers v0, v1 and v2 contain each other (ReCoS, section 3.5). The first number of a version is
that of its tier: 0.3.1, 1.3.1 and 2.3.1 are v0, v1 and v2 of one state.
"""

from enum import StrEnum
from typing import Literal, get_args

from schemas.errors import UsageError

Tier = Literal["v0", "v1", "v2"]
"""The version of a benchmark in which an image first stands: v0 within v1 within v2."""


class RetrievalTask(StrEnum):
    """The twelve tasks: seven of coarse recognition, two of fine recognition, three of thinking.

    Neither case nor space, hyphen or underscore matters.
    """

    COLOR = "color"
    COUNT = "count"
    LOCATION = "location"
    FIGURE = "figure"
    OBJECT = "object"
    ACTION = "action"
    SCENE = "scene"
    OCR = "OCR"
    CELEBRITY = "celebrity"
    CALCULATION = "numerical calculation"
    CODE = "code reasoning"
    TRANSLATION = "text translation"

    @classmethod
    def _missing_(cls, value: object) -> "RetrievalTask | None":
        return _BY_SPELLING.get(_plain(value)) if isinstance(value, str) else None


def _plain(spelling: str) -> str:
    return "".join(spelling.casefold().replace("-", " ").replace("_", " ").split())


_BY_SPELLING = {_plain(task.value): task for task in RetrievalTask}

RENDERED_TASKS = (RetrievalTask.CALCULATION, RetrievalTask.CODE, RetrievalTask.TRANSLATION)
"""The tasks whose images can be drawn, so that their answers are known."""


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
