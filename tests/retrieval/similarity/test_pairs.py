"""Verdicts of hash and embedding evidence on pairs, and recall of planted variants."""

import tracemalloc
from collections.abc import Mapping
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest

from loupe.retrieval.similarity import near_duplicates as module
from loupe.retrieval.similarity.near_duplicates import fingerprint, near_duplicate_pairs
from loupe.schemas.records import Rejection
from loupe.schemas.similarity import ImageFingerprint, NearDuplicateSettings, Sameness
from tests.requirements import unavailable
from tests.retrieval.similarity.pictures import VARIANTS, encoded, street

PHOTOGRAPHS = Path(__file__).parents[4] / "shared" / "data" / "near_duplicates"
SETTINGS = NearDuplicateSettings()
ORIGINALS, PLANTED = 120, 12


def fingerprints(images: Mapping[str, bytes]) -> dict[str, ImageFingerprint]:
    found = {name: fingerprint(data, name) for name, data in images.items()}
    return {name: one for name, one in found.items() if isinstance(one, ImageFingerprint)}


def test_planted_variants_are_found_with_high_precision_and_recall() -> None:
    images = {f"{number}": encoded(street(number)) for number in range(ORIGINALS)}
    random = np.random.default_rng(0)
    for kind, vary in VARIANTS.items():
        for number in random.choice(ORIGINALS, PLANTED, replace=False):
            images[f"{number} {kind}"] = vary(street(int(number)))
    pairs = near_duplicate_pairs(fingerprints(images), SETTINGS)
    same = {(one.first, one.second) for one in pairs if one.sameness is Sameness.SAME}
    right = {pair for pair in same if pair[0].split()[0] == pair[1].split()[0]}
    assert len(right) >= 0.99 * len(same)
    for kind in VARIANTS:
        wanted = {(name.split()[0], name) for name in images if name.endswith(kind)}
        assert len(wanted & same) >= 0.98 * PLANTED, kind


def test_mirror_images_are_marked_and_can_be_ignored() -> None:
    images = {"a": encoded(street(0)), "b": VARIANTS["mirrored"](street(0))}
    (pair,) = near_duplicate_pairs(fingerprints(images), SETTINGS)
    assert (pair.mirrored, pair.sameness) == (True, Sameness.SAME)
    assert not near_duplicate_pairs(fingerprints(images), NearDuplicateSettings(mirrored=False))


def test_duplicates_among_known_photographs() -> None:
    if not PHOTOGRAPHS.is_dir():
        unavailable(f"{PHOTOGRAPHS} is not there")
    images = {path.stem: path.read_bytes() for path in sorted(PHOTOGRAPHS.glob("*.jpg"))}
    broken = fingerprint(images["ukbench09268_corrupt"], "ukbench09268_corrupt.jpg")
    assert isinstance(broken, Rejection)
    assert broken.reason == "undecodable_image"
    pairs = near_duplicate_pairs(fingerprints(images), SETTINGS)
    same = {(one.first, one.second): one.mirrored for one in pairs if one.sameness == "same"}
    assert same == {
        ("ukbench00120", "ukbench00120_hflip"): True,
        ("ukbench00120", "ukbench00120_resize"): False,
        ("ukbench00120_hflip", "ukbench00120_resize"): True,
    }


def with_spectrum(number: int, distance: float = 0.0) -> ImageFingerprint:
    """A fingerprint whose spectrum has this distance to the first axis."""
    spectrum = np.zeros(255)
    spectrum[0], spectrum[number] = 1 - distance, np.sqrt(1 - (1 - distance) ** 2)
    return ImageFingerprint(
        sha256=f"{number:064x}",
        width_px=100,
        height_px=100,
        perceptual_hash="0" * 16,
        mirrored_hash="f" * 16,
        spectrum=np.rint(127 * spectrum).astype(np.int8).tobytes().hex(),
    )


def at_distance(distance: float) -> list[float]:
    return [1 - distance, float(np.sqrt(1 - (1 - distance) ** 2))]


HASH_EVIDENCE = {"same": 0.0, "unclear": 0.035, "different": 0.5}
EMBEDDING_EVIDENCE = {"same": 0.01, "unclear": 0.05, "different": 0.5, "none": None}
VERDICTS = {
    ("same", "same"): "same",
    ("same", "unclear"): "same",
    ("same", "different"): "doubtful",
    ("same", "none"): "same",
    ("unclear", "same"): "same",
    ("unclear", "unclear"): "doubtful",
    ("unclear", "different"): None,
    ("unclear", "none"): "doubtful",
    ("different", "same"): "doubtful",
    ("different", "unclear"): None,
    ("different", "different"): None,
    ("different", "none"): None,
}


def test_contradicting_evidence_is_doubtful_or_ignored(subtests: pytest.Subtests) -> None:
    for hash_evidence, embedding_evidence in list(product(HASH_EVIDENCE, EMBEDDING_EVIDENCE)):
        with subtests.test(look=hash_evidence, feeling=embedding_evidence):
            images = {"a": with_spectrum(1), "b": with_spectrum(2, HASH_EVIDENCE[hash_evidence])}
            images["a"] = images["a"].model_copy(update={"spectrum": with_spectrum(2).spectrum})
            distance = EMBEDDING_EVIDENCE[embedding_evidence]
            vectors = None if distance is None else np.array([[1.0, 0.0], at_distance(distance)])
            pairs = near_duplicate_pairs(images, SETTINGS, vectors)
            assert [str(one.sameness) for one in pairs] == [
                VERDICTS[hash_evidence, embedding_evidence]
            ][: len(pairs)]
            assert bool(pairs) == (VERDICTS[hash_evidence, embedding_evidence] is not None)


def test_the_order_of_images_changes_only_the_order_of_pairs() -> None:
    images = {
        f"{number} {kind}": vary(street(number))
        for number in range(3)
        for kind, vary in VARIANTS.items()
    }
    fingerprinted = fingerprints(images)
    found = {
        frozenset((one.first, one.second)) for one in near_duplicate_pairs(fingerprinted, SETTINGS)
    }
    backwards = near_duplicate_pairs(dict(reversed(fingerprinted.items())), SETTINGS)
    assert found == {frozenset((one.first, one.second)) for one in backwards}
    within = (frozenset(pair) for pair in combinations(images, 2) if pair[0][0] == pair[1][0])
    assert found == set(within)


def test_embeddings_in_a_file_give_the_same_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    images = {str(number): with_spectrum(1 + number, 0.5) for number in range(50)}
    images["copy"] = images["3"]
    random = np.random.default_rng(0)
    vectors = random.normal(size=(51, 8))
    vectors[40:] = vectors[:11] + random.normal(0, 0.01, (11, 8))
    in_memory = near_duplicate_pairs(images, SETTINGS, vectors)
    monkeypatch.setattr(module, "EXACT_UP_TO", 0)
    monkeypatch.setattr(module, "_AT_ONCE", 7)
    in_file = near_duplicate_pairs(images, SETTINGS, vectors)
    assert len(in_memory) > 10
    assert list(in_memory) == list(in_file)


def test_many_pairs_are_stored_without_python_objects() -> None:
    count = 1000
    one = with_spectrum(1)
    images = {str(n): one.model_copy(update={"sha256": f"{n:064x}"}) for n in range(count)}
    tracemalloc.start()
    found = near_duplicate_pairs(images, SETTINGS)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found) == count * (count - 1) // 2
    assert found[-1].second == "999"
    assert peak < 200 * len(found), "bytes"
