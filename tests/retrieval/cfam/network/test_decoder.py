import pytest
import torch

from loupe.retrieval.cfam.network.model import GranularityDecoder, local_similarities
from loupe.schemas.cfam import CfamDecoder

SETTINGS = CfamDecoder(queries=4, width=32, heads=4)


@pytest.fixture
def decoder() -> GranularityDecoder:
    torch.manual_seed(0)
    return GranularityDecoder(24, SETTINGS)


def test_padding_is_ignored(decoder: GranularityDecoder) -> None:
    tokens = torch.randn(2, 9, 24)
    padding = torch.arange(9) >= torch.tensor([[4], [9]])
    alone = decoder(tokens[:1, :4])
    assert torch.allclose(decoder(tokens, padding)[:1], alone, atol=1e-6)
    changed = tokens.masked_fill(padding[..., None], 1e4)
    assert torch.allclose(decoder(changed, padding), decoder(tokens, padding), atol=1e-6)


def literal_local_similarities(visual: torch.Tensor, textual: torch.Tensor) -> torch.Tensor:
    found = torch.zeros(len(visual), len(textual), dtype=torch.float64)
    for row, image in enumerate(visual):
        for column, text in enumerate(textual):
            total = 0.0
            for seen, word in zip(image, text, strict=True):
                lengths = float(seen.square().sum() ** 0.5 * word.square().sum() ** 0.5)
                total += float((seen * word).sum()) / lengths
            found[row, column] = total / len(image)
    return found


def test_local_similarities_equal_the_literal_mean_cosines() -> None:
    visual = torch.randn(3, 4, 8, dtype=torch.float64)
    textual = torch.randn(5, 4, 8, dtype=torch.float64)
    expected = literal_local_similarities(visual, textual)
    assert torch.allclose(local_similarities(visual, textual), expected, atol=1e-12)
    assert torch.allclose(
        local_similarities(visual, visual).diagonal(), torch.ones(3).double(), atol=1e-12
    )
