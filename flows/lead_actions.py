"""What a lead does on the desk: the same from the command line and from the lead's page.

Every action is in the log of the desk, with who did it and when.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

from loupe.annotate.assigning import assign_item
from loupe.annotate.backend import Desks
from loupe.annotate.gold import GoldLine, add_known_answers
from loupe.annotate.interfaces.registry import interface_of
from loupe.annotate.lead_page import NO_GOLD
from loupe.annotate.push import push as push_queue
from loupe.annotate.queues import Queue, decide_as_lead
from loupe.annotate.threads import answer, checked_text, send_message
from loupe.db.desk_events import NewEvent, append_event
from loupe.db.gold import reinstate_annotator, reopen_items
from loupe.db.reviews import (
    AnnotatorState,
    StoredAnnotator,
    annotator_named,
    annotators,
    review_tasks,
    set_annotator_state,
)
from loupe.db.store import Store
from loupe.schemas.errors import UsageError
from loupe.schemas.validation import nearest_hint
from loupe.schemas.wording import many

COMMAND_LINE = "command line"
"""The author of actions on the command line."""


def pause_or_resume(
    store: Store, name: str, state: Literal["active", "paused"], author: str
) -> StoredAnnotator:
    """Stop sending tasks to a person, or send tasks again.

    Raises:
        UsageError: there is no such person, or they are deactivated.
    """
    if annotator_named(store, name).state == "left":
        advice = f"first run: loupe annotator reactivate {name!r}"
        raise UsageError(f"{name!r} is deactivated; {advice}")
    return set_state(store, name, state, author)


def set_state(store: Store, name: str, state: AnnotatorState, author: str) -> StoredAnnotator:
    """Set the state of a person.

    Raises:
        UsageError: there is no such person.
    """
    before = annotator_named(store, name).state
    person = set_annotator_state(store, name, state)
    append_event(
        store,
        NewEvent("action", author, state_sentence(person, before), annotator=person.pseudonym),
    )
    return person


def log_account(store: Store, person: StoredAnnotator, done: str) -> None:
    """Write into the log what was done to a person's account on the command line."""
    said = f"{done} {person.pseudonym} ({', '.join(person.roles)})"
    append_event(store, NewEvent("action", COMMAND_LINE, said, annotator=person.pseudonym))


def state_sentence(person: StoredAnnotator, before: str) -> str:
    """Return what was done to a person who had another state before, such as "paused Bea"."""
    if person.state == "active":
        done = "reactivated" if before == "left" else "resumed"
    else:
        done = "deactivated" if person.state == "left" else "paused"
    return f"{done} {person.pseudonym}"


def reinstate(store: Store, name: str, queue: str, author: str) -> int:
    """Lift a person's suspension from a queue; return how many revocations were in force.

    Raises:
        UsageError: there is no such person, or they are not suspended there.
    """
    person = annotator_named(store, name)
    lifted = reinstate_annotator(store, queue, person.pseudonym)
    if not lifted:
        raise UsageError(f"{person.pseudonym} is not suspended from the queue {queue!r}")
    said = f"{person.pseudonym} works in {queue} again"
    append_event(store, NewEvent("action", author, said, queue, annotator=person.pseudonym))
    return lifted


class Reopened(NamedTuple):
    """How many items were asked about, are open again, and answers that no longer count."""

    asked: int
    reopened: int
    tasks: int

    def sentence(self, queue: str) -> str:
        """The counts in one line."""
        return (
            f"{queue}: {self.reopened:,} of {self.asked:,} items are open again, "
            f"{self.tasks:,} answers no longer count"
        )


def reopen(store: Store, queue: Queue, ids: Sequence[str], reason: str, author: str) -> Reopened:
    """Reopen decided items for other people."""
    work = reopen_items(store, queue.name, ids, queue.lead, reason)
    done = Reopened(len(set(ids)), work.reopened, work.tasks)
    log_about_items(store, queue, ids, f"{done.sentence(queue.name)} ({reason})", author)
    return done


def accept(store: Store, queue: Queue, ids: Sequence[str], reason: str, author: str) -> int:
    """Accept undecided items as the lead; return how many."""
    count = decide_as_lead(store, queue, dict.fromkeys(ids, "accept"), reason)
    said = f"{queue.name}: {count:,} of {len(set(ids)):,} items accepted ({reason})"
    log_about_items(store, queue, ids, said, author)
    return count


def assign(store: Store, desks: Desks, queue: Queue, entity_id: str, name: str, author: str) -> str:
    """Give an item to a person; return a sentence. The next push sends it.

    Raises:
        UsageError: see `assign_item`.
    """
    person = annotator_named(store, name).pseudonym
    purpose = assign_item(store, desks, queue, entity_id, person)
    said = f"{queue.name}: {person} gets {entity_id} ({purpose})"
    append_event(store, NewEvent("action", author, said, queue.name, entity_id, person))
    return said


def log_about_items(store: Store, queue: Queue, ids: Sequence[str], said: str, author: str) -> None:
    """Write what was done to items of a queue into the log."""
    only = ids[0] if len(set(ids)) == 1 else None
    append_event(
        store,
        NewEvent("action", author, said, queue.name, only, details={"items": sorted(set(ids))}),
    )


# Buttons of the lead's page.

Action = Literal[
    "push",
    "pause",
    "resume",
    "reinstate",
    "message",
    "answer",
    "reopen",
    "accept",
    "assign",
    "gold",
]


