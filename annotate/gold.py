"""Gold items: where they come from, how they are mixed in, and what their answers say."""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError
from sqlalchemy import Connection

from annotate.answers import ReviewAnswer
from annotate.assignment import Assignment
from annotate.audits import draw
from annotate.queues import Queue
from db.annotations import CountedAnswer, counted_answers
from db.entities import fetch, pages
from db.gold import (
    GoldAccuracy,
    NewGoldItem,
    ReturnedWork,
    StoredCheck,
    add_gold_items,
    checked_annotators,
    checks_of,
    in_adjudication,
    return_work,
    settled_answers,
    suspended_annotators,
    tasks_of,
)
from db.store import Store
from schemas.base import Record, digest_of
from schemas.errors import UsageError
from schemas.quality import Interval, wilson_interval

# Gold items: mixed in among the others so that nobody can tell, and what the answers say.
#
# A gold item is one whose right answer is known. Whoever gets it sees a task like any other; what
# they say is compared with what is known, and decides nothing.

_DIGEST_RANGE = 1 << 128


class Seen(NamedTuple):
    """What an annotator ever had in a queue: as an ordinary item, and as gold."""

    ordinary: frozenset[str] = frozenset()
    gold: frozenset[str] = frozenset()


class Accuracy(NamedTuple):
    """How many of the gold items that were judged were answered right."""

    correct: int
    total: int

    @property
    def share(self) -> float:
        """The share of right answers, 0 to 1; 1 where there are none, as nothing speaks against."""
        return self.correct / self.total if self.total else 1.0

    @property
    def interval(self) -> Interval:
        """The 95 % Wilson interval of the share."""
        return wilson_interval(self.correct, self.total)


class AccuracyAt(NamedTuple):
    """The accuracy over the newest answers as it stood when an answer came."""

    answered_at: datetime
    accuracy: Accuracy


def mix(
    assignments: Iterable[Assignment],
    gold: Collection[str],
    rate: float,
    seen: Mapping[str, Seen],
    seed: str,
) -> list[Assignment]:
    """The assignments with gold items among them, each annotator's in the order to send them in.

    The number of gold items is such that their share in all that the annotator ever had comes as
    close to `rate` as it can: never more than one item from it while there are gold items left.
    Which ones, and where they stand, hangs on digests with `seed`, so that neither place nor number
    tells anything. Nobody gets an item as gold that they had before or get now.

    Args:
        assignments: the ordinary ones.
        gold: the ids of the queue's gold items.
        rate: the wanted share of gold items, 0 to below 1.
        seen: what each annotator had before, by pseudonym; who is missing had nothing.
        seed: makes this draw another than that of another queue.
    """
    ordinary: dict[str, list[str]] = defaultdict(list)
    for assignment in assignments:
        ordinary[assignment.pseudonym].append(assignment.entity_id)
    mixed = []
    for pseudonym in sorted(ordinary):
        deck = _Deck(pseudonym, ordinary[pseudonym], seen.get(pseudonym, Seen()), seed)
        mixed.extend(deck.shuffled_with(deck.draw(gold, rate)))
    return mixed


class _Deck:
    """What one annotator gets now."""

    def __init__(self, pseudonym: str, ordinary: Sequence[str], seen: Seen, seed: str) -> None:
        self._pseudonym = pseudonym
        self._ordinary = ordinary
        self._seen = seen
        self._seed = seed

    def draw(self, gold: Collection[str], rate: float) -> list[str]:
        """The gold items for this time."""
        taken = self._seen.gold | self._seen.ordinary | set(self._ordinary)
        unseen = sorted(set(gold) - taken, key=lambda entity_id: self._digest("which", entity_id))
        return unseen[: max(0, self._wanted(rate) - len(self._seen.gold))]

    def shuffled_with(self, gold: Sequence[str]) -> list[Assignment]:
        """Gold and other items in an order that does not know which is which."""
        deck = [
            *(Assignment(entity_id, self._pseudonym) for entity_id in self._ordinary),
            *(Assignment(entity_id, self._pseudonym, gold=True) for entity_id in gold),
        ]
        return sorted(deck, key=lambda assignment: self._digest("where", assignment.entity_id))

    def _wanted(self, rate: float) -> int:
        """How many gold items there should be in all by now.

        Rounded up or down by chance: were it always down, the item that comes along whenever ten
        are full would be known for what it is.
        """
        ordinary = len(self._seen.ordinary | set(self._ordinary))
        chance = int(self._digest("round", str(ordinary)), 16) / _DIGEST_RANGE
        return int(ordinary * rate / (1 - rate) + chance)

    def _digest(self, what: str, subject: str) -> str:
        return digest_of("gold", what, self._seed, self._pseudonym, subject)


