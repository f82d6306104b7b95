"""Logits processors that choose the next token of each row: by a JSON schema, and by a random draw.

Both are called by `generate` of transformers with token ids of shape (rows, length) and scores of
shape (rows, vocabulary), and return scores.
"""

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from schemas.errors import MissingExtraError

if TYPE_CHECKING:
    import torch


class SchemaGrammar:
    """Compiles JSON schemas for one tokenizer.

    Args:
        tokenizer: a fast tokenizer of transformers.
        vocabulary_size: the number of scores per row that the model gives.
        end_tokens: the ids that end an answer.
    """

    def __init__(self, tokenizer: Any, vocabulary_size: int, end_tokens: list[int]) -> None:
        try:
            from llguidance.hf import from_tokenizer
        except ModuleNotFoundError as error:
            raise MissingExtraError("keeping answers to a JSON schema", "torch") from error
        self._tokenizer = from_tokenizer(tokenizer, n_vocab=vocabulary_size, eos_token=end_tokens)

    def matcher(self, schema: dict[str, Any]) -> Any:
        """A fresh matcher for one answer under `schema`.

        Raises:
            ValueError: the schema uses what cannot be enforced.
        """
        from llguidance import LLMatcher

        # Fixed spaces: otherwise a weak model could fill its whole answer with them.
        layout: Any = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
        grammar = LLMatcher.grammar_from_json_schema(json.dumps(schema), overrides=layout)
        matcher = LLMatcher(self._tokenizer, grammar, log_level=0)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher


class SchemaConstraint:
    """Allows for each row only tokens with which its answer can still satisfy its JSON schema.

    Args:
        matchers: one per row; None for a row that may say anything.
    """

    def __init__(self, matchers: list[Any]) -> None:
        self._matchers = matchers
        self._started = False

    def __call__(self, input_ids: "torch.Tensor", scores: "torch.Tensor") -> "torch.Tensor":
        """The scores, with tokens that violate the schema at minus infinity."""
        import torch

        for row, matcher in enumerate(self._matchers):
            if matcher is None or (self._started and matcher.is_stopped()):
                continue
            if self._started:
                matcher.consume_token(int(input_ids[row, -1]))
            bits = np.unpackbits(
                np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8), bitorder="little"
            )
            allowed = torch.from_numpy(bits[: scores.shape[1]].astype(bool)).to(scores.device)
            scores[row] = scores[row].masked_fill(~allowed, -torch.inf)
        self._started = True
        return scores


class SeededDraw:
    """Turns taking the best token into sampling, with a random generator for each row.

    Adding Gumbel noise to log-probabilities and taking the maximum samples exactly from them. So
    the sample depends on the seed only, not on the other requests of the batch.

    Args:
        rows: the number of rows.
        seed: where each row's generator starts; None for anywhere.
        device: where the scores are.
    """

    def __init__(self, rows: int, seed: int | None, device: "torch.device") -> None:
        import torch

        self._generators = [torch.Generator(device) for _ in range(rows)]
        for generator in self._generators:
            if seed is None:
                generator.seed()
            else:
                generator.manual_seed(seed)

    def __call__(self, _input_ids: "torch.Tensor", scores: "torch.Tensor") -> "torch.Tensor":
        """The scores plus noise."""
        import torch

        noise = torch.stack(
            [
                -torch.empty_like(scores[0], dtype=torch.float32)
                .exponential_(generator=generator)
                .log()
                for generator in self._generators
            ]
        )
        return scores.float() + noise
