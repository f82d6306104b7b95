"""Matching each image with one similar image: unique, outside D, and without duplicates."""

from collections import defaultdict
from collections.abc import Iterable
from itertools import product
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from loupe.flows.recos.similar_images import Candidate, match_similar_images

OWN, POOL = "abcd", "uvwxyz"
worlds = st.fixed_dictionaries(
    {
        "similarities": st.lists(
            st.sampled_from([0.1, 0.2, 0.3, 0.4, 0.5]),
            min_size=len(OWN) * len(OWN + POOL),
            max_size=len(OWN) * len(OWN + POOL),
        ),
        "duplicates": st.sets(
            st.tuples(st.sampled_from(OWN + POOL), st.sampled_from(OWN + POOL)), max_size=4
        ),
    }
)


def duplicates_of(pairs: Iterable[tuple[str, str]]) -> dict[str, frozenset[str]]:
    near: dict[str, set[str]] = defaultdict(set)
    for first, second in pairs:
        near[first].add(second)
        near[second].add(first)
    return {one: frozenset(others) for one, others in near.items()}


def candidates_of(similarities: list[float]) -> dict[str, list[Candidate]]:
    values = dict(zip(product(OWN, OWN + POOL), similarities, strict=True))
    return {
        image: sorted(
            (Candidate(other, values[image, other]) for other in OWN + POOL if other != image),
            key=lambda one: (-one.similarity, one.image),
        )
        for image in OWN
    }


def literal(
    candidates: dict[str, list[Candidate]], duplicates: dict[str, frozenset[str]]
) -> dict[str, str]:
    """Match greedily the most similar of all remaining pairs."""
    closed = set(OWN).union(*(duplicates.get(image, frozenset()) for image in OWN))
    found: dict[str, str] = {}
    while True:
        left = [
            (-other.similarity, image, other.image)
            for image in OWN
            for other in candidates[image]
            if image not in found and other.image not in closed
        ]
        if not left:
            return found
        _, image, other = min(left)
        found[image] = other
        closed |= {other, *duplicates.get(other, frozenset())}


@settings(max_examples=30)
@given(worlds, st.permutations(OWN))
def test_matches_equal_those_of_a_greedy_reference(world: dict[str, Any], order: list[str]) -> None:
    duplicates = duplicates_of(both for both in world["duplicates"] if both[0] != both[1])
    candidates = candidates_of(world["similarities"])
    found = match_similar_images(candidates, duplicates)
    chosen = {image: match.candidate.image for image, match in found.found.items()}
    assert chosen == literal(candidates, dict(duplicates))
    assert len(set(chosen.values())) == len(chosen)
    for one in chosen.values():
        assert one not in OWN
        assert not duplicates.get(one, frozenset()) & (set(OWN) | set(chosen.values()))
    assert found.found.keys() | found.rejections.keys() == set(OWN)
    assert not found.found.keys() & found.rejections.keys()
    shuffled = match_similar_images({image: candidates[image] for image in order}, duplicates)
    assert shuffled.found == found.found
    assert list(shuffled.found) == [image for image in order if image in found.found]


def test_an_image_without_a_match_has_a_rejection() -> None:
    only = [Candidate("x", 0.5)]
    found = match_similar_images({"a": only, "b": [Candidate("x", 0.4)], "c": []}, {})
    assert found.found.keys() == {"a"}
    assert found.rejections["b"].reason == "no_similar_image"
    assert "all of 1 candidates" in found.rejections["b"].detail
    assert found.rejections["c"].context == {"image": "c", "candidates": 0}


def test_the_rank_counts_skipped_candidates() -> None:
    candidates = {"a": [Candidate("x", 0.9), Candidate("y", 0.8), Candidate("z", 0.7)]}
    found = match_similar_images(candidates, duplicates_of([("a", "x"), ("x", "y")]))
    assert found.found["a"] == (Candidate("y", 0.8), 2)
