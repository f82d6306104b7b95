"""How long a server asks to wait, and how long is waited if it does not say."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest

from loupe.models.retrying import backoff, wait_of


def wait_stated(value: str) -> float | None:
    return wait_of(httpx.Response(429, headers={"Retry-After": value}))


@pytest.mark.parametrize(("stated", "wait"), [("7", 7), ("0.25", 0.25), ("-5", 0)])
def test_a_wait_is_stated_in_seconds(stated: str, wait: float) -> None:
    assert wait_stated(stated) == wait


def test_a_wait_is_stated_as_a_date() -> None:
    now = datetime.now(UTC)
    future, past = now + timedelta(minutes=5), now - timedelta(minutes=5)
    for stated in (
        format_datetime(future, usegmt=True),
        format_datetime(future.replace(tzinfo=None)),
    ):
        wait = wait_stated(stated)
        assert wait is not None
        assert 200 <= wait <= 300
    assert wait_stated(format_datetime(past, usegmt=True)) == 0


@pytest.mark.parametrize("stated", ["", "soon", "nan", "inf"])
def test_what_states_no_wait_is_ignored(stated: str) -> None:
    assert wait_of(httpx.Response(429, headers={"Retry-After": stated})) is None


def test_pauses_double_up_to_the_longest() -> None:
    for retries, whole in ((0, 0.5), (1, 1.0), (3, 4.0), (9, 8.0)):
        pauses = [backoff(retries, 8.0) for _ in range(50)]
        assert whole / 2 <= min(pauses) < max(pauses) <= whole
