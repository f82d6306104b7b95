"""Similarity of captions or images, by embeddings or by the words of texts."""

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rapidfuzz.utils import default_process

from loupe.retrieval.embeddings import read_array, unit_rows
from loupe.schemas.errors import UsageError


class Similarity(NamedTuple):
    """A ranking of items that are identified by their row, counted from 0.

    `name` is the method, for provenance; `scores` returns the similarity of all rows to a row.
    """

    name: str
    scores: Callable[[int], NDArray[np.floating]]

    def ranked(self, row: int) -> NDArray[np.intp]:
        """Return all rows from the most to the least similar to `row`; ties in row order."""
        scores = np.round(self.scores(row), 12)  # rounded, so that ties stay ties
        return np.argsort(-scores, kind="stable")


def vector_similarity(vectors: ArrayLike, name: str) -> Similarity:
    """Return the cosine similarity of vectors, of shape (rows, dimensions), made by `name`.

    Raises:
        UsageError: a row is zero or not finite.
    """
    directions = unit_rows(np.asarray(vectors), f"the vectors of {name}")
    return Similarity(f"embedder {name}", lambda row: directions @ directions[row])


def embedding_similarity(path: Path, rows: int, what: str) -> Similarity:
    """Return the cosine similarity of embeddings in a `.npy` file: floats (rows, dimensions).

    Raises:
        UsageError: the file has another content, or a row is zero or not finite. `what` names the
            expected items for the message.
    """
    directions = unit_rows(read_array(path), str(path))
    if len(directions) != rows:
        raise UsageError(
            f"{path} must have {rows} rows, one for each of the {what}; got {len(directions)}"
        )
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Similarity(f"embeddings sha256:{digest}", lambda row: directions @ directions[row])


def word_similarity(texts: Sequence[str]) -> Similarity:
    """Return the cosine similarity of texts by tf-idf, their words weighted by rarity."""
    from scipy import sparse

    counts = [Counter(sorted(default_process(text).split())) for text in texts]
    columns = {word: place for place, word in enumerate(sorted(set().union(*counts)))}
    cells = [
        (row, columns[word], n) for row, words in enumerate(counts) for word, n in words.items()
    ]
    rows, words, numbers = np.array(cells, dtype=np.int64).reshape(-1, 3).T
    texts_with = np.bincount(words, minlength=len(columns))
    weights = numbers * (np.log((1 + len(texts)) / (1 + texts_with)) + 1)[words]
    lengths = np.sqrt(np.bincount(rows, weights**2, minlength=len(texts)))
    shape = len(texts), len(columns)
    matrix = sparse.csr_array((weights / lengths[rows], (rows, words)), shape=shape)
    return Similarity("words-tf-idf@1", lambda row: matrix @ matrix[[row]].toarray()[0])
