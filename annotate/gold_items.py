"""Where gold items come from: what an adjudicator settled, or a file of known answers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from annotate.answers import ReviewAnswer
from annotate.queues import Queue
from annotate.stratified import draw
from db.entities import fetch, pages
from db.gold import NewGoldItem, add_gold_items, settled_answers
from db.store import Store
from schemas.base import Record
from schemas.errors import UsageError

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
