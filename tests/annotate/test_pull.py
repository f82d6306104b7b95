from datetime import UTC, datetime, timedelta

from annotate.pull import OVERLAP, moved
from db.reviews import Cursor

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)


def test_a_new_change_is_read_again_with_what_came_shortly_before() -> None:
    first = moved(None, NOON, LATER)
    assert first == Cursor(NOON, LATER, NOON - OVERLAP, 0, 0)
    newer = NOON + timedelta(minutes=5)
    assert moved(first, newer, LATER) == Cursor(newer, LATER, newer - OVERLAP, 0, 0)


def test_once_nothing_of_before_can_come_any_more_only_the_newest_is_read_again() -> None:
    first = moved(None, NOON, LATER)
    soon = moved(first, NOON, LATER + OVERLAP / 2)
    assert soon == first
    settled = moved(soon, NOON, LATER + OVERLAP)
    assert settled == first._replace(read_from=NOON)
    assert moved(settled, NOON, LATER + 2 * OVERLAP) == settled
