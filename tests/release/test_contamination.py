"""Contamination of a release equals a search of all pairs and finds planted copies."""

import os
import random
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loupe.release import contamination as module
from loupe.release.contamination import (
    SHOWN,
    OwnImages,
    SeenImage,
    SeenVideo,
    compare,
    look_at,
)
from loupe.release.other_datasets import folder_of_images
from loupe.schemas.errors import UsageError
from loupe.schemas.similarity import Contamination, ContaminationLimits, SharedMeasure
from tests.release.others import VARIANTS, collection, jpeg, scene
from tests.requirements import unavailable

PHOTOGRAPHS = Path(__file__).parents[3] / "shared" / "data"
BUSY_MACHINE = settings(
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def plain_words(text: str) -> str:
    return " ".join(text.split()).casefold()


digests = st.sampled_from("0123456789").map(lambda digit: digit * 64)
identities = st.tuples(st.sampled_from("ab"), st.sampled_from("12345")) | st.none()
texts = st.lists(st.sampled_from(["A man", "a  MAN", "a dog", "two\tdogs"]), max_size=2)


def seen_images(split: bool) -> st.SearchStrategy[list[SeenImage]]:
    one = st.builds(
        SeenImage,
        name=st.uuids().map(str),
        sha256=digests,
        look=st.integers(0, 1023) | st.none(),
        split=st.sampled_from(["train", "test"]) if split else st.none(),
        identity=identities,
        video_sha256=(digests | st.none()) if split else st.none(),
        captions=texts.map(tuple),
    )
    return st.lists(one, max_size=8)


def measure(found: Contamination, name: str) -> SharedMeasure:
    return next(one for one in found.measures if one.measure == name)


def leaks(found: Contamination, name: str) -> int:
    return measure(found, name).leaks if name in {one.measure for one in found.measures} else 0


@BUSY_MACHINE
@given(
    seen_images(split=True),
    seen_images(split=False),
    st.lists(digests, max_size=3),
    st.integers(0, 10),
)
def test_every_measure_equals_a_search_of_all_pairs(
    ours: list[SeenImage], theirs: list[SeenImage], videos: list[str], limit: int
) -> None:
    seen = [SeenVideo(f"{place}.mp4", digest) for place, digest in enumerate(videos)]
    found = compare(
        OwnImages(ours), collection([*theirs, *seen]), ContaminationLimits(hash_bits=limit)
    )
    assert leaks(found, "file") == sum(a.sha256 in {b.sha256 for b in theirs} for a in ours)
    assert leaks(found, "video") == sum(a.video_sha256 in videos for a in ours)
    named = {b.identity for b in theirs}
    assert leaks(found, "identity") == sum(a.identity in named for a in ours if a.identity)
    if "caption" in {one.measure for one in found.measures}:
        values = [pair.value for pair in measure(found, "caption").nearest]
        assert all(re.fullmatch("[0-9a-f]{32}", value) for value in values), "no words"
    known_captions = {plain_words(text) for b in theirs for text in b.captions}
    assert leaks(found, "caption") == sum(
        plain_words(text) in known_captions for a in ours for text in a.captions
    )
    near = {
        a.name: min(
            ((a.look ^ b.look).bit_count(), b.name, f"{b.look:016x}")
            for b in theirs
            if b.look is not None
        )
        for a in ours
        if a.look is not None and any(b.look is not None for b in theirs)
    }
    by_hash = measure(found, "perceptual_hash")
    assert by_hash.leaks == sum(distance <= limit for distance, _, _ in near.values())
    for split in by_hash.splits:
        of_split = [near[a.name] for a in ours if a.split == split.split and a.name in near]
        for threshold, count in split.within:
            assert count == sum(distance <= threshold for distance, _, _ in of_split)
    wanted = sorted(near.items(), key=lambda item: item[1][0])[:SHOWN]
    assert [(one.first, (one.distance, one.second, one.value)) for one in by_hash.nearest] == wanted


@BUSY_MACHINE
@given(seen_images(split=True), seen_images(split=False), st.randoms())
def test_the_order_and_batch_size_of_the_other_collection_do_not_matter(
    monkeypatch: pytest.MonkeyPatch,
    ours: list[SeenImage],
    theirs: list[SeenImage],
    chance: random.Random,
) -> None:
    wanted = compare(OwnImages(ours), collection(theirs))
    monkeypatch.setattr(module, "_BATCH", 3)
    shuffled = chance.sample(theirs, len(theirs))
    assert compare(OwnImages(ours), collection(shuffled)) == wanted


def own(pictures: Sequence[bytes]) -> OwnImages:
    return OwnImages(
        SeenImage(f"images/{at}.jpg", look.sha256, look.perceptual_hash, "test")
        for at, look in enumerate(map(look_at, pictures), 1)
    )


@pytest.fixture(scope="module")
def scenes() -> list[bytes]:
    return [jpeg(scene(number)) for number in range(50)]


@pytest.fixture(scope="module")
def ours(scenes: list[bytes]) -> OwnImages:
    return own(scenes)


def test_planted_copies_are_found_by_their_perceptual_hash(ours: OwnImages, tmp_path: Path) -> None:
    planted = [5 * number for number in range(SHOWN)]
    pictures = {number: scene(number) for number in planted}
    for number in range(100, 110):
        (tmp_path / f"other-{number}.jpg").write_bytes(jpeg(scene(number)))
    for kind, vary in VARIANTS.items():
        for number, picture in pictures.items():
            (tmp_path / f"renamed-{number}.jpg").write_bytes(vary(picture))
        found = compare(ours, folder_of_images(tmp_path))
        by_hash = measure(found, "perceptual_hash")
        assert by_hash.leaks == len(planted), (kind, by_hash.nearest)
        assert leaks(found, "file") == (len(planted) if kind == "copy" else 0), kind
        assert {(one.first, one.second) for one in by_hash.nearest} <= {
            (f"images/{number + 1}.jpg", f"renamed-{number}.jpg") for number in planted
        }, kind


def test_unrelated_images_are_no_leaks_and_the_nearest_are_listed(
    scenes: list[bytes], ours: OwnImages, tmp_path: Path
) -> None:
    for number in range(200, 215):
        (tmp_path / f"{number}.jpg").write_bytes(jpeg(scene(number)))
    found = compare(ours, folder_of_images(tmp_path))
    assert not found.leaks
    by_hash = measure(found, "perceptual_hash")
    assert len(by_hash.nearest) == SHOWN
    assert all(one.distance > by_hash.threshold for one in by_hash.nearest)


def test_copies_of_photographs_are_found(tmp_path: Path) -> None:
    folder = PHOTOGRAPHS / "near_duplicates"
    if not folder.is_dir():
        unavailable("photographs of near-duplicates (../shared/data)")
    ours = own([(folder / "ukbench00120.jpg").read_bytes()])
    found = compare(ours, folder_of_images(folder))
    assert leaks(found, "file") == 1
    (pair,) = measure(found, "perceptual_hash").nearest
    assert (pair.second, pair.distance) == ("ukbench00120.jpg", 0)
    assert (found.unreadable, found.unreadable_files) == (1, ("ukbench09268_corrupt.jpg",))
    (tmp_path / "small.jpg").write_bytes((folder / "ukbench00120_resize.jpg").read_bytes())
    (tmp_path / "else.jpg").write_bytes((folder / "ukbench09268.jpg").read_bytes())
    found = compare(ours, folder_of_images(tmp_path))
    assert (leaks(found, "file"), leaks(found, "perceptual_hash")) == (0, 1)
    assert measure(found, "perceptual_hash").nearest[0].second == "small.jpg"


def test_broken_files_are_reported_and_the_others_compared(
    scenes: list[bytes], ours: OwnImages, tmp_path: Path
) -> None:
    (tmp_path / "cut.jpg").write_bytes(scenes[0][: len(scenes[0]) // 2])
    (tmp_path / "no.png").write_bytes(b"no picture")
    (tmp_path / "gone.jpg").symlink_to(tmp_path / "nowhere.jpg")
    (tmp_path / "notes.txt").write_text("nothing to look at")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "same.JPG").write_bytes(scenes[7])
    found = compare(ours, folder_of_images(tmp_path))
    assert (found.images, found.unreadable) == (3, 2)
    assert found.unreadable_files == ("cut.jpg", "no.png")
    assert measure(found, "file").nearest[0].second == "deep/same.JPG"


def test_a_file_name_that_is_not_utf8_is_escaped(
    scenes: list[bytes], ours: OwnImages, tmp_path: Path
) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.jpg")).write_bytes(scenes[0])
    found = compare(ours, folder_of_images(tmp_path))
    assert measure(found, "file").nearest[0].second == "caf\\xe9.jpg"
    assert Contamination.model_validate_json(found.model_dump_json()) == found


def test_the_compared_collection_has_a_content_digest(tmp_path: Path) -> None:
    (tmp_path / "one.jpg").write_bytes(jpeg(scene(1)))
    first = compare(own([]), folder_of_images(tmp_path, "theirs"))
    assert first.name == "theirs"
    assert compare(own([jpeg(scene(3))]), folder_of_images(tmp_path)).content_sha256 == (
        first.content_sha256
    )
    (tmp_path / "one.jpg").write_bytes(jpeg(scene(2)))
    assert compare(own([]), folder_of_images(tmp_path)).content_sha256 != first.content_sha256


def test_a_folder_without_images_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a folder"):
        folder_of_images(tmp_path / "others")
    (tmp_path / "others").mkdir()
    with pytest.raises(UsageError, match="contains no images"):
        folder_of_images(tmp_path / "others")
