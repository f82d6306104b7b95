"""Checks of the captions of a group."""

import itertools
import json

import pytest

from loupe.flows.ccd.caption_checks import (
    check_group,
    doubtful_phrases,
    refused_phrase,
    style_warnings,
)
from loupe.schemas.profile import StyleLimits
from loupe.schemas.taxonomy import DifferenceType
from tests.annotate.interfaces.proposed import PHOTOGRAPHS
from tests.flows.steps.refine_captions.refined import CAPTIONS, COARSE, a_group

LIMITS = StyleLimits()


def test_a_good_group_has_no_warnings() -> None:
    assert check_group(a_group()) == ((), ())


def test_a_caption_that_names_what_is_absent_is_doubted() -> None:
    row = (CAPTIONS[0], CAPTIONS[1], "Two brown dogs chase a cat over a lawn without any grass.")
    check = check_group(a_group(row))
    assert check.warnings == ("Caption C1 names what is not there: 'without'.",)
    assert check.unusable == ()


def test_a_caption_that_refers_to_another_image_is_unusable() -> None:
    row = (
        CAPTIONS[0],
        "A cat chases two dogs that are browner than in the other image.",
        CAPTIONS[2],
    )
    check = check_group(a_group(CAPTIONS, row))
    (refused,) = check.unusable
    assert (refused.stage, refused.reason) == ("check_group", "speaks_of_other_image")
    assert refused.detail == "Caption B2 speaks of another image: 'than in the other image'."
    assert refused.context == {"caption": "B2", "row": 1, "column": 1, "text": row[1]}


def test_two_images_cannot_have_the_same_caption() -> None:
    row = ("Two dogs chase a cat in summer.", CAPTIONS[0].upper(), "Two dogs chase a cat in snow.")
    (refused,) = check_group(a_group(CAPTIONS, row)).unusable
    assert refused.reason == "same_captions"
    assert refused.detail == "Caption B2 says what A1 says of another image."


def test_a_caption_repeated_for_one_image_is_a_doubt() -> None:
    check = check_group(a_group(CAPTIONS, CAPTIONS))
    assert check.unusable == ()
    assert check.warnings == tuple(f"Captions {one}1 and {one}2 say the same." for one in "ABC")


def test_a_caption_without_a_distinguishing_word_is_doubted() -> None:
    kinds = (None, DifferenceType.ENTITY_ATTRIBUTE, DifferenceType.SCENE_ATTRIBUTE)
    row = (
        "Two dogs chase a cat over a lawn.",
        "Two white dogs chase a cat over a lawn.",
        "Two dogs chase a cat over a snowy lawn.",
    )
    check = check_group(a_group(row, kinds=kinds))
    assert check.warnings == ("Caption A1 says nothing that distinguishes it from B and C.",)


def test_a_style_unlike_the_coarse_caption_is_doubted(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str]] = [
        ("Dogs.", "is much shorter than the coarse caption"),
        (" ".join(["Two dogs chase a cat"] * 7), "is 7.0 times as long as the coarse caption"),
        ("A man in a red coat sits on a bench.", "keeps 0% of the coarse caption's words"),
        ("Two dogs run. A cat runs. They chase it.", "has 3 sentences"),
        ("The picture shows two dogs that chase a cat.", "is about the image"),
        ("You see two dogs chase a cat.", "speaks to somebody"),
        ("Will two dogs chase a cat?", "asks or exclaims"),
    ]
    for fine, warnings in cases:
        with subtests.test(fine=fine, warnings=warnings):
            assert warnings in style_warnings(fine, COARSE, LIMITS)


@pytest.mark.skipif(not PHOTOGRAPHS.exists(), reason="needs captions of photographs")
def test_photograph_captions_match_their_own_style_but_not_that_of_others() -> None:
    rows = (PHOTOGRAPHS / "annotations.jsonl").read_text(encoding="utf-8").splitlines()
    images = [[one["caption"].strip() for one in json.loads(row)["captions"]] for row in rows]
    captions = [caption for row in images for caption in row]
    assert all(style_warnings(caption, caption, LIMITS) == [] for caption in captions)
    details = [f"{caption.rstrip(' .')} beside two green benches." for caption in captions]
    finer = zip(details, captions, strict=True)
    assert [one for one, coarse in finer if style_warnings(one, coarse, LIMITS)] == []
    strange = [
        not any(warning.startswith("keeps") for warning in style_warnings(one, coarse, LIMITS))
        for ours, others in itertools.permutations(images, 2)
        for one, coarse in zip(ours, others, strict=True)
    ]
    assert sum(strange) < 0.1 * len(strange)


def test_phrases_of_the_coarse_caption_are_allowed() -> None:
    assert doubtful_phrases("A man without a hat runs.", "A man without a hat.") == []
    assert len(doubtful_phrases("A man without a hat runs.", "A man.")) == 1
    assert refused_phrase("Two pictures on a wall.", "two  pictures on a wall") is None
    assert refused_phrase("Unlike in image 1, a wall.", "A wall.") is not None
