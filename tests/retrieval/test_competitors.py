"""Competitors equal plain loops, including ties, and do not depend on order or block size."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.competitors import Collection, Competitors, Tiling, count_competitors
from retrieval.embeddings import unit_rows
from retrieval.similarity.products import pair_similarities, rounding_bound
from tests.retrieval.literal import (
    competitors_of_image,
    competitors_of_text,
    similarity,
    tied_rows,
)


def collection_of(seed: int, images: int = 14, texts: int = 40, dimension: int = 9) -> Collection:
    """A random collection with many ties and near ties; some images have no text."""
    random = np.random.default_rng(seed)
    return Collection(
        images=tied_rows(random, images, dimension, kinds=5),
        texts=tied_rows(random, texts, dimension, kinds=6),
        image_of_text=random.integers(images, size=texts),
        pool_of_image=random.integers(2, size=images),
        pools=2,
    )


def test_counts_equal_plain_loops(subtests: pytest.Subtests) -> None:
    for seed in range(30):
        with subtests.test(seed=seed):
            collection = collection_of(seed)
            found = count_competitors(collection, Tiling(images=5, texts=7, workers=2))
            texts = [competitors_of_text(collection, text) for text in range(len(collection.texts))]
            assert found.of_texts.tolist() == texts
            images = [
                competitors_of_image(collection, image) for image in range(len(collection.images))
            ]
            assert found.is_query.tolist() == [counts is not None for counts in images]
            assert found.of_images.tolist() == [counts or [0, 0] for counts in images]


def test_the_test_collection_has_ties_and_near_ties() -> None:
    collection = collection_of(0)
    exact = [
        similarity(row, text) - similarity(collection.images[its], text)
        for text, its in zip(collection.texts, collection.image_of_text, strict=True)
        for image, row in enumerate(collection.images)
        if image != its
    ]
    bound = rounding_bound(collection.images.shape[1])
    assert sum(difference == 0 for difference in exact) > 20
    assert sum(0 < abs(difference) < bound for difference in exact) > 20


def same(left: Competitors, right: Competitors) -> bool:
    return all(bool((a == b).all()) for a, b in zip(left, right, strict=True))


@given(
    seed=st.integers(0, 10_000),
    images=st.integers(1, 60),
    texts=st.integers(1, 300),
    workers=st.integers(1, 3),
)
@settings(max_examples=40, deadline=None)
def test_the_block_size_does_not_matter(seed: int, images: int, texts: int, workers: int) -> None:
    collection = collection_of(seed, images=50, texts=300, dimension=64)
    whole = count_competitors(collection, Tiling(50, 300, 1))
    assert same(count_competitors(collection, Tiling(images, texts, workers)), whole)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_the_order_of_images_and_texts_does_not_matter(seed: int) -> None:
    collection = collection_of(seed, images=50, texts=300, dimension=33)
    random = np.random.default_rng(seed)
    image_order, text_order = random.permutation(50), random.permutation(300)
    moved = Collection(
        images=collection.images[image_order],
        texts=collection.texts[text_order],
        image_of_text=np.argsort(image_order)[collection.image_of_text[text_order]],
        pool_of_image=collection.pool_of_image[image_order],
        pools=2,
    )
    found, there = count_competitors(collection), count_competitors(moved, Tiling(7, 11))
    by_image, by_text = found.of_images[image_order], found.of_texts[text_order]
    assert same(there, Competitors(by_image, by_text, found.is_query[image_order]))


def test_one_sample_has_no_competitors() -> None:
    rows = unit_rows([[1.0, 2.0]], "rows")
    one = Collection(rows, rows[[0, 0]], np.array([0, 0]), np.array([0]))
    found = count_competitors(one)
    assert found.of_images.tolist() == [[0]]
    assert found.of_texts.tolist() == [[0], [0]]


def test_pair_similarities_equal_the_exact_dot_product(subtests: pytest.Subtests) -> None:
    for dimension in (1, 2, 3, 4, 5, 127, 512):
        with subtests.test(dimension=dimension):
            random = np.random.default_rng(dimension)
            left = unit_rows(random.standard_normal((6, dimension)), "left")
            right = unit_rows(random.standard_normal((7, dimension)), "right")
            left_at, right_at = np.divmod(np.arange(42).reshape(6, 7), 7)
            found = pair_similarities(left, right, left_at, right_at)
            literal = [[similarity(a, b) for b in right] for a in left]
            assert found == pytest.approx(np.array(literal), abs=1e-15)
            assert np.abs(left @ right.T - literal).max() < rounding_bound(dimension)
