"""The page on which a contrastive image is accepted or rejected, beside its anchor.

The anchor is on the left, the candidate on the right. Below them are the measurements and warnings
(for edits with a map of what changed, which covers the anchor while the pointer is on it), the
wanted difference, the candidate's origin, and the problems to tick.
"""

from html import escape

from annotate.interfaces.page import (
    ImageVerdict,
    TaskContent,
    image_address,
    picture_tag,
    shown_image,
)
from db.entities import StoredEntity
from schemas.proposals import Candidate, EditMeasurement, FoundImage


class ImageFilter(ImageVerdict):
    """The labelling interface `image-filter`."""

    name = "image-filter"

    def page(self, entity: StoredEntity, images_url: str) -> TaskContent:
        """The page of one candidate."""
        return _content(entity.record(Candidate), images_url)


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
    """Where the candidate is from, in a line; its address is text, not a link."""
    origin = candidate.origin
    if isinstance(origin, FoundImage):
        creator = origin.creator or "an unknown author"
        found = f"Found by {origin.engine}, result {origin.rank}"
        parts = [found, f"licence {origin.licence}", creator, origin.page]
    else:
        parts = [f"Edited by {origin.model}", f"instruction: {origin.instruction}"]
    return " · ".join(map(escape, parts))


def measured_html(candidate: Candidate, images_url: str) -> str:
    """The map of what changed, the measurements, and the warnings, as HTML.

    The map is there twice: small, and as large as the anchor. The page's style shows the large one
    over the anchor while the pointer is on the small one.
    """
    changes = ""
    if candidate.overlay is not None:
        tag = picture_tag(candidate.overlay, images_url)
        changes = (
            f'<div class="loupe-changes"><div class="loupe-small">{tag}</div>'
            f'<div class="loupe-large"><h4>What changed, marked on the anchor</h4>{tag}</div></div>'
        )
    sentences = measured_in_words(candidate)
    said = f"<p>{escape(' '.join(sentences))}</p>" if sentences else ""
    doubts = "".join(f"<li>{escape(doubt)}</li>" for doubt in candidate.doubts)
    listed = f'<ul class="loupe-doubts">{doubts}</ul>' if doubts else ""
    return f'<div class="loupe-measured">{changes}<div>{listed}{said}</div></div>'


def measured_in_words(candidate: Candidate) -> list[str]:
    """What was measured, a sentence each; nothing where nothing was."""
    sentences = [] if candidate.measurement is None else _edit_in_words(candidate.measurement)
    if candidate.similarity is not None:
        sentences.append(f"Similarity to the anchor: {candidate.similarity:.2f}.")
    return sentences


def _edit_in_words(measurement: EditMeasurement) -> list[str]:
    sentences = [f"{percent(measurement.changed_share)} of the picture changed visibly."]
    if measurement.outside_share is not None:
        known = f" (known from {measurement.region_by})" if measurement.region_by else ""
        sentences.append(
            f"{percent(measurement.outside_share)} of it changed outside the wanted region{known}."
        )
    if measurement.apart_share is not None:
        sentences.append(
            "The wanted region is unknown: check for yourself that the right thing changed. "
            f"{percent(measurement.apart_share)} of the picture changed apart from the largest "
            "changes."
        )
    if measurement.shift is not None:
        better = "better" if measurement.shift > 0 else "no better"
        sentences.append(
            f"The candidate fits the wanted caption {better} than the anchor does "
            f"({measurement.shift:+.2f})."
        )
    return sentences


def percent(share: float) -> str:
    """A share in percents, in whole ones from ten on; a little is said to be less than a tenth."""
    percents = 100 * share
    if 0 < percents < 0.1:
        return "less than 0.1 %"
    return f"{percents:.0f} %" if percents >= 10 or not percents else f"{percents:.1f} %"
