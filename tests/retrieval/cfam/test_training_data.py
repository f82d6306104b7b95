import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loupe.retrieval.cfam.training_data import (
    TrainingImage,
    TrainingPair,
    digest_of_images,
    hold_out_identities,
    training_pairs,
)
from loupe.schemas.errors import UsageError


def images(identities: int, each: int = 2) -> list[TrainingImage]:
    return [
        TrainingImage(Path(f"{identity}-{number}.jpg"), f"p{identity}", ("a man", "in blue"))
        for identity in range(identities)
        for number in range(each)
    ]


@given(
    st.integers(4, 60),
    st.floats(0.01, 0.45),
    st.integers(0, 2**32),
    st.randoms(use_true_random=False),
)
def test_training_and_validation_share_no_identity(
    identities: int, share: float, seed: int, chance: random.Random
) -> None:
    given_images = images(identities)
    splits = hold_out_identities(given_images, share, seed)
    trained = {image.identity for image in splits.training}
    validated = {image.identity for image in splits.validation}
    assert not trained & validated
    assert sorted([*splits.training, *splits.validation]) == sorted(given_images)
    assert len(validated) == max(2, round(share * identities))
    shuffled = chance.sample(given_images, len(given_images))
    assert {one.identity for one in hold_out_identities(shuffled, share, seed).validation} == (
        validated
    )


def test_an_additional_identity_moves_at_most_one_other() -> None:
    before = {one.identity for one in hold_out_identities(images(100), 0.2, 0).validation}
    after = {one.identity for one in hold_out_identities(images(101), 0.2, 0).validation}
    assert len(before - after) <= 1


def test_too_few_identities_are_refused() -> None:
    for identities, sentence in (
        (3, "2 of 3 identities: 1 identity with captions is too few to train on"),
        (1, "1 of 1 identity: 0 identities with captions are too few to train on"),
    ):
        message = f"^validation_share = 0.1 holds out {sentence}; wanted at least 2$"
        with pytest.raises(UsageError, match=message):
            hold_out_identities(images(identities), 0.1, 0)


def test_pairs_number_images_and_identities() -> None:
    pairs = training_pairs(reversed(images(2)))
    assert [(pair.image, pair.identity) for pair in pairs] == [
        (0, 1), (0, 1), (1, 1), (1, 1), (2, 0), (2, 0), (3, 0), (3, 0)
    ]  # fmt: skip
    assert pairs[1] == TrainingPair(Path("1-1.jpg"), "in blue", 0, 1)


def test_the_digest_covers_contents_but_not_folders() -> None:
    here = images(3)
    there = [one._replace(path=Path("elsewhere") / one.path) for one in here]
    assert digest_of_images(here) == digest_of_images(there)
    changed = [here[0]._replace(captions=("a man in", "blue")), *here[1:]]
    assert digest_of_images(here) != digest_of_images(changed)
    assert digest_of_images(here) != digest_of_images(here[::-1])
