import torch
from hypothesis import given
from hypothesis import strategies as st

from loupe.retrieval.cfam.network.model import hard_pairs


def literal_pairs(similarities: list[list[float]], identities: list[int]) -> list[tuple[int, int]]:
    size = len(identities)
    pairs = [(row, row) for row in range(size)]
    for by_image in (True, False):
        for row in range(size):
            others = [other for other in range(size) if identities[other] != identities[row]]
            if not others:
                continue
            if by_image:
                pairs.append((row, max(others, key=lambda text: similarities[row][text])))
            else:
                pairs.append((max(others, key=lambda image: similarities[image][row]), row))
    return pairs


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[list[float]], list[int]]:
    size = draw(st.integers(1, 7))
    cosine = st.sampled_from([-1.0, -0.5, 0.0, 0.25, 0.5, 1.0])
    row = st.lists(cosine, min_size=size, max_size=size)
    similarities = draw(st.lists(row, min_size=size, max_size=size))
    return similarities, draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))


@given(batches())
def test_pairs_equal_the_literal_search_including_ties(
    batch: tuple[list[list[float]], list[int]],
) -> None:
    similarities, identities = batch
    pairs = hard_pairs(torch.tensor(similarities), torch.tensor(identities))
    found = list(zip(pairs.images.tolist(), pairs.texts.tolist(), strict=True))
    assert found == literal_pairs(similarities, identities)
    whose = torch.tensor(identities)
    assert torch.equal(whose[pairs.images] == whose[pairs.texts], pairs.matched)
