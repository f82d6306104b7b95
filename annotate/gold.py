"""Gold items: their sources, how they are mixed in, and the accuracy of annotators on them."""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, NamedTuple

from pydantic import Field, ValidationError
from sqlalchemy import Connection

from loupe.annotate.answers import ReviewAnswer
from loupe.annotate.assignment import Assignment, draw
from loupe.annotate.interfaces.page import Interface
from loupe.annotate.queues import DIGEST_RANGE, SHARED, Queue, decide_as_lead, without_left_out
from loupe.db.annotations import GivenAnswer, counted_answers
from loupe.db.entities import StoredEntity, fetch, pages
from loupe.db.gold import (
    KnownAnswer,
    ReturnedWork,
    StoredCheck,
    add_gold_items,
    all_checks,
    counted_checks,
    gold_items,
    return_work,
    settled_answers,
    suspended_annotators,
)
from loupe.db.reviews import WAITING, review_tasks
from loupe.db.store import Store
from loupe.schemas.base import Record, digest_of
from loupe.schemas.errors import FormatError, UsageError
from loupe.schemas.grouping import grouped
from loupe.schemas.text_files import read_text
from loupe.schemas.validation import fault_of

# A gold item is an item with a known correct answer. It looks like any other task. Its answer is
# compared with the known one and does not decide the item.


class Seen(NamedTuple):
    """All items that an annotator ever had in a queue, ordinary and gold.

    `qualifying` is the number of gold items for the qualification, which count for no share.
    """

    ordinary: frozenset[str] = frozenset()
    gold: frozenset[str] = frozenset()
    qualifying: int = 0


def gold_in_batch(
    size: int, gold: Collection[str], rate: float, seen: Seen, pseudonym: str, seed: str
) -> int:
    """Return how many of an annotator's next `size` tasks are gold.

    Their share in all items that the annotator ever had is as close to `rate` as possible, but at
    most twice the rate in one batch, so that gold items added later are spread over several
    batches. The number is known before the ordinary items, so that the size of a batch does not
    reveal it.
    """
    ordinary = len(seen.ordinary) + round(size * (1 - rate))
    wanted = _gold_count(rate, pseudonym, seen, seed, ordinary)
    left = len(_unseen(gold, pseudonym, seen, seed))
    return max(0, min(wanted, math.ceil(2 * rate * size), size - 1, left))


def mix(
    assignments: Iterable[Assignment],
    gold: Collection[str],
    planned: Mapping[str, int],
    seen: Mapping[str, Seen],
    seed: str,
    priorities: Mapping[str, int] | None = None,
) -> list[Assignment]:
    """Mix the assignments with gold items, each annotator's in the order to send them in.

    Digests with `seed` choose the items and positions, so that positions do not reveal them.
    Annotators get no gold item that they had before or get now. Ordinary items with a higher
    priority come first.

    Args:
        assignments: the ordinary ones.
        gold: the ids of the queue's gold items.
        planned: how many gold items an annotator gets, by pseudonym; fewer if none are left.
        seen: the items that each annotator had before, by pseudonym.
        seed: varies the draws of different queues.
        priorities: those of ordinary items; 0 if an item is not in it.
    """
    urgent = priorities or {}
    ordinary = grouped((one.pseudonym, one) for one in assignments)
    mixed = []
    for name, given in sorted(ordinary.items()):
        items = [one.entity_id for one in given]
        chosen = _unseen(gold, name, seen.get(name, Seen()), seed, items)[: planned.get(name, 0)]
        deck = [*given, *(Assignment(entity_id, name, gold=True) for entity_id in chosen)]
        deck.sort(key=lambda one: _digest("where", seed, one.pseudonym, one.entity_id))
        in_turn = [one for one in deck if not one.gold]
        in_turn.sort(key=lambda one: -urgent.get(one.entity_id, 0))
        turns = iter(in_turn)
        mixed += [one if one.gold else next(turns) for one in deck]
    return mixed


def _unseen(
    gold: Collection[str], name: str, seen: Seen, seed: str, given: Collection[str] = ()
) -> list[str]:
    """Return the gold items that an annotator never had and does not get now, in order."""
    left = set(gold) - seen.gold - seen.ordinary - set(given)
    return sorted(left, key=lambda entity_id: _digest("which", seed, name, entity_id))


