"""The facts that a description states about a person, and how a rewrite changed them."""

from enum import StrEnum
from typing import Literal

from loupe.schemas.base import EntityRecord, Record

Span = tuple[int, int]
"""Start and end (exclusive) in characters of the text."""


class Attribute(StrEnum):
    """The attributes of a person that a description can state."""

    SEX = "sex"
    AGE = "age"
    BUILD = "build"
    SKIN = "skin"
    HAIR = "hair"
    GARMENT = "garment"
    COLOUR = "colour"
    PATTERN = "pattern"
    MATERIAL = "material"
    DETAIL = "detail"
    COUNT = "count"
    LENGTH = "length"
    FOOTWEAR = "footwear"
    ACCESSORY = "accessory"
    SIDE = "side"
    PLACE = "place"
    ACTION = "action"


class Fact(Record):
    """One stated attribute: `subject` (what it describes), `attribute`, canonical `value`, `span`.

    For example «a dark blue jacket» states (jacket, garment, jacket) and (jacket, colour, blue).
    """

    subject: str
    attribute: Attribute
    value: str
    span: Span


class Finding(Record):
    """One difference between a source description and its rewrite.

    `source` and `rewrite` are the facts concerned; an addition has no `source`, a loss no
    `rewrite`. A part of the rewrite that shares no word with the source is `unsupported`, a much
    shorter rewrite `shortened`; these have no facts. `message` is one plain sentence for the
    reviewer. A `minor` finding is no larger than the differences between careful annotators of one
    image: neighbouring steps of a scale (average or tall), an added impression (slim), a closer
    word (sneakers for shoes).
    """

    change: Literal["added", "lost", "contradicted", "unsupported", "shortened"]
    message: str
    source: Fact | None = None
    rewrite: Fact | None = None
    minor: bool = False


class FaithfulnessReport(EntityRecord, kind="faithfulness"):
    """The comparison of a rewrite with its source description.

    `verdict` is `faithful` if nothing was added or contradicted except for minor findings, each
    part is supported, and the rewrite is not much shorter (omissions are allowed). Otherwise
    it is `suspect`, and a person must review it. `FaithfulnessSettings.strict` makes minor findings
    count as well.
    """

    verdict: Literal["faithful", "suspect"]
    findings: tuple[Finding, ...]


class RewritePair(Record):
    """A source description, its rewrite, and the earlier rewrites of the same image."""

    source: str
    rewrite: str
    siblings: tuple[str, ...] = ()
