"""What opponents that do not look at the content of images reach on a release."""

from typing import Annotated, Literal

from pydantic import Field

from loupe.schemas.base import IF_ANY, Count, Record, Split

ShortcutQuestion = Literal[
    "original image",
    "original captions",
    "matching pair",
    "source of a caption",
    "image with captions",
]
"""`original image`: which image of a group is its original. `original captions`: which captions of
a group are those of its original. `matching pair`: which of two images of a group a caption belongs
to. `source of a caption`: which collection a caption is about, by its wording. `image with
captions`: which images have captions, so that the others are no answers.
"""

ShortcutMetric = Literal["R@1", "FG-CDA", "accuracy"]
"""What is reached: R@1 among the images of the right group, FG-CDA, or a share of right classes."""

Percent = Annotated[float, Field(ge=0, le=100)]

FEWEST_GROUPS = 20
"""Fewer groups, or fewer of one class, are not asked about: they are too few to tell."""
MARGIN = 10.0
"""Percentage points above chance that are no shortcut."""
SIGNIFICANT = 0.01
"""The probability by guessing, for all opponents together, below which a result is no accident."""


class BlindResult(Record):
    """How often one opponent answers a question, beside what chance gives.

    Attributes:
        question: what it answers.
        opponent: what it uses, in a word or two: `pixel statistics`, `file`, `position`, `wording`.
        metric: what its percentages are.
        questions: the number of groups, pairs or items that were asked about.
        right: its score in percent, cross-validated by group.
        low: the lower end of the 95 % bootstrap interval over groups.
        high: the upper end.
        chance: the expected score of a guess in percent.
        p_value: probability of at least this score by guessing, for all opponents together
            (Bonferroni's correction).
        used: the features with the greatest weights, strongest first.
    """

    question: ShortcutQuestion
    opponent: str
    metric: ShortcutMetric
    questions: Count
    right: Percent
    low: Percent
    high: Percent
    chance: Percent
    p_value: Annotated[float, Field(ge=0, le=1)]
    used: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The question and the opponent, as builds accept it: `original image by file`."""
        return f"{self.question} by {self.opponent}"

    def is_shortcut(self, margin: float = MARGIN) -> bool:
        """Tell whether it is better than chance by more than `margin` percentage points."""
        return self.p_value < SIGNIFICANT and self.right - self.chance > margin


class TooFew(Record):
    """A question about too few `groups` (or identities, or images of a kind) to tell."""

    question: ShortcutQuestion
    groups: Count


class ShortcutCertificate(Record):
    """What blind opponents reach on one split of a release.

    Attributes:
        split: the split.
        margin: percentage points above chance that are no shortcut.
        groups: the greatest number of groups, or of items of other questions, that were drawn.
        results: what they reach; empty if nothing could be asked.
        too_few: the questions about too few groups to tell.
        accepted: the shortcuts that the build accepts, by question or by name.
    """

    split: Split
    margin: Percent = MARGIN
    groups: Count
    results: tuple[BlindResult, ...]
    too_few: tuple[TooFew, ...] = IF_ANY
    accepted: tuple[str, ...] = IF_ANY

    @property
    def shortcuts(self) -> tuple[BlindResult, ...]:
        """The results that are better than chance by more than the margin."""
        return tuple(one for one in self.results if one.is_shortcut(self.margin))

    @property
    def unaccepted(self) -> tuple[BlindResult, ...]:
        """The shortcuts that the build does not accept."""
        return tuple(
            one for one in self.shortcuts if not {one.question, one.name} & set(self.accepted)
        )
