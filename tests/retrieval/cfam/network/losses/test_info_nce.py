import math

import pytest
import torch

from retrieval.cfam.network.model import info_nce


def literal(similarities: list[list[float]], temperature: float) -> float:
    size = len(similarities)
    total = 0.0
    for place in range(size):
        row = [math.exp(value / temperature) for value in similarities[place]]
        column = [math.exp(line[place] / temperature) for line in similarities]
        total -= math.log(row[place] / sum(row)) + math.log(column[place] / sum(column))
    return total / (2 * size)


def test_the_loss_equals_the_literal_formula() -> None:
    similarities = torch.rand(5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = literal(similarities.tolist(), 0.1)
    assert info_nce(similarities, 0.1).item() == pytest.approx(expected, rel=1e-12)


def test_the_loss_of_equal_similarities_is_the_log_of_the_batch_size() -> None:
    assert info_nce(torch.full((8, 8), 0.3), 0.02).item() == pytest.approx(math.log(8), rel=1e-6)


def test_gradients_match_finite_differences() -> None:
    similarities = torch.rand(4, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda cosines: info_nce(cosines, 0.2), (similarities,))
