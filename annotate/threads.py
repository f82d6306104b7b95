"""Questions of annotators about items, the lead's answers, and messages to annotators."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from loupe.annotate.queues import Queue, text_of
from loupe.db.desk_events import Kind, NewEvent, StoredEvent, append_event, desk_events
from loupe.db.entities import StoredEntity, fetch
from loupe.db.reviews import ShownImage, StoredTask, annotators, images_of_item, review_tasks
from loupe.db.store import Store
from loupe.schemas.errors import UsageError

MOST_CHARACTERS = 2000
_EXAMPLE_CHARACTERS = 300
_THREAD: tuple[Kind, ...] = ("question", "answer")


class Thread(NamedTuple):
    """What an annotator and the lead said about an item, oldest first.

    `text` are the words of the item, `images` those of its tasks.
    """

    queue: str
    entity_id: str
    annotator: str
    events: Sequence[StoredEvent]
    text: str
    images: Sequence[ShownImage]

    @property
    def waits(self) -> bool:
        """Whether the annotator waits for an answer."""
        return self.events[-1].kind == "question"

    @property
    def last(self) -> datetime:
        """When something was said last."""
        return self.events[-1].at


def task_on_screen(store: Store, server: str, user_id: int, task_id: int) -> StoredTask | None:
    """Return the task with a number on the server if it is of the person with that account."""
    people = {
        one.pseudonym for one in annotators(store) if (one.server, one.user_id) == (server, user_id)
    }
    found = review_tasks(store, server=server, task_id=task_id).values()
    return next((task for task in found if task.assignee in people), None)


def said_about(store: Store, task: StoredTask) -> list[StoredEvent]:
    """Return what the person who has a task and the lead said about its item, oldest first."""
    return desk_events(
        store, kind=_THREAD, queue=task.queue, entity_id=task.entity_id, annotator=task.assignee
    )


def ask(store: Store, task: StoredTask, text: str) -> None:
    """Store a question of the person who has a task.

    Raises:
        UsageError: it is empty or too long.
    """
    said = checked_text(text)
    append_event(
        store,
        NewEvent("question", task.assignee, said, task.queue, task.entity_id, task.assignee),
    )


def answer(
    store: Store,
    queue: Queue,
    entity_id: str,
    annotator: str,
    author: str,
    text: str,
    *,
    instructs: bool,
) -> None:
    """Store the lead's answer to a person; if it `instructs`, it joins the queue's instructions.

    Raises:
        UsageError: it is empty or too long, or the person asked nothing about the item.
    """
    said = checked_text(text)
    before = desk_events(
        store, kind=_THREAD, queue=queue.name, entity_id=entity_id, annotator=annotator
    )
    asked = _questions(before)
    if not asked:
        raise UsageError(f"{annotator} asked nothing about {entity_id}")
    append_event(store, NewEvent("answer", author, said, queue.name, entity_id, annotator))
    if instructs:
        (item,) = fetch(store, [entity_id]).values()
        details = {"question": asked, "example": words_of(item)[:_EXAMPLE_CHARACTERS]}
        append_event(
            store, NewEvent("instruction", author, said, queue.name, entity_id, details=details)
        )


def send_message(store: Store, annotator: str, author: str, text: str) -> None:
    """Store a message of the lead to a person.

    Raises:
        UsageError: it is empty or too long.
    """
    append_event(store, NewEvent("message", author, checked_text(text), annotator=annotator))


class Received(NamedTuple):
    """What a person got from the lead: for an answer, with their questions and the item."""

    event: StoredEvent
    question: str = ""
    text: str = ""
    images: Sequence[ShownImage] = ()


def inbox(store: Store, annotator: str, queues: Sequence[str], newest: int = 20) -> list[Received]:
    """Return what the lead said to a person, and added to the queues they work in, oldest first."""
    said = desk_events(store, newest, kind=("answer", "message"), annotator=annotator)
    said += desk_events(store, newest, kind="instruction", queue=tuple(queues))
    thread_of = {(one.queue, one.entity_id): one for one in threads(store, annotator)}
    found = []
    answered = {_about(one) for one in said if one.kind == "answer"}
    once = [one for one in said if one.kind != "instruction" or _about(one) not in answered]
    for event in sorted(once)[-newest:]:
        thread = thread_of.get((event.queue, str(event.entity_id)))
        if event.kind != "answer" or thread is None:
            found.append(Received(event, str(event.details.get("question", ""))))
            continue
        asked = _questions([one for one in thread.events if one.id < event.id])
        found.append(Received(event, asked, thread.text, thread.images))
    return found


def _questions(events: Sequence[StoredEvent]) -> str:
    """Return the questions, one a line, that an answer after these events is about."""
    asked: list[str] = []
    is_answered = False
    for event in events:
        if event.kind == "question":
            asked = [*([] if is_answered else asked), event.text]
        is_answered = event.kind == "answer"
    return "\n".join(asked)


def _about(event: StoredEvent) -> tuple[object, ...]:
    """Return what an answer and the instruction made of it have in common."""
    return event.queue, event.entity_id, event.text


def threads(store: Store, annotator: str | None = None, newest: int = 200) -> list[Thread]:
    """Return the threads of the newest questions and answers; those that wait come first.

    With an `annotator`, only those of this person.
    """
    of_person = {} if annotator is None else {"annotator": annotator}
    of_item: dict[tuple[str, str, str], list[StoredEvent]] = {}
    for event in desk_events(store, newest, kind=_THREAD, **of_person):
        key = event.queue, str(event.entity_id), event.annotator
        of_item.setdefault(key, []).append(event)
    items = fetch(store, {entity_id for _, entity_id, _ in of_item})
    found = []
    for (queue, entity_id, annotator), events in of_item.items():
        if items[entity_id].state == "withdrawn":
            continue
        images = images_of_item(store, queue, entity_id)
        text = words_of(items[entity_id])
        found.append(Thread(queue, entity_id, annotator, events, text, images))
    waiting = sorted((one for one in found if one.waits), key=lambda one: one.last)
    answered = sorted((one for one in found if not one.waits), key=lambda one: one.last)
    return [*waiting, *reversed(answered)]


def words_of(item: StoredEntity) -> str:
    """Return the words of an item; "" if it has none, such as an image."""
    text = text_of(item)
    return "" if text == item.payload else text


def checked_text(text: str) -> str:
    """Return a text without white space around it.

    Raises:
        UsageError: it is empty or too long.
    """
    said = text.strip().replace("\0", "")
    if not said or len(said) > MOST_CHARACTERS:
        raise UsageError(f"write a text of 1 to {MOST_CHARACTERS} characters; got {len(said)}")
    return said
