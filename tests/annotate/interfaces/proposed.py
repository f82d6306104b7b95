"""Proposals to judge, with drawn people or, if available, real photographs."""

import json
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from PIL import Image, ImageOps

from loupe.db.entities import StoredEntity, new_entity
from loupe.demo.worlds.figure import Action, Pose, draw_figure
from loupe.demo.worlds.people import draw_person_attributes
from loupe.retrieval.edit_measures import change_between, difference_overlay
from loupe.schemas.base import EntityRecord, sha256_of
from loupe.schemas.profile import EditCheckSettings
from loupe.schemas.proposals import (
    OPTIONS,
    Candidate,
    CaptionGroup,
    ChoiceTest,
    Confusion,
    EditedImage,
    EditMeasurement,
    FoundImage,
    GroupMember,
    ImageQuestion,
    OtherTracklet,
    Strategy,
    Tracklet,
    TrackletFrame,
)
from loupe.schemas.records import Caption, Picture, Rewrite
from loupe.schemas.records import Image as StoredImage
from loupe.schemas.recos import DuplicateQuestion, Selection
from loupe.schemas.taxonomy import DifferenceType, RetrievalTask
from loupe.sources.chance import Chance

PHOTOGRAPHS = Path(__file__).parents[4] / "shared" / "data" / "coco_captions"
HOSTILE = (
    "A <script>window.hacked=1</script><img src=x onerror=window.hacked=2> $image {{idx}} {{7*7}}"
)
_PHOTOGRAPH_PX = 640


class Drawn(NamedTuple):
    """A picture and its bytes (PNG)."""

    picture: Picture
    data: bytes


class Proposal(NamedTuple):
    """A record as it is stored, and the bytes of its pictures by digest."""

    shown: StoredEntity
    pictures: dict[str, bytes]


def proposal(record: EntityRecord, *drawn: Drawn) -> Proposal:
    """Return `record` as if it had been stored."""
    entity = new_entity(record, "people")
    stored = StoredEntity(
        1, entity.id, "people", record.kind, None, None, "proposed", entity.payload
    )
    return Proposal(stored, {one.picture.sha256: one.data for one in drawn})


def drawn(image: Image.Image) -> Drawn:
    """Return an image as PNG with its digest and size."""
    buffer = BytesIO()
    image.save(buffer, "PNG")
    data = buffer.getvalue()
    picture = Picture(
        sha256=sha256_of(data),
        media_type="image/png",
        width_px=image.width,
        height_px=image.height,
    )
    return Drawn(picture, data)


@cache
def person(name: str, phase: float = 0.0, yaw_degrees: float = 20.0) -> Drawn:
    """Draw a person at a moment of a walk; equal names give equal people."""
    canvas = Image.new("RGB", (120, 260), (196, 203, 208))
    attributes = draw_person_attributes(Chance("pages", name))
    pose = Pose(action=Action.WALKING, yaw_degrees=yaw_degrees, phase=phase % 1)
    draw_figure(attributes, pose, 128).paste(canvas, (60, 245))
    return drawn(canvas)


def a_frame(number: int, one: Drawn, *suspicions: str) -> TrackletFrame:
    """Return a frame of a video with ten frames per second."""
    left = 40.0 + 3 * number
    return TrackletFrame(
        frame=number,
        time_seconds=number / 10,
        crop=one.picture,
        box_xyxy=(left, 100.0, left + 120, 360.0),
        score=0.9,
        suspicions=suspicions,
    )


def a_tracklet(frames: int = 12, switch_at: int = 8, others: int = 2) -> Proposal:
    """Return a walk in which another person takes over at `switch_at`; one frame is suspicious."""
    walk = [
        person("first" if position < switch_at else "second", position / 8)
        for position in range(frames)
    ]
    elsewhere = [
        [person(name, phase / 5, 160) for phase in range(4)]
        for name in ("first", "third", "fourth")[:others]
    ]
    record = Tracklet(
        source="street",
        video="street/<b>corner</b>.mp4",
        video_sha256="0" * 64,
        track=17,
        frames=tuple(
            a_frame(10 + 5 * position, one, *(["near_duplicate"] if position == 2 else []))
            for position, one in enumerate(walk)
        ),
        switches=(10 + 5 * switch_at,) if switch_at < frames else (),
        others=tuple(
            OtherTracklet(
                tracklet_id=f"{number:032x}",
                similarity=0.83 - number / 10,
                frames=tuple(a_frame(200 + at, one) for at, one in enumerate(seen)),
            )
            for number, seen in enumerate(elsewhere, start=1)
        ),
        author="loupe-tracker@1",
    )
    return proposal(record, *walk, *(one for seen in elsewhere for one in seen))


