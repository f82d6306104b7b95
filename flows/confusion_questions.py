"""What people are asked of a caption and two images: does it fit its own, and not the other?"""

from collections.abc import Sequence

from annotate.candidates import EXAMINES
from db.entities import NewEntity, StoredEntity, new_entity
from flows.task_images import picture_of
from schemas.quality import CaptionCheck, Confusion
from schemas.records import Caption

ASKS_ABOUT = "asks_about"
"""The role of the caption that people are asked about."""
ASKS_WITH = "asks_with"
"""The role of the image of v1 that the question concerns."""


def question(
    caption: StoredEntity,
    own: StoredEntity,
    other: StoredEntity,
    similar: StoredEntity,
    doubts: Sequence[str],
) -> tuple[NewEntity, NewEntity]:
    """A question, and what speaks against the caption.

    Args:
        caption: what is asked about.
        own: its image.
        other: the image that it must not fit.
        similar: the one of both that is of v1.
        doubts: sentences for people; none where the caption is thought to be right.
    """
    record = caption.record(Caption)
    asked = new_entity(
        Confusion(
            source=record.source,
            text=record.text,
            own=picture_of(own),
            other=picture_of(other),
            caption_id=caption.id,
            author=record.author or record.source,
        ),
        similar.dataset,
        parents=[(ASKS_ABOUT, caption.id), (ASKS_WITH, similar.id)],
    )
    check = CaptionCheck(doubts=tuple(doubts))
    return asked, new_entity(check, similar.dataset, parents=[(EXAMINES, asked.id)])
