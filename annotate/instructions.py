"""The instructions of a queue: those of its page, and what the lead added while people worked.

Every answer has the digest of the instructions that were in force when it was saved.
"""

from collections.abc import Sequence
from datetime import datetime

from loupe.annotate.interfaces.page import adjudication_instructions, page_html
from loupe.annotate.interfaces.registry import interface_of
from loupe.annotate.queues import Queue
from loupe.db.desk_events import StoredEvent, desk_events
from loupe.db.store import Store
from loupe.schemas.base import digest_of


def additions(store: Store, queue: Queue) -> list[StoredEvent]:
    """Return what the lead added to the instructions of a queue, oldest first."""
    return desk_events(store, kind="instruction", queue=queue.name)


def instructions_of(
    queue: Queue, purpose: str, added: Sequence[StoredEvent], at: datetime | None = None
) -> str:
    """Return the instructions for tasks of a purpose as HTML, now or at an earlier time."""
    interface = interface_of(queue)
    text = interface.instructions
    if purpose == "adjudication":
        text = adjudication_instructions(interface)
    known = [one for one in added if at is None or one.at <= at]
    return text + page_html("added_instructions", known) if known else text


def instructions_version(html: str) -> str:
    """Return the digest of instructions, which an answer records."""
    return digest_of("instructions", html)
