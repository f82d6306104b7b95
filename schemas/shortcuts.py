"""What an opponent that does not look at the content of images reaches on a benchmark."""

from typing import Annotated, Literal

from pydantic import Field

from loupe.schemas.base import Count, Record

ShortcutQuestion = Literal["original image", "original captions", "source of a caption"]
"""`original image`: which image of a group is its original. `original captions`: whose captions
are those of the original, by their wording. `source of a caption`: which collection a caption is
about, by its wording."""

Percent = Annotated[float, Field(ge=0, le=100)]


class BlindResult(Record):
    """How often one opponent answers a question, beside what chance gives.

    Attributes:
        question: what it answers.
        opponent: what it uses, in a word or two: `pixel statistics`, `file`, `order`, `wording`.
        questions: the number of groups, or of captions, that were asked about.
        right: its accuracy in percent, cross-validated by group.
        low: the lower end of the 95 % bootstrap interval over groups.
        high: the upper end.
        chance: the expected accuracy of a guess in percent.
        p_value: probability of at least this accuracy by guessing, for all opponents together
            (Holm's correction).
        used: the features with the greatest weights, strongest first.
    """

    question: ShortcutQuestion
    opponent: str
    questions: Count
    right: Percent
    low: Percent
    high: Percent
    chance: Percent
    p_value: Annotated[float, Field(ge=0, le=1)]
    used: tuple[str, ...] = ()

    def is_shortcut(self, margin: float) -> bool:
        """Tell whether it is better than chance by more than `margin` percentage points."""
        return self.p_value < 0.01 and self.right - self.chance > margin


class ShortcutCertificate(Record):
    """What blind opponents reach on one split of a release; empty if there is nothing to ask."""

    split: str
    results: tuple[BlindResult, ...]
