"""Splits: connected identities share a split, and adding videos moves no identity."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loupe.flows.ufine6926.identities import AssignedSplits, assign_splits
from loupe.retrieval.similarity.distances import ComparedImage
from loupe.schemas.base import Split
from loupe.schemas.similarity import LeakLimits, SplitSettings

BUSY_MACHINE = settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow]
)

FAR_APART = LeakLimits(hash_bits=0)


def image(
    identity: str, video: str, content: int, embedding: Sequence[float] | None = None
) -> ComparedImage:
    """Return an image whose perceptual hash is `content`."""
    return ComparedImage(
        name=f"{identity} in {video}: {content}",
        identity=identity,
        sha256=f"{identity} {video} {content}",
        perceptual_hash=content,
        video_sha256=video,
        embedding=None if embedding is None else np.array(embedding),
        embedder="model@1" if embedding is not None else "",
    )


def split(
    images: Sequence[ComparedImage],
    share: float = 0.3,
    seed: int = 0,
    taken: Mapping[str, Split] | None = None,
    limits: LeakLimits = FAR_APART,
) -> AssignedSplits:
    settings = SplitSettings(test_share=share, seed=seed, limits=limits)
    return assign_splits(images, settings, taken or {})


worlds = st.lists(
    st.builds(
        image,
        st.integers(0, 30).map("person {}".format),
        st.integers(0, 12).map("video {}".format),
        st.integers(0, 200),
    ),
    max_size=60,
)


def components(images: Sequence[ComparedImage]) -> list[set[str]]:
    """Return the connected identities, by a slow reference."""
    found = [{one.identity} for one in images]
    marks: dict[object, set[str]] = defaultdict(set)
    for one in images:
        marks["video", one.video_sha256].add(one.identity)
        marks["content", one.perceptual_hash].add(one.identity)
    for together in marks.values():
        touched = [component for component in found if component & together]
        found = [component for component in found if not component & together]
        found.append(set().union(*touched))
    return found


@BUSY_MACHINE
@given(worlds, st.floats(0, 1), st.integers(0, 5))
def test_every_component_is_in_one_split(
    images: list[ComparedImage], share: float, seed: int
) -> None:
    found = split(images, share, seed)
    assert not found.rejections
    assert set(found.splits) == {one.identity for one in images}
    for component in components(images):
        assert len({found.splits[identity] for identity in component}) == 1


@BUSY_MACHINE
@given(worlds, st.floats(0, 1), st.integers(0, 5))
def test_the_test_share_is_within_half_a_component_of_the_requested_one(
    images: list[ComparedImage], share: float, seed: int
) -> None:
    splits = split(images, share, seed).splits
    in_test = sum(one == "test" for one in splits.values())
    largest = max(map(len, components(images)), default=0)
    assert abs(in_test - share * len(splits)) <= largest / 2 + 1e-9


@BUSY_MACHINE
@given(st.lists(st.integers(1, 6), min_size=1, max_size=8), st.floats(0, 1), st.integers(0, 5))
def test_no_choice_of_videos_is_nearer_to_the_wanted_share(
    people: list[int], share: float, seed: int
) -> None:
    images = [
        image(f"{video} {person}", f"video {video}", 1000 * video + person)
        for video, most in enumerate(people)
        for person in range(most)
    ]
    splits = split(images, share, seed, limits=LeakLimits(hash_bits=0)).splits
    wanted = share * sum(people)
    choices = chain.from_iterable(combinations(people, n) for n in range(len(people) + 1))
    best = min(abs(sum(chosen) - wanted) for chosen in choices)
    assert abs(list(splits.values()).count("test") - wanted) == pytest.approx(best)


@BUSY_MACHINE
@given(worlds, worlds, st.integers(0, 5))
def test_identities_keep_their_split_when_videos_are_added(
    before: list[ComparedImage], added: list[ComparedImage], seed: int
) -> None:
    added = [one._replace(identity=f"new {one.identity}") for one in added]
    first = split(before, seed=seed)
    by_identity = {one.identity: one.video_sha256 for one in before}
    videos = {str(video): first.splits[name] for name, video in by_identity.items()}
    second = split([*before, *added], seed=seed, taken={**first.splits, **videos})
    assert {name: second.splits[name] for name in first.splits} == first.splits
    everyone = {one.identity for one in (*before, *added)}
    assert set(second.splits) | set(second.rejections) == everyone
    assert not set(second.splits) & set(second.rejections)
    kept = [one for one in (*before, *added) if one.identity not in second.rejections]
    for component in components(kept):
        assert len({second.splits[identity] for identity in component}) == 1


def test_a_re_encoded_video_is_in_the_split_of_the_original() -> None:
    """The videos have different digests and near-duplicate images."""
    for number in range(20):
        images = [
            image("a", "street.mp4", 0b1111 << 20),
            image("b", "street-again.avi", 0b1110 << 20),
            *(image(f"p{other}", f"v{other}", 1 << (30 + other)) for other in range(20)),
        ]
        splits = split(images, 0.5, number, limits=LeakLimits(hash_bits=1)).splits
        assert splits["a"] == splits["b"]


def test_near_embeddings_connect_identities_only_within_a_model() -> None:
    images = [
        image("a", "v1", 1 << 40, (1, 0, 0)),
        image("b", "v2", 1 << 20, (0.999, 0.02, 0)),
        image("c", "v3", 1 << 10, (0.5, 0.8, 0)),
    ]
    other = images[2]._replace(embedding=np.array((1.0, 0, 0)), embedder="model@2")
    for seed in range(10):
        splits = split([*images[:2], other], 0.5, seed).splits
        assert splits["a"] == splits["b"]
    assert len({split([images[0], other], 0.5, seed).splits["c"] for seed in range(10)}) == 2


def test_a_new_identity_connected_to_both_splits_is_rejected() -> None:
    images = [image("a", "v1", 1), image("b", "v2", 2 << 20), image("c", "v1", 3 << 30)]
    images.append(image("c", "v2", 4 << 40))
    found = split(images, taken={"a": "train", "v1": "train", "b": "test", "v2": "test"})
    assert found.splits == {"a": "train", "b": "test"}
    rejection = found.rejections["c"]
    assert (rejection.stage, rejection.reason) == ("assign_splits", "would_leak")
    assert "b (test) and a (train)" in rejection.detail
    assert set(rejection.context["touches"]) == {"a", "b", "v1", "v2"}


def test_images_that_connect_existing_splits_are_removed_from_train() -> None:
    images = [
        image("a", "v1", 1),
        image("a", "v2", 1 << 50),
        image("b", "v2", 2 << 20),
        image("c", "v3", 3 << 30),
        image("d", "v4", 0b111 << 30),
        image("d", "v4", 5 << 40),
    ]
    taken: dict[str, Split] = {"a": "train", "b": "test", "c": "test", "d": "train"}
    found = split(images, taken=taken, limits=LeakLimits(hash_bits=1))
    assert found.splits == taken
    assert not found.rejections
    assert {name: other for (_, name), (_, other) in found.tied.items()} == {
        images[1].name: images[2].name,
        images[4].name: images[3].name,
    }
    left = [one for one in images if (one.identity, one.name) not in found.tied]
    again = split(left, taken=taken, limits=LeakLimits(hash_bits=1))
    assert not again.tied


@BUSY_MACHINE
@given(worlds, st.integers(0, 5), st.randoms(use_true_random=False))
def test_without_the_removed_images_no_component_is_in_both_splits(
    images: list[ComparedImage], seed: int, chance: object
) -> None:
    names = {one.identity for one in images}
    taken: dict[str, Split] = {
        name: "test" if (int(name.split()[1]) + seed) % 2 else "train" for name in names
    }
    found = split(images, taken=taken)
    left = [one for one in images if (one.identity, one.name) not in found.tied]
    for component in components(left):
        assert len({found.splits[name] for name in component}) == 1
    assert {found.splits[identity] for identity, _ in found.tied} <= {"train"}
    chance.shuffle(images)  # type: ignore[attr-defined]
    assert split(images, taken=taken) == found
