"""The nearest hash of another collection equals a search of all pairs."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loupe.retrieval.similarity import hamming as module
from loupe.retrieval.similarity.hamming import nearest_hashes

near_zero = st.lists(st.integers(0, 63), max_size=14).map(lambda ones: sum({1 << i for i in ones}))
hashes = st.lists(st.integers(0, 2**64 - 1) | near_zero, max_size=20)


def literal(left: list[int], right: list[int], radius: int) -> list[tuple[int, int]]:
    found = []
    for one in left:
        near = [((one ^ other).bit_count(), place) for place, other in enumerate(right)]
        found.append(min([pair for pair in near if pair[0] <= radius], default=(65, -1)))
    return found


@pytest.fixture(params=["few", "compiled"])
def method(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "compiled":
        monkeypatch.setattr(module, "_is_few", lambda *_: False)
    return str(request.param)


@pytest.mark.usefixtures("method")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(hashes, hashes, st.sampled_from([0, 1, 3, 4, 7, 10, 11, 12, 20, 64]), st.integers(1, 3))
def test_nearest_hashes_equal_the_literal_search_with_ties_to_the_earliest(
    left: list[int], right: list[int], radius: int, workers: int
) -> None:
    found = nearest_hashes(
        np.array(left, np.uint64), np.array(right, np.uint64), radius, workers=workers
    )
    assert list(zip(found.bits.tolist(), found.places.tolist(), strict=True)) == literal(
        left, right, radius
    )
