from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from loupe.release.card.markup import share_text
from loupe.release.report.charts import HEIGHT, WIDTH, histogram, rounded_up

COUNTS = st.lists(st.integers(0, 10**6), min_size=1, max_size=40)


@given(COUNTS)
def test_columns_do_not_overlap_and_have_proportional_heights(counts: list[int]) -> None:
    drawn = histogram("words", [(10 * at, count) for at, count in enumerate(counts)], 10)
    columns = drawn.columns
    assert [one.text for one in columns] == [f"{count:,}" for count in counts]
    for one, other in pairwise(columns):
        assert one.x + one.width <= other.x + 0.02
    for one, count in zip(columns, counts, strict=True):
        assert 0 <= one.x <= one.x + one.width <= WIDTH
        assert abs(one.y + one.height - drawn.floor) < 0.02
        assert 0 < one.y <= drawn.floor < HEIGHT
        room = drawn.floor - drawn.up[-1].at
        assert abs(one.height - room * count / rounded_up(max(*counts, 1, 0))) < 0.02


@given(st.integers(1, 10**9))
def test_the_end_of_an_axis_is_rounded_up_to_a_multiple_of_four(count: int) -> None:
    end = rounded_up(count)
    assert count <= end <= max(4, 2 * count)
    assert end % 4 == 0


def test_only_exact_shares_are_shown_as_0_or_100_percent() -> None:
    shares = [share_text(part, 10_000) for part in (0, 1, 10, 1234, 5000, 9999, 10_000)]
    wanted = ["0 %", "< 0.1 %", "0.1 %", "12.3 %", "50 %", "> 99.9 %", "100 %"]
    assert shares == wanted
    assert share_text(0, 0) == "–"
