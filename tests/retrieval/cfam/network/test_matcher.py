import torch

from loupe.retrieval.cfam.network.model import IdentityHead, Matcher
from loupe.schemas.cfam import CfamMatcher


def new_matcher() -> Matcher:
    torch.manual_seed(0)
    return Matcher(32, CfamMatcher(heads=4))


def test_pairs_are_matched_independently() -> None:
    matcher = new_matcher()
    visual, textual = torch.randn(5, 3, 32), torch.randn(5, 3, 32)
    logits = matcher(visual, textual)
    assert logits.shape == (5,)
    for row in range(5):
        alone = matcher(visual[row : row + 1], textual[row : row + 1])
        assert torch.allclose(alone, logits[row : row + 1], atol=1e-5)


def test_image_and_text_are_not_interchangeable() -> None:
    visual, textual = torch.randn(2, 5, 3, 32)
    matcher = new_matcher()
    assert (matcher(visual, textual) - matcher(textual, visual)).abs().min() > 1e-3


def test_the_identity_head_has_a_class_for_unmatched_pairs() -> None:
    head = IdentityHead(16, 7)
    assert head(torch.randn(5, 16), torch.randn(5, 16)).shape == (5, 8)
