"""Nearest pairs against slow literal references, and on photographs of known duplicates."""

import io
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from loupe.retrieval.similarity import distances
from loupe.retrieval.similarity.distances import (
    ComparedImage,
    EmbeddingMeasure,
    HashMeasure,
    near_duplicates,
    nearest_pairs,
    perceptual_hash,
)
from loupe.schemas.similarity import LeakLimits
from tests.requirements import unavailable

PHOTOGRAPHS = Path(__file__).parents[4] / "shared" / "data" / "near_duplicates"
hashes = st.lists(
    st.integers(0, 2**64 - 1) | st.integers(0, 63).map(lambda bit: 1 << bit), max_size=12
)


def bits(first: int, second: int) -> int:
    return (first ^ second).bit_count()


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every test with small blocks, whose size must not matter."""
    monkeypatch.setattr(distances, "_BLOCK_CELLS", 7)


@given(hashes, hashes, st.integers(0, 64), st.integers(1, 6))
def test_the_nearest_hash_pairs_equal_a_full_sort(
    first: list[int], second: list[int], limit: int, count: int
) -> None:
    found = nearest_pairs(
        np.array(first, np.uint64), np.array(second, np.uint64), HashMeasure(limit), count
    )
    pairs = [(bits(a, b), i, j) for i, a in enumerate(first) for j, b in enumerate(second)]
    assert found.nearest == sorted(pairs)[:count]
    assert found.within == sum(distance <= limit for distance, _, _ in pairs)


@given(st.integers(0, 2**32), st.integers(1, 6), st.sampled_from([1e-7, 0.02, 0.3]))
def test_the_nearest_embeddings_equal_a_float64_reference(
    seed: int, count: int, noise: float
) -> None:
    random = np.random.default_rng(seed)
    first = np.repeat(random.normal(size=(3, 16)), 4, axis=0)
    second = (first[::2] + random.normal(0, noise, (6, 16))).astype(np.float32)
    exact = np.empty((len(first), len(second)))
    for i, j in np.ndindex(exact.shape):
        one, other = first[i], second[j].astype(np.float64)
        cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
        exact[i, j] = max(round(1 - cosine, 6), 0)
    limit = float(np.median(exact))
    found = nearest_pairs(first, second, EmbeddingMeasure("model@1", limit, 16), count)
    assert found.within == np.count_nonzero(exact <= limit)
    pairs = sorted((distance, i, j) for (i, j), distance in np.ndenumerate(exact))[:count]
    assert found.nearest == pairs


def encoded(picture: Image.Image, **options: object) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", **options)
    return buffer.getvalue()


def test_only_resized_and_reencoded_photographs_are_near_duplicates() -> None:
    if not PHOTOGRAPHS.is_dir():
        unavailable(f"{PHOTOGRAPHS} is not there")
    data = {path.stem: path.read_bytes() for path in sorted(PHOTOGRAPHS.glob("*.jpg"))}
    data.pop("ukbench09268_corrupt")
    original = Image.open(io.BytesIO(data["ukbench00120"]))
    data["half"] = encoded(original.resize((original.width // 2, original.height // 2)))
    data["worse"] = encoded(original, quality=40)
    images = [ComparedImage(name, name, name, perceptual_hash(one)) for name, one in data.items()]
    pairs = {frozenset((a.name, b.name)) for a, b in near_duplicates(images, LeakLimits())}
    alike = ("ukbench00120", "ukbench00120_resize", "half", "worse")
    assert pairs == {frozenset(pair) for pair in combinations(alike, 2)}


def test_hashing_bytes_that_are_no_image_raises_an_error() -> None:
    with pytest.raises(OSError, match="cannot identify image file"):
        perceptual_hash(b"no image")
