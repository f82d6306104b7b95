"""The parts of the lead's page that are there only while it is live: people, questions, log."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby, islice
from typing import NamedTuple

from loupe.annotate.interfaces.registry import interface_of
from loupe.annotate.planning import midnight
from loupe.annotate.queues import FoundItem, Queue, search_items
from loupe.annotate.statistics.overview import Overview
from loupe.annotate.statistics.page import page_templates
from loupe.annotate.threads import Thread, threads, words_of
from loupe.db.annotations import answer_counts
from loupe.db.decisions import last_agents, last_reasons
from loupe.db.desk_events import StoredEvent, desk_events
from loupe.db.entities import fetch
from loupe.db.gold import IN_FORCE, gold_items, revocations
from loupe.db.reviews import (
    ShownImage,
    annotators,
    count_open_by_person,
    images_of_item,
    names_of_annotators,
    review_tasks,
)
from loupe.db.store import Store
from loupe.schemas.pages import SERVED_POLICY

MOST_ITEMS = 50
_LOGGED = 100
_WORDS = 120
_LISTED = 12
_COMPARED = (
    "Annotators get it as any other item, and their answers are compared with the right one. An "
    "undecided item is decided by it, if it is accept or reject."
)
NO_GOLD = "gold_rate of the queue is 0: nobody gets gold items; set it in the queues file"


class Person(NamedTuple):
    """A person who reviews, as the page shows them; `suspended` names queues."""

    pseudonym: str
    name: str
    roles: Sequence[str]
    state: str
    open: int
    today: int
    suspended: Sequence[str]


class Logged(NamedTuple):
    """A line of the log.

    `item` is the short id and the words of the item that it is about, or the short ids of several.
    """

    at: datetime
    author: str
    what: str
    item: str


class Live(NamedTuple):
    """What a live page has besides the statistics."""

    people: Sequence[Person]
    threads: Sequence[Thread]
    log: Sequence[Logged]
    names: dict[str, str]
    images_url: str


class Item(NamedTuple):
    """An item that was searched for, with its words and the images of its tasks.

    `reason` says why it was rejected; `reopens` whether its queue decided it, and not another step.
    """

    found: FoundItem
    text: str
    images: Sequence[ShownImage]
    is_gold: bool
    reason: str
    reopens: bool


def live_parts(store: Store, queues: Sequence[Queue], images_url: str) -> Live:
    """Return what the live page shows of people, questions and the log."""
    waiting = count_open_by_person(store)
    today: Counter[str] = Counter()
    for queue in queues:
        today.update(answer_counts(store, queue.name, midnight()))
    suspended: dict[str, list[str]] = {}
    for one in revocations(store):
        if one.state == IN_FORCE:
            suspended.setdefault(one.assignee, []).append(one.queue)
    people = [
        Person(
            person.pseudonym,
            person.name,
            person.roles,
            person.state,
            waiting.get(person.pseudonym, 0),
            today[person.pseudonym],
            suspended.get(person.pseudonym, ()),
        )
        for person in annotators(store)
    ]
    names = names_of_annotators(store)
    return Live(people, threads(store), list(_log(store, names)), names, images_url)


def _log(store: Store, names: dict[str, str]) -> Iterator[Logged]:
    """Yield the lines of the log, the newest first; a message to several people is one line."""
    events = desk_events(store, newest=_LOGGED)
    items = fetch(store, {one.entity_id for one in events if one.entity_id})
    for _, same in groupby(reversed(events), _at_once):
        together = list(same)
        event = together[0]
        said = _said(event, [names.get(one.annotator, one.annotator) for one in together])
        for pseudonym, name in names.items():
            said = said.replace(pseudonym, name)
        item = event.entity_id or ""
        words = words_of(items[item])[:_WORDS] if item in items else ""
        about = f"{item[:12]}: {words}" if words else item[:12] or _several(event)
        yield Logged(event.at, event.author, said, about)


def _several(event: StoredEvent) -> str:
    """Return the short ids of the items that an event is about, if it is about several."""
    ids = [str(one)[:12] for one in event.details.get("items", ())]
    more = f" and {len(ids) - _LISTED:,} more" if len(ids) > _LISTED else ""
    return ", ".join(ids[:_LISTED]) + more


def _at_once(event: StoredEvent) -> tuple[object, ...]:
    """Return what messages that were sent at once have in common; other events have nothing."""
    if event.kind == "message":
        return event.author, event.text
    return (event.id,)


def _said(event: StoredEvent, people: Sequence[str]) -> str:
    """Return what was done, with the person or the queue."""
    match event.kind:
        case "message":
            return f"message to {', '.join(reversed(people))}: {event.text}"
        case "answer":
            return f"answer to {people[0]} in {event.queue}: {event.text}"
        case "question":
            return f"question in {event.queue}: {event.text}"
        case "instruction":
            return f"added to the instructions of {event.queue}: {event.text}"
    return event.text


def found_items(store: Store, queue: Queue, words: str, state: str) -> list[Item]:
    """Return the first items of a queue with these words, in this state if it is not empty."""
    gold = gold_items(store, queue.name)
    first = list(islice(search_items(store, queue, words, [state] if state else None), MOST_ITEMS))
    ids = [one.entity for one in first]
    agents, reasons = last_agents(store, ids), last_reasons(store, ids)
    tasks = review_tasks(store, queue.name, entity_id=tuple(ids), state="answered", gold=False)
    answered = {task.entity_id for task in tasks.values()}
    records = fetch(store, ids)
    items: list[Item] = []
    for found in first:
        images = images_of_item(store, queue.name, found.entity)
        text = "" if found.text.startswith("{") else found.text
        if queue.choices:
            value = json.loads(records[found.entity].payload).get(queue.field)
            text = " · ".join(filter(None, (f"{queue.field}: {value}", text)))
        reason = reasons.get(found.entity, "") if found.state == "rejected" else ""
        by_policy = found.entity in agents and agents[found.entity].name == queue.agent.name
        reopens = by_policy or found.entity in answered
        items.append(Item(found, text, images, found.entity in gold, reason, reopens))
    return items


def render_live_page(overview: Overview, live: Live) -> str:
    """Return the lead's page with its buttons; `lead.js` of the desk makes them work."""
    template = page_templates().get_template("statistics_page.html.j2")
    return str(
        template.render(
            overview=overview,
            queues=overview.queues,
            live=live,
            content_security_policy=SERVED_POLICY,
        )
    )


def render_items(queue: Queue, items: Sequence[Item], images_url: str) -> str:
    """Return items that were searched for, with their buttons."""
    template = page_templates().get_template("lead_items.html.j2")
    verdicts = ["accept", "reject"]
    if not interface_of(queue).independent:
        verdicts.insert(1, "edit")
    return str(
        template.render(
            queue=queue.name,
            items=items,
            images_url=images_url,
            most=MOST_ITEMS,
            verdicts=verdicts,
            gold_says=_COMPARED if queue.gold_rate else f"{_COMPARED} But {NO_GOLD}.",
        )
    )