def _gold_count(rate: float, name: str, seen: Seen, seed: str, ordinary: int) -> int:
    """Return how many gold items an annotator gets now, with `ordinary` others ever.

    Rounded up or down at random: with rounding down, a gold item would come after every ten items
    and so be recognisable.
    """
    chance = int(_digest("round", seed, name, str(ordinary)), 16) / DIGEST_RANGE
    had = max(0, len(seen.gold) - seen.qualifying)
    return max(0, int(ordinary * rate / (1 - rate) + chance) - had)


def _digest(what: str, seed: str, name: str, subject: str) -> str:
    return digest_of("gold", what, seed, name, subject)


# Sources of gold items: answers of an adjudicator, or a file of known answers.

_ADJUDICATED = "adjudicated"
_LINES_AT_ONCE = 500


class GoldLine(Record):
    """A line of a file of known answers; `explanation` is shown to those who answer otherwise.

    Choices and texts that the answer leaves out are not compared.
    """

    entity: str
    answer: ReviewAnswer
    explanation: str = ""


def is_right(answer: ReviewAnswer, known: ReviewAnswer, same: "Same") -> bool:
    """Return whether an answer agrees with what the known one states; it may state only a part."""
    choices, texts = {**answer.choices, **known.choices}, {**answer.texts, **known.texts}
    return same(answer, known.model_copy(update={"choices": choices, "texts": texts}))


class LineProblem(Record):
    """Why a line of a file could not be used; `line` counts from 1."""

    line: int
    problem: str


class AddedGold(Record):
    """The result of adding gold: `added` are new, `known` were gold before and do not change.

    `decided` are undecided items that their known answer decided, `items` the ids of the gold items
    that were given or drawn.
    """

    queue: str
    added: int
    known: int
    decided: int = 0
    problems: tuple[LineProblem, ...] = ()
    items: tuple[str, ...] = Field(default=(), exclude=True)


def draw_gold(store: Store, queue: Queue, count: int, seed: int) -> AddedGold:
    """Make gold of up to `count` items that an adjudicator settled, in proportion to verdicts.

    The draw depends on the seed and the settled items: drawing again adds nothing.
    """
    answers = settled_answers(store, queue.name)
    verdicts = {entity_id: str(answer["verdict"]) for entity_id, answer in answers.items()}
    drawn = draw(verdicts, count, f"gold {queue.name} {seed}")
    items = [KnownAnswer(entity_id, answers[entity_id], _ADJUDICATED) for entity_id in drawn]
    added = add_gold_items(store, queue.name, items)
    known = len(items) - added
    return AddedGold(queue=queue.name, added=added, known=known, items=tuple(drawn))


def add_gold_file(store: Store, queue: Queue, interface: Interface, path: Path) -> AddedGold:
    """Make gold of the items in a JSON-lines file with one `GoldLine` per line.

    Lines that cannot be used are reported; the others are added.

    Raises:
        UsageError: the file cannot be read.
    """
    problems: dict[int, str] = {}
    lines = _parse_lines(path, problems)
    return add_known_answers(store, queue, interface, lines, f"given in {path.name}", problems)


def add_known_answers(
    store: Store,
    queue: Queue,
    interface: Interface,
    lines: Iterable[tuple[int, GoldLine]],
    origin: str,
    problems: dict[int, str] | None = None,
) -> AddedGold:
    """Make gold of items with known answers, numbered for messages.

    An undecided item is decided by its known answer, as the lead: those who get it as a gold item
    do not decide it. Edits, and acceptances of what annotators write, cannot decide: they may lack
    the text. Lines that cannot be used are reported, after the `problems` of earlier ones.
    """
    problems = {} if problems is None else problems
    earlier = gold_items(store, queue.name)
    added = decided = 0
    given: list[str] = []
    for page in pages(lines, _LINES_AT_ONCE):
        entities = fetch(store, [line.entity for _, line in page])
        here = {one.id for one in without_left_out(store, queue, entities.values())}
        items = []
        verdicts: dict[str, Literal["accept", "reject"]] = {}
        for number, line in page:
            problem = _line_problem(queue, interface, line, entities.get(line.entity))
            if not problem and line.entity not in here:
                problem = f"entity {line.entity} is decided in another queue"
            if problem:
                problems[number] = problem
                continue
            answer = line.answer.model_dump(mode="json")
            items.append(KnownAnswer(line.entity, answer, origin, line.explanation))
            verdict = line.answer.verdict
            if line.entity in earlier or verdict == "edit":
                continue
            if verdict == "reject" or not interface.independent:
                verdicts[line.entity] = verdict
        decided += decide_as_lead(store, queue, verdicts, f"known answer, {origin}")
        added += add_gold_items(store, queue.name, items)
        given += [item.entity_id for item in items]
    return AddedGold(
        queue=queue.name,
        added=added,
        known=len(given) - added,
        decided=decided,
        items=tuple(given),
        problems=tuple(
            LineProblem(line=number, problem=problem)
            for number, problem in sorted(problems.items())
        ),
    )