def accuracy(checks: Sequence[StoredCheck], window: int) -> Accuracy:
    """The accuracy over the `window` newest of `checks`, which come newest first."""
    newest = checks[:window]
    return Accuracy(sum(check.correct for check in newest), len(newest))


def accuracy_over_time(checks: Sequence[StoredCheck], window: int) -> list[AccuracyAt]:
    """How the accuracy stood after each answer, oldest first; `checks` come newest first."""
    return [
        AccuracyAt(checks[start].answered_at, accuracy(checks[start : start + window], window))
        for start in reversed(range(len(checks)))
    ]


# Where gold items come from: what an adjudicator settled, or a file of known answers.

ADJUDICATED = "adjudicated"
_LINES_AT_ONCE = 500


class GoldLine(Record):
    """A line of a file of known answers."""

    entity: str
    answer: ReviewAnswer


class LineProblem(Record):
    """Why a line of a file could not be used; `line` counts from 1."""

    line: int
    problem: str


class AddedGold(Record):
    """What became gold: `added` are new, `known` were gold before and stay as they were."""

    queue: str
    added: int
    known: int
    problems: tuple[LineProblem, ...] = ()


class _Known(NamedTuple):
    line: int
    item: NewGoldItem


def draw_gold(store: Store, queue: Queue, count: int, seed: int) -> AddedGold:
    """Makes gold of up to `count` items that an adjudicator settled, in proportion to verdicts.

    The draw hangs on the seed and on what was settled so far: drawing again adds nothing.
    """
    answers = settled_answers(store, queue.name)
    verdicts = {entity_id: str(answer["verdict"]) for entity_id, answer in answers.items()}
    drawn = draw(verdicts, count, f"gold {queue.name} {seed}")
    items = [NewGoldItem(entity_id, answers[entity_id], ADJUDICATED) for entity_id in drawn]
    added = add_gold_items(store, queue.name, items)
    return AddedGold(queue=queue.name, added=added, known=len(items) - added)


def add_gold_file(store: Store, queue: Queue, path: Path) -> AddedGold:
    """Makes gold of the items that a JSON-lines file names, one `GoldLine` a line.

    Lines that cannot be used are reported; the others are added.

    Raises:
        UsageError: the file cannot be read.
    """
    problems: list[LineProblem] = []
    added = given = 0
    for page in pages(_lines(path, problems), _LINES_AT_ONCE):
        items = list(_usable(store, queue, page, problems))
        added += add_gold_items(store, queue.name, items)
        given += len(items)
    return AddedGold(queue=queue.name, added=added, known=given - added, problems=tuple(problems))


def _lines(path: Path, problems: list[LineProblem]) -> Iterator[_Known]:
    """The lines that say something, each entity once; the others become problems."""
    first: dict[str, int] = {}
    origin = f"given in {path.name}"
    try:
        with path.open(encoding="utf-8") as file:
            for number, text in enumerate(file, 1):
                if not text.strip():
                    continue
                try:
                    line = GoldLine.model_validate_json(text)
                except ValidationError as error:
                    problems.append(LineProblem(line=number, problem=_said(error)))
                    continue
                if line.entity in first:
                    again = f"entity {line.entity} stands in line {first[line.entity]} already"
                    problems.append(LineProblem(line=number, problem=again))
                    continue
                first[line.entity] = number
                answer = line.answer.model_dump(mode="json")
                yield _Known(number, NewGoldItem(line.entity, answer, origin))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the gold file {path} cannot be read: {error}") from error


def _usable(
    store: Store, queue: Queue, page: list[_Known], problems: list[LineProblem]
) -> Iterator[NewGoldItem]:
    """Those of the lines whose entity can be an item of the queue."""
    entities = fetch(store, [known.item.entity_id for known in page])
    for number, item in page:
        entity = entities.get(item.entity_id)
        if entity is None:
            problem = f"there is no entity {item.entity_id}"
        elif (entity.dataset, entity.kind) != (queue.dataset, queue.kind):
            problem = (
                f"entity {item.entity_id} must be a {queue.kind} of {queue.dataset} to be in "
                f"{queue.name}; it is a {entity.kind} of {entity.dataset}"
            )
        elif entity.state == "withdrawn":
            problem = f"entity {item.entity_id} was withdrawn"
        else:
            yield item
            continue
        problems.append(LineProblem(line=number, problem=problem))


