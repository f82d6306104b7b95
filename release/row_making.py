"""From an image and all that was said of it to its row."""

import base64
from collections import Counter

import numpy as np

from db.blobs import suffix_of
from db.crop_origins import CropOrigin
from db.entities import LIVE, StoredEntity
from db.release_rows import DescribedImage, DescribedText
from release.rows import CaptionOrigin, ReleasedCaption, ReleasedCrop, ReleaseRow
from schemas.nearness import ComparedImage
from schemas.records import Caption, Image, Rewrite


def row_of(
    number: int,
    identity: int,
    described: DescribedImage,
    image: Image,
    captions: tuple[ReleasedCaption, ...],
) -> ReleaseRow:
    """The row of an image that is in a split."""
    assert image.split is not None  # noqa: S101 - `arrange` has seen to it
    return ReleaseRow(
        number=number,
        id=identity,
        source=image.source,
        identity=image.identity,
        split=image.split,
        file_path=f"images/{number}{suffix_of(image.media_type)}",
        source_file_path=image.file_path,
        captions=captions,
        image_entity_id=described.image.id,
        sha256=image.sha256,
        media_type=image.media_type,
        width_px=image.width_px,
        height_px=image.height_px,
        crop=_crop(described.crop),
        task=image.task,
        tier=image.tier,
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


def released_captions(described: DescribedImage) -> tuple[ReleasedCaption, ...]:
    """Descriptions by position and author, then rewrites by their caption's position and author."""
    positions = {
        text.entity.id: text.entity.record(Caption).position
        for text in described.texts
        if text.entity.kind == Caption.kind
    }
    captions = [
        (positions.get(text.origin, 0), _caption(text))
        for text in described.texts
        if _is_released(text)
    ]
    captions.sort(key=lambda one: (one[1].is_rewrite, one[0], one[1].author, one[1].text, one[1]))
    return tuple(caption for _, caption in captions)


def _is_released(text: DescribedText) -> bool:
    """What a source gave needs nobody's consent; what was made here does."""
    if text.entity.kind not in (Caption.kind, Rewrite.kind):
        return False
    states = LIVE if origin_of(text) == "source" else ("accepted",)
    return text.entity.state in states


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
        author=author,
        reviewed=text.reviewed,
        origin=origin_of(text),
        drafter=_drafter(text),
    )


def left_out(described: DescribedImage) -> Counter[str]:
    """How many rewrites of an image are in which state."""
    return Counter(
        text.entity.state for text in described.texts if text.entity.kind == Rewrite.kind
    )


def compared_image(
    row: ReleaseRow, crop: CropOrigin | None, perceptual_hash: int | None
) -> ComparedImage:
    """A row as it is compared."""
    embedding = None
    if crop is not None and crop.embedding is not None:
        embedding = np.frombuffer(base64.b64decode(crop.embedding), "<f2")
    return ComparedImage(
        name=row.file_path,
        identity=f"{row.source}/{row.identity}",
        sha256=row.sha256,
        perceptual_hash=perceptual_hash,
        video_sha256=row.crop.video_sha256 if row.crop else None,
        embedding=embedding,
        embedder=crop.embedder if crop else "",
    )
