"""The losses of CFAM equal their formulas in plain Python."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from loupe.retrieval.cfam.network.model import (
    identity,
    info_nce,
    matching,
    similarity_distribution_matching,
)

IDENTITIES = torch.tensor([0, 2, 1, 1])
MATCHED = torch.tensor([True, True, False, False])
# two groups: sample 1 is the anchor of samples 0 and 3, sample 4 the anchor of sample 2


def literal_divergence_of_rows(
    similarities: list[list[float]], identities: list[int], temperature: float, epsilon: float
) -> float:
    """Equations 3 and 4 of IRRA, in the direction from rows to columns."""
    total = 0.0
    for row, owner in zip(similarities, identities, strict=True):
        powers = [math.exp((value - max(row)) / temperature) for value in row]
        partners = [float(other == owner) for other in identities]
        for power, partner in zip(powers, partners, strict=True):
            predicted, wanted = power / sum(powers), partner / sum(partners)
            if predicted > 0:
                total += predicted * math.log(predicted / (wanted + epsilon))
    return total / len(similarities)


def literal_divergence(
    similarities: list[list[float]], identities: list[int], temperature: float, epsilon: float
) -> float:
    across = [list(column) for column in zip(*similarities, strict=True)]
    return literal_divergence_of_rows(
        similarities, identities, temperature, epsilon
    ) + literal_divergence_of_rows(across, identities, temperature, epsilon)


def random_cosines(size: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.rand(size, size, generator=generator, dtype=torch.float64) - 1


@given(
    st.integers(0, 1000),
    st.lists(st.integers(0, 3), min_size=1, max_size=8),
    st.sampled_from([0.02, 0.1, 1.0]),
)
def test_sdm_equals_the_literal_divergence(seed: int, identities: list[int], heat: float) -> None:
    similarities = random_cosines(len(identities), seed)
    found = similarity_distribution_matching(similarities, torch.tensor(identities), heat)
    expected = literal_divergence(similarities.tolist(), identities, heat, 1e-8)
    assert math.isclose(found.item(), expected, rel_tol=1e-9, abs_tol=1e-7)


def test_sdm_of_extreme_cosines_is_finite_in_float32() -> None:
    similarities = torch.tensor([[-1.0, 1.0], [1.0, -1.0]], requires_grad=True)
    loss = similarity_distribution_matching(similarities, torch.tensor([0, 1]), 0.001)
    torch.autograd.backward(loss)
    assert loss.isfinite()
    assert similarities.grad is not None
    assert similarities.grad.isfinite().all()


def literal_identity(logits: list[list[float]], whose: list[int], matched: list[bool]) -> float:
    total = 0.0
    for row, owner, yes in zip(logits, whose, matched, strict=True):
        wanted = owner if yes else len(row) - 1
        total -= row[wanted] - math.log(sum(math.exp(value) for value in row))
    return total / len(logits)


def test_the_identity_loss_equals_the_literal_cross_entropy() -> None:
    logits = torch.randn(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = literal_identity(logits.tolist(), IDENTITIES.tolist(), MATCHED.tolist())
    assert identity(logits, IDENTITIES, MATCHED).item() == pytest.approx(expected, rel=1e-12)


def literal_info_nce(similarities: list[list[float]], temperature: float) -> float:
    size = len(similarities)
    total = 0.0
    for place in range(size):
        row = [math.exp(value / temperature) for value in similarities[place]]
        column = [math.exp(line[place] / temperature) for line in similarities]
        total -= math.log(row[place] / sum(row)) + math.log(column[place] / sum(column))
    return total / (2 * size)


def test_info_nce_equals_the_literal_formula() -> None:
    similarities = torch.rand(5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = literal_info_nce(similarities.tolist(), 0.1)
    assert info_nce(similarities, 1 / 0.1).item() == pytest.approx(expected, rel=1e-12)


def literal_matching(logits: list[float], matched: list[bool]) -> float:
    total = 0.0
    for logit, yes in zip(logits, matched, strict=True):
        sure = 1 / (1 + math.exp(-logit))
        total -= math.log(sure if yes else 1 - sure)
    return total / len(logits)


def test_the_matching_loss_equals_the_literal_cross_entropy() -> None:
    logits = [2.0, -1.0, 0.3, 0.0, -4.0]
    matched = [True, True, False, False, False]
    found = matching(torch.tensor(logits, dtype=torch.float64), torch.tensor(matched))
    assert found.item() == pytest.approx(literal_matching(logits, matched), rel=1e-12)


def test_the_matching_loss_of_huge_logits_is_finite() -> None:
    assert matching(torch.tensor([1e4, -1e4]), torch.tensor([False, True])).isfinite()
