"""All rules of the noise filter as one table: what docs, explanations and contact sheets show."""

from typing import NamedTuple

from schemas.tracking import FilterSettings
from stages.tracklets.image_rules import IMAGE_RULES
from stages.tracklets.measurements import Direction
from stages.tracklets.tracklet_rules import TRACKLET_RULES

_SIGNS: dict[Direction, str] = {"at least": "≥", "at most": "≤", "more than": ">"}


class RuleText(NamedTuple):
    """A threshold in words: rule, what is measured, field of `FilterSettings`, and which way."""

    name: str
    measure: str
    setting: str
    direction: Direction

    @property
    def sign(self) -> str:
        """What a good value is to its threshold, as a sign."""
        return _SIGNS[self.direction]

    def threshold(self, settings: FilterSettings) -> float:
        """What values are held against."""
        return float(getattr(settings, self.setting))


RULES = tuple(
    RuleText(rule.name, rule.measure, rule.setting, rule.direction)
    for rule in (*IMAGE_RULES, *TRACKLET_RULES)
)
"""In the order in which they are asked; a name occurs once for each of its thresholds."""
RULE_NAMES = tuple(dict.fromkeys(rule.name for rule in RULES))


def rules_table(settings: FilterSettings) -> str:
    """The rules as a Markdown table, with their thresholds in `settings`."""
    rows = [
        f"| `{rule.name}` | {rule.measure} | `{rule.setting}` "
        f"| {rule.sign} {rule.threshold(settings):g} |"
        for rule in RULES
    ]
    return "\n".join(("| rule | measured | setting | good |", "|---|---|---|---|", *rows))
