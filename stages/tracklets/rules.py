"""All rules of the noise filter as one table: what docs, explanations and contact sheets show."""

from typing import NamedTuple

from schemas.tracking import FilterSettings
from stages.tracklets.image_rules import IMAGE_RULES
from stages.tracklets.measurements import Direction
from stages.tracklets.tracklet_rules import TRACKLET_RULES

_SIGNS: dict[Direction, str] = {"at least": "≥", "at most": "≤", "more than": ">"}


class RuleText(NamedTuple):
    """A threshold in words.

    Attributes:
        name: the rule; it occurs once for each of its thresholds.
        part: what tells those apart, in a word; empty where there is one.
        measure: what is measured.
        setting: the field of `FilterSettings` that holds the threshold.
        direction: what a good value is to the threshold.
    """

    name: str
    part: str
    measure: str
    setting: str
    direction: Direction

    @property
    def sign(self) -> str:
        """What a good value is to its threshold, as a sign."""
        return _SIGNS[self.direction]

    @property
    def label(self) -> str:
        """The rule, and which of its thresholds this is."""
        return f"{self.name}, {self.part}" if self.part else self.name

    @property
    def is_count(self) -> bool:
        """Whether values are whole numbers."""
        return FilterSettings.model_fields[self.setting].annotation is int

    def threshold(self, settings: FilterSettings) -> float:
        """What values are held against."""
        return float(getattr(settings, self.setting))


RULES = (
    *(
        RuleText(rule.name, rule.part, rule.measure, rule.setting, rule.direction)
        for rule in IMAGE_RULES
    ),
    *(
        RuleText(rule.name, "", rule.measure, rule.setting, rule.direction)
        for rule in TRACKLET_RULES
    ),
)
"""In the order in which they are asked."""
RULE_NAMES = tuple(dict.fromkeys(rule.name for rule in RULES))


def rules_table(settings: FilterSettings) -> str:
    """The rules as a Markdown table, with their thresholds in `settings`."""
    rows = [
        f"| `{rule.name}` | {rule.measure} | `{rule.setting}` "
        f"| {rule.sign} {rule.threshold(settings):g} |"
        for rule in RULES
    ]
    return "\n".join(("| rule | measured | setting | good |", "|---|---|---|---|", *rows))