@cache
def photograph(number: int = 1) -> tuple[Drawn, tuple[str, ...]]:
    """Return a photograph and its captions; a drawn person if there are no photographs."""
    if not PHOTOGRAPHS.exists():
        return person(f"photograph {number}"), ("A person walks.", "Somebody is walking by.") * 2
    rows = (PHOTOGRAPHS / "annotations.jsonl").read_text(encoding="utf-8").splitlines()
    row = json.loads(rows[number])
    with Image.open(PHOTOGRAPHS / row["file_name"]) as opened:
        image = ImageOps.contain(opened.convert("RGB"), (_PHOTOGRAPH_PX, _PHOTOGRAPH_PX))
    return drawn(image), tuple(caption["caption"].strip() for caption in row["captions"])


@cache
def in_other_colours(number: int = 1) -> Drawn:
    """Return the photograph with swapped colours, as after an edit."""
    original, _ = photograph(number)
    with Image.open(BytesIO(original.data)) as opened:
        red, green, blue = opened.convert("RGB").split()
        return drawn(Image.merge("RGB", (blue, red, green)))


@cache
def as_a_drawing(number: int = 1) -> Drawn:
    """Return the photograph in grey."""
    original, _ = photograph(number)
    with Image.open(BytesIO(original.data)) as opened:
        return drawn(ImageOps.autocontrast(ImageOps.grayscale(opened)).convert("RGB"))


def a_strategy(caption: str | None = None) -> Proposal:
    """Return a strategy to change the colours of a photograph."""
    anchor, captions = photograph(2)
    record = Strategy(
        source="coco",
        anchor=anchor.picture,
        caption=caption or captions[2],
        detail="The bicycle is blue.",
        difference=DifferenceType.ENTITY_ATTRIBUTE,
        plan="Change the colour of the bicycle from blue to red and leave all else as it is.",
        contrastive_caption="A red bicycle sits on a sidewalk near a street.",
        editing_instruction="Repaint the frame of the bicycle in red; keep everything else.",
        author="strategist@1",
    )
    return proposal(record, anchor)


@cache
def marked_changes(number: int = 2) -> Drawn:
    """Return the marked differences between the photograph and its version in other colours."""
    with (
        Image.open(BytesIO(photograph(number)[0].data)) as anchor,
        Image.open(BytesIO(in_other_colours(number).data)) as edited,
    ):
        overlay = difference_overlay(anchor, change_between(anchor, edited, EditCheckSettings()))
    with Image.open(BytesIO(overlay)) as opened:
        return drawn(opened.convert("RGB"))


def a_candidate(
    caption: str | None = None, *, found: bool = False, warnings: tuple[str, ...] = ()
) -> Proposal:
    """Return a candidate for the strategy above, edited or found."""
    anchor, captions = photograph(2)
    image = photograph(3)[0] if found else in_other_colours(2)
    edited = EditedImage(model="painter@1", instruction="Repaint it.", seed=7, steps=28)
    searched = FoundImage(
        engine="folder",
        query="A red bicycle sits on a sidewalk near a street.",
        rank=2,
        page="https://example.org/<b>bicycles</b>",
        licence="CC BY 4.0",
        creator="A. Photographer",
    )
    record = Candidate(
        source="coco",
        anchor=anchor.picture,
        caption=caption or captions[2],
        detail="The bicycle is blue.",
        difference=DifferenceType.ENTITY_ATTRIBUTE,
        plan="Change the colour of the bicycle from blue to red and leave all else as it is.",
        contrastive_caption="A red bicycle sits on a sidewalk near a street.",
        image=image.picture,
        origin=searched if found else edited,
        similarity=0.87,
        measurement=None if found else MEASURED,
        overlay=None if found else marked_changes(2).picture,
        warnings=warnings,
    )
    return proposal(record, anchor, image, *(() if found else (marked_changes(2),)))


MEASURED = EditMeasurement(
    changed_share=0.214,
    outside_share=0.023,
    region_xyxy=(180.0, 10.0, 520.0, 400.0),
    region_by="the editor",
    shift=0.12,
)

