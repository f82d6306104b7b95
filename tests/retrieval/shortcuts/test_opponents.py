"""Planted shortcuts are found by the opponent that they are meant for; clean groups raise none."""

from collections.abc import Callable
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from loupe.retrieval.shortcuts.features import (
    file_features,
    name_features,
    pixel_features,
    size_features,
    text_features,
)
from loupe.retrieval.shortcuts.opponents import (
    Evidence,
    corrected,
    find_wanted,
    match_pairs,
    tell_class,
)
from loupe.schemas.shortcuts import BlindResult

GROUPS, MEMBERS = 24, 4
MARGIN = 10.0
Member = dict[str, Any]


def _scene(seed: int) -> NDArray[np.uint8]:
    """Smooth coloured areas with a little noise, as photographs have."""
    random = np.random.default_rng(seed)
    coarse = random.integers(20, 236, (6, 6, 3), dtype=np.uint8)
    smooth = np.asarray(Image.fromarray(coarse).resize((72, 72), Image.Resampling.BICUBIC))
    noisy = smooth + random.normal(0, 2, smooth.shape)
    return noisy.clip(0, 255).astype(np.uint8)


def _encoded(pixels: NDArray[np.uint8], image_format: str = "JPEG", **options: Any) -> bytes:
    buffer = BytesIO()
    settings = {"quality": 90} if image_format == "JPEG" else {}
    Image.fromarray(pixels).save(buffer, image_format, **settings | options)
    return buffer.getvalue()


def _members(seed: int = 0) -> list[Member]:
    """Groups of images that differ in nothing but their content; the first is the original."""
    found = []
    words = "a red blue car dog house near under tree street with two".split()  # noqa: SIM905
    random = np.random.default_rng(seed)
    for number in range(GROUPS * MEMBERS):
        pixels = _scene(seed * 10_000 + number)
        found.append(
            {
                "pixels": pixels,
                "data": _encoded(pixels),
                "name": f"images/{random.integers(16**8):08x}.jpg",
                "place": random.random(),
                "text": " ".join(random.choice(words, random.integers(8, 16))),
                "is_original": number % MEMBERS == 0,
            }
        )
    return found


def _results(members: list[Member]) -> dict[str, BlindResult]:
    decoded = [np.asarray(Image.open(BytesIO(one["data"])).convert("RGB")) for one in members]
    sizes = [(pixels.shape[1], pixels.shape[0]) for pixels in decoded]
    files = [file_features(one["data"], *size) for one, size in zip(members, sizes, strict=True)]
    evidence = [
        Evidence.of("pixel statistics", [pixel_features(pixels) for pixels in decoded]),
        Evidence.of("file", files),
        Evidence.of("size", [size_features(*size) for size in sizes]),
        Evidence.of("file name", [name_features(one["name"]) for one in members]),
        Evidence.of("order", [{"place": one["place"]} for one in members]),
        Evidence.of("length of text", [text_features(one["text"]) for one in members]),
        Evidence.of_words("wording", [one["text"] for one in members]),
    ]
    groups = np.repeat(np.arange(GROUPS), MEMBERS)
    is_original = np.array([one["is_original"] for one in members])
    found = [find_wanted("original image", one, groups, is_original) for one in evidence]
    results = corrected([one for one in found if one is not None])
    assert len(results) == len(evidence)
    return {one.opponent: one for one in results}


def _edits(members: list[Member]) -> list[Member]:
    return [one for one in members if not one["is_original"]]


def _as_png(one: Member) -> None:
    one["data"] = _encoded(one["pixels"], "PNG")


def _lower_quality(one: Member) -> None:
    one["data"] = _encoded(one["pixels"], quality=60)


def _jpeg_inside_png(one: Member) -> None:
    """The original went through JPEG once more, and only its pixels say so."""
    pixels = np.asarray(Image.open(BytesIO(_encoded(one["pixels"], quality=40))))
    one["data"] = _encoded(pixels, "JPEG")


def _without_metadata(one: Member) -> None:
    exif = Image.Exif()
    exif[0x010E] = "edited"
    one["data"] = _encoded(one["pixels"], exif=exif)


def _larger(one: Member) -> None:
    one["data"] = _encoded(np.pad(one["pixels"], ((0, 8), (0, 0), (0, 0)), mode="edge"))


