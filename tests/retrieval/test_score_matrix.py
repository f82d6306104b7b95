"""Scores of items with several vectors and of reranked items, by the definitions."""

import numpy as np
import pytest

from loupe.retrieval.discriminability import CaptionValidator
from loupe.retrieval.embeddings import FloatRows, Ids, unit_rows
from loupe.retrieval.ranking import Floats
from loupe.retrieval.score_matrix import Rerank, nearest_items, score_similarities, text_cosines
from loupe.schemas.recos import DiscriminabilitySettings
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


def test_captions_and_neighbours_are_compared_with_the_most_similar_vector() -> None:
    texts, vectors, images, of_texts, _ = world()
    cosines = np.einsum("td,ikd->tik", texts.astype(float), vectors.astype(float)).max(axis=2)
    assert text_cosines(texts, images) == pytest.approx(cosines, abs=1e-6)
    assert text_cosines(texts, vectors[:, 0]) == pytest.approx(texts @ vectors[:, 0].T, abs=1e-6)

    settings = DiscriminabilitySettings(k=3, temperature=0.1)
    found = CaptionValidator(images, settings, several=True).nearest(texts, of_texts)
    others = np.where(np.arange(6) == of_texts[:, None], -np.inf, cosines)
    assert found.places.tolist() == np.argsort(-others)[:, :3].tolist()
    assert found.similarities == pytest.approx(np.sort(others)[:, :-4:-1], abs=1e-6)

    pairs = np.einsum("ikd,jld->ikjl", vectors, vectors).max(axis=(1, 3))
    np.fill_diagonal(pairs, -np.inf)
    pairs[:, 4] = -np.inf
    near = nearest_items(
        images,
        images,
        9,
        dimension=5,
        groups=(np.zeros(6, int), np.zeros(6, int)),
        excluded=np.arange(6),
        closed=[4],
    )
    for row, wanted in enumerate(pairs):
        count = int((wanted > -np.inf).sum())
        assert near.places[row, :count].tolist() == np.argsort(-wanted)[:count].tolist()
        assert (near.places[row, count:] == -1).all()


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
