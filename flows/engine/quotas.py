"""What a build asked for, and what its dataset has."""

from collections import Counter
from collections.abc import Callable, Iterable
from inspect import isfunction
from typing import NamedTuple

from loupe.db.entities import fetch_children, find
from loupe.db.store import Store
from loupe.schemas.plugins import load_plugin
from loupe.schemas.provenance import Role
from loupe.schemas.release import QuotaStatistics
from loupe.schemas.taxonomy import Tier
from loupe.schemas.video import StageSettings

Quotas = Callable[[Store, str, Tier | None], Iterable[QuotaStatistics]]
"""Returns what the builds of a pipeline asked of a dataset, up to a tier, with what it has."""
QUOTAS_STAGE = "quotas"
"""The stage whose settings name the pipeline that knows what was asked of a dataset."""


class Missing(NamedTuple):
    """Something that a build asked for and does not have; `why` is empty or a clause."""

    what: str
    asked: float
    reached: float
    why: str = ""

    @classmethod
    def of(cls, quota: QuotaStatistics) -> "Missing":
        """Return what a quota lacks."""
        return cls(quota.what, quota.asked, quota.reached)

    @property
    def sentence(self) -> str:
        """What is missing, in words."""
        why = f" ({self.why})" if self.why else ""
        return f"{self.what}: {_shown(self.reached)} of {_shown(self.asked)}{why}"


def _shown(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def quota_statistics(
    store: Store, dataset: str, tier: Tier | None = None
) -> tuple[QuotaStatistics, ...]:
    """Return what was asked of a dataset, with what it has, as the pipeline that built it says.

    Empty for datasets of pipelines without quotas.

    Raises:
        UsageError: the pipeline is no longer installed.
    """
    settings = [one.record(StageSettings) for one in find(store, dataset, StageSettings.kind)]
    names = [one.values["pipeline"] for one in settings if one.stage == QUOTAS_STAGE]
    if not names:
        return ()
    found = load_plugin("pipelines", names[-1])
    quotas = (found() if isfunction(found) else found).quotas
    return tuple(quotas(store, dataset, tier)) if quotas else ()


def count_accepted_captions(store: Store, images: Iterable[str]) -> Counter[str]:
    """Count the accepted captions of each image; images without any are left out of releases."""
    described = fetch_children(store, images, Role.DESCRIBES)
    counts = Counter[str]()
    for image, captions in described.items():
        counts[image] = sum(one.state == "accepted" for one in captions)
    return counts
