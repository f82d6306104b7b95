from collections import Counter
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loupe.retrieval.cfam.network.pairs import BatchSequence, IdentityBatches, Shard
from loupe.retrieval.cfam.training_data import TrainingPair
from loupe.schemas.errors import UsageError


def pairs_of(images: list[int], captions: int = 2) -> list[TrainingPair]:
    """Training pairs of one identity for each number in `images`, with that many images."""
    owners = [identity for identity, count in enumerate(images) for _ in range(count)]
    return [
        TrainingPair(Path(f"{image}.jpg"), f"{caption}", image, identity)
        for image, identity in enumerate(owners)
        for caption in range(captions)
    ]


Images = st.lists(st.integers(1, 6), min_size=3, max_size=30)


@given(Images, st.integers(2, 12), st.integers(0, 99), st.integers(0, 5))
def test_an_epoch_consists_of_full_batches_of_distinct_pairs(
    images: list[int], size: int, seed: int, number: int
) -> None:
    pairs = pairs_of(images)
    size = min(size, len(pairs))
    batches = IdentityBatches(pairs, size, seed=seed).epoch(number)
    assert len(batches) == len(pairs) // size
    assert {len(batch) for batch in batches} == {size}
    used = [place for batch in batches for place in batch]
    assert len(set(used)) == len(used)


@given(Images, st.integers(2, 12), st.integers(1, 3), st.integers(0, 99))
def test_an_identity_is_repeated_in_a_batch_only_if_unavoidable(
    images: list[int], portions: int, portion: int, seed: int
) -> None:
    pairs = pairs_of(images)
    size = min(portions * portion, len(pairs) // portion * portion)
    sampler = IdentityBatches(pairs, size, portion, seed)
    batches = sampler.epoch(0)
    of_identity = Counter(pairs[place].identity for batch in batches for place in batch)
    for batch in batches:
        for identity, count in Counter(pairs[place].identity for place in batch).items():
            dealt = of_identity[identity] // portion
            assert count <= portion * -(-dealt // len(batches))


@given(Images, st.integers(2, 4), st.integers(0, 99))
def test_portions_contain_different_images_if_possible(
    images: list[int], portion: int, seed: int
) -> None:
    pairs = pairs_of(images)
    sampler = IdentityBatches(pairs, portion, portion, seed)
    for batch in sampler.epoch(0):
        identities = {pairs[place].identity for place in batch}
        assert len(identities) == 1
        wanted = min(portion, images[identities.pop()])
        shown = len({pairs[place].image for place in batch})
        # a portion may span the end of the round over the images of an identity
        assert shown >= min(wanted, -(-portion // 2))


def test_batches_depend_only_on_seed_and_epoch() -> None:
    pairs = pairs_of([3] * 20)
    epochs = [IdentityBatches(pairs, 8, seed=seed).epoch(n) for seed in (0, 1) for n in (0, 1)]
    assert len({tuple(epoch) for epoch in epochs}) == 4
    assert IdentityBatches(pairs, 8, seed=1).epoch(1) == epochs[3]


def test_a_training_can_resume_at_any_batch() -> None:
    batches = IdentityBatches(pairs_of([2] * 9), 5, seed=3)
    assert batches.batches_per_epoch == 7
    whole = list(BatchSequence(batches, per_epoch=6, epochs=3))
    assert whole == [
        [(epoch, place) for place in batch]
        for epoch in range(3)
        for batch in batches.epoch(epoch)[:6]
    ]
    for done in range(len(whole)):
        assert list(BatchSequence(batches, 6, epochs=3, first=done)) == whole[done:]


def test_the_shards_of_all_processes_form_the_batch() -> None:
    batches = IdentityBatches(pairs_of([3] * 8), 8)
    parts = [
        list(BatchSequence(batches, 6, epochs=2, shard=Shard(process, 4))) for process in range(4)
    ]
    joined = [list(chain.from_iterable(step)) for step in zip(*parts, strict=True)]
    assert joined == list(BatchSequence(batches, 6, epochs=2))


def test_all_pairs_occur_over_several_epochs() -> None:
    pairs = pairs_of([1, 4, 2, 5, 3])
    sampler = IdentityBatches(pairs, 7)
    seen = {place for number in range(12) for batch in sampler.epoch(number) for place in batch}
    assert seen == set(range(len(pairs)))


def test_impossible_batch_sizes_are_refused() -> None:
    with pytest.raises(UsageError, match="6 pairs to train on, and one batch wants 8"):
        IdentityBatches(pairs_of([1, 2]), 8)
    with pytest.raises(UsageError, match="multiple of images_per_identity"):
        IdentityBatches(pairs_of([4, 4]), 8, images_per_identity=3)
