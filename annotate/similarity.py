"""How similar captions or images are to each other, by embeddings or by the words of texts."""

import hashlib
import math
from array import array
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.utils import default_process

from schemas.errors import UsageError

FloatArray = NDArray[np.float32]


class Similarity(Protocol):
    """An order among things that are known by their row, counted from 0."""

    @property
    def name(self) -> str:
        """What it is computed by, for provenance."""
        ...

    def ranked(self, row: int) -> NDArray[np.intp]:
        """All rows from the most to the least similar to `row`; equal ones in their order."""
        ...


class EmbeddingSimilarity:
    """Cosine of embeddings."""

    def __init__(self, embeddings: FloatArray, name: str) -> None:
        self.name = name
        self._directions = embeddings

    @classmethod
    def load(cls, path: Path, rows: int, what: str) -> "EmbeddingSimilarity":
        """Embeddings from a `.npy` file: a float array of shape (rows, dimensions).

        Raises:
            UsageError: it is not that, or a row of it has no direction. `what` says of what the
                rows should be.
        """
        try:
            loaded = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise UsageError(f"the embeddings {path} cannot be read: {error}") from error
        if loaded.ndim != 2 or len(loaded) != rows or loaded.dtype.kind != "f":
            raise UsageError(
                f"the embeddings {path} must be floats of shape ({rows}, dimensions), a row for "
                f"each of the {what}; got {loaded.dtype} of shape {loaded.shape}"
            )
        lengths = np.linalg.norm(loaded.astype(np.float32), axis=1, keepdims=True)
        if not (np.isfinite(lengths).all() and (lengths > 0).all()):
            row = int(np.argmax(~(np.isfinite(lengths) & (lengths > 0))))
            raise UsageError(f"row {row} of the embeddings {path} is zero or not finite")
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return cls((loaded / lengths).astype(np.float32), f"embeddings sha256:{digest}")

    def ranked(self, row: int) -> NDArray[np.intp]:
        """All rows by cosine."""
        return np.argsort(-(self._directions @ self._directions[row]), kind="stable")


class WordSimilarity:
    """Cosine of the words of texts, each weighted by how rare it is (tf-idf); needs no model."""

    name = "words-tf-idf@1"

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        known = Counter(word for text in texts for word in set(_words(text)))
        self._rarity = {word: math.log((1 + len(texts)) / (1 + n)) + 1 for word, n in known.items()}
        rows: dict[str, array[int]] = {word: array("q") for word in known}
        weights: dict[str, array[float]] = {word: array("d") for word in known}
        for row, text in enumerate(texts):
            for word, weight in self._weights(text).items():
                rows[word].append(row)
                weights[word].append(weight)
        self._holders = {
            word: (np.frombuffer(rows[word], np.int64), np.frombuffer(weights[word], np.float64))
            for word in known
        }

    def ranked(self, row: int) -> NDArray[np.intp]:
        """All rows by cosine."""
        scores = np.zeros(len(self._texts))
        for word, weight in self._weights(self._texts[row]).items():
            rows, weights = self._holders[word]
            scores[rows] += weight * weights
        return np.argsort(-np.round(scores, 12), kind="stable")  # no ties torn by rounding

    def _weights(self, text: str) -> dict[str, float]:
        counts = Counter(_words(text))
        weights = {word: count * self._rarity[word] for word, count in counts.items()}
        length = math.sqrt(sum(weight * weight for weight in weights.values()))
        return {word: weight / length for word, weight in sorted(weights.items())}


def _words(text: str) -> list[str]:
    return default_process(text).split()