FINE = (
    (
        "A {0} bicycle with a wicker basket stands locked on the sidewalk beside a quiet street, "
        "its wheels close to the kerb, in {1}."
    ),
    "A {0} bike sits parked next to the street, leaning on its stand by a post, in {1}.",
    "Locked to a post, a {0} bicycle with thin tyres waits on the pavement, in {1}.",
    "A {0} bicycle is chained to a fixture on a city street that is otherwise empty, in {1}.",
    "A {0} bike is parked on the side walk, its handlebars turned to the road, in {1}.",
)


def a_group(
    images: int = 3,
    captions: int = 5,
    caption: str | None = None,
    warnings: tuple[str, ...] = (),
) -> Proposal:
    """Return a photograph and contrastive images with fine captions that differ in a few words."""
    anchor, coarse = photograph(2)
    pictures = [anchor, in_other_colours(2), as_a_drawing(2), photograph(3)[0]][:images]
    words = [
        ("blue", "bright colours"),
        ("red", "bright colours"),
        ("blue", "black and white"),
        ("green", "evening light"),
    ]
    differences = [None, DifferenceType.ENTITY_ATTRIBUTE, DifferenceType.STYLE]
    differences += [DifferenceType.SCENE_ATTRIBUTE]
    plans = ["", "The bicycle is red.", "It is a photograph in black and white.", "It is evening."]
    fine = [
        [text.format(*pair) for text in (*FINE, *FINE)[:captions]]
        for pair in words[: len(pictures)]
    ]
    if caption is not None:
        fine[0][0] = caption
    record = CaptionGroup(
        source="coco",
        coarse_captions=(*coarse, *coarse)[:captions],
        members=tuple(
            GroupMember(picture=one.picture, captions=tuple(texts), difference=kind, plan=plan)
            for one, texts, kind, plan in zip(pictures, fine, differences, plans, strict=False)
        ),
        author="captioner@1",
        warnings=warnings,
    )
    return proposal(record, *pictures)


def an_image_question(source: str = "coco", texts: int = 3) -> Proposal:
    """Return a drawn image of a person, with captions and other images of the person."""
    own, others = person("a person 0"), [person(f"a person {number}") for number in (1, 2, 3)]
    _, captions = photograph(2)
    record = ImageQuestion(
        source=source,
        identity="0017",
        picture=own.picture,
        captions=tuple(captions[:texts]),
        others=tuple(one.picture for one in others),
    )
    return proposal(record, own, *others)


def a_selection(task: RetrievalTask = RetrievalTask.COLOR, source: str = "coco") -> Proposal:
    """Return a photograph that is proposed for a task."""
    own, _ = photograph(2)
    proposed_by = "nearest to “a bicycle in a bright colour”"
    record = Selection(source=source, task=task, picture=own.picture, proposed_by=proposed_by)
    return proposal(record, own)


def a_duplicate_question(**values: object) -> Proposal:
    """Return a pair of images that may be the same."""
    first, _ = photograph(2)
    second = in_other_colours(2)
    fields = {"mirrored": True, "distance": 0.0312, "similarity": 0.9481, **values}
    record = DuplicateQuestion.model_validate(
        {"first": first.picture, "second": second.picture, "embedder": "embedder@1", **fields}
    )
    return proposal(record, first, second)


def one_of_each_kind() -> dict[str, Proposal]:
    """Return one proposal of each kind that is reviewed, by the name of the kind."""
    own, captions = photograph(2)
    others = [person(f"option {number}") for number in range(OPTIONS)]
    pictures = tuple(one.picture for one in others)
    test = ChoiceTest(
        source="coco",
        direction="caption-to-image",
        captions=captions[:1],
        images=pictures,
        answer=2,
    )
    confusion = Confusion(
        source="coco", text=captions[0], own=own.picture, other=pictures[0], author="m@1"
    )
    image = StoredImage(
        source="coco",
        identity="1",
        split="test",
        file_path="1.png",
        sha256=own.picture.sha256,
        source_sha256=own.picture.sha256,
        media_type="image/png",
        width_px=own.picture.width_px,
        height_px=own.picture.height_px,
    )
    proposals = [
        proposal(image, own),
        proposal(Caption(source="coco", text=captions[0], position=0)),
        proposal(Rewrite(source="coco", text=captions[1], author="m@1")),
        proposal(confusion, own, *others),
        a_duplicate_question(),
        proposal(test, own, *others),
        an_image_question(),
        a_selection(),
        a_tracklet(),
        a_strategy(),
        a_candidate(),
        a_group(),
    ]
    return {one.shown.kind: one for one in proposals}
