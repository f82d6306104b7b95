from typing import Any

import pytest
from pydantic import ValidationError

from schemas.proposals import (
    CaptionGroup,
    GroupMember,
    Tracklet,
    TrackletFrame,
)
from schemas.records import Picture
from schemas.taxonomy import DifferenceType

PICTURE = Picture(sha256="0" * 64, media_type="image/png", width_px=60, height_px=120)


def sample_frame(number: int, **changes: Any) -> TrackletFrame:
    values: dict[str, Any] = {
        "frame": number,
        "time_seconds": number / 10,
        "crop": PICTURE,
        "box_xyxy": (1.0, 2.0, 61.0, 122.0),
        "score": 0.9,
    }
    return TrackletFrame(**{**values, **changes})


def sample_tracklet(*numbers: int) -> Tracklet:
    return Tracklet(
        source="street",
        video="a.mp4",
        video_sha256="0" * 64,
        track=1,
        frames=tuple(map(sample_frame, numbers)),
        author="tracker@1",
    )


def sample_group(**changes: Any) -> CaptionGroup:
    other = {"difference": DifferenceType.STYLE, "plan": "It is drawn."}
    values: dict[str, Any] = {
        "source": "coco",
        "coarse_captions": ("A bike.",),
        "members": (
            GroupMember(picture=PICTURE, captions=("A blue bike.",)),
            GroupMember(picture=PICTURE, captions=("A drawn bike.",), **other),
        ),
        "author": "captioner@1",
    }
    return CaptionGroup(**{**values, **changes})


def test_the_frames_of_a_tracklet_must_rise() -> None:
    assert [frame.frame for frame in sample_tracklet(3, 5).frames] == [3, 5]
    for numbers in ((5, 3), (3, 3)):
        with pytest.raises(ValidationError, match="the frames of a tracklet must rise"):
            sample_tracklet(*numbers)
    with pytest.raises(ValidationError, match="at least 1 item"):
        sample_tracklet()


def test_a_box_must_have_an_area(subtests: pytest.Subtests) -> None:
    cases: list[tuple[float, ...]] = [(61.0, 2.0, 1.0, 122.0), (1.0, 2.0, 61.0, 2.0)]
    for box in cases:
        refused = pytest.raises(ValidationError, match=r"must be .left, top, right, bottom.; got")
        with subtests.test(box=box), refused:
            sample_frame(1, box_xyxy=box)


def test_every_image_of_a_group_has_one_caption_per_coarse_caption() -> None:
    assert len(sample_group().members) == 2
    with pytest.raises(ValidationError, match=r"must have 2 captions.*; got \[1, 1\]"):
        sample_group(coarse_captions=("A bike.", "A bicycle."))


def test_the_anchor_must_be_the_first_image_of_its_group() -> None:
    anchor, other = sample_group().members
    for members in ((other, anchor), (anchor, anchor)):
        with pytest.raises(ValidationError, match="the first image of a group, and no other"):
            sample_group(members=members)
