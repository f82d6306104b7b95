"""The nearest images: against a literal reference, and as the command and the API give them."""

import json
from pathlib import Path

import numpy as np
import pytest

from loupe.api.similarity import similar
from loupe.db.entities import fetch
from loupe.flows.engine.embedding import CachedEmbedder, stored_image
from loupe.flows.exploring.similar import similar_images
from loupe.flows.exploring.vectors import nearest, neighbours
from loupe.models.profiles.loader import load_profile
from loupe.schemas.embedding import BuiltinEmbedder
from loupe.schemas.errors import UsageError
from tests.flows.command_line import Loupe
from tests.flows.exploring.conftest import DATASET, People


def test_neighbours_are_those_of_a_literal_search() -> None:
    generator = np.random.default_rng(3)
    rows = generator.normal(size=(60, 8)).astype(np.float32)
    rows[7] = rows[40] + 0.001
    rows[50] = rows[7] + 0.001
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    found = neighbours(rows, limit=0.001)
    distances = 1 - rows @ rows.T
    np.fill_diagonal(distances, np.inf)
    np.testing.assert_allclose(found.distances, distances.min(axis=1), atol=1e-5)
    wanted = np.full(60, -1)
    wanted[[7, 40, 50]] = 7
    np.testing.assert_array_equal(found.groups, wanted)


@pytest.mark.slow
def test_an_index_finds_nearly_all_neighbours() -> None:
    generator = np.random.default_rng(5)
    centres = generator.normal(size=(200, 32))
    rows = centres[generator.integers(200, size=25_000)] + generator.normal(
        scale=0.3, size=(25_000, 32)
    )
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    sample = rows[:200]
    _, places = nearest(rows, sample, 2)
    cosines = sample @ rows.T
    cosines[np.arange(200), np.arange(200)] = -1
    right = places[:, 1] == cosines.argmax(axis=1)
    assert right.mean() > 0.9


def test_an_image_finds_itself_and_texts_find_images(people: People) -> None:
    people.build("1.0.0")
    people.embed()
    store, profile = people.run.store, load_profile("builtin")
    first = people.items.ids()[0]
    found = similar_images(store, profile, first, [DATASET], 3)
    assert found[0].similarity == 1.0
    assert first in {one.id for one in found if one.similarity == 1.0}
    assert [one.similarity for one in found] == sorted(
        (one.similarity for one in found), reverse=True
    )
    text = "A woman in a red jacket"
    embedder = CachedEmbedder(store, BuiltinEmbedder())
    images = fetch(store, people.items.ids()).values()
    rows = embedder.embed_images([stored_image(people.run.blobs, one) for one in images])
    cosines = sorted((rows @ embedder.embed_texts([text])[0]).tolist(), reverse=True)
    by_text = similar_images(store, profile, text, [DATASET], 6)
    assert [one.similarity for one in by_text] == pytest.approx(cosines, abs=1e-4)
    hosted = load_profile("hosted")
    with pytest.raises(UsageError, match="by builtin loupe-colour-lexicon@1: choose a profile"):
        similar_images(store, hosted, text, [DATASET], 6)
    with pytest.raises(UsageError, match="did you mean people"):
        similar_images(store, profile, text, ["peple"], 6)


def test_the_command_takes_a_file_and_the_api_gives_the_same(
    people: People, loupe: Loupe, tmp_path: Path
) -> None:
    people.build("1.0.0")
    with pytest.raises(UsageError, match="has no vectors of images"):
        similar("a red bag", datasets=[DATASET])
    people.embed()
    first = people.items.ids()[0]
    file = tmp_path / "query.jpg"
    file.write_bytes(people.items.image(first)[0])
    shown = loupe(
        "similar", file, "--dataset", DATASET, "--count", "2", "--profile", "builtin", "--json"
    )
    found = json.loads(shown.out)
    assert found[0]["similarity"] == 1.0
    for query in (file, str(file)):
        assert [one.id for one in similar(query, datasets=[DATASET], count=2)] == [
            one["id"] for one in found
        ]
    everywhere = [one.sha256 for one in similar("a red bag", count=50)]
    assert len(everywhere) == len(set(everywhere))
    for missing in ("nonexist.jpg", "photos/nonexist", tmp_path / "none"):
        with pytest.raises(UsageError, match="there is no image"):
            similar(missing)
    for text in ("a black/white jacket", "a red bag and " * 40):
        assert similar(text, count=1)
