"""From an image and all that was said of it to its row."""

import base64
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from db.blobs import suffix_of
from db.crop_origins import CropOrigin
from db.entities import LIVE, StoredEntity
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
"""Captions in any other language are translations."""


class Anchor(NamedTuple):
    """The anchor of the images that follow it."""

    entity_id: str
    number: int
    file_path: str


class Said(NamedTuple):
    """What may be released of all that was said of an image.

    `captions` are what it is released with; `coarse` are those that fine ones were made of.
    """

    captions: tuple[ReleasedCaption, ...]
    coarse: tuple[ReleasedCaption, ...]
    translations: tuple[ReleasedTranslation, ...]


def row_of(
    number: int,
    identity: int,
    described: DescribedImage,
    image: Image,
    said: Said,
    terms: ReleasedTerms,
    anchor: Anchor | None = None,
) -> ReleaseRow:
    """The row of an image that is in a split; a contrastive one is called after its `anchor`."""
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
        way=contrast.way,
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


def said_of(described: DescribedImage) -> Said:
    """Descriptions by position and author, then rewrites by their caption's position and author.

    Translations are ordered by language first; one of a caption that is not released is left out.
    """
    fine, coarse = list[ReleasedCaption](), list[ReleasedCaption]()
    places: dict[int, int] = {}
    foreign: list[tuple[str, int, ReleasedCaption]] = []
    released = (text for text in described.texts if _is_released(text))
    for text, one in _ordered(described, released):
        language, position = _language(text), _position(text)
        if language != _LANGUAGE:
            foreign.append((language, position, one))
        elif _is_coarse(text):
            coarse.append(one)
        else:
            places.setdefault(position, len(fine))
            fine.append(one)
    translations = sorted(
        ReleasedTranslation(language, places[position], one.text, one.entity_id, one.author)
        for language, position, one in foreign
        if position in places
    )
    return Said(tuple(fine), tuple(coarse), tuple(translations))


def _ordered(
    described: DescribedImage, texts: Iterable[DescribedText]
) -> list[tuple[DescribedText, ReleasedCaption]]:
    positions = {
        text.entity.id: text.entity.record(Caption).position
        for text in described.texts
        if text.entity.kind == Caption.kind
    }
    captions = [(text, _caption(text)) for text in texts]

    def place(pair: tuple[DescribedText, ReleasedCaption]) -> tuple[object, ...]:
        text, one = pair
        return one.is_rewrite, positions.get(text.origin, 0), one.author, one.text, one

    return sorted(captions, key=place)


def _language(text: DescribedText) -> str:
    if text.entity.kind != Caption.kind:
        return _LANGUAGE
    return text.entity.record(Caption).language or _LANGUAGE


def _position(text: DescribedText) -> int:
    if text.entity.kind != Caption.kind:
        return 0
    return text.entity.record(Caption).position


def _is_coarse(text: DescribedText) -> bool:
    is_caption = text.entity.kind == Caption.kind
    return is_caption and text.entity.record(Caption).granularity is Granularity.COARSE


def _is_released(text: DescribedText) -> bool:
    """What a source gave needs nobody's consent; what was made here does."""
    if text.entity.kind not in (Caption.kind, Rewrite.kind):
        return False
    states = LIVE if origin_of(text) == "source" else ("accepted",)
    return text.entity.state in states


def is_turned_down(described: DescribedImage) -> bool:
    """Whether fine captions of an image were turned down, and none waits for a decision."""
    states = {
        text.entity.state
        for text in described.texts
        if text.entity.kind == Caption.kind
        and not _is_coarse(text)
        and _language(text) == _LANGUAGE
    }
    return bool(states & {"rejected", "inactive"}) and "proposed" not in states


def origin_of(text: DescribedText) -> CaptionOrigin:
    """How a caption or a rewrite came about: only drafts and rewrites hang on a prompt."""
    if text.entity.kind == Rewrite.kind:
        return "edited_rewrite" if text.by_person else "rewrite"
    if text.draft is not None:
        same = _words(text.draft) == _words(text.entity)
        return "confirmed_draft" if same else "edited_draft"
    if text.by_person:
        return "edited"
    if text.prompts:
        return "drafted"
    return "written" if text.entity.record(Caption).author else "source"


def _words(caption: StoredEntity) -> list[str]:
    return caption.record(Caption).text.split()


def _drafter(text: DescribedText) -> str:
    return (text.draft.record(Caption).author or "") if text.draft is not None else ""


def _caption(text: DescribedText) -> ReleasedCaption:
    if text.entity.kind == Caption.kind:
        caption = text.entity.record(Caption)
        author, words = caption.author or caption.source, caption.text
    else:
        rewrite = text.entity.record(Rewrite)
        author, words = rewrite.author, rewrite.text
    return ReleasedCaption(
        entity_id=text.entity.id,
        text=words,
        author=published_name(author),
        reviewed=text.reviewed,
        origin=origin_of(text),
        drafter=published_name(_drafter(text)),
    )


def left_out(described: DescribedImage) -> Counter[str]:
    """How many rewrites of an image are in which state."""
    return Counter(
        text.entity.state for text in described.texts if text.entity.kind == Rewrite.kind
    )


def embedding_of(crop: CropOrigin | None) -> NDArray[np.float16] | None:
    """The embedding of a crop, if it has any."""
    if crop is None or crop.embedding is None:
        return None
    return np.frombuffer(base64.b64decode(crop.embedding), "<f2")