def _said(error: ValidationError) -> str:
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"])) or "line"
    got = json.dumps(first["input"], ensure_ascii=False, default=str)
    return f"{place}: {first['msg']}, got {got[:80]}"


# Drift: when an annotator's gold answers are too often wrong, what of theirs nobody confirmed.
#
# The rule and each use of it are recorded (`db.gold`); no person is judged by less than `least`
# gold answers, nor by old ones.

Same = Callable[[ReviewAnswer, ReviewAnswer], bool]


class Rule(NamedTuple):
    """When an annotator's work returns: too few of their `window` newest gold answers are right.

    That is fewer than the share `floor`, once there are `least` of them.
    """

    floor: float
    window: int
    least: int

    @classmethod
    def of(cls, queue: Queue) -> "Rule":
        """The rule that a queue declares."""
        return cls(queue.accuracy_floor, queue.accuracy_window, queue.accuracy_least)


class Drift(NamedTuple):
    """The rule was broken by this accuracy."""

    rule: Rule
    accuracy: Accuracy


def verdict(checks: Sequence[StoredCheck], rule: Rule) -> Drift | None:
    """What the checks of an annotator, newest first, come to; None while nothing is wrong."""
    found = accuracy(checks, rule.window)
    if found.total < rule.least or found.share >= rule.floor:
        return None
    return Drift(rule, found)


def unreviewed_answers(
    answers: Iterable[CountedAnswer],
    assignee: str,
    same: Same,
    in_adjudication: frozenset[str] = frozenset(),
) -> list[CountedAnswer]:
    """Those of the annotator's answers that nobody has confirmed.

    An answer stays where somebody else said the same, or where an adjudicator has decided on the
    item or is about to.

    Args:
        answers: all that count on the items that the annotator answered, whoever gave them.
        assignee: the annotator.
        same: whether two answers agree.
        in_adjudication: the items that lie with an adjudicator now.
    """
    others: dict[str, list[CountedAnswer]] = {}
    own: list[CountedAnswer] = []
    for answer in answers:
        if answer.assignee == assignee and answer.purpose == "review":
            own.append(answer)
        elif answer.assignee != assignee:
            others.setdefault(answer.entity_id, []).append(answer)
    return [
        answer
        for answer in own
        if answer.entity_id not in in_adjudication
        and not _is_confirmed(answer, others.get(answer.entity_id, ()), same)
    ]


def _is_confirmed(answer: CountedAnswer, others: Sequence[CountedAnswer], same: Same) -> bool:
    mine = ReviewAnswer.model_validate(answer.answer)
    return any(
        other.purpose == "adjudication" or same(mine, ReviewAnswer.model_validate(other.answer))
        for other in others
    )


class Returned(NamedTuple):
    """What a queue took back from an annotator, and why."""

    assignee: str
    drift: Drift
    work: ReturnedWork


def enforce(connection: Connection, queue: Queue, same: Same) -> list[Returned]:
    """Takes back the unconfirmed work of everybody who drifts, and whom it had let work so far.

    They get nothing more from this queue until they are reinstated; what waits for them is taken
    off the desk by the next push. To be called after checks were recorded, in the same transaction;
    `same` says whether two answers agree.
    """
    found = []
    rule = Rule.of(queue)
    stopped = suspended_annotators(connection, queue.name)
    for assignee in checked_annotators(connection, queue.name):
        drift = verdict(checks_of(connection, queue.name, assignee), rule)
        if drift is not None and assignee not in stopped:
            work = _take_back(connection, queue, same, assignee, drift)
            found.append(Returned(assignee, drift, work))
    return found


def _take_back(
    connection: Connection, queue: Queue, same: Same, assignee: str, drift: Drift
) -> ReturnedWork:
    tasks = tasks_of(connection, queue.name, assignee)
    entity_ids = {task.entity_id for task in tasks}
    answers = counted_answers(connection, queue.name, sorted(entity_ids))
    unconfirmed = unreviewed_answers(
        (answer for found in answers.values() for answer in found),
        assignee,
        same,
        in_adjudication(connection, queue.name),
    )
    return return_work(
        connection,
        queue.name,
        assignee,
        drift.rule._asdict(),
        GoldAccuracy(*drift.accuracy),
        [answer.task_key for answer in unconfirmed],
    )
