"""Which results are the anchor again, where the look of some is not known."""

import numpy as np

from flows.ccd.image_choice import are_again
from retrieval.similarity.near_duplicates import fingerprint
from schemas.near_duplicates import ImageFingerprint, NearDuplicateSettings
from schemas.records import Rejection
from tests.retrieval.similarity.pictures import encoded, street

SETTINGS = NearDuplicateSettings()
UNKNOWN = Rejection(stage="fingerprint", reason="not_an_image", detail="nothing is known of it")
VECTORS = np.eye(4, dtype=np.float32)  # nothing is said by them


def look(seed: int) -> ImageFingerprint | Rejection:
    return fingerprint(encoded(street(seed)), "picture")


def test_a_result_of_unknown_look_keeps_no_other_from_being_judged() -> None:
    same = np.repeat(VECTORS[:1], 4, axis=0)
    assert are_again([look(1), UNKNOWN, look(1), look(2)], same, SETTINGS)[:2] == [False, True]
    assert are_again([look(1), look(2), UNKNOWN, look(1)], VECTORS, SETTINGS) == [
        False,
        False,
        True,
    ]


def test_of_an_anchor_of_unknown_look_similarity_alone_tells() -> None:
    assert are_again([UNKNOWN, look(1), look(1), look(2)], VECTORS, SETTINGS) == [False] * 3
    assert are_again([look(1), UNKNOWN, UNKNOWN, UNKNOWN], VECTORS, SETTINGS) == [False] * 3
    assert are_again([look(1)], VECTORS[:1], SETTINGS) == []
