"""What a release says of itself that is found out elsewhere, and not counted as it is built."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from release.contamination import OwnImages
from schemas.contamination import Contamination
from schemas.quality import AuditStatistics
from schemas.release import (
    AgreementStatistics,
    ChoiceStatistics,
    GateStatistics,
    NearestStatistics,
    ReleaseAbout,
    UnusedStatistics,
)


class WrittenSample(NamedTuple):
    """An image of a contrastive benchmark as it was written, its fine and its coarse captions."""

    sha256: str
    file: Path
    captions: tuple[str, ...]
    coarse: tuple[str, ...]
    is_anchor: bool


_Nearest = Callable[[Sequence[WrittenSample]], NearestStatistics | None]
"""Measures how near the nearest other samples are, of all samples in their order."""


Against = Callable[[OwnImages], tuple[Contamination, ...]]
"""Holds the images of a release against other datasets."""


class Checks(NamedTuple):
    """What stands on the card beside what is counted.

    Attributes:
        nearest: measures a contrastive benchmark (CCD, table 1); nothing is measured without it.
        choices: what testers of choices of six had right.
        audits: the error rates that audits found; None for those that the store holds.
        agreement: how far people agree in the review queues of the dataset.
        unused: what models were asked for in vain.
        gates: who decided at which gate.
        about: what the curators state.
        against: holds the release against the datasets that were named, if any were.
        contamination: what earlier comparisons with other datasets found.
        permitted_terms: by the name of a source, why terms in words of their own permit a release.
    """

    nearest: _Nearest | None = None
    choices: tuple[ChoiceStatistics, ...] = ()
    audits: tuple[AuditStatistics, ...] | None = None
    agreement: tuple[AgreementStatistics, ...] = ()
    unused: tuple[UnusedStatistics, ...] = ()
    gates: tuple[GateStatistics, ...] = ()
    about: ReleaseAbout | None = None
    permitted_terms: Mapping[str, str] = MappingProxyType({})
    against: Against | None = None
    contamination: tuple[Contamination, ...] = ()

    def held_against(self, own: OwnImages) -> tuple[Contamination, ...]:
        """What the release shares with others, found now or before."""
        found = self.against(own) if self.against is not None else ()
        return (*self.contamination, *found)


UNCHECKED = Checks()
"""Nothing but what is counted, and audits."""
