"""A correct answer to a request for fine captions, and groups with such captions."""

from loupe.schemas.proposals import CaptionGroup, GroupMember
from loupe.schemas.records import Picture
from loupe.schemas.requests import RefinementBrief
from loupe.schemas.taxonomy import DifferenceType

COARSE = "Two dogs chase a cat."
CAPTIONS = (
    "Two brown dogs chase a grey cat over a green lawn behind a house.",
    "A grey cat chases two brown dogs over a green lawn behind a house.",
    "Two brown dogs chase a grey cat over a lawn under snow behind a house.",
)
TRANSLATIONS = (
    "两只棕色的狗在房子后面的绿色草坪上追赶一只灰猫。",
    "一只灰猫在房子后面的绿色草坪上追赶两只棕色的狗。",
    "两只棕色的狗在房子后面积雪的草坪上追赶一只灰猫。",
)
DIFFERENCES = (
    "Event/Action Attribute: the cat chases the dogs",
    "Scene Attribute: the lawn is under snow",
)
BRIEF = RefinementBrief(images=3, caption=COARSE, differences=DIFFERENCES)
TRANSLATED = BRIEF.model_copy(update={"second_language": "zh"})

_KINDS = (None, DifferenceType.EVENT_ATTRIBUTE, DifferenceType.SCENE_ATTRIBUTE)


def a_group(
    *rows: tuple[str, ...],
    coarse: tuple[str, ...] | None = None,
    kinds: tuple[DifferenceType | None, ...] = _KINDS,
) -> CaptionGroup:
    """Return a group with a row of captions, one for each image, for each coarse caption."""
    rows = rows or (CAPTIONS,)
    picture = Picture(sha256="0" * 64, media_type="image/png", width_px=1, height_px=1)
    return CaptionGroup(
        source="coco",
        coarse_captions=coarse or (COARSE,) * len(rows),
        members=tuple(
            GroupMember(picture=picture, captions=captions, difference=kind, plan="It changes.")
            for captions, kind in zip(zip(*rows, strict=True), kinds, strict=True)
        ),
        author="captioner@1",
    )
