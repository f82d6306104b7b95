import math

import pytest
import torch

from retrieval.cfam.network.model import matching


def literal(logits: list[float], matched: list[bool]) -> float:
    total = 0.0
    for logit, yes in zip(logits, matched, strict=True):
        sure = 1 / (1 + math.exp(-logit))
        total -= math.log(sure if yes else 1 - sure)
    return total / len(logits)


def test_the_loss_equals_the_literal_cross_entropy() -> None:
    logits = [2.0, -1.0, 0.3, 0.0, -4.0]
    matched = [True, True, False, False, False]
    found = matching(torch.tensor(logits, dtype=torch.float64), torch.tensor(matched))
    assert found.item() == pytest.approx(literal(logits, matched), rel=1e-12)


def test_the_loss_is_high_only_for_confident_wrong_predictions() -> None:
    wrong = torch.tensor([False])
    assert matching(torch.tensor([8.0]), wrong) > 7
    assert matching(torch.tensor([-8.0]), wrong) < 0.01


def test_gradients_match_finite_differences() -> None:
    logits = torch.randn(6, dtype=torch.float64, requires_grad=True)
    matched = torch.tensor([True, False, False, True, False, False])
    assert torch.autograd.gradcheck(lambda judged: matching(judged, matched), (logits,))


def test_logits_too_large_for_a_sigmoid_stay_finite() -> None:
    assert matching(torch.tensor([1e4, -1e4]), torch.tensor([False, True])).isfinite()
