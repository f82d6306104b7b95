"""How long a server asks to wait, and how long is waited if it does not say."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from loupe.models.retrying import backoff, wait_of


@pytest.mark.parametrize(("stated", "wait"), [("7", 7), ("0.25", 0.25), ("-5", 0)])
def test_a_wait_is_stated_in_seconds(stated: str, wait: float) -> None:
    assert wait_of(stated) == wait


def test_a_wait_is_stated_as_a_date() -> None:
    now = datetime.now(UTC)
    future, past = now + timedelta(minutes=5), now - timedelta(minutes=5)
    for stated in (
        format_datetime(future, usegmt=True),
        format_datetime(future.replace(tzinfo=None)),
    ):
        wait = wait_of(stated)
        assert wait is not None
        assert 200 <= wait <= 300
    assert wait_of(format_datetime(past, usegmt=True)) == 0


def test_what_states_no_wait_is_ignored() -> None:
    for stated in (
        *(None, "", "soon", "nan", "inf", "9" * 400),
        "Mon, 20 Nov 99999999999999999999 00:00:00 GMT",
        "Mon, 20 Nov 2026 00:00:00 +99999999999999999999",
    ):
        assert wait_of(stated) is None, stated


def test_pauses_double_up_to_the_longest() -> None:
    for retries, whole in ((0, 0.5), (1, 1.0), (3, 4.0), (9, 8.0)):
        pauses = [backoff(retries, 8.0) for _ in range(50)]
        assert whole / 2 <= min(pauses) < max(pauses) <= whole
