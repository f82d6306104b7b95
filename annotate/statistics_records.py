"""What the statistics of a review queue say.

Days are those of UTC. Gold items, adjudications and second looks are kept apart from first
opinions, of which all rates, lead times and agreement are made.
"""

from datetime import date, datetime

from annotate.agreement import Agreement, OwnAgreement
from annotate.intervals import Share
from annotate.work_forecast import Forecast
from schemas.base import Record


class ItemCounts(Record):
    """What became of the items that go to people; the first five add up to all of them.

    Attributes:
        waiting: nobody has them yet.
        open: somebody has them, nobody has answered.
        answered: some of their answers are there, not all.
        conflicting: all answers are there and disagree, or somebody has to settle them.
        decided: what people said has been decided.
        suspect: those not yet decided which their check suspects.
        accepted: decided ones that stand as they were shown.
        edited: decided ones in whose place an edit stands.
        rejected: decided ones that fell.
    """

    waiting: int = 0
    open: int = 0
    answered: int = 0
    conflicting: int = 0
    decided: int = 0
    suspect: int = 0
    accepted: int = 0
    edited: int = 0
    rejected: int = 0


class DayOfWork(Record):
    """How many answers came on a day, by what they were asked for."""

    day: date
    reviews: int = 0
    gold: int = 0
    adjudications: int = 0
    second_looks: int = 0


class LeadTime(Record):
    """How long an answer takes, in seconds, over the `known` answers of which it is known."""

    known: int
    median_seconds: float | None
    p90_seconds: float | None


class Verdicts(Record):
    """Which share of the first opinions accepted, edited or rejected the item."""

    accepted: Share
    edited: Share
    rejected: Share


class Work(Record):
    """What was done: first opinions with their lead time and verdicts, and all answers by day.

    `days` has only those on which anything came. `waiting`, `skipped` and `returned` count tasks
    for first opinions, gold items included as nobody can tell them apart.
    """

    answers: int
    gold_answers: int
    adjudications: int
    second_looks: int
    waiting: int
    skipped: int
    returned: int
    lead_time: LeadTime
    verdicts: Verdicts
    days: tuple[DayOfWork, ...]


class GoldDay(Record):
    """The gold answers of a day; `recent` is the accuracy over the newest ones by its end."""

    day: date
    correct: int
    answers: int
    recent: float


class GoldAccuracy(Record):
    """The accuracy on gold items, in all and day by day.

    `recent` is taken over the `window` newest answers, whoever gave them; where an annotator's
    falls below `floor`, their unreviewed work returns to the queue.
    """

    accuracy: Share
    floor: float
    window: int
    days: tuple[GoldDay, ...]


class Return(Record):
    """A use of the rule: whose work returned to the queue, when and why."""

    annotator: str
    returned_at: datetime
    accuracy: float
    floor: float
    gold_answers: int
    tasks: int
    state: str


class AnnotatorStatistics(Record):
    """What one annotator did; `name` is None unless names were asked for."""

    annotator: str
    name: str | None
    work: Work
    agreement: OwnAgreement
    gold: GoldAccuracy
    returns: int


class UnclearTask(Record):
    """An answer that counts for nothing: whose task it lies on, and what is wrong.

    `state` is unclear, where the task waits for a clear one, or quarantined.
    """

    annotation_id: int
    entity_id: str
    assignee: str
    state: str
    problem: str


class QueueStatistics(Record):
    """What became of a queue until `at`."""

    queue: str
    at: datetime
    policy: str
    overlap: int
    items: ItemCounts
    work: Work
    agreement: Agreement
    gold: GoldAccuracy
    returns: tuple[Return, ...]
    unclear: tuple[UnclearTask, ...]
    forecast: Forecast
    annotators: tuple[AnnotatorStatistics, ...]