class Request(NamedTuple):
    """A button that was pressed: who did it, about what, and what was typed.

    `person` is a pseudonym.
    """

    author: str
    queue: str = ""
    item: str = ""
    person: str = ""
    text: str = ""
    verdict: str = ""
    instructs: bool = False


class Buttons:
    """The actions of the lead's page. Each returns a sentence about what was done.

    Args:
        store: the provenance store.
        desks: the workspaces.
        queues: returns the watched queues.
        images_url: the address of images.
    """

    def __init__(
        self, store: Store, desks: Desks, queues: Callable[[], list[Queue]], images_url: str
    ) -> None:
        self._store = store
        self._desks = desks
        self._queues = queues
        self._images_url = images_url

    def press(self, asked: Mapping[str, Any], author: str) -> str:
        """Do what a button says.

        Raises:
            LoupeError: it is not possible; the message says why.
        """
        known = get_args(Action)
        action = asked.get("action")
        if action not in known:
            raise UsageError(f"no button is called {action!r}; {nearest_hint(str(action), known)}")
        given = {
            name: str(asked.get(name) or "")
            for name in ("queue", "item", "person", "text", "verdict")
        }
        request = Request(author, **given, instructs=asked.get("instructs") is True)
        done: str = getattr(self, f"_{action}")(request)
        return done

    def _push(self, request: Request) -> str:
        queues = [one for one in self._queues() if request.queue in ("", one.name)]
        pushed = [
            push_queue(self._store, self._desks, queue, self._images_url)
            for queue in queues
            if queue.policy.policy != "auto"
        ]
        said = "; ".join(f"{one.queue}: {one.summary}" for one in pushed)
        said = said or "no queue has anything to send"
        append_event(self._store, NewEvent("action", request.author, said, request.queue))
        return said

    def _pause(self, request: Request) -> str:
        return self._set_state(request, "paused")

    def _resume(self, request: Request) -> str:
        return self._set_state(request, "active")

    def _set_state(self, request: Request, state: Literal["active", "paused"]) -> str:
        person = pause_or_resume(self._store, self._name(request), state, request.author)
        return state_sentence(person, "active" if state == "paused" else "paused")

    def _reinstate(self, request: Request) -> str:
        reinstate(self._store, self._name(request), request.queue, request.author)
        return f"{request.person} works in {request.queue} again"

    def _message(self, request: Request) -> str:
        people = [one for one in annotators(self._store) if one.state != "left"]
        if request.person:
            people = [one for one in people if one.pseudonym == request.person]
        for person in people:
            send_message(self._store, person.pseudonym, request.author, request.text)
        return f"sent to {many(len(people), 'person')}"

    def _answer(self, request: Request) -> str:
        answer(
            self._store,
            self._queue(request),
            request.item,
            request.person,
            request.author,
            request.text,
            instructs=request.instructs,
        )
        if not request.instructs:
            return f"answered {request.person}"
        return f"answered {request.person}; it is part of the instructions of {request.queue} now"

    def _reopen(self, request: Request) -> str:
        queue, reason = self._queue(request), checked_text(request.text)
        done = reopen(self._store, queue, [request.item], reason, request.author)
        if not done.reopened:
            raise UsageError("nothing to reopen: neither a person nor the queue decided this item")
        return done.sentence(queue.name)

    def _accept(self, request: Request) -> str:
        queue, reason = self._queue(request), checked_text(request.text)
        count = accept(self._store, queue, [request.item], reason, request.author)
        if not count:
            raise UsageError("not accepted: it is decided already")
        return f"{queue.name}: {count:,} of 1 items accepted"

    def _assign(self, request: Request) -> str:
        queue, name = self._queue(request), self._name(request)
        return assign(self._store, self._desks, queue, request.item, name, request.author)

    def _gold(self, request: Request) -> str:
        queue = self._queue(request)
        line = GoldLine.model_validate(
            {
                "entity": request.item,
                "answer": {"verdict": request.verdict},
                "explanation": request.text.strip(),
            }
        )
        origin = "given by the lead"
        added = add_known_answers(self._store, queue, interface_of(queue), [(1, line)], origin)
        if added.problems:
            raise UsageError(added.problems[0].problem)
        if not added.added:
            raise UsageError("it is a gold item already; its right answer stays as it is")
        said = f"{queue.name}: {added.added} gold item added ({request.verdict})"
        if added.decided:
            said += ", and the item decided, as it was undecided"
        append_event(
            self._store, NewEvent("action", request.author, said, queue.name, request.item)
        )
        return "; ".join([said, *self._gold_limits(queue, request.item)])

    def _gold_limits(self, queue: Queue, item: str) -> list[str]:
        """Return who is not compared with a new gold item, and whether anybody is."""
        tasks = review_tasks(self._store, queue.name, entity_id=item, purpose="review").values()
        having = sorted({one.assignee for one in tasks if one.state != "closed"})
        limits = [f"{one} has it already: this answer is not compared" for one in having]
        return limits if queue.gold_rate else [*limits, NO_GOLD]

    def _queue(self, request: Request) -> Queue:
        queues = {queue.name: queue for queue in self._queues()}
        if request.queue not in queues:
            raise UsageError(f"there is no queue {request.queue!r}")
        return queues[request.queue]

    def _name(self, request: Request) -> str:
        names = {one.pseudonym: one.name for one in annotators(self._store)}
        if request.person not in names:
            raise UsageError(f"there is no annotator {request.person!r}")
        return names[request.person]
