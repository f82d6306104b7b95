"""Messages to the lead by mail, webhook or chat: what needs somebody, said once.

Apprise sends them to the addresses of `LOUPE_NOTIFY_URLS`. They name annotators by pseudonym.
"""

import json
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from loupe.annotate.planning import ADDING
from loupe.annotate.queues import SHARED, Queue
from loupe.annotate.threads import threads
from loupe.db.annotations import last_received
from loupe.db.gold import IN_FORCE, revocations
from loupe.db.review_audits import TaskCount, task_counts
from loupe.db.reviews import WAITING, active_annotators
from loupe.db.store import Store
from loupe.models.profiles.settings import PREFIX, Settings
from loupe.schemas.errors import ConfigurationError, ServiceError
from loupe.schemas.processes import write_atomically
from loupe.schemas.wording import many
from loupe.services.credentials import services_folder
from loupe.services.label_studio import adding_people

IDLE = timedelta(days=1)
"""How long there must be work without any answer before it is said."""
_OF_NOBODY = ("adjudication", SHARED)
_LOOK_SECONDS = 60.0
_MOST_NEWS = 100

# Its messages may quote addresses, which contain secrets.
logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)


class Messages:
    """Tells the lead what needs somebody, each once, also if the watcher is started again.

    A concern that ends and comes back is sent again. What no address takes is tried again later.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._looked = -_LOOK_SECONDS
        self._news: list[str] = []

    def add(self, sentence: str) -> None:
        """Keep a sentence for the next message."""
        self._news = [*self._news, sentence][-_MOST_NEWS:]

    def send(
        self, settings: Settings, store: Store, queues: Sequence[Queue], now: datetime | None = None
    ) -> None:
        """Send what is new, at most once a minute; does nothing without addresses.

        Raises:
            ConfigurationError: an address is not one of Apprise.
            ServiceError: no address takes the message; it is sent again later.
        """
        if settings.notify_urls is None or self._clock() - self._looked < _LOOK_SECONDS:
            return
        self._looked = self._clock()
        path = services_folder(settings.home) / "messages.json"
        sent = _read(path)
        current = concerns(store, queues, now or datetime.now(UTC), adding_people(settings))
        fresh = [sentence for key, sentence in current.items() if key not in sent]
        refused = deliver(settings, [*self._news, *fresh]) if fresh or self._news else []
        self._news = []
        if sent != current.keys():
            write_atomically(path, json.dumps(sorted(current)).encode())
        if refused:
            raise ServiceError(f"a message could not be delivered to {', '.join(refused)}")


def concerns(
    store: Store, queues: Iterable[Queue], now: datetime, adding: str = ADDING
) -> dict[str, str]:
    """Return what needs the lead now: sentences, by keys that stay the same.

    `adding` is the command that adds a person.
    """
    found: dict[str, str] = {}
    has_people = bool(active_annotators(store, "annotator"))
    waiting: list[TaskCount] = []
    answered: list[datetime] = []
    for queue in queues:
        tasks = [
            one
            for one in task_counts(store, queue.name)
            if one.state in WAITING and one.purpose != "audit"
        ]
        waiting += tasks
        if last := last_received(store, queue.name):
            answered.append(last)
        unsettled = [one for one in tasks if (one.purpose, one.assignee) == _OF_NOBODY]
        conflicts = sum(one.tasks for one in unsettled)
        if conflicts and has_people:
            found[f"conflicts {queue.name}"] = (
                f"{queue.name}: no adjudicator is free for {many(conflicts, 'conflict')}: "
                f"{adding} --adjudicator"
            )
        for one in revocations(store, queue.name):
            if one.state == IN_FORCE:
                found[f"suspended {queue.name} {one.assignee} {one.returned_at.isoformat()}"] = (
                    f"{one.assignee} is suspended from {queue.name}: {one.accuracy:.0%} of the "
                    "gold answers are right"
                )
    for thread in threads(store):
        if thread.waits:
            found[f"question {thread.events[-1].id}"] = (
                f"{thread.annotator} asks about {thread.entity_id} in {thread.queue}: answer on "
                "the lead's page"
            )
    if waiting and now - max([*answered, min(one.oldest for one in waiting)]) >= IDLE:
        count = many(sum(one.tasks for one in waiting), "open task")
        found["idle"] = f"nobody answered anything for a day; there are {count}"
    return found


def deliver(settings: Settings, sentences: Sequence[str]) -> list[str]:
    """Send a message of some sentences to all addresses, and return which did not take it.

    Addresses are named without their secrets.

    Raises:
        ConfigurationError: there are no addresses, or one is not an address of Apprise.
        ServiceError: no address took the message.
    """
    import apprise

    variable = f"{PREFIX}NOTIFY_URLS"
    if settings.notify_urls is None:
        raise ConfigurationError(
            f"{variable} is not set; it has Apprise's addresses, separated by spaces (docs/team.md)"
        )
    asset = apprise.AppriseAsset(app_id="Loupe", app_desc="Loupe", async_mode=False)
    targets = {}
    for number, url in enumerate(settings.notify_urls.get_secret_value().split(), start=1):
        target = apprise.Apprise.instantiate(url, asset=asset)
        if target is None:
            raise ConfigurationError(f"address {number} of {variable} is not one of Apprise")
        targets[f"address {number} of {variable} ({target.service_name})"] = target
    body = "\n".join(sentences)
    refused = [
        name for name, target in targets.items() if not target.notify(title="Loupe", body=body)
    ]
    if len(refused) == len(targets):
        raise ServiceError(f"a message could not be delivered to {', '.join(refused)}")
    return refused


def _read(path: Path) -> frozenset[str]:
    """Return the keys of the concerns that were sent; none if the file is damaged."""
    try:
        return frozenset(json.loads(path.read_bytes()))
    except (FileNotFoundError, ValueError, TypeError):
        return frozenset()
