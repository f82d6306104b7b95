"""From what the store holds to the rows of a release, in their order."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import Connection

from db.blobs import suffix_of
from db.entities import LIVE, pages
from db.release_rows import (
    DescribedImage,
    DescribedText,
    described_images,
    entities_by_id,
    live_images,
    model_calls,
)
from release.model_use import model_uses
from release.ordering import RowKey
from release.rows import ReleasedCaption, ReleaseRow
from release.scratch import Scratch
from schemas.errors import IntegrityError
from schemas.records import Caption, Image, PromptText, Rewrite, Source
from schemas.release import ModelUse, ReleasedPrompt, ReleasedSource

_PAGE = 250


class FoundRow(NamedTuple):
    """A row, and how many rewrites of its image are not in it, by state."""

    row: ReleaseRow
    left_out: Counter[str]


class Contents:
    """The rows of a dataset as `connection` sees it; all of its methods read that one state.

    What is known only when all rows were read (`sources`, `prompts`, `models`) is asked last.
    """

    def __init__(self, connection: Connection, dataset: str, scratch: Scratch) -> None:
        self._connection = connection
        self._dataset = dataset
        self._scratch = scratch
        self._sources: set[str] = set()
        self._prompts: set[str] = set()
        self._models: set[str] = set()

    def arrange(self) -> int:
        """Puts the images into the order of the release; how many there are.

        Raises:
            IntegrityError: an image is there twice, or an identity in two splits.
        """
        for entity in live_images(self._connection, self._dataset):
            image = entity.record(Image)
            if image.split is None:
                raise IntegrityError(
                    f"image {image.file_path!r} of {image.source} (entity {entity.id}) is in no "
                    f"split; a released image must be in train, val or test"
                )
            key = RowKey.of(image.split, image.source, image.identity, image.file_path)
            name = f"{image.split}: {image.source}/{image.identity} {image.file_path!r}"
            self._scratch.add_image(key, entity.id, f"{name} (entity {entity.id})")
        if doubled := self._scratch.doubled_image():
            raise IntegrityError(
                f"{self._dataset} holds one image of a source more than once; "
                f"withdraw all but one of: {'; '.join(doubled[:5])}"
            )
        if split := self._scratch.identity_in_two_splits():
            raise IntegrityError(
                f"{self._dataset} holds one identity in several splits: {'; '.join(split[:5])}"
            )
        return self._scratch.count_images()

    def rows(self) -> Iterator[FoundRow]:
        """The rows in order. Images without a caption that may be released are left out."""
        number = identity = 0
        last: tuple[str, str] | None = None
        for page in pages(self._scratch.images(), _PAGE):
            for described in described_images(self._connection, page):
                captions = _released_captions(described)
                if not captions:
                    continue
                image = described.image.record(Image)
                number += 1
                identity += (image.source, image.identity) != last
                last = (image.source, image.identity)
                self._remember(described)
                yield FoundRow(
                    _row(number, identity, described, image, captions), _left_out(described)
                )

    def _remember(self, described: DescribedImage) -> None:
        if described.source_id is None:
            raise IntegrityError(
                f"image {described.image.id} is not derived from any source, so that its licence "
                f"is unknown; it cannot be released"
            )
        self._sources.add(described.source_id)
        for text in described.texts:
            if text.entity.kind == Rewrite.kind:
                self._prompts.update(text.prompts)
                if not text.by_person:
                    self._models.add(text.entity.record(Rewrite).author)
        self._scratch.add_calls(text.model_call for text in described.texts if text.model_call)

    def sources(self) -> tuple[ReleasedSource, ...]:
        """The sources that rows come from, by name."""
        found = entities_by_id(self._connection, self._sources)
        sources = [_released_source(id_, one.record(Source)) for id_, one in found.items()]
        return tuple(sorted(sources, key=lambda one: (one.name, one.entity_id)))

    def prompts(self) -> tuple[ReleasedPrompt, ...]:
        """The prompts that rewrites were asked for with, by name and version."""
        found = entities_by_id(self._connection, self._prompts)
        prompts = [
            ReleasedPrompt(entity_id=id_, **one.record(PromptText).model_dump())
            for id_, one in found.items()
        ]
        return tuple(sorted(prompts, key=lambda one: (one.prompt_id, one.version, one.entity_id)))

    def models(self) -> tuple[ModelUse, ...]:
        """The models that wrote rewrites, with what they were asked."""
        return model_uses(model_calls(self._connection, self._scratch.calls()), self._models)


def _released_source(entity_id: str, source: Source) -> ReleasedSource:
    if not source.licence.strip():
        raise IntegrityError(
            f"source {source.name!r} (entity {entity_id}) states no licence; "
            f"import it again with one"
        )
    return ReleasedSource(entity_id=entity_id, **source.model_dump())


def _row(
    number: int,
    identity: int,
    described: DescribedImage,
    image: Image,
    captions: tuple[ReleasedCaption, ...],
) -> ReleaseRow:
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
    )


def _released_captions(described: DescribedImage) -> tuple[ReleasedCaption, ...]:
    """Originals by position, then rewrites by their caption's position, author and text."""
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
    if text.entity.kind == Caption.kind:
        return text.entity.state in LIVE
    return text.entity.kind == Rewrite.kind and text.entity.state == "accepted"


def _caption(text: DescribedText) -> ReleasedCaption:
    if text.entity.kind == Caption.kind:
        original = text.entity.record(Caption)
        author, words = original.source, original.text
    else:
        rewrite = text.entity.record(Rewrite)
        author, words = rewrite.author, rewrite.text
    return ReleasedCaption(
        entity_id=text.entity.id,
        text=words,
        author=author,
        reviewed=text.reviewed,
        is_rewrite=text.entity.kind == Rewrite.kind,
        by_person=text.by_person,
    )


def _left_out(described: DescribedImage) -> Counter[str]:
    return Counter(
        text.entity.state for text in described.texts if text.entity.kind == Rewrite.kind
    )
