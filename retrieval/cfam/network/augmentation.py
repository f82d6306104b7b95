"""What is done to an image and its text in training (UFineBench, section 5.1).

All chance comes out of a generator that the caller hands in. `generator_for` makes one for each
sample of each epoch, so that neither the order of the data nor the number of workers matters.
"""

import math
import re

import torch
from PIL import Image
from torch import Generator, Tensor
from torchvision.transforms.v2 import functional

from retrieval.cfam.network.pixels import clip_pixels
from retrieval.cfam.network.tokens import MASK, ClipTokenizer
from schemas.base import digest_of
from schemas.cfam import CfamAugmentation, CfamBackbone

_ERASED_SHARE = (0.02, 0.4)
"""Of the image's area (Zhong et al., Random Erasing, AAAI 2020)."""
_LOG_ASPECT = (math.log(0.3), math.log(1 / 0.3))
_ATTEMPTS = 10
_SIDES = re.compile(r"\b(?a:left|right)\b", re.IGNORECASE)
_OTHER = {"left": "right", "right": "left"}


def generator_for(seed: int, epoch: int, row: int) -> Generator:
    """The source of chance for one sample of one epoch."""
    words = digest_of(str(seed), str(epoch), str(row))
    return Generator().manual_seed(int(words[:15], 16))


class PairAugmentation:
    """Makes of an image and its text what the network is shown in one epoch.

    In this order: the flip, which the text may have to follow; the image's pixels, padded and cut
    to their size somewhere else; an erased rectangle; masked and replaced tokens.
    """

    def __init__(
        self, settings: CfamAugmentation, backbone: CfamBackbone, tokenizer: ClipTokenizer
    ) -> None:
        self._settings = settings
        self._backbone = backbone
        self._tokenizer = tokenizer

    def __call__(
        self, image: Image.Image, text: str, generator: Generator
    ) -> tuple[Tensor, Tensor]:
        """Pixels of shape (3, H, W) and tokens of shape (L,)."""
        settings = self._settings
        pixels = clip_pixels(image, self._backbone)
        if _chance(generator) < settings.flip and not self._must_stay(text):
            pixels = functional.horizontal_flip(pixels)
            text = swapped_sides(text) if settings.flipped_sides == "swap" else text
        pixels = shifted(pixels, settings.padding_px, generator)
        if _chance(generator) < settings.erase:
            pixels = erased(pixels, generator)
        tokens = self._tokenizer([text])[0]
        return pixels, disturbed(tokens, settings.mask_token, settings.replace_token, generator)

    def _must_stay(self, text: str) -> bool:
        return self._settings.flipped_sides == "keep" and names_a_side(text)


def names_a_side(text: str) -> bool:
    """Whether the text says left or right, in whatever sense."""
    return _SIDES.search(text) is not None


def swapped_sides(text: str) -> str:
    """The text with left and right exchanged, their capitals kept: true of the flipped image.

    It looks at words, not at sense: «left the shop» becomes «right the shop».
    """
    return _SIDES.sub(lambda found: _in_case_of(found.group(), _OTHER[found.group().lower()]), text)


def _in_case_of(example: str, word: str) -> str:
    if example.isupper():
        return word.upper()
    return word.capitalize() if example[0].isupper() else word


def shifted(pixels: Tensor, padding_px: int, generator: Generator) -> Tensor:
    """The image padded with the mean colour on all sides, and a piece of its old size cut out."""
    down, right = _below(2 * padding_px + 1, generator), _below(2 * padding_px + 1, generator)
    height, width = pixels.shape[-2:]
    padded = functional.pad(pixels, [padding_px])
    cut: Tensor = functional.crop(padded, down, right, height, width)
    return cut


def erased(pixels: Tensor, generator: Generator) -> Tensor:
    """The image with a rectangle of the mean colour, or unchanged if none has fitted in ten tries.

    The rectangle's share of the area is uniform in 0.02 to 0.4, its aspect log-uniform in 0.3 to
    3.3 (random erasing, Zhong et al. 2020, and torchvision's defaults but for the largest share).
    """
    height, width = pixels.shape[-2:]
    for _ in range(_ATTEMPTS):
        area = height * width * _uniform(*_ERASED_SHARE, generator)
        aspect = math.exp(_uniform(*_LOG_ASPECT, generator))
        rows, columns = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < rows < height and 0 < columns < width:
            top, left = _below(height - rows + 1, generator), _below(width - columns + 1, generator)
            gone: Tensor = functional.erase(pixels, top, left, rows, columns, torch.zeros(1))
            return gone
    return pixels


def disturbed(tokens: Tensor, mask: float, replace: float, generator: Generator) -> Tensor:
    """The tokens with some words masked and others replaced by any word of the vocabulary.

    Start, end and padding stay.

    Args:
        tokens: of shape (L,).
        mask: the share of words that become `MASK`.
        replace: the share of words that become another.
        generator: where chance comes from; as much is drawn whatever the shares.
    """
    places = torch.arange(len(tokens))
    is_word = (places > 0) & (places < tokens.argmax())
    chance = torch.rand(len(tokens), generator=generator)
    others = torch.randint(MASK, tokens.shape, generator=generator)
    masked = is_word & (chance < mask)
    replaced = is_word & (chance >= mask) & (chance < mask + replace)
    return tokens.masked_fill(masked, MASK).where(~replaced, others)


def _chance(generator: Generator) -> float:
    return torch.rand((), generator=generator).item()


def _uniform(low: float, high: float, generator: Generator) -> float:
    return low + (high - low) * _chance(generator)


def _below(limit: int, generator: Generator) -> int:
    return int(torch.randint(limit, (), generator=generator))
