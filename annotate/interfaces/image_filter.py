"""The page on which a contrastive image is accepted or rejected, beside its anchor.

Anchor left, candidate right; below them what was measured (of edits with a picture of what changed,
which covers the anchor while one points at it) and what speaks against the candidate, the one
difference that was wanted, where the candidate is from, and what may be wrong with it.
"""

from collections.abc import Sequence
from functools import cached_property
from html import escape

from annotate.interfaces.edit_measures import measured_html
from annotate.interfaces.image_verdict import ImageVerdict
from annotate.interfaces.interface import TaskContent
from annotate.interfaces.page import (
    image_address,
    instructions,
)
from annotate.interfaces.pictures import shown_image
from db.entities import StoredEntity
from db.store import Store
from schemas.proposals import Candidate, FoundImage


class ImageFilter(ImageVerdict):
    """The labelling interface `image-filter`."""

    name = "image-filter"

    @cached_property
    def instructions(self) -> str:
        """What an annotator reads first."""
        return instructions("image_filter.html")

    def pages(
        self,
        store: Store,  # noqa: ARG002 - the record holds all that the page shows
        entities: Sequence[StoredEntity],
        images_url: str,
    ) -> list[TaskContent]:
        """One page per candidate, in order."""
        return [_content(entity.record(Candidate), images_url) for entity in entities]


def _content(candidate: Candidate, images_url: str) -> TaskContent:
    pictures = [candidate.anchor, candidate.image]
    if candidate.overlay is not None:
        pictures.append(candidate.overlay)
    data = {
        "anchor": image_address(images_url, candidate.anchor.sha256),
        "candidate": image_address(images_url, candidate.image.sha256),
        "wanted_html": _wanted(candidate),
        "origin_html": f'<p class="loupe-origin">{_origin(candidate)}</p>',
        "measured_html": measured_html(candidate, images_url),
    }
    return TaskContent(data, [], tuple(map(shown_image, pictures)))


def _wanted(candidate: Candidate) -> str:
    rows = [
        ("Detail", escape(candidate.detail)),
        ("Wanted", f"<b>{escape(candidate.plan)}</b>"),
        ("Type", f"{escape(candidate.difference)}: {escape(candidate.difference.definition)}"),
        ("Anchor", escape(candidate.caption)),
        ("Candidate", escape(candidate.contrastive_caption)),
    ]
    items = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in rows)
    return f'<dl class="loupe-wanted">{items}</dl>'


def _origin(candidate: Candidate) -> str:
    """Where the candidate is from, in a line; its address is text, so that nobody wanders off."""
    origin = candidate.origin
    if isinstance(origin, FoundImage):
        creator = origin.creator or "an unknown author"
        found = f"Found by {origin.engine}, result {origin.rank}"
        parts = [found, f"licence {origin.licence}", creator, origin.page]
    else:
        parts = [f"Edited by {origin.model}", f"told: {origin.instruction}"]
    return " · ".join(map(escape, parts))
