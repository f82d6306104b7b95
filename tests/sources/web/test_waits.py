from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sources.web.waits import retry_after_seconds


def test_seconds_and_dates_are_read() -> None:
    assert retry_after_seconds("120") == 120
    assert retry_after_seconds(" 1.5 ") == 1.5
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    assert 85 < retry_after_seconds(later) <= 90


@pytest.mark.parametrize(
    "header", [None, "", "soon", "-5", "nan", "inf", "Wed, 21 Oct 2015 07:28:00 GMT"]
)
def test_all_else_asks_for_nothing(header: str | None) -> None:
    assert retry_after_seconds(header) == 0


@given(st.text())
def test_any_header_gives_a_number(header: str) -> None:
    assert retry_after_seconds(header) >= 0
