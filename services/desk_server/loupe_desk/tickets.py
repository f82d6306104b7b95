"""Tickets: short-lived permissions to load the images of one's own open tasks.

The image server has no logins: it is another host for a browser, and receives no session. Instead,
Label Studio puts a ticket into every address of an image that it sends to somebody who is logged
in: `/blobs/<sha256>` becomes `/blobs/<ticket>/<sha256>`. A ticket says who may use it until when,
signed with a key that only our servers have. Which images that person may see, is decided by the
image server from the open tasks.
"""

import hashlib
import hmac
import re

MANAGER = 0
"""The reader who may see the images of everybody's tasks; other readers are ids of users."""
LASTING = 0
"""The end of a ticket that does not end."""
_PERIOD_SECONDS = 3600
_TICKET = re.compile(r"(0|[1-9][0-9]{0,18})-(0|[1-9][0-9]{0,11})-([0-9a-f]{64})")
# In JSON, where a slash may be escaped. Images are served on this machine only.
_ADDRESS = re.compile(
    rb"(http:(?:\\?/){2}(?:127\.0\.0\.1|localhost):[0-9]{1,5}\\?/blobs\\?/)"
    rb"(?=[0-9a-f]{64}(?![0-9a-f]))"
)


def ticket(key: str, reader: int, ends: int) -> str:
    """Return a ticket for a reader until a time, in seconds since 1970."""
    return f"{reader}-{ends}-{_signature(key, reader, ends)}"


def end_of_ticket(now: float) -> int:
    """Return when a ticket made now ends: in one to two hours, so that browsers can keep images."""
    return (int(now) // _PERIOD_SECONDS + 2) * _PERIOD_SECONDS


def reader_of(key: str, given: str, now: float, *, lasting: bool = False) -> int | None:
    """Return the reader of a ticket, or None if it is not valid now.

    Args:
        key: the key of the servers.
        given: the ticket.
        now: the time, in seconds since 1970.
        lasting: whether tickets that do not end are accepted.
    """
    match = _TICKET.fullmatch(given)
    if match is None:
        return None
    reader, ends = int(match[1]), int(match[2])
    if not hmac.compare_digest(match[3], _signature(key, reader, ends)):
        return None
    is_valid = lasting if ends == LASTING else now < ends
    return reader if is_valid else None


def with_tickets(content: bytes, made: str, origin: str = "") -> bytes:
    """Return JSON with a ticket in every address of an image.

    Browsers that come through Caddy get images from its `origin`.
    """
    place = rb"\g<1>" if not origin else f"{origin}/blobs/".encode()
    return _ADDRESS.sub(place + made.encode() + b"/", content)


def _signature(key: str, reader: int, ends: int) -> str:
    said = f"loupe images {reader} {ends}"
    return hmac.new(key.encode(), said.encode(), hashlib.sha256).hexdigest()
