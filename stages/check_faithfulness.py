"""Checks that a rewritten description says what its source says, and nothing else."""

from collections.abc import Sequence

from models.builtin.person.parser import parse_description
from schemas.base import Record
from schemas.faithfulness import FaithfulnessReport
from schemas.profile import FaithfulnessSettings
from schemas.records import Rejection
from stages.description_differences import find_differences
from stages.rewrite_defects import find_defect

VERSION = "1"
STAGE = "check_faithfulness"
_ENOUGH_FACTS = 3


class RewritePair(Record):
    """A source description, its rewrite, and the earlier rewrites of the same image."""

    source: str
    rewrite: str
    siblings: tuple[str, ...] = ()


def check_faithfulness(
    pairs: Sequence[RewritePair], settings: FaithfulnessSettings
) -> list[FaithfulnessReport | Rejection]:
    """One result per pair, in order: what differs, or why the rewrite cannot be used at all."""
    return [_check(pair, settings) for pair in pairs]


def _check(pair: RewritePair, settings: FaithfulnessSettings) -> FaithfulnessReport | Rejection:
    defect = find_defect(pair.source, pair.rewrite, pair.siblings, settings)
    if defect is not None:
        return _rejected(*defect, pair)
    source, rewrite = parse_description(pair.source), parse_description(pair.rewrite)
    if not rewrite.states_anything() and (count := len(source.facts())) >= _ENOUGH_FACTS:
        detail = f"The rewrite states none of the {count} facts of its source."
        return _rejected("unrelated", detail, pair)
    findings = find_differences(source, rewrite)
    decisive = any(
        finding.change != "lost" and (settings.strict or not finding.minor) for finding in findings
    )
    return FaithfulnessReport(verdict="suspect" if decisive else "faithful", findings=findings)


def _rejected(reason: str, detail: str, pair: RewritePair) -> Rejection:
    context = {"source": pair.source, "rewrite": pair.rewrite}
    return Rejection(stage=STAGE, reason=reason, detail=detail, context=context)