def _parse_lines(path: Path, problems: dict[int, str]) -> Iterator[tuple[int, GoldLine]]:
    """Return the parsed lines, each entity once; invalid lines are added to the problems."""
    first: dict[str, int] = {}
    try:
        lines = read_text(path, "JSON lines", name=f"gold file {path}").split("\n")
    except FormatError as error:
        raise UsageError(str(error)) from error
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            line = GoldLine.model_validate_json(text)
        except ValidationError as error:
            problems[number] = fault_of(error, GoldLine)
            continue
        if line.entity in first:
            again = f"entity {line.entity} is already in line {first[line.entity]}"
            problems[number] = again
            continue
        first[line.entity] = number
        yield number, line


def _line_problem(
    queue: Queue, interface: Interface, line: GoldLine, entity: StoredEntity | None
) -> str:
    """Return why a line cannot be gold of the queue; "" if it can."""
    if entity is None:
        return f"there is no entity {line.entity}"
    if (entity.dataset, entity.kind) != (queue.dataset, queue.kind):
        return (
            f"entity {entity.id} must be a {queue.kind} of {queue.dataset} to be in {queue.name}; "
            f"it is a {entity.kind} of {entity.dataset}"
        )
    if entity.state == "withdrawn":
        return f"entity {entity.id} was withdrawn"
    possible = interface.answer_choices(entity)
    for control, chosen in line.answer.choices.items():
        if unknown := [one for one in chosen if (control, one) not in possible]:
            return f"answer.choices: no answer on this page has {control} {unknown[0]!r}"
    verdict = line.answer.verdict
    if line.answer.texts and verdict != ("accept" if interface.independent else "edit"):
        return f"answer.texts: no answer on this page has texts and the verdict {verdict!r}"
    return ""


# Feedback on the gold items that an annotator answered.


class GoldFeedback(Record):
    """An annotator's answer to a gold item and the known one, both in the words of the page."""

    queue: str
    entity: str
    answered_at: datetime
    correct: bool
    given: str
    known: str
    explanation: str


def gold_feedback(
    store: Store, queue: Queue, interface: Interface, assignee: str
) -> list[GoldFeedback]:
    """Return an annotator's answers to the gold items of a queue, newest first."""
    gold = gold_items(store, queue.name)
    checks = [
        one for one in all_checks(store, queue.name).get(assignee, ()) if one.entity_id in gold
    ]
    shown = fetch(store, [check.entity_id for check in checks])

    def said(answer: Mapping[str, Any], entity_id: str) -> str:
        rows = interface.summary(ReviewAnswer.model_validate(answer), shown[entity_id])
        return "; ".join(f"{name}: {value}" for name, value in rows if value.strip())

    return [
        GoldFeedback(
            queue=queue.name,
            entity=check.entity_id,
            answered_at=check.answered_at,
            correct=check.correct,
            given=said(check.answer, check.entity_id),
            known=said(gold[check.entity_id].answer, check.entity_id),
            explanation=gold[check.entity_id].explanation,
        )
        for check in checks
    ]


# Revocation: if too many of an annotator's gold answers are wrong, their unconfirmed work is
# revoked.
#
# The rule and each revocation are recorded (`loupe.db.gold`). The rule requires at least `least`
# gold answers and uses only the newest ones.

Same = Callable[[ReviewAnswer, ReviewAnswer], bool]


class Rule(NamedTuple):
    """The rule for revoking an annotator's work.

    The share of correct answers among their `window` newest gold answers is below `floor`, and
    there are at least `least` of them.
    """

    floor: float
    window: int
    least: int

    @classmethod
    def of(cls, queue: Queue) -> "Rule":
        """Return the rule of a queue; annotators who fail the qualification are suspended."""
        least = min(queue.accuracy_least, queue.qualification or queue.accuracy_least)
        return cls(queue.accuracy_floor, queue.accuracy_window, least)


