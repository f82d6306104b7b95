"""From what the store holds to the rows of a release, in their order."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import Connection

from db.crop_origins import CropOrigin
from db.entities import StoredEntity, pages
from db.release_rows import (
    DescribedImage,
    described_images,
    entities_by_id,
    live_images,
    model_calls,
)
from release.model_use import model_uses
from release.ordering import RowKey
from release.row_making import left_out, origin_of, released_captions, row_of
from release.rows import ReleasedCaption, ReleaseRow
from release.scratch import Scratch
from release.tiers import CANDIDATES, TIERS, tiers_within
from schemas.errors import IntegrityError, UsageError
from schemas.records import Caption, Image, PromptText, Rewrite, Source
from schemas.release import (
    ModelUse,
    ReleasedPrompt,
    ReleasedSource,
    ReleasedVideo,
    TrackletStatistics,
)
from schemas.retrieval_task import Tier

_PAGE = 250
_DESCRIBED: Tier = "v1"


def described_tier(connection: Connection, dataset: str) -> Tier | None:
    """The tier that holds all images of a dataset with captions; None where it has no tiers."""
    images = (one.record(Image) for one in live_images(connection, dataset))
    return _DESCRIBED if any(image.tier is not None for image in images) else None


class FoundRow(NamedTuple):
    """A row, how many rewrites of its image are not in it, by state, and what it was cut from."""

    row: ReleaseRow
    left_out: Counter[str]
    crop: CropOrigin | None


class Contents:
    """The rows of a dataset as `connection` sees it; all of its methods read that one state.

    What is known only when all rows were read (`sources`, `videos` …) is asked last. With `tier`,
    the rows are those of a benchmark's version: images of that tier and of the tiers below it.
    """

    def __init__(
        self, connection: Connection, dataset: str, scratch: Scratch, tier: Tier | None = None
    ) -> None:
        self._connection = connection
        self._dataset = dataset
        self._scratch = scratch
        self._tier = tier
        self.has_tasks = False
        self._sources: set[str] = set()
        self._prompts: set[str] = set()
        self._models: set[str] = set()
        self._videos: dict[str, _VideoCount] = {}
        self._trackers: set[str] = set()
        self._tracklets: dict[str, bool] = {}

    def arrange(self) -> int:
        """Puts the images into the order of the release; how many there are.

        Raises:
            UsageError: the dataset has tiers and none was named, or the other way round.
            IntegrityError: an image is there twice, or an identity in two splits.
        """
        for entity, image in self._chosen():
            self.has_tasks |= image.task is not None or image.tier is not None
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

    def _chosen(self) -> Iterator[tuple[StoredEntity, Image]]:
        """The images that belong to the release."""
        within = tiers_within(self._tier) if self._tier else (None,)
        tiered, untiered = 0, list[str]()
        for entity in live_images(self._connection, self._dataset):
            image = entity.record(Image)
            if image.tier is None:
                untiered.append(f"{image.file_path!r} of {image.source} (entity {entity.id})")
            tiered += image.tier is not None
            if image.tier in within:
                yield entity, image
        if tiered and self._tier is None:
            raise UsageError(
                f"{tiered:,} images of {self._dataset!r} stand in tiers: say which of them is "
                f"released ({', '.join(TIERS)})"
            )
        if untiered and self._tier is not None:
            if not tiered:
                raise UsageError(
                    f"no image of {self._dataset!r} stands in a tier: release it without one"
                )
            raise IntegrityError(
                f"{len(untiered):,} images of {self._dataset!r} stand in no tier; every one must "
                f"be in one of {', '.join(TIERS)}: {min(untiered)}"
            )

    def rows(self) -> Iterator[FoundRow]:
        """The rows in order. Images without a caption that may be released are left out.

        But for candidates: these have none, and stand there all the same.

        Raises:
            IntegrityError: a candidate has captions, or an image no source.
        """
        number = identity = 0
        last: tuple[str, str] | None = None
        for page in pages(self._scratch.images(), _PAGE):
            for described in described_images(self._connection, page):
                captions = released_captions(described)
                image = described.image.record(Image)
                if image.tier == CANDIDATES:
                    _refuse_described(image, captions)
                elif not captions:
                    continue
                self._models.update(caption.drafter for caption in captions if caption.drafter)
                number += 1
                identity += (image.source, image.identity) != last
                last = (image.source, image.identity)
                self._remember(described, identity)
                row = row_of(number, identity, described, image, captions)
                yield FoundRow(row, left_out(described), described.crop)

    def _remember(self, described: DescribedImage, identity: int) -> None:
        if described.source_id is None:
            raise IntegrityError(
                f"image {described.image.id} is not derived from any source, so that its licence "
                f"is unknown; it cannot be released"
            )
        self._sources.add(described.source_id)
        for text in described.texts:
            self._prompts.update(text.prompts)
            if text.entity.kind == Rewrite.kind and not text.by_person:
                self._models.add(text.entity.record(Rewrite).author)
            elif text.entity.kind == Caption.kind and origin_of(text) == "drafted":
                self._models.add(text.entity.record(Caption).author or "")
        self._scratch.add_calls(text.model_call for text in described.texts if text.model_call)
        if crop := described.crop:
            counted = self._videos.setdefault(crop.video_id, _VideoCount(crop))
            counted.images += 1
            counted.identities.add(identity)
            self._tracklets[crop.tracklet_id] = described.selected
            self._trackers.update([crop.embedder] if crop.embedder else [])

    def sources(self) -> tuple[ReleasedSource, ...]:
        """The sources that rows come from, by name."""
        found = entities_by_id(self._connection, self._sources)
        sources = [_released_source(id_, one.record(Source)) for id_, one in found.items()]
        return tuple(sorted(sources, key=lambda one: (one.name, one.entity_id)))

    def videos(self) -> tuple[ReleasedVideo, ...]:
        """The videos that images were cut from, by source and path."""
        videos = [counted.released() for counted in self._videos.values()]
        return tuple(sorted(videos, key=lambda one: (one.source, one.file_path, one.entity_id)))

    def tracklets(self) -> TrackletStatistics | None:
        """How many tracklets images were selected in, and how many of them people decided on."""
        if not self._tracklets:
            return None
        reviewed = sum(self._tracklets.values())
        return TrackletStatistics(released=len(self._tracklets), reviewed=reviewed)

    def trackers(self) -> tuple[str, ...]:
        """The trackers (`name@revision`) that found the people in the videos."""
        return tuple(sorted(self._trackers))

    def prompts(self) -> tuple[ReleasedPrompt, ...]:
        """The prompts that texts were asked for with, by name and version."""
        found = entities_by_id(self._connection, self._prompts)
        prompts = [
            ReleasedPrompt(entity_id=id_, **one.record(PromptText).model_dump())
            for id_, one in found.items()
        ]
        return tuple(sorted(prompts, key=lambda one: (one.prompt_id, one.version, one.entity_id)))

    def models(self) -> tuple[ModelUse, ...]:
        """The models that wrote, with what they were asked."""
        return model_uses(model_calls(self._connection, self._scratch.calls()), self._models)


def _refuse_described(image: Image, captions: tuple[ReleasedCaption, ...]) -> None:
    if captions:
        raise IntegrityError(
            f"image {image.file_path!r} of {image.source} is of tier {CANDIDATES} and has "
            f"{len(captions)} captions; images of that tier are candidates without any"
        )


class _VideoCount:
    """What was cut out of one video."""

    def __init__(self, crop: CropOrigin) -> None:
        self._entity_id = crop.video_id
        self._video = crop.video
        self.images = 0
        self.identities: set[int] = set()

    def released(self) -> ReleasedVideo:
        """The video as the manifest states it."""
        return ReleasedVideo(
            entity_id=self._entity_id,
            source=self._video.source,
            file_path=self._video.file_path,
            sha256=self._video.sha256,
            duration_seconds=self._video.facts.duration_seconds,
            identities=len(self.identities),
            images=self.images,
        )


def _released_source(entity_id: str, source: Source) -> ReleasedSource:
    if not source.licence.strip():
        raise IntegrityError(
            f"source {source.name!r} (entity {entity_id}) states no licence; "
            f"import it again with one"
        )
    return ReleasedSource(entity_id=entity_id, **source.model_dump())
