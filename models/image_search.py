"""The protocol of image searches."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable
from unicodedata import category

from loupe.models.adapter import always
from loupe.schemas.chat import ModelRef
from loupe.schemas.image_search import SearchFailure, SearchOutcome


@runtime_checkable
class ImageSearch(Protocol):
    """A service that finds images by a text.

    Who owns what:

    - The *search* owns the connection, its keys, and retries of the world's faults (timeouts, 429,
      5xx, lost connections, pages that are no JSON). It never raises for a single query: what
      failed comes back as a `SearchFailure`. It raises (`ConfigurationError`, `ModelError`) only
      for what concerns all queries.
    - The *caller* owns the queries, the store, the budget, and the choice among the hits: a hit may
      have no licence or no page, and no image is downloaded here.

    What is promised:

    - Hits are in the order of their rank, from 1; ranks of what could not be read are left out.
    - What a service says of a hit beside its address is given where it can be read, and left out
      where it cannot; a result without an address is one of the answer's `unreadable`. JSON that is
      no answer at all is a failure `unreadable_answer`, and is not asked for again.
    - There are at most `count` hits, and no more than the service gives with one request.
    - A query of blanks alone, or one that is no text, is a failure `refused_query`, not asked.
    - `may_retry` is asked before each request beyond the first, so that a budget that counts
      requests is kept; where it says no, the failure is given as it is.
    - Neither hits nor failures nor logs contain a key. Safe in threads.
    """

    @property
    def ref(self) -> ModelRef:
        """Name and revision: what cache keys and provenance say of this service."""
        ...

    @property
    def parameters(self) -> dict[str, Any]:
        """What, beside service and query, determines an answer; JSON values only, never secrets."""
        ...

    def search(
        self, query: str, count: int, may_retry: Callable[[], bool] = always
    ) -> SearchOutcome:
        """The first `count` hits."""
        ...


@runtime_checkable
class PausingSearch(Protocol):
    """A search that pauses before retries, by `sleep`, which may end early."""

    sleep: Callable[[float], None]


def plain_query(query: str) -> str | SearchFailure:
    """The query on one line with single spaces, or why it cannot be asked."""
    words = " ".join(query.split())
    if not words:
        detail = "the query is blank, wanted words"
    elif any(category(character) in ("Cc", "Cs") for character in words):
        detail = f"the query {query!a} holds control characters, wanted words"
    else:
        return words
    return SearchFailure(reason="refused_query", detail=detail, retriable=False)
