"""What annotators did, counted by day."""

from datetime import date

from annotate.statistics import DayOfWork, useful_per_day


def test_useful_answers_are_counted_from_the_first_day_to_yesterday() -> None:
    days = [
        DayOfWork(day=date(2026, 3, 2), reviews=3, gold=5),
        DayOfWork(day=date(2026, 3, 4), reviews=1, adjudications=2),
        DayOfWork(day=date(2026, 3, 5), reviews=9),
    ]
    assert useful_per_day(days, date(2026, 3, 5)) == [3, 0, 3]
    assert useful_per_day([], date(2026, 3, 5)) == []
