"""The leak certificate compared with slow literal references."""

from collections.abc import Sequence

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loupe.release.card.leaks import find_leaks
from loupe.retrieval.similarity.distances import ComparedImage
from loupe.schemas.similarity import Comparison, LeakCertificate, LeakLimits

BUSY_MACHINE = settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow]
)


@st.composite
def sides(draw: st.DrawFn) -> list[ComparedImage]:
    count = draw(st.integers(1, 6))
    return [
        ComparedImage(
            name=f"{draw(st.uuids())}",
            identity=draw(st.sampled_from("abcdef")),
            sha256=draw(st.sampled_from("0123456789")),
            perceptual_hash=draw(st.integers(0, 255)),
            video_sha256=draw(st.sampled_from("uvwxyz")),
        )
        for _ in range(count)
    ]


def distance(measure: str, one: ComparedImage, other: ComparedImage) -> float | None:
    if measure == "perceptual_hash":
        return ((one.perceptual_hash or 0) ^ (other.perceptual_hash or 0)).bit_count()
    field = {"identity": "identity", "video": "video_sha256", "file": "sha256"}[measure]
    return 0 if getattr(one, field) == getattr(other, field) else None


@BUSY_MACHINE
@given(sides(), sides(), st.integers(0, 8))
def test_every_measure_equals_a_comparison_of_all_pairs(
    train: Sequence[ComparedImage], test: Sequence[ComparedImage], limit: int
) -> None:
    found = find_leaks({"train": train, "test": test}, LeakLimits(hash_bits=limit))
    assert [one.measure for one in found.comparisons] == [
        "identity",
        "video",
        "file",
        "perceptual_hash",
    ]
    for comparison in found.comparisons:
        pairs = [(distance(comparison.measure, a, b), a.name, b.name) for a in train for b in test]
        near = [one for one in pairs if one[0] is not None and one[0] <= comparison.threshold]
        assert comparison.pairs == len(pairs)
        assert comparison.leaks == len(near)
        known = [one[0] for one in pairs if one[0] is not None]
        if not known:
            assert comparison.nearest is None
            continue
        assert comparison.nearest is not None
        nearest = comparison.nearest
        assert nearest.distance == min(known)
        assert (nearest.distance, nearest.first, nearest.second) in pairs


def embedded(name: str, vector: Sequence[float], model: str = "model@1") -> ComparedImage:
    return ComparedImage(name, name, name, 0, None, np.array(vector), model)


def of_measure(found: LeakCertificate, measure: str) -> list[Comparison]:
    return [one for one in found.comparisons if one.measure == measure]


def test_embeddings_are_compared_only_within_one_model() -> None:
    train = [embedded("a", (3, 4)), embedded("b", (1, 0), "model@2")]
    test = [embedded("c", (6, 8)), embedded("d", (0, 1)), embedded("e", (1, 1), "model@3")]
    first, second, third = of_measure(find_leaks({"train": train, "test": test}), "embedding")
    assert (first.computed_by, first.images, first.leaks) == ("model@1", (1, 2), 1)
    assert first.nearest is not None
    assert (first.nearest.second, first.nearest.distance) == ("c", 0)
    assert [(one.images, one.nearest) for one in (second, third)] == [
        ((1, 0), None),
        ((0, 1), None),
    ]
