import numpy as np

from flows.ccd.image_choice import anchor_duplicates
from retrieval.similarity.near_duplicates import fingerprint
from schemas.near_duplicates import ImageFingerprint, NearDuplicateSettings
from tests.retrieval.similarity.pictures import VARIANTS, encoded, street

SETTINGS = NearDuplicateSettings()


def look(data: bytes) -> ImageFingerprint:
    found = fingerprint(data, "picture")
    assert isinstance(found, ImageFingerprint)
    return found


ANCHOR = look(encoded(street(1)))
COPIES = [ANCHOR, *(look(variant(street(1))) for variant in VARIANTS.values())]
OTHERS = [look(encoded(street(seed))) for seed in range(2, 8)]


def test_the_anchor_saved_again_is_found_among_the_results() -> None:
    flags = anchor_duplicates(ANCHOR, [*OTHERS, *COPIES], SETTINGS)
    assert flags == [False] * len(OTHERS) + [True] * len(COPIES)


def test_equal_results_are_each_listed() -> None:
    assert anchor_duplicates(ANCHOR, [COPIES[1], COPIES[1], OTHERS[0]], SETTINGS) == [
        True,
        True,
        False,
    ]
    assert anchor_duplicates(ANCHOR, [], SETTINGS) == []


def test_an_embedding_that_says_the_same_of_pictures_that_look_different_is_believed() -> None:
    anchor = np.array([1.0, 0.0])
    vectors = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert anchor_duplicates(ANCHOR, OTHERS[:2], SETTINGS, (anchor, vectors)) == [True, False]
