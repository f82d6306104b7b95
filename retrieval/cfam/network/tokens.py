"""Texts as CLIP's tokens, up to any length."""

from collections.abc import Sequence

import torch
from torch import Tensor

START, END = 49406, 49407
MASK = 49405
"""CLIP has no token for a masked word. As in IRRA, the last and rarest word of its vocabulary
(«jekyll») stands for one."""
PADDING = 0


class ClipTokenizer:
    """OpenCLIP's tokenizer, for texts of up to `length` tokens, start and end included.

    Longer texts lose their end. A text cannot write the start or the end of a text.
    """

    def __init__(self, length: int) -> None:
        from open_clip import SimpleTokenizer

        self._tokenizer = SimpleTokenizer()
        self._length = length

    def __call__(self, texts: Sequence[str]) -> Tensor:
        """Tokens of shape (B, length), padded with zeros."""
        rows = torch.full((len(texts), self._length), PADDING, dtype=torch.long)
        for row, text in zip(rows, texts, strict=True):
            words = [token for token in self._tokenizer.encode(text) if token < START]
            ids = [START, *words[: self._length - 2], END]
            row[: len(ids)] = torch.tensor(ids)
        return rows
