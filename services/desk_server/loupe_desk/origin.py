"""Where a request that changes something comes from: only from our own pages, or from a program.

A browser names the page that sends such a request (`Origin`, or `Referer`). A program with a token
names none, but a browser in which somebody is logged in always does.
"""

from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

READING = ("GET", "HEAD", "OPTIONS")


def is_foreign(headers: Mapping[str, str], own: Collection[str], *, logged_in: bool) -> bool:
    """Tell whether a request comes from another site, or from a browser that does not say.

    Args:
        headers: the headers of a request that changes something.
        own: our origins, `scheme://host:port`.
        logged_in: whether it is the request of somebody who is logged in.
    """
    stated = headers.get("Origin") or headers.get("Referer")
    if stated is None:
        return logged_in and "Authorization" not in headers
    try:
        parts = urlsplit(stated)
    except ValueError:
        return True
    return f"{parts.scheme}://{parts.netloc}" not in own
