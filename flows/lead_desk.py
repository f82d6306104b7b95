"""What Label Studio asks the queue watcher for: the lead's page, its buttons, and questions.

Label Studio's environment has no Loupe. It knows who is logged in, and passes requests on with the
key of the desk (`loupe_desk/lead.py`).
"""

import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cached_property, partial
from http import HTTPStatus
from typing import Any, NamedTuple

from loupe.annotate.lead_page import found_items, live_parts, render_items, render_live_page
from loupe.annotate.queues import Queue
from loupe.annotate.statistics.overview import overview
from loupe.annotate.threads import Received, ask, inbox, said_about, task_on_screen
from loupe.db.desk_events import StoredEvent, desk_mark
from loupe.db.reviews import annotators, queues_of_person
from loupe.db.store import Store
from loupe.flows.continuing import ready_to_continue
from loupe.flows.engine.desks import images_url, open_desks
from loupe.flows.lead_actions import Buttons
from loupe.flows.watched import facts_of, watched
from loupe.models.profiles.settings import Settings
from loupe.schemas.errors import LoupeError, UsageError
from loupe.services.label_studio import adding_people, label_studio_name

_LONGEST_SECONDS = 60.0
"""The page is made again at least so often, also if nothing happened."""


class Reply(NamedTuple):
    """The status and the JSON object of an answer."""

    status: HTTPStatus
    content: dict[str, Any]


class _Shown(NamedTuple):
    """The page as it was made last: its mark, when, and how long it took."""

    mark: str
    html: str
    made_at: float
    seconds: float


class LeadDesk:
    """Answers requests of Label Studio, in several threads.

    Args:
        settings: the settings of the installation.
        wake: lets the watcher pull and push now.
        clock: the time in seconds.
    """

    def __init__(
        self,
        settings: Settings,
        wake: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._wake = wake
        self._clock = clock
        self._making = threading.Lock()
        self._shown: _Shown | None = None

    @cached_property
    def _store(self) -> Store:
        """The store, which is opened by the first request."""
        return Store.open(self._settings.database_url, self._settings.home)

    def answer(self, asked: Mapping[str, Any]) -> Reply:
        """Return the answer to a request; `ask` says for what.

        What is not possible is answered with 409 and a sentence.
        """
        known = {
            "page": self._page,
            "items": self._items,
            "press": self._press,
            "thread": self._thread,
            "question": self._question,
            "inbox": self._inbox,
        }
        wanted = known.get(str(asked.get("ask")))
        if wanted is None:
            return Reply(HTTPStatus.NOT_FOUND, {"problem": "unknown request"})
        try:
            return Reply(HTTPStatus.OK, wanted(asked))
        except (LoupeError, ValueError) as error:
            return Reply(HTTPStatus.CONFLICT, {"problem": str(error)})

    def _page(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the page, unless the one that is shown has its mark."""
        images = images_url(self._settings)
        mark = f"{hash((desk_mark(self._store), images))}"
        with self._making:
            shown = self._shown
            if shown is None or not self._is_current(shown, mark):
                shown = self._shown = self._made(mark, images)
        version = f"{shown.mark} {shown.made_at}"
        if asked.get("known") == version:
            return {"known": version}
        return {"known": version, "html": shown.html, "images": images}

    def _is_current(self, shown: _Shown, mark: str) -> bool:
        """Return whether a page needs not be made again; a slow one is not made all the time."""
        age = self._clock() - shown.made_at
        return age < (3 * shown.seconds if shown.mark != mark else _LONGEST_SECONDS)

    def _made(self, mark: str, images: str) -> _Shown:
        started = self._clock()
        queues = self._queues()
        statistics = overview(
            self._store,
            queues,
            datetime.now(UTC),
            names=True,
            facts=partial(facts_of, self._store),
            ready=ready_to_continue(self._settings, self._store, queues),
            adding=adding_people(self._settings),
        )
        html = render_live_page(statistics, live_parts(self._store, queues, images))
        ended = self._clock()
        return _Shown(mark, html, ended, ended - started)

    def _items(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        queue = self._queue_named(str(asked.get("queue")))
        words, state = str(asked.get("words") or ""), str(asked.get("state") or "")
        items = found_items(self._store, queue, words, state)
        return {"html": render_items(queue, items, images_url(self._settings))}

    def _press(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        author = str(asked.get("by") or "")
        if not author:
            raise UsageError("nobody is logged in")
        desks = open_desks(self._settings, self._store)
        buttons = Buttons(self._store, desks, self._queues, images_url(self._settings))
        said = buttons.press(asked, author)
        self._wake()
        names = {one.pseudonym: one.name for one in annotators(self._store)}
        for pseudonym, name in names.items():
            said = said.replace(pseudonym, name)
        return {"said": said}

    def _thread(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        user, number = int(asked["user"]), int(asked["task"])
        task = task_on_screen(self._store, label_studio_name(self._settings), user, number)
        if task is None:
            return {"said": [], "open": False}
        return {
            "said": [_for_annotator(one) for one in said_about(self._store, task)],
            "open": True,
        }

    def _question(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        user, number = int(asked["user"]), int(asked["task"])
        task = task_on_screen(self._store, label_studio_name(self._settings), user, number)
        if task is None:
            raise UsageError("this task is not yours any more")
        ask(self._store, task, str(asked.get("text") or ""))
        return self._thread(asked)

    def _inbox(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        user, server = int(asked["user"]), label_studio_name(self._settings)
        for person in annotators(self._store):
            if (person.server, person.user_id) == (server, user):
                queues = queues_of_person(self._store, person.pseudonym)
                url = images_url(self._settings)
                found = inbox(self._store, person.pseudonym, queues)
                return {"said": [_received(one, url) for one in found]}
        return {"said": []}

    def _queues(self) -> list[Queue]:
        return watched(self._settings, self._store)

    def _queue_named(self, name: str) -> Queue:
        queues = {queue.name: queue for queue in self._queues()}
        if name not in queues:
            raise UsageError(f"there is no queue {name!r}")
        return queues[name]


def _for_annotator(event: StoredEvent) -> dict[str, Any]:
    """Return an event as an annotator sees it, without names."""
    return {
        "id": event.id,
        "at": event.at.isoformat(),
        "by": "you" if event.kind == "question" else "lead",
        "kind": event.kind,
        "queue": event.queue,
        "text": event.text,
    }


def _received(one: Received, images_url: str) -> dict[str, Any]:
    images = [f"{images_url}/{image.sha256}" for image in one.images]
    about = {"question": one.question, "item": one.text, "images": images}
    return {**_for_annotator(one.event), **about}
