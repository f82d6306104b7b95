import math
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sources.web.asking import retry_after_seconds


def test_seconds_and_dates_are_read() -> None:
    assert retry_after_seconds("120") == 120
    assert retry_after_seconds(" 1.5 ") == 1.5
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    assert 85 < retry_after_seconds(later) <= 90


def test_all_else_asks_for_nothing(subtests: pytest.Subtests) -> None:
    cases: list[str | None] = [
        None,
        "",
        "soon",
        "-5",
        "nan",
        "inf",
        "Wed, 21 Oct 2015 07:28:00 GMT",
    ]
    for header in cases:
        with subtests.test(header=header):
            assert retry_after_seconds(header) == 0


NUMBER = st.integers(-(10**25), 10**25).map(str)
DATE = st.tuples(NUMBER, NUMBER, NUMBER, NUMBER, NUMBER, st.sampled_from(["GMT", "+0100"]) | NUMBER)


@given(st.text() | NUMBER | DATE.map(lambda parts: "Mon, {} Nov {} {}:{}:{} {}".format(*parts)))
@example("Mon, 20 Nov 99999999999999999999 00:00:00 GMT")
@example("Mon, 20 Nov 2026 00:00:00 +99999999999999999999")
@example("Fri, 31 Dec 9999 23:59:59 -2359")
@example("9" * 400)
def test_any_header_gives_a_number(header: str) -> None:
    assert 0 <= retry_after_seconds(header) < math.inf
