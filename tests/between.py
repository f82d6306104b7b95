"""Let somebody else act between two steps of a program that shares its store."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from sqlalchemy import event

from loupe.db.store import Store


class _Moment:
    """Runs `action` once: after the transaction with the first step, before the second step."""

    def __init__(
        self, store: Store, first: str, second: str, action: Callable[[Store], object]
    ) -> None:
        self._store = store
        self._first, self._second = first, second
        self._action = action
        self._is_due = False
        self.has_come = self.has_passed = False

    def on_statement(self, _connection: Any, _cursor: Any, statement: str, *_: object) -> None:
        words = " ".join(statement.split())
        if self.has_come:
            self.has_passed = self.has_passed or self._second in words
        elif self._first in words:
            self._is_due = True

    def on_return(self, *_: object) -> None:
        """Act when the connection is given back: its transaction has ended."""
        if self._is_due and not self.has_come:
            self.has_come = True
            url = self._store.engine.url.render_as_string(hide_password=False)
            with closing(Store.open(url, self._store.home)) as other:
                self._action(other)


@contextmanager
def between(
    store: Store, first: str, second: str, action: Callable[[Store], object]
) -> Iterator[None]:
    """Call `action` once with another handle on the database, between two steps of the block.

    A step is named by a part of its SQL statement, such as `INSERT INTO claim`. The block must come
    to both of them, in this order.
    """
    moment = _Moment(store, first, second, action)
    listeners: list[tuple[str, Callable[..., None]]] = [
        ("before_cursor_execute", moment.on_statement),
        ("checkin", moment.on_return),
    ]
    for name, listener in listeners:
        event.listen(store.engine, name, listener)
    try:
        yield
    finally:
        for name, listener in listeners:
            event.remove(store.engine, name, listener)
    assert moment.has_come, f"the block did not come to {first!r}"
    assert moment.has_passed, f"{second!r} did not come after {first!r}"
