"""Scores of items with several vectors and of reranked items, by the definitions."""

import numpy as np
import pytest

from retrieval.embeddings import FloatRows, Ids, unit_rows
from retrieval.ranking import Floats
from retrieval.score_matrix import Rerank, score_similarities
from tests.retrieval.literal_retrieval import literal_query

NAMES = ("best_rank", "average_precision", "similarity_distribution", "inverse_negative_penalty")


def world() -> tuple[FloatRows, FloatRows, FloatRows, Ids, Ids]:
    """Nine texts with one vector and six images with three, of three identities."""
    chance = np.random.default_rng(2)
    texts = unit_rows(chance.normal(size=(9, 5)), "texts")
    vectors = unit_rows(chance.normal(size=(18, 5)), "vectors").reshape(6, 3, 5)
    images = unit_rows(vectors.reshape(6, 15), "images")
    return texts, vectors, images, np.arange(9) // 3, np.arange(6) // 2


def test_the_most_similar_vector_of_an_item_counts() -> None:
    texts, vectors, images, of_texts, of_images = world()
    cosines = np.einsum("td,ikd->tik", texts.astype(float), vectors.astype(float)).max(axis=2)
    for asked, similarities, ids, others in (
        ((texts, images), cosines, of_texts, of_images),
        ((images, texts), cosines.T, of_images, of_texts),
    ):
        found = score_similarities(*asked, ids, others)
        for place, row in enumerate(similarities):
            literal = literal_query(row.tolist(), (others == ids[place]).tolist())
            assert literal is not None
            for name, wanted in zip(NAMES, literal, strict=True):
                assert getattr(found, name)[place] == pytest.approx(wanted, abs=1e-6), name


def test_only_the_top_results_are_reranked() -> None:
    texts, _, images, of_texts, of_images = world()
    before = score_similarities(texts, images, of_texts, of_images)
    asked: list[int] = []

    def match(queries: Ids, gallery: Ids) -> Floats:
        asked.extend(queries.tolist())
        return np.where(of_texts[queries] == of_images[gallery], 10.0, 0.0)

    found = score_similarities(texts, images, of_texts, of_images, Rerank(3, match))
    assert asked == np.repeat(np.arange(9), 3).tolist()
    assert found.best_rank.tolist() == [1 if rank <= 3 else rank for rank in before.best_rank]
    assert "mSD" not in found.means(), "mSD needs cosines, not scores of a reranker"
    whole = score_similarities(texts, images, of_texts, of_images, Rerank(100, match))
    assert whole.means()["R@1"] == 100