def _smoother(one: Member) -> None:
    image = Image.fromarray(one["pixels"])
    pixels = np.asarray(image.resize((36, 36)).resize((72, 72), Image.Resampling.BICUBIC))
    one["data"] = _encoded(pixels)


def _more_saturated(one: Member) -> None:
    pixels = np.asarray(Image.fromarray(one["pixels"]).convert("HSV")).copy()
    pixels[..., 1] = np.minimum(pixels[..., 1] * 1.5, 255)
    one["data"] = _encoded(np.asarray(Image.fromarray(pixels, "HSV").convert("RGB")))


def _named_after_the_original(one: Member) -> None:
    one["name"] = one["name"].replace(".jpg", "_2.jpg")


def _later(one: Member) -> None:
    one["place"] += 1


def _longer_text(one: Member) -> None:
    one["text"] += " and that is everything there is to see"


def _favourite_word(one: Member) -> None:
    one["text"] = "now " + one["text"].split(maxsplit=1)[1]


@pytest.mark.parametrize(
    ("change", "opponent"),
    [
        (_as_png, "file"),
        (_lower_quality, "file"),
        (_jpeg_inside_png, "pixel statistics"),
        (_without_metadata, "file"),
        (_larger, "size"),
        (_smoother, "pixel statistics"),
        (_more_saturated, "pixel statistics"),
        (_named_after_the_original, "file name"),
        (_later, "order"),
        (_longer_text, "length of text"),
        (_favourite_word, "wording"),
    ],
)
def test_a_planted_shortcut_is_found(change: Callable[[Member], None], opponent: str) -> None:
    members = _members()
    for one in _edits(members):
        change(one)
    found = _results(members)
    assert found[opponent].is_shortcut(MARGIN), found[opponent]


def test_clean_groups_raise_no_alarm() -> None:
    for seed in range(3):
        alarms = [one for one in _results(_members(seed)).values() if one.is_shortcut(MARGIN)]
        assert not alarms


def test_equal_members_are_chosen_by_chance_wherever_the_original_stands() -> None:
    evidence = Evidence.of("file", [{"bytes": 1.0}] * (GROUPS * MEMBERS))
    groups = np.repeat(np.arange(GROUPS), MEMBERS)
    first = np.arange(GROUPS * MEMBERS) % MEMBERS == 0
    found = find_wanted("original image", evidence, groups, first)
    assert found is not None
    assert found.right == found.chance == 25.0
    assert found.p_value > 0.5


def test_the_source_of_a_caption_is_told_by_its_length_only_if_lengths_differ() -> None:
    random = np.random.default_rng(1)
    persons = np.repeat(np.arange(60), 3)
    sources = np.where(persons < 30, "long", "short")

    def told(lengths: NDArray[np.int64]) -> BlindResult:
        words = Evidence.of("words", [{"words": float(length)} for length in lengths])
        found = tell_class("source of a caption", words, persons, list(sources))
        assert found is not None
        return found

    differ = random.normal(np.where(sources == "long", 40, 20), 5).astype(int)
    alike = random.normal(30, 5, len(persons)).astype(int)
    assert told(differ).right > 90
    assert told(differ).p_value < 0.01
    assert not told(alike).is_shortcut(MARGIN)


def test_too_few_groups_are_not_asked_about() -> None:
    evidence = Evidence.of("file", [{"bytes": float(at)} for at in range(8)])
    wanted = np.arange(8) % 2 == 0
    assert find_wanted("original image", evidence, np.repeat(np.arange(4), 2), wanted) is None


def test_captions_are_matched_with_images_if_both_look_original() -> None:
    random = np.random.default_rng(5)
    groups = np.repeat(np.arange(GROUPS), MEMBERS)
    is_original = np.arange(GROUPS * MEMBERS) % MEMBERS == 0

    def rows(difference: float) -> list[dict[str, float]]:
        values = random.normal(difference * is_original, 1.0)
        return [{"value": float(value)} for value in values]

    told, blind = Evidence.of("pixel statistics", rows(5.0)), Evidence.of("size", rows(0.0))
    words = Evidence.of("wording", rows(5.0))
    found = match_pairs(told, words, groups, is_original)
    assert found is not None
    assert (found.metric, found.chance, found.questions) == ("FG-CDA", 50.0, 72)
    assert found.right > 95
    assert found.is_shortcut(MARGIN)
    without = match_pairs(blind, words, groups, is_original)
    assert without is not None
    assert not without.is_shortcut(MARGIN)
