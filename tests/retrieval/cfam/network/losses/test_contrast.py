import math

import pytest
import torch

from retrieval.cfam.network.model import contrast

# two groups: sample 1 is the anchor of samples 0 and 3, sample 4 the anchor of sample 2
GROUPS = torch.tensor([0, 0, 1, 0, 1])
WEIGHTS = torch.tensor([2.0, -1, 1, 0.5, -1])
PAIRS = [(1, 0, 2.0), (1, 3, 0.5), (4, 2, 1.0)]


def literal(similarities: list[list[float]], temperature: float, margin: float) -> float:
    total = 0.0
    for anchor, other, weight in PAIRS:
        for one, two in ((anchor, other), (other, anchor)):
            right = similarities[one][one]
            for wrong in (similarities[one][two], similarities[two][one]):
                odds = math.exp((wrong + margin - right) / temperature)
                total += weight * math.log(1 + odds) / 4
    return total / len(PAIRS)


def test_the_loss_equals_the_literal_formula() -> None:
    similarities = torch.rand(5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for margin in (0.0, 0.2):
        found = contrast(similarities, GROUPS, WEIGHTS.double(), 0.1, margin).item()
        assert found == pytest.approx(literal(similarities.tolist(), 0.1, margin), rel=1e-12)


def test_only_pairs_with_an_anchor_contribute() -> None:
    similarities = torch.eye(5)
    similarities[0, 3] = similarities[3, 0] = similarities[0, 2] = 9.0
    plain = contrast(torch.eye(5), GROUPS, WEIGHTS, 0.1)
    assert torch.equal(contrast(similarities, GROUPS, WEIGHTS, 0.1), plain)
    assert contrast(similarities, torch.arange(5), WEIGHTS, 0.1) == 0
