from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from loupe.retrieval.cfam.network.pairs import (
    END,
    MASK,
    START,
    ClipTokenizer,
    PairAugmentation,
    clip_pixels,
    disturbed,
    erased,
    generator_for,
    names_a_side,
    shifted,
    swapped_sides,
)
from loupe.schemas.cfam import CfamAugmentation, CfamBackbone
from tests.retrieval.cfam.small_clip import HEIGHT_PX, TEXT_TOKENS, WIDTH_PX, small_backbone

NO_AUGMENTATION = CfamAugmentation(flip=0, padding_px=0, erase=0, mask_token=0, replace_token=0)
SIDED, PLAIN = "A bag in the Left hand, none in the right.", "A person in red."


@pytest.fixture(scope="module")
def tokenizer() -> ClipTokenizer:
    return ClipTokenizer(TEXT_TOKENS)


@pytest.fixture
def backbone(tmp_path: Path) -> CfamBackbone:
    return small_backbone(tmp_path)


@pytest.fixture
def image() -> Image.Image:
    values = np.random.default_rng(0).integers(0, 255, (120, 50, 3), np.uint8)
    return Image.fromarray(values)


def drawn_pixels(rows: int = 40, columns: int = 20) -> torch.Tensor:
    return 1 + torch.rand(3, rows, columns, generator=torch.Generator().manual_seed(0))


def test_disabled_augmentation_equals_inference_preprocessing(
    image: Image.Image, backbone: CfamBackbone, tokenizer: ClipTokenizer
) -> None:
    augment = PairAugmentation(NO_AUGMENTATION, backbone, tokenizer)
    pixels, tokens = augment(image, SIDED, generator_for(0, 0, 0))
    assert pixels.shape == (3, HEIGHT_PX, WIDTH_PX)
    assert torch.equal(pixels, clip_pixels(image, backbone))
    assert torch.equal(tokens, tokenizer([SIDED])[0])


def test_a_sample_depends_only_on_seed_epoch_and_row(
    image: Image.Image, backbone: CfamBackbone, tokenizer: ClipTokenizer
) -> None:
    augment = PairAugmentation(CfamAugmentation(), backbone, tokenizer)

    def sample(*place: int) -> tuple[torch.Tensor, torch.Tensor]:
        torch.rand(1)  # advance the global generator of torch, which must not matter
        return augment(image, SIDED, generator_for(*place))

    first = sample(0, 3, 8)
    sample(0, 3, 9)
    again = sample(0, 3, 8)
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))
    for place in [(1, 3, 8), (0, 4, 8), (0, 3, 7), (0, 38, 0)]:
        assert not torch.equal(sample(*place)[0], first[0])


def test_flipping_handles_left_and_right_in_the_text(
    subtests: pytest.Subtests, image: Image.Image, backbone: CfamBackbone, tokenizer: ClipTokenizer
) -> None:
    cases: list[tuple[str, str, bool, str]] = [
        ("swap", SIDED, True, "A bag in the Right hand, none in the left."),
        ("keep", SIDED, False, SIDED),
        ("ignore", SIDED, True, SIDED),
        ("swap", PLAIN, True, PLAIN),
        ("keep", PLAIN, True, PLAIN),
    ]
    for sides, text, flips, expected in cases:
        with subtests.test(sides=sides, text=text, flips=flips, expected=expected):
            settings = NO_AUGMENTATION.model_copy(update={"flip": 1.0, "flipped_sides": sides})
            pixels, tokens = PairAugmentation(settings, backbone, tokenizer)(
                image, text, generator_for(0, 0, 0)
            )
            plain = clip_pixels(image, backbone)
            assert torch.equal(pixels, plain.flip(-1) if flips else plain)
            assert torch.equal(tokens, tokenizer([expected])[0])


def test_only_whole_words_name_a_side() -> None:
    assert swapped_sides("LEFT, left-handed, Right") == "RIGHT, right-handed, Left"
    for text in ("a bright cleft", "leftover and upright", "rights", "rıght"):
        assert swapped_sides(text) == text
        assert not names_a_side(text)


def test_half_of_the_images_are_flipped(
    image: Image.Image, backbone: CfamBackbone, tokenizer: ClipTokenizer
) -> None:
    augment = PairAugmentation(
        NO_AUGMENTATION.model_copy(update={"flip": 0.5}), backbone, tokenizer
    )
    plain = clip_pixels(image, backbone)
    flipped = [
        not torch.equal(augment(image, PLAIN, generator_for(0, 0, row))[0], plain)
        for row in range(100)
    ]
    assert 35 < sum(flipped) < 65


@given(st.integers(0, 12), st.integers(0, 500))
def test_an_image_is_shifted_by_at_most_the_padding(padding_px: int, seed: int) -> None:
    pixels = drawn_pixels()
    moved = shifted(pixels, padding_px, torch.Generator().manual_seed(seed))
    assert moved.shape == pixels.shape
    kept = moved[:, (moved[0] != 0).any(dim=1)][:, :, (moved[0] != 0).any(dim=0)]
    rows, columns = kept.shape[1:]
    assert rows >= 40 - padding_px
    assert columns >= 20 - padding_px
    pieces = pixels.unfold(1, rows, 1).unfold(2, columns, 1)
    assert (pieces == kept[:, None, None]).all(dim=(0, 3, 4)).any()


def test_erasing_removes_one_rectangle_of_a_bounded_size() -> None:
    shares = []
    for seed in range(100):
        gone = erased(drawn_pixels(96, 32), torch.Generator().manual_seed(seed)) == 0
        assert torch.equal(gone[0], gone[2])
        rows, columns = gone[0].any(dim=1), gone[0].any(dim=0)
        assert gone[0].sum() == rows.sum() * columns.sum()
        shares.append(gone[0].float().mean().item())
    assert min(shares) > 0.01
    assert max(shares) < 0.42
    assert 0.12 < sum(shares) / 100 < 0.25


def test_an_image_too_small_for_erasing_is_unchanged() -> None:
    pixels = drawn_pixels(1, 1)
    assert torch.equal(erased(pixels, torch.Generator().manual_seed(0)), pixels)


@given(st.integers(0, 20), st.integers(0, 100))
def test_start_end_and_padding_tokens_are_never_changed(words: int, seed: int) -> None:
    row = torch.tensor([START, *[320] * words, END, 0, 0, 0])
    for mask, replace in ((1.0, 0.0), (0.0, 1.0), (0.5, 0.5)):
        new = disturbed(row, mask, replace, torch.Generator().manual_seed(seed))
        assert new[0] == START
        assert new[words + 1 :].tolist() == [END, 0, 0, 0]
        assert (new[1 : words + 1] <= MASK).all()


def test_words_are_masked_and_replaced_at_the_configured_rates() -> None:
    row = torch.cat([torch.tensor([START]), torch.full((20_000,), 320), torch.tensor([END])])
    new = disturbed(row, 0.1, 0.05, torch.Generator().manual_seed(0))
    assert (new == MASK).float().mean().item() == pytest.approx(0.1, abs=0.01)
    others = (new != MASK) & (new != row)
    assert others.float().mean().item() == pytest.approx(0.05, abs=0.01)
    assert len(set(new[others].tolist())) > 900
    assert torch.equal(disturbed(row, 0, 0, torch.Generator()), row)
