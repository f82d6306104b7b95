import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from retrieval.cfam.network.model import similarity_distribution_matching


def literal_direction(
    similarities: list[list[float]], identities: list[int], temperature: float, epsilon: float
) -> float:
    """Equations 3 and 4 of IRRA, in the direction from rows to columns."""
    total = 0.0
    for row, identity in zip(similarities, identities, strict=True):
        powers = [math.exp((value - max(row)) / temperature) for value in row]
        partners = [float(other == identity) for other in identities]
        for power, partner in zip(powers, partners, strict=True):
            predicted, wanted = power / sum(powers), partner / sum(partners)
            if predicted > 0:
                total += predicted * math.log(predicted / (wanted + epsilon))
    return total / len(similarities)


def literal(
    similarities: list[list[float]], identities: list[int], temperature: float, epsilon: float
) -> float:
    across = [list(column) for column in zip(*similarities, strict=True)]
    return literal_direction(similarities, identities, temperature, epsilon) + literal_direction(
        across, identities, temperature, epsilon
    )


def random_cosines(size: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.rand(size, size, generator=generator, dtype=torch.float64) - 1


@given(
    st.integers(0, 1000),
    st.lists(st.integers(0, 3), min_size=1, max_size=8),
    st.sampled_from([0.02, 0.1, 1.0]),
)
def test_the_loss_equals_the_literal_divergence(
    seed: int, identities: list[int], heat: float
) -> None:
    similarities = random_cosines(len(identities), seed)
    found = similarity_distribution_matching(similarities, torch.tensor(identities), heat)
    expected = literal(similarities.tolist(), identities, heat, 1e-8)
    assert math.isclose(found.item(), expected, rel_tol=1e-9, abs_tol=1e-7)


def test_epsilon_is_configurable() -> None:
    similarities, whose = random_cosines(4, 1), torch.tensor([0, 1, 1, 2])
    found = similarity_distribution_matching(similarities, whose, 0.5, epsilon=1e-3)
    assert math.isclose(found.item(), literal(similarities.tolist(), whose.tolist(), 0.5, 1e-3))


def test_the_loss_is_zero_for_perfect_and_large_for_reversed_similarities() -> None:
    whose = torch.tensor([0, 0, 1, 2])
    perfect = (whose[:, None] == whose).double() * 2 - 1
    assert abs(similarity_distribution_matching(perfect, whose, 0.02).item()) < 1e-6
    assert similarity_distribution_matching(-perfect, whose, 0.02).item() > 30


def test_the_order_of_the_batch_does_not_matter() -> None:
    similarities, whose = random_cosines(6, 2), torch.tensor([0, 1, 0, 2, 3, 1])
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    turned = similarity_distribution_matching(similarities[order][:, order], whose[order], 0.1)
    assert torch.isclose(turned, similarity_distribution_matching(similarities, whose, 0.1))


def test_gradients_match_finite_differences() -> None:
    similarities = random_cosines(5, 3).requires_grad_()
    whose = torch.tensor([0, 1, 0, 2, 2])
    assert torch.autograd.gradcheck(
        lambda cosines: similarity_distribution_matching(cosines, whose, 0.3), (similarities,)
    )


def test_extreme_cosines_stay_finite_in_float32() -> None:
    similarities = torch.tensor([[-1.0, 1.0], [1.0, -1.0]], requires_grad=True)
    loss = similarity_distribution_matching(similarities, torch.tensor([0, 1]), 0.001)
    torch.autograd.backward(loss)
    assert loss.isfinite()
    assert similarities.grad is not None
    assert similarities.grad.isfinite().all()
