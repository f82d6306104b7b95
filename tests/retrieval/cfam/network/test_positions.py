import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from loupe.retrieval.cfam.network.backbone import resized_grid, stretched
from loupe.schemas.errors import ModelError


def random_positions(rows: int, width: int = 5) -> torch.Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(0))


def test_a_resized_grid_keeps_the_embedding_of_the_class_token(
    subtests: pytest.Subtests,
) -> None:
    for case, grid in enumerate(((24, 8), (2, 2), (28, 7), (1, 1))):
        with subtests.test(case=case):
            positions = random_positions(1 + 14 * 14)
            resized = resized_grid(positions, grid)
            assert resized.shape == (1 + grid[0] * grid[1], 5)
            assert torch.equal(resized[0], positions[0])


def test_the_grid_is_resized_in_both_dimensions() -> None:
    down = torch.arange(14.0)[:, None].expand(14, 14).reshape(-1, 1)
    across = torch.arange(14.0)[None, :].expand(14, 14).reshape(-1, 1)
    square = torch.cat([torch.zeros(1, 2), torch.cat([down, across], dim=1)])
    tall = resized_grid(square, (24, 8))[1:].reshape(24, 8, 2)
    assert torch.allclose(tall[:, 0, 0], tall[:, 5, 0], atol=1e-5)
    assert torch.allclose(tall[0, :, 1], tall[20, :, 1], atol=1e-5)
    assert (tall[:, 3, 0].diff() > 0).all()
    assert (tall[3, :, 1].diff() > 0).all()


def test_positions_keep_their_dtype() -> None:
    assert resized_grid(random_positions(17).half(), (6, 2)).dtype == torch.float16


def test_a_grid_that_is_not_square_is_refused() -> None:
    with pytest.raises(ModelError, match="got 12, wanted a square or 24 × 8"):
        resized_grid(random_positions(13), (24, 8))


@given(length=st.integers(1, 200), kept=st.integers(0, 100), old=st.integers(2, 77))
def test_stretched_text_positions_keep_the_first_and_the_last(
    length: int, kept: int, old: int
) -> None:
    positions = random_positions(old)
    new = stretched(positions, length, kept)
    assert len(new) == length
    unchanged = min(length, kept, old - 1) if length > old else length
    assert torch.equal(new[:unchanged], positions[:unchanged])
    if length >= old:
        assert torch.allclose(new[-1], positions[-1], atol=1e-5)


def test_stretched_positions_are_evenly_spaced() -> None:
    ramp = torch.arange(77.0)[:, None]
    new = stretched(ramp, 168, 20).flatten()
    assert torch.equal(new[:20], torch.arange(20.0))
    assert torch.allclose(new[20:], torch.linspace(20, 76, 148), atol=1e-4)
