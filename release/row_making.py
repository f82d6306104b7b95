"""Makes a row from an image and its texts."""

import base64
from collections import Counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from db.blobs import suffix_of
from db.entities import LIVE, StoredEntity
from db.origins import CropOrigin
from db.release_rows import DescribedImage, DescribedText
from release.publishable import published_name
from release.rows import (
    CaptionOrigin,
    ReleasedCaption,
    ReleasedContrast,
    ReleasedCrop,
    ReleasedTerms,
    ReleasedTranslation,
    ReleaseRow,
)
from schemas.records import Caption, Contrast, Granularity, Image, Rewrite

_LANGUAGE = "en"
"""The language of captions; captions in other languages are translations."""


class Anchor(NamedTuple):
    """The anchor of the images that follow it."""

    entity_id: str
    number: int
    file_path: str


class ReleasableTexts(NamedTuple):
    """The texts of an image that may be released.

    `captions` are the released captions; `coarse` are those that fine captions were made from.
    """

    captions: tuple[ReleasedCaption, ...]
    coarse: tuple[ReleasedCaption, ...]
    translations: tuple[ReleasedTranslation, ...]


def row_of(
    number: int,
    identity: int,
    described: DescribedImage,
    image: Image,
    said: ReleasableTexts,
    terms: ReleasedTerms,
    anchor: Anchor | None = None,
) -> ReleaseRow:
    """The row of an image in a split; a contrastive image is named after its `anchor`."""
    assert image.split is not None  # noqa: S101 - `arrange` has seen to it
    name = str(number) if anchor is None else f"{anchor.number}_{number}"
    return ReleaseRow(
        number=number,
        id=identity,
        source=image.source,
        identity=image.identity,
        split=image.split,
        file_path=f"images/{name}{suffix_of(image.media_type)}",
        source_file_path=image.file_path,
        captions=said.captions,
        image_entity_id=described.image.id,
        sha256=image.sha256,
        media_type=image.media_type,
        width_px=image.width_px,
        height_px=image.height_px,
        crop=_crop(described.crop),
        task=image.task,
        tier=image.tier,
        coarse_captions=said.coarse,
        translations=said.translations,
        contrast=_contrast(image.contrast, anchor) if image.contrast and anchor else None,
        terms=terms,
    )


def _contrast(contrast: Contrast, anchor: Anchor) -> ReleasedContrast:
    return ReleasedContrast(
        anchor=anchor.file_path,
        difference=contrast.difference,
        detail=contrast.detail,
        plan=contrast.plan,
        method=contrast.method,
        anchor_entity_id=anchor.entity_id,
    )


def _crop(crop: CropOrigin | None) -> ReleasedCrop | None:
    if crop is None:
        return None
    return ReleasedCrop(
        video=crop.video.file_path,
        video_sha256=crop.video.sha256,
        video_entity_id=crop.video_id,
        tracklet_entity_id=crop.tracklet_id,
        frame=crop.frame.frame,
        time_seconds=crop.frame.time_seconds,
        box_xyxy=crop.frame.box_xyxy,
        score=crop.frame.score,
    )


def releasable_texts(described: DescribedImage) -> ReleasableTexts:
    """Descriptions by position and author, then rewrites by their caption's position and author.

    Translations are ordered by language first; translations of unreleased captions are left out.
    """
    records = {text.entity.id: _record(text.entity) for text in described.texts}
    released = [
        (_caption(text, record), text.origin, record)
        for text in described.texts
        if (record := records[text.entity.id]) is not None and _is_released(text)
    ]

    def place(one: tuple[ReleasedCaption, str, Caption | Rewrite]) -> tuple[object, ...]:
        caption, origin, _ = one
        return (
            caption.is_rewrite,
            _position(records.get(origin)),
            caption.author,
            caption.text,
            caption,
        )

    fine, coarse = list[ReleasedCaption](), list[ReleasedCaption]()
    places: dict[int, int] = {}
    foreign: list[tuple[str, int, ReleasedCaption]] = []
    for caption, _, record in sorted(released, key=place):
        if _language(record) != _LANGUAGE:
            foreign.append((_language(record), _position(record), caption))
        elif _is_coarse(record):
            coarse.append(caption)
        else:
            places.setdefault(_position(record), len(fine))
            fine.append(caption)
    translations = sorted(
        ReleasedTranslation(language, places[position], one.text, one.entity_id, one.author)
        for language, position, one in foreign
        if position in places
    )
    return ReleasableTexts(tuple(fine), tuple(coarse), tuple(translations))


def _record(entity: StoredEntity) -> Caption | Rewrite | None:
    """The record of an entity; None if it is not a text."""
    if entity.kind == Caption.kind:
        return entity.record(Caption)
    return entity.record(Rewrite) if entity.kind == Rewrite.kind else None


def _language(record: Caption | Rewrite | None) -> str:
    return record.language or _LANGUAGE if isinstance(record, Caption) else _LANGUAGE


def _position(record: Caption | Rewrite | None) -> int:
    return record.position if isinstance(record, Caption) else 0


def _is_coarse(record: Caption | Rewrite | None) -> bool:
    return isinstance(record, Caption) and record.granularity is Granularity.COARSE


def _is_released(text: DescribedText) -> bool:
    """Whether a text is released: texts of sources always are, texts made here if accepted."""
    return text.entity.state in (LIVE if origin_of(text) == "source" else ("accepted",))


def is_rejected(described: DescribedImage) -> bool:
    """Whether fine captions of an image were rejected and none is pending."""
    states = {
        text.entity.state
        for text in described.texts
        if isinstance(record := _record(text.entity), Caption)
        and not _is_coarse(record)
        and _language(record) == _LANGUAGE
    }
    return bool(states & {"rejected", "inactive"}) and "proposed" not in states


def origin_of(text: DescribedText) -> CaptionOrigin:
    """The origin of a caption or rewrite; only drafts and rewrites derive from a prompt."""
    if text.entity.kind == Rewrite.kind:
        return "edited_rewrite" if text.by_person else "rewrite"
    if text.draft is not None:
        draft, caption = text.draft.record(Caption), text.entity.record(Caption)
        same = draft.text.split() == caption.text.split()
        return "confirmed_draft" if same else "edited_draft"
    if text.by_person:
        return "edited"
    if text.prompts:
        return "drafted"
    return "written" if text.entity.record(Caption).author else "source"


def _caption(text: DescribedText, record: Caption | Rewrite) -> ReleasedCaption:
    author = record.author or record.source if isinstance(record, Caption) else record.author
    drafter = text.draft.record(Caption).author if text.draft is not None else None
    return ReleasedCaption(
        entity_id=text.entity.id,
        text=record.text,
        author=published_name(author),
        reviewed=text.reviewed,
        origin=origin_of(text),
        drafter=published_name(drafter or ""),
    )


def left_out(described: DescribedImage) -> Counter[str]:
    """The number of an image's rewrites in each state."""
    return Counter(
        text.entity.state for text in described.texts if text.entity.kind == Rewrite.kind
    )


def embedding_of(crop: CropOrigin | None) -> NDArray[np.float16] | None:
    """The embedding of a crop, if it has one."""
    if crop is None or crop.embedding is None:
        return None
    return np.frombuffer(base64.b64decode(crop.embedding), "<f2")