def answers_to_qualify(store: Store, queue: Queue, names: Iterable[str]) -> dict[str, int]:
    """Return the number of gold answers that each unqualified annotator still needs.

    An annotator who was suspended for the answers and reinstated counts as qualified.
    """
    if not queue.qualification:
        return {}
    checks = all_checks(store, queue.name)
    missing = {name: queue.qualification - len(checks.get(name, ())) for name in names}
    return {name: count for name, count in missing.items() if count > 0 and name != SHARED}


def qualification_round(
    name: str, count: int, gold: Collection[str], seen: Seen, seed: str
) -> list[Assignment]:
    """Return `count` gold items for an annotator, none of which they ever had."""
    chosen = _unseen(gold, name, seen, seed)[:count]
    return [Assignment(entity_id, name, gold=True) for entity_id in chosen]


def drift(checks: Sequence[StoredCheck], rule: Rule) -> tuple[int, int] | None:
    """Return how many of an annotator's newest answers are right, if they break the rule.

    `checks` come newest first; the second number is that of all newest answers.
    """
    newest = [check.correct for check in checks[: rule.window]]
    is_kept = len(newest) < rule.least or fmean(newest) >= rule.floor
    return None if is_kept else (sum(newest), len(newest))


def drifting(connection: Connection, queue: Queue) -> dict[str, tuple[int, int]]:
    """Return who breaks the rule and is not suspended yet, as `drift` has it."""
    rule = Rule.of(queue)
    exempt = {SHARED, *suspended_annotators(connection, queue.name)}
    found = {}
    for assignee, checks in sorted(counted_checks(connection, queue.name).items()):
        broken = drift(checks, rule)
        if broken is not None and assignee not in exempt:
            found[assignee] = broken
    return found


def unreviewed_answers(
    answers: Iterable[GivenAnswer],
    assignee: str,
    same: Same,
    in_adjudication: frozenset[str] = frozenset(),
) -> list[GivenAnswer]:
    """Return the annotator's unconfirmed answers.

    An answer is confirmed if another person gave the same one, or if an adjudicator has decided on
    the item or has it now.

    Args:
        answers: all answers that count on the annotator's items, from all people.
        assignee: the annotator.
        same: returns whether two answers agree.
        in_adjudication: the items that an adjudicator has now.
    """
    others: dict[str, list[GivenAnswer]] = defaultdict(list)
    own: list[GivenAnswer] = []
    for answer in answers:
        if answer.assignee != assignee:
            others[answer.entity_id].append(answer)
        elif answer.purpose == "review" and answer.entity_id not in in_adjudication:
            own.append(answer)

    def is_confirmed(answer: GivenAnswer) -> bool:
        mine = ReviewAnswer.model_validate(answer.answer)
        return any(
            other.purpose == "adjudication" or same(mine, ReviewAnswer.model_validate(other.answer))
            for other in others[answer.entity_id]
        )

    return [answer for answer in own if not is_confirmed(answer)]


def enforce(connection: Connection, queue: Queue, same: Same) -> dict[str, ReturnedWork]:
    """Revoke the unconfirmed work of all annotators who break the rule and suspend them.

    They get no more tasks from this queue until they are reinstated; the next push removes their
    open tasks. Loupe's own account is never suspended. Call it after recording checks, in the same
    transaction; `same` returns whether two answers agree.
    """
    revoked = {}
    rule = Rule.of(queue)
    settled = review_tasks(connection, queue.name, purpose="adjudication", state=WAITING)
    settling = frozenset(task.entity_id for task in settled.values())
    for assignee, found in drifting(connection, queue).items():
        own = {"assignee": assignee, "purpose": "review", "state": (*WAITING, "answered")}
        items = {one.entity_id for one in review_tasks(connection, queue.name, **own).values()}
        by_item = counted_answers(connection, queue.name, sorted(items))
        answers = (answer for given in by_item.values() for answer in given)
        unconfirmed = unreviewed_answers(answers, assignee, same, settling)
        tasks = [answer.task_key for answer in unconfirmed]
        values = rule._asdict()
        revoked[assignee] = return_work(connection, queue.name, assignee, values, found, tasks)
    return revoked
