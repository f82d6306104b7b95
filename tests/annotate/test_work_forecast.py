"""The forecast of the end of the work: ranges, and reasons if there is none."""

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loupe.annotate.statistics.forecast import forecast
from loupe.annotate.statistics.queue import DayOfWork, useful_per_day

TODAY = date(2026, 3, 26)


def test_a_steady_rate_gives_a_single_date() -> None:
    found = forecast(45, [10] * 20, TODAY)
    assert (found.per_day, found.days) == (10, 20)
    assert found.earliest == found.latest == TODAY + timedelta(days=4)


def test_finished_work_ends_today() -> None:
    found = forecast(0, [], TODAY)
    assert (found.earliest, found.latest) == (TODAY, TODAY)


def test_weekends_widen_the_range() -> None:
    found = forecast(100, [20, 20, 20, 20, 20, 0, 0] * 4, TODAY)
    assert found.earliest is not None
    assert found.latest is not None
    assert found.earliest < TODAY + timedelta(days=7) < found.latest
    assert found.latest < TODAY + timedelta(days=12)


def test_only_the_last_four_weeks_count() -> None:
    assert forecast(50, [1000] * 50 + [10] * 28, TODAY).per_day == 10


def test_without_a_forecast_there_is_a_reason(subtests: pytest.Subtests) -> None:
    for per_day, needed, reason in (
        ([], 5, "a forecast needs 3 full days of work; there are 0"),
        ([9, 9], 5, "a forecast needs 3 full days of work; there are 2"),
        ([9] * 5 + [0] * 28, 5, "there are no answers in the last 28 days"),
        ([0] * 27 + [1], 10_000, "at this rate it takes more than ten years"),
    ):
        with subtests.test(reason=reason):
            found = forecast(needed, per_day, TODAY)
            assert (found.earliest, found.latest, found.reason) == (None, None, reason)


@given(st.integers(1, 500), st.lists(st.integers(0, 30), min_size=3, max_size=40))
def test_more_work_never_ends_earlier(needed: int, per_day: list[int]) -> None:
    some, more = forecast(needed, per_day, TODAY), forecast(needed + 50, per_day, TODAY)
    if some.earliest and some.latest and more.earliest and more.latest:
        assert TODAY <= some.earliest <= some.latest
        assert some.earliest <= more.earliest
        assert some.latest <= more.latest


def test_answers_per_day_are_counted_from_the_first_day_to_yesterday() -> None:
    days = [
        DayOfWork(day=date(2026, 3, 2), reviews=3, gold=5),
        DayOfWork(day=date(2026, 3, 4), reviews=1, adjudications=2),
        DayOfWork(day=date(2026, 3, 5), reviews=9),
    ]
    assert useful_per_day(days, date(2026, 3, 5)) == [3, 0, 3]
    assert useful_per_day([], date(2026, 3, 5)) == []
