"""When a caption passes, and when the criterion is degenerate."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loupe.retrieval.discriminability import (
    AcceptedInterval,
    check_not_degenerate,
    dis_histogram,
    is_degenerate,
    share_passing,
)
from loupe.schemas.errors import DegenerateCriterionError
from loupe.schemas.recos import CaptionVerdict, DiscriminabilitySettings

PASS, OVER, UNDER = CaptionVerdict
SETTINGS = DiscriminabilitySettings(k=10, eta=0.8)


def test_the_ends_of_the_interval_pass() -> None:
    interval = AcceptedInterval.of(10, 0.8)
    assert interval == pytest.approx((0.1 * math.log(10), 0.9 * math.log(10)))
    assert interval.verdict(interval.lower) is PASS
    assert interval.verdict(interval.upper) is PASS
    assert interval.verdict(math.nextafter(interval.lower, 0)) is OVER
    assert interval.verdict(math.nextafter(interval.upper, 9)) is UNDER
    assert interval.verdict(0.0) is OVER
    assert interval.verdict(math.log(10)) is UNDER


@given(
    st.integers(2, 1000),
    st.floats(0.001, 0.998),
    st.floats(0.001, 0.998),
    st.floats(0, 1),
)
def test_a_caption_that_passes_a_narrow_interval_passes_a_wider_one(
    k: int, one: float, other: float, share: float
) -> None:
    narrow, wide = sorted((one, other))
    dis = share * math.log(k)
    if AcceptedInterval.of(k, narrow).verdict(dis) is PASS:
        assert AcceptedInterval.of(k, wide).verdict(dis) is PASS


def test_passing_under_1_or_over_99_percent_is_degenerate(subtests: pytest.Subtests) -> None:
    cases: list[tuple[int, int, bool]] = [
        (0, 19, False),
        (0, 20, True),
        (20, 0, True),
        (19, 0, False),
        (1, 99, False),
        (1, 100, True),
        (99, 1, False),
        (100, 1, True),
        (0, 0, False),
    ]
    for passing, failing, degenerate in cases:
        with subtests.test(passing=passing, failing=failing, degenerate=degenerate):
            verdicts = [PASS] * passing + [UNDER] * failing
            assert is_degenerate(verdicts) is degenerate
            assert share_passing(verdicts) == pytest.approx(passing / max(1, passing + failing))


def test_a_degenerate_criterion_stops_with_its_histogram(subtests: pytest.Subtests) -> None:
    cases: list[tuple[float, str]] = [
        (2.302, "a lower one, or none"),
        (0.001, "a higher one, or none"),
        (1.15, "take a larger k (in a profile [captioning.discriminability])"),
        (1.5, "take a smaller eta (in a profile [captioning.discriminability]): with 0.3 half"),
    ]
    for dis, advice in cases:
        with subtests.test(dis=dis, advice=advice):
            with pytest.raises(DegenerateCriterionError) as stopped:
                check_not_degenerate([dis] * 500, SETTINGS, 1.0)
            message = str(stopped.value)
            passing = 500 if dis in (1.15, 1.5) else 0
            assert message.startswith(
                f"the criterion does not tell captions apart: {passing} of 500 pass"
            )
            assert "k 10, eta 0.8 and temperature 1; " in message
            assert advice in message
            assert f"dis(t) from {dis:g} to {dis:g}; passes from 0.230259 to 2.07233" in message
            assert len(message.splitlines()) == 14
            assert stopped.value.exit_code == 1


def test_a_criterion_that_separates_captions_is_not_stopped() -> None:
    check_not_degenerate([1.0] * 50 + [2.3] * 50, SETTINGS, 0.02)
    check_not_degenerate([2.3] * 19, SETTINGS, 1.0)


def test_the_histogram_counts_every_value_once() -> None:
    values = [0.0, 0.1, 1.0, 1.1, 2.2, math.log(10), math.log(10)]
    lines = dis_histogram(values, 10, AcceptedInterval.of(10, 0.8)).splitlines()
    counts = [int(line.split()[3]) for line in lines[1:]]
    assert (len(counts), sum(counts)) == (12, 7)
    assert counts[0] == 2
    assert counts[-1] == 3
    assert "█" not in lines[1] + lines[-1]
    assert "░" in lines[-1]


def test_the_suggested_eta_lets_half_of_the_captions_pass() -> None:
    dis = [0.8 + 0.0017 * place for place in range(400)]
    with pytest.raises(DegenerateCriterionError) as stopped:
        check_not_degenerate(dis, SETTINGS, 0.05)
    suggested = float(str(stopped.value).split("with ")[2].split(" half")[0])
    interval = AcceptedInterval.of(SETTINGS.k, suggested)
    assert share_passing([interval.verdict(one) for one in dis]) == pytest.approx(0.5, abs=0.05)
    check_not_degenerate(dis, SETTINGS.model_copy(update={"eta": suggested}), 0.05)
