"""How long a server asks to wait, and how long is waited if it does not say."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest

from loupe.models.retrying import backoff, wait_of

NOW = datetime.now(UTC)
PAST, FUTURE = NOW - timedelta(minutes=5), NOW + timedelta(minutes=5)


@pytest.mark.parametrize(
    ("stated", "least", "most"),
    [
        ("7", 7, 7),
        ("0.25", 0.25, 0.25),
        ("-5", 0, 0),
        (format_datetime(FUTURE, usegmt=True), 280, 300),
        (format_datetime(FUTURE.replace(tzinfo=None)), 280, 300),
        (format_datetime(PAST, usegmt=True), 0, 0),
    ],
)
def test_a_wait_is_stated_in_seconds_or_as_a_date(stated: str, least: float, most: float) -> None:
    wait = wait_of(httpx.Response(429, headers={"Retry-After": stated}))
    assert wait is not None
    assert least <= wait <= most


@pytest.mark.parametrize("stated", ["", "soon", "nan", "inf"])
def test_what_states_no_wait_is_ignored(stated: str) -> None:
    assert wait_of(httpx.Response(429, headers={"Retry-After": stated})) is None


def test_pauses_double_up_to_the_longest() -> None:
    for retries, whole in ((0, 0.5), (1, 1.0), (3, 4.0), (9, 8.0)):
        pauses = [backoff(retries, 8.0) for _ in range(50)]
        assert whole / 2 <= min(pauses) < max(pauses) <= whole
