"""Choosing the most similar search result that is not a copy of the anchor."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loupe.flows.ccd.image_choice import (
    CandidateVectors,
    Choice,
    are_again,
    choose_candidate,
    fit_warnings,
    similarities_to,
)
from loupe.models.embedding import Vectors
from loupe.retrieval.similarity.near_duplicates import fingerprint
from loupe.schemas.profile import ChoiceSettings
from loupe.schemas.records import Rejection
from loupe.schemas.similarity import ImageFingerprint, NearDuplicateSettings
from tests.retrieval.similarity.pictures import VARIANTS, encoded, street

SETTINGS = ChoiceSettings(first=5, floor=0.3, ceiling=0.95)
ANCHOR = np.array([1.0, 0.0])


def results(*similarities: float) -> CandidateVectors:
    """Vectors of different lengths with these cosines to the anchor."""
    lengths = np.linspace(0.5, 3, len(similarities))
    cosines = np.array(similarities)
    directions = np.column_stack((cosines, np.sqrt(1 - cosines**2)))
    return np.asarray(lengths[:, None] * directions)


def choose(
    similarities: Sequence[float],
    near_duplicates: Sequence[bool] = (),
    settings: ChoiceSettings = SETTINGS,
) -> Choice | Rejection:
    flags = near_duplicates or [False] * len(similarities)
    return choose_candidate(ANCHOR, results(*similarities), flags, settings)


def chosen(*arguments: object) -> int:
    found = choose(*arguments)  # type: ignore[arg-type]
    assert isinstance(found, Choice), found
    assert found.considered[found.place].verdict == "chosen"
    assert found.considered[found.place].similarity == found.similarity
    return found.place


def test_the_bounds_are_inclusive() -> None:
    assert chosen([0.95, 0.5]) == 0
    assert chosen([0.3]) == 0


def test_ties_are_resolved_in_favour_of_the_first_result() -> None:
    assert chosen([0.4, 0.7, 0.7, 0.7]) == 1


def test_the_verdict_on_each_result_is_listed() -> None:
    found = choose([0.1, 0.99, 0.6, 0.8, 0.7], [False, False, True, False, False])
    assert isinstance(found, Choice)
    assert [one.verdict for one in found.considered] == [
        "too_different",
        "too_similar",
        "near_duplicate",
        "chosen",
        "less_similar",
    ]


def test_the_rejection_counts_the_reasons_if_no_result_fits() -> None:
    cases: list[tuple[list[float], list[bool], str, str]] = [
        ([], [], "no_results", "the search returned no image to choose from"),
        (
            [0.99, 0.7],
            [False, True],
            "too_similar",
            (
                "none of 2 results can be the candidate: 1 the anchor again (a near-duplicate), "
                "1 more similar to it than 0.95"
            ),
        ),
        (
            [0.1, 0.25, 0.7],
            [False, False, True],
            "too_different",
            (
                "none of 3 results can be the candidate: 1 the anchor again (a near-duplicate), "
                "2 less similar than 0.3; the most similar of these has 0.250"
            ),
        ),
    ]
    for similarities, flags, reason, detail in cases:
        found = choose(similarities, flags)
        assert isinstance(found, Rejection), reason
        assert (found.stage, found.reason, found.detail) == ("choose_candidates", reason, detail)
        assert (found.context["floor"], found.context["ceiling"]) == (0.3, 0.95)
        measured = [one["similarity"] for one in found.context["results"]]
        assert measured == pytest.approx(similarities)


def test_an_image_of_the_dataset_is_not_chosen_again() -> None:
    vectors = results(0.5, 0.8, 0.7)
    found = choose_candidate(ANCHOR, vectors, [False] * 3, SETTINGS, [False, True, False])
    assert isinstance(found, Choice)
    assert (found.place, found.considered[1].verdict) == (2, "already_used")
    none = choose_candidate(ANCHOR, vectors, [True, False, False], SETTINGS, [True] * 3)
    assert isinstance(none, Rejection)
    assert (none.reason, none.detail) == (
        "already_used",
        (
            "none of 3 results can be the candidate: 1 the anchor again (a near-duplicate), "
            "2 an image of the dataset already"
        ),
    )


def test_a_zero_vector_has_similarity_zero() -> None:
    assert similarities_to(ANCHOR, np.array([[0.0, 0.0], [2.0, 0.0]])) == [0.0, 1.0]
    assert similarities_to(ANCHOR, np.empty((0, 2))) == []


def test_a_result_that_fits_its_caption_much_less_than_the_anchor_is_flagged() -> None:
    assert fit_warnings(0.2, SETTINGS) == fit_warnings(-0.05, SETTINGS) == ()
    (doubt,) = fit_warnings(-0.12, SETTINGS)
    assert "less than the anchor fits its own (by 0.120)" in doubt


def test_the_floor_must_be_less_than_the_ceiling() -> None:
    with pytest.raises(ValueError, match=r"floor must be less than ceiling; got 0.9 and 0.4"):
        ChoiceSettings(floor=0.9, ceiling=0.4)


@given(
    st.lists(st.tuples(st.floats(-1, 1), st.booleans()), max_size=9),
    st.floats(-1, 0.9),
    st.floats(0.01, 0.5),
)
def test_the_choice_equals_a_literal_reference(
    found: list[tuple[float, bool]], floor: float, room: float
) -> None:
    settings = ChoiceSettings(floor=floor, ceiling=min(1.0, floor + room))
    cosines = [round(similarity, 6) for similarity, _ in found]
    flags = [flag for _, flag in found]
    measured = similarities_to(ANCHOR, results(*cosines))[:5]
    wanted = None
    for place, similarity in enumerate(measured):
        fits = settings.floor <= similarity <= settings.ceiling and not flags[place]
        if fits and (wanted is None or similarity > measured[wanted]):
            wanted = place
    outcome = choose(cosines, flags, settings)
    assert (outcome.place if isinstance(outcome, Choice) else None) == wanted


# Which results repeat the anchor.

DUPLICATES = NearDuplicateSettings()
UNKNOWN = Rejection(stage="fingerprint", reason="not_an_image", detail="nothing is known of it")
VECTORS = np.eye(20, dtype=np.float32)  # pairwise orthogonal


def fingerprint_of(data: bytes) -> ImageFingerprint:
    found = fingerprint(data, "picture")
    assert isinstance(found, ImageFingerprint)
    return found


PICTURE = fingerprint_of(encoded(street(1)))
COPIES = [PICTURE, *(fingerprint_of(variant(street(1))) for variant in VARIANTS.values())]
OTHERS = [fingerprint_of(encoded(street(seed))) for seed in range(2, 8)]


def repeats(*fingerprints: ImageFingerprint | Rejection, vectors: Vectors = VECTORS) -> list[bool]:
    return are_again(fingerprints, vectors[: len(fingerprints)], DUPLICATES)


def test_copies_of_the_anchor_are_found_among_the_results() -> None:
    flags = repeats(PICTURE, *OTHERS, *COPIES)
    assert flags == [False] * len(OTHERS) + [True] * len(COPIES)
    assert repeats(PICTURE, COPIES[1], COPIES[1], OTHERS[0]) == [True, True, False]
    assert repeats(PICTURE) == []


def test_equal_embeddings_mark_a_repeat_even_if_fingerprints_differ() -> None:
    vectors = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], np.float32)
    assert repeats(PICTURE, *OTHERS[:2], vectors=vectors) == [True, False]


def test_a_result_without_a_fingerprint_does_not_affect_the_others() -> None:
    other = OTHERS[0]
    same = np.repeat(VECTORS[:1], 4, axis=0)
    assert repeats(PICTURE, UNKNOWN, PICTURE, other, vectors=same)[:2] == [False, True]
    assert repeats(PICTURE, other, UNKNOWN, PICTURE) == [False, False, True]


def test_nothing_repeats_an_anchor_without_a_fingerprint() -> None:
    assert repeats(UNKNOWN, PICTURE, PICTURE, OTHERS[0]) == [False] * 3
    assert repeats(PICTURE, UNKNOWN, UNKNOWN, UNKNOWN) == [False] * 3
