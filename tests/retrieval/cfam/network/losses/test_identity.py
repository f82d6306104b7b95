import math

import pytest
import torch

from retrieval.cfam.network.model import identity

IDENTITIES = torch.tensor([0, 2, 1, 1])
MATCHED = torch.tensor([True, True, False, False])


def literal(logits: list[list[float]], whose: list[int], matched: list[bool]) -> float:
    total = 0.0
    for row, owner, yes in zip(logits, whose, matched, strict=True):
        wanted = owner if yes else len(row) - 1
        total -= row[wanted] - math.log(sum(math.exp(value) for value in row))
    return total / len(logits)


def test_the_loss_equals_the_literal_cross_entropy() -> None:
    logits = torch.randn(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = literal(logits.tolist(), IDENTITIES.tolist(), MATCHED.tolist())
    assert identity(logits, IDENTITIES, MATCHED).item() == pytest.approx(expected, rel=1e-12)


def test_unmatched_pairs_belong_to_the_last_class() -> None:
    perfect = 50 * torch.eye(4)[[0, 2, 3, 3]]
    assert identity(perfect, IDENTITIES, MATCHED) < 1e-6
    assert identity(50 * torch.eye(4)[[0, 2, 1, 1]], IDENTITIES, MATCHED) > 20


def test_gradients_match_finite_differences() -> None:
    logits = torch.randn(4, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda named: identity(named, IDENTITIES, MATCHED), (logits,))
