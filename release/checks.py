"""Statements of a release that are computed elsewhere instead of being counted during the build."""

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
    """A written image of a contrastive benchmark, with its fine and its coarse captions."""

    sha256: str
    file: Path
    captions: tuple[str, ...]
    coarse: tuple[str, ...]
    is_anchor: bool


_Nearest = Callable[[Sequence[WrittenSample]], NearestStatistics | None]
"""Measures the similarity of the nearest other samples, for all samples in order."""


Against = Callable[[OwnImages], tuple[Contamination, ...]]
"""Compares the images of a release with other datasets."""


class Checks(NamedTuple):
    """Additional content of the card.

    Attributes:
        nearest: measures the similarity of contrastive samples (CCD, table 1), if set.
        choices: results of forced-choice tests (6-AFC).
        audits: error rates found by audits; None for those in the store.
        agreement: agreement of annotators in the review queues of the dataset.
        unused: unusable responses of models.
        gates: returns who decided at which gate, which takes time and is asked for last.
        about: statements of the curators.
        against: compares the release with the named datasets, if any.
        contamination: results of earlier comparisons with other datasets.
        permitted_terms: reasons why terms in words of their own permit a release, by source.
    """

    nearest: _Nearest | None = None
    choices: tuple[ChoiceStatistics, ...] = ()
    audits: tuple[AuditStatistics, ...] | None = None
    agreement: tuple[AgreementStatistics, ...] = ()
    unused: tuple[UnusedStatistics, ...] = ()
    gates: Callable[[], tuple[GateStatistics, ...]] = tuple
    about: ReleaseAbout | None = None
    permitted_terms: Mapping[str, str] = MappingProxyType({})
    against: Against | None = None
    contamination: tuple[Contamination, ...] = ()

    def compare_with_others(self, own: OwnImages) -> tuple[Contamination, ...]:
        """The content that the release shares with others, from this and earlier comparisons."""
        found = self.against(own) if self.against is not None else ()
        return (*self.contamination, *found)


UNCHECKED = Checks()
"""No checks but the audits of the store."""
