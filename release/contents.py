"""Makes the rows of a release, in their order, from the images and texts in the store."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from loupe.db.blobs import suffix_of
from loupe.db.decisions import decided_by_people
from loupe.db.entities import LIVE, StoredEntity, fetch, pages
from loupe.db.release_rows import (
    UNKNOWN,
    CropOrigin,
    DescribedImage,
    DescribedText,
    OwnRecord,
    StrategyOrigin,
    candidates_of,
    corrections_of,
    dataset_form,
    described_images,
    live_images,
    model_calls,
    own_records,
    read_sources,
    strategy_origins,
)
from loupe.release.card.model_use import BUILTIN_PREFIX, model_uses, step_author
from loupe.release.format.encoding import SUFFIX, Size, common_sizes, encoding_of
from loupe.release.format.publishable import published_name
from loupe.release.format.rows import (
    CAPTION,
    ENTITY,
    NO_TERMS,
    CaptionOrigin,
    ReleasedCaption,
    ReleasedContrast,
    ReleasedCrop,
    ReleasedTerms,
    ReleasedTranslation,
    ReleaseRow,
    RowForm,
    RowKey,
    own_columns_of,
    own_values,
)
from loupe.release.format.scratch import Scratch
from loupe.schemas.encoding import ImageEncoder, ImageEncoding, ReleasedImages
from loupe.schemas.errors import IntegrityError, UsageError
from loupe.schemas.proposals import Candidate
from loupe.schemas.records import (
    Caption,
    Contrast,
    Granularity,
    Image,
    PromptText,
    Rewrite,
    Source,
    TermsCorrection,
)
from loupe.schemas.release import (
    LeftOutGroups,
    ModelUse,
    ReleasedCorrection,
    ReleasedPrompt,
    ReleasedSource,
    ReleasedVideo,
    TrackletStatistics,
)
from loupe.schemas.taxonomy import CANDIDATES, TIERS, Tier, tiers_within

_PAGE = 250
_SHOWN = 5
_DESCRIBED: Tier = "v1"


def described_tier(connection: Connection, dataset: str) -> Tier | None:
    """The tier that contains all images of a dataset with captions; None if it has no tiers."""
    images = (one.record(Image) for one in live_images(connection, dataset))
    return _DESCRIBED if any(image.tier is not None for image in images) else None


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


class FoundRow(NamedTuple):
    """A row as stored, and what else is known of it.

    `rewrites` are the numbers of rewrites by state. An encoder writes the image at `size` (width,
    height); `was_edited` says that an editor has resampled it before.
    """

    row: ReleaseRow
    rewrites: Counter[str]
    crop: CropOrigin | None
    size: Size
    was_edited: bool = False


class _Released(NamedTuple):
    """An image that is released, before it has its number."""

    described: DescribedImage
    image: Image
    said: ReleasableTexts
    terms: ReleasedTerms
    own: dict[str, list[dict[str, Any]]]
    was_edited: bool


class Contents:
    """The rows of a dataset as `connection` sees it; all methods read the same state.

    `sources`, `videos` and similar totals are complete only after all rows were read. With `tier`,
    the rows are those of a version of a benchmark: images of that tier and of the tiers below it.
    `images` says how they are written; by default one encoder writes those of a benchmark of tasks
    or contrasts. Then names and order of its images follow from digests.
    """

    def __init__(
        self,
        connection: Connection,
        dataset: str,
        scratch: Scratch,
        tier: Tier | None = None,
        images: ReleasedImages | None = None,
    ) -> None:
        self._connection = connection
        self._dataset = dataset
        self._scratch = scratch
        self.tier = tier
        self.form = RowForm()
        self._images = images
        self.encoding: ImageEncoding | None = None
        self.dataset_form = dataset_form(connection, dataset)
        self._texts: set[str] = set()
        self._own: dict[str, dict[str, list[OwnRecord]]] = {}
        self.has_reviewed_records = False
        self.without_captions = 0
        self.without_anchor = 0
        self._groups_left_out: Counter[str] = Counter()
        self._licences: dict[str, str] = {}
        self._edited_by: dict[str, str] = {}
        self._strategies: dict[str, StrategyOrigin] = {}
        self._editors: Counter[str] = Counter()
        self._read = read_sources(connection, dataset)
        self._sources: set[str] = set()
        self._prompts: set[str] = set()
        self._models: set[str] = set()
        self._crops: dict[str, CropOrigin] = {}
        self._trackers: set[str] = set()
        self._tracklets: dict[str, bool] = {}

    def arrange(self) -> int:
        """Sort the images into the order of the release; returns their number.

        Contrastive images follow their anchor.

        Raises:
            UsageError: if the dataset has tiers and none was named, or the other way round.
            IntegrityError: if an image occurs twice, an identity is in two splits, or a contrastive
                image is in another split than its anchor.
        """
        tasks = contrasts = terms = faces = False
        for entity, image in self._chosen():
            tasks |= image.task is not None or image.tier is not None
            contrasts |= image.contrast is not None
            terms |= image.attribution is not None
            faces |= image.faces is not None
            if image.split is None:
                raise IntegrityError(
                    f"image {image.file_path!r} of {image.source} (entity {entity.id}) has no "
                    f"split; a released image must be in train, val or test"
                )
            key = RowKey.of(image.split, image.source, image.identity, image.file_path)
            name = f"{image.split}: {image.source}/{image.identity} {image.file_path!r}"
            anchor_id = image.contrast.anchor_id if image.contrast else None
            self._scratch.add_image(key, entity.id, f"{name} (entity {entity.id})", anchor_id)
        own = own_columns_of(self.dataset_form) if self.dataset_form else ()
        self.encoding = _encoding(self._images, tasks=tasks, contrasts=contrasts)
        encoded = self.encoding is not None
        self.form = RowForm(tasks, contrasts, terms or contrasts, own, encoded, faces)
        for what, names in self._scratch.disorder():
            shown = "; ".join(names[:_SHOWN]) + (" and more" if len(names) > _SHOWN else "")
            raise IntegrityError(f"{self._dataset} holds {what} ({len(names):,}): {shown}")
        if encoded:
            self._scratch.reorder(lambda key: RowKey(*key).neutral())
        return self._scratch.count_images()

    def _chosen(self) -> Iterator[tuple[StoredEntity, Image]]:
        """The images that belong to the release."""
        within = tiers_within(self.tier) if self.tier else (None,)
        tiered, untiered = 0, list[str]()
        for entity in live_images(self._connection, self._dataset):
            image = entity.record(Image)
            if image.tier is None:
                untiered.append(f"{image.file_path!r} of {image.source} (entity {entity.id})")
            tiered += image.tier is not None
            if image.tier in within:
                yield entity, image
        if tiered and self.tier is None:
            raise UsageError(
                f"{tiered:,} images of {self._dataset!r} are in tiers: name the tier to "
                f"release ({', '.join(TIERS)})"
            )
        if untiered and self.tier is not None:
            if not tiered:
                raise UsageError(
                    f"no image of {self._dataset!r} is in a tier: release it without one"
                )
            raise IntegrityError(
                f"{len(untiered):,} images of {self._dataset!r} are in no tier; every one must "
                f"be in one of {', '.join(TIERS)}: {min(untiered)}"
            )

    def rows(self) -> Iterator[FoundRow]:
        """The rows in order; images without a caption that may be released are left out.

        Candidates have no captions and are released nevertheless. Contrastive images are left out
        if their anchor is. In a contrastive benchmark each image is its own identity.

        Raises:
            IntegrityError: if a candidate has captions, or an image has no source.
        """
        number = identity = 0
        last: tuple[str, str] | None = None
        for group in self._groups():
            sizes = [(one.image.width_px, one.image.height_px) for one in group]
            if self.encoding and self.encoding.round_trip:
                sizes = common_sizes(sizes)
            first = number + 1
            anchor = None
            for place, one in enumerate(group):
                if one.image.contrast is None:
                    file_path = self._file_path(one.image, first + place)
                    anchor = Anchor(one.described.image.id, first + place, file_path)
            for one, size in zip(group, sizes, strict=True):
                number += 1
                named = (one.image.source, one.image.identity)
                identity += self.form.contrasts or named != last
                last = named
                file_path = self._file_path(one.image, number, anchor)
                row = _row_of(number, identity, file_path, one, anchor)
                rewrites = Counter(
                    text.entity.state
                    for text in one.described.texts
                    if text.entity.kind == Rewrite.kind
                )
                yield FoundRow(row, rewrites, one.described.crop, size, one.was_edited)

    def _file_path(self, image: Image, number: int, anchor: Anchor | None = None) -> str:
        """The path of an image; without an encoder, contrastive ones are named after `anchor`."""
        if self.encoding is not None:
            return f"images/{number}{SUFFIX}"
        name = str(number)
        if image.contrast is not None and anchor is not None:
            name = f"{anchor.number}_{number}"
        return f"images/{name}{suffix_of(image.media_type)}"

    def _groups(self) -> Iterator[list[_Released]]:
        """The released images: a contrastive group at a time, others one at a time.

        An anchor is the first of its group; if images are encoded, its place is a matter of chance.
        """
        group: list[_Released] = []
        for one in self._released_images():
            if group and one.image.contrast is None:
                yield self._arranged(group)
                group = []
            group.append(one)
        if group:
            yield self._arranged(group)

    def _arranged(self, group: list[_Released]) -> list[_Released]:
        if self.encoding is None:
            return group
        return sorted(group, key=lambda one: one.described.image.id)

    def _released_images(self) -> Iterator[_Released]:
        anchor: str | None = None
        for described in self._described():
            said, image = _releasable_texts(described), described.image.record(Image)
            self._texts = {text.entity.id for text in described.texts}
            if image.tier == CANDIDATES:
                if said.captions:
                    raise IntegrityError(
                        f"image {image.file_path!r} of {image.source} is of tier {CANDIDATES} and "
                        f"has {len(said.captions)} captions; images of that tier are candidates "
                        f"without any"
                    )
            elif not self._is_released(described, image, said, anchor):
                continue
            self._models.update(caption.drafter for caption in said.captions if caption.drafter)
            terms = self._remember(described, image, said)
            if image.contrast is None:
                anchor = described.image.id
            own = self._own_columns(described.image.id, said)
            yield _Released(described, image, said, terms, own, self._was_resampled(described))

    def _was_resampled(self, described: DescribedImage) -> bool:
        """Whether an editor scaled the image to its working size and back.

        All do but those built in, which change pixels where they are.
        """
        contrast = described.image.record(Image).contrast
        editor = self._edited_by.get(described.image.id, "")
        is_edited = contrast is not None and contrast.method == "edit"
        return is_edited and not editor.startswith(BUILTIN_PREFIX)

    def _described(self) -> Iterator[DescribedImage]:
        for page in pages(self._scratch.images(), _PAGE):
            candidates = candidates_of(self._connection, page) if self.form.contrasts else {}
            origins = {id_: one.record(Candidate).origin for id_, one in candidates.items()}
            self._edited_by = {
                id_: origin.model for id_, origin in origins.items() if origin.method == "edit"
            }
            self._strategies = strategy_origins(self._connection, candidates)
            self._own = self._own_records(page)
            yield from described_images(self._connection, page)

    def _own_records(self, images: Sequence[str]) -> dict[str, dict[str, list[OwnRecord]]]:
        """The dataset's own records about images, by image and kind."""
        kinds = [column.name for column in self.form.own]
        found: dict[str, dict[str, list[OwnRecord]]] = {}
        listed = list(own_records(self._connection, self._dataset, kinds, images))
        if listed and not self.has_reviewed_records:
            ids = [id_ for one in listed for id_ in (one.entity.id, *one.above)]
            self.has_reviewed_records = bool(decided_by_people(self._connection, ids))
        for one in listed:
            of_image = found.setdefault(str(one.entity.group), {})
            of_image.setdefault(one.entity.kind, []).append(one)
        return found

    def _own_columns(self, image: str, said: ReleasableTexts) -> dict[str, list[dict[str, Any]]]:
        """The records about an image and its released captions, by column.

        Those about captions that are not released are left out.
        """
        places = {caption.entity_id: place for place, caption in enumerate(said.captions)}
        columns: dict[str, list[dict[str, Any]]] = {}
        for column in self.form.own:
            records = []
            for one in self._own.get(image, {}).get(column.name, ()):
                about = [places[id_] for id_ in one.above if id_ in places]
                if not about and any(id_ in self._texts for id_ in one.above):
                    continue
                self._prompts.update(one.prompts)
                self._scratch.add_calls([one.model_call] if one.model_call else [])
                values = own_values(column, json.loads(one.entity.payload))
                place = about[0] if about else -1
                records.append({**values, ENTITY: one.entity.id, CAPTION: place})
            columns[column.name] = sorted(records, key=lambda one: (one[CAPTION], one[ENTITY]))
        return columns

    def _is_released(
        self, described: DescribedImage, image: Image, said: ReleasableTexts, anchor: str | None
    ) -> bool:
        """Whether an image that is not a candidate is released; counts it otherwise."""
        if not said.captions:
            self.without_captions += 1
            if self.form.contrasts and image.contrast is None:
                self._groups_left_out[self._why_left_out(described)] += 1
            return False
        if image.contrast is not None and image.contrast.anchor_id != anchor:
            self.without_anchor += 1
            return False
        return True

    def _why_left_out(self, anchor: DescribedImage) -> str:
        """Why an anchor has no fine captions, as a field name of `LeftOutGroups`."""
        if not self._scratch.has_contrasts(anchor.image.id):
            return "alone"
        return "rejected" if _is_rejected(anchor) else "undecided"

    def left_out(self) -> LeftOutGroups | None:
        """The anchors that are left out without fine captions; None if there are none."""
        if not self._groups_left_out:
            return None
        return LeftOutGroups(
            **{why: self._groups_left_out[why] for why in LeftOutGroups.model_fields}
        )

    def _remember(
        self, described: DescribedImage, image: Image, said: ReleasableTexts
    ) -> ReleasedTerms:
        """Record the origin of a row; returns the terms of its image."""
        if described.source_id is None:
            raise IntegrityError(
                f"image {described.image.id} is not derived from any source, so that its licence "
                f"is unknown; it cannot be released"
            )
        source_id = self._read.get(image.source, described.source_id)
        self._sources.add(source_id)
        if editor := self._edited_by.get(described.image.id):
            self._editors[published_name(editor)] += 1
        strategy = self._strategies.get(described.image.id, UNKNOWN)
        self._prompts.update(strategy.prompts)
        self._models.update(strategy.models)
        self._scratch.add_calls(strategy.model_calls)
        released = {one.entity_id for group in said for one in group}
        for text in described.texts:
            self._prompts.update(text.prompts)
            if text.entity.id not in released:
                continue
            if text.entity.kind == Rewrite.kind and not text.by_person:
                self._models.add(text.entity.record(Rewrite).author)
            elif text.entity.kind == Caption.kind and _origin_of(text) == "drafted":
                self._models.add(text.entity.record(Caption).author or "")
        self._scratch.add_calls(text.model_call for text in described.texts if text.model_call)
        if crop := described.crop:
            self._crops[crop.video_id] = crop
            self._tracklets[crop.tracklet_id] = described.selected
            self._trackers.update([published_name(crop.embedder)] if crop.embedder else [])
        if not self.form.terms:
            return NO_TERMS
        licence = self._licence_of(source_id)
        if (terms := image.attribution) is None:
            return ReleasedTerms(licence, None, None, own=False, of_source=True)
        stated = terms.licence or licence
        of_source = stated == licence
        own = not of_source or bool(terms.creator or terms.source_url)
        return ReleasedTerms(stated, terms.creator, terms.source_url, own, of_source)

    def _licence_of(self, source_id: str) -> str:
        if source_id not in self._licences:
            (source,) = self._released({source_id})
            self._licences[source_id] = source.licence
        return self._licences[source_id]

    def sources(self) -> tuple[ReleasedSource, ...]:
        """The sources of the rows, by name."""
        sources = self._released(self._sources)
        return tuple(sorted(sources, key=lambda one: (one.name, one.entity_id)))

    def _released(self, source_ids: set[str]) -> list[ReleasedSource]:
        """Sources under their current terms."""
        found = fetch(self._connection, source_ids)
        corrections = corrections_of(self._connection, source_ids)
        return [
            _released_source(id_, one.record(Source), corrections.get(id_))
            for id_, one in found.items()
        ]

    def videos(self) -> tuple[ReleasedVideo, ...]:
        """The videos that images were cut from, by source and path, not counted yet."""
        videos = [
            ReleasedVideo(
                entity_id=id_,
                source=crop.video.source,
                file_path=crop.video.file_path,
                sha256=crop.video.sha256,
                duration_seconds=crop.video.facts.duration_seconds,
                identities=0,
                images=0,
            )
            for id_, crop in self._crops.items()
        ]
        return tuple(sorted(videos, key=lambda one: (one.source, one.file_path, one.entity_id)))

    def tracklets(self) -> TrackletStatistics | None:
        """The number of tracklets that images were selected from, and how many people reviewed."""
        if not self._tracklets:
            return None
        reviewed = sum(self._tracklets.values())
        return TrackletStatistics(released=len(self._tracklets), reviewed=reviewed)

    def trackers(self) -> tuple[str, ...]:
        """The trackers (`name@revision`) that found the people in the videos."""
        return tuple(sorted(self._trackers))

    def editors(self) -> tuple[tuple[str, int], ...]:
        """The models that edited contrastive images, with their numbers of rows."""
        return tuple(sorted(self._editors.items()))

    def prompts(self) -> tuple[ReleasedPrompt, ...]:
        """The prompts of texts and strategies, by name and version."""
        found = fetch(self._connection, self._prompts)
        prompts = [
            ReleasedPrompt(entity_id=id_, **one.record(PromptText).model_dump())
            for id_, one in found.items()
        ]
        return tuple(sorted(prompts, key=lambda one: (one.prompt_id, one.version, one.entity_id)))

    def models(self) -> tuple[ModelUse, ...]:
        """The models that wrote texts or proposed strategies, with their prompts."""
        steps = self.dataset_form.steps if self.dataset_form else ()
        authors = self._models - {step_author(self._dataset, one) for one in steps}
        return model_uses(model_calls(self._connection, self._scratch.calls()), authors)


def _released_source(
    entity_id: str, source: Source, correction: tuple[str, TermsCorrection] | None
) -> ReleasedSource:
    if not source.licence.strip():
        raise IntegrityError(
            f"source {source.name!r} (entity {entity_id}) states no licence; "
            f"import it again with one"
        )
    values = source.model_dump()
    if correction is not None and correction[1].terms != source.terms:
        id_, corrected = correction
        values |= corrected.terms.model_dump()
        values["correction"] = ReleasedCorrection(
            entity_id=id_,
            number=corrected.number,
            reason=corrected.reason,
            imported=source.terms,
        )
    return ReleasedSource(entity_id=entity_id, **values)


# The row of an image and its texts.

_LANGUAGE = "en"
"""The language of captions; captions in other languages are translations."""


def _row_of(
    number: int, identity: int, file_path: str, released: _Released, anchor: Anchor | None
) -> ReleaseRow:
    """The row of an image in a split."""
    described, image, said, terms = released[:4]
    assert image.split is not None  # noqa: S101 - `arrange` has seen to it
    return ReleaseRow(
        number=number,
        id=identity,
        source=image.source,
        identity=image.identity,
        split=image.split,
        file_path=file_path,
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
        own=released.own,
        faces=image.faces,
    )


def _encoding(
    images: ReleasedImages | None, *, tasks: bool, contrasts: bool
) -> ImageEncoding | None:
    """How images are written: as stated, or by one encoder if they are those of a benchmark."""
    if images == "stored":
        return None
    if images is not None:
        return encoding_of(images)
    is_benchmark = tasks or contrasts
    return encoding_of(ImageEncoder(round_trip=contrasts)) if is_benchmark else None


def _contrast(contrast: Contrast, anchor: Anchor) -> ReleasedContrast:
    values = contrast.model_dump(exclude={"anchor_id"})
    return ReleasedContrast(anchor=anchor.file_path, anchor_entity_id=anchor.entity_id, **values)


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


def _releasable_texts(described: DescribedImage) -> ReleasableTexts:
    """Descriptions by position and author, then rewrites by their caption's position and author.

    Translations are ordered by language first; translations of unreleased captions are left out.
    """
    records = {text.entity.id: _record(text.entity) for text in described.texts}
    released = []
    for text in described.texts:
        record = records[text.entity.id]
        if record is not None and _is_released(text):
            released.append((_caption(text, record), text.origin, record))

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
    return text.entity.state in (LIVE if _origin_of(text) == "source" else ("accepted",))


def _is_rejected(described: DescribedImage) -> bool:
    """Whether fine captions of an image were rejected and none is pending."""
    states = set()
    for text in described.texts:
        record = _record(text.entity)
        is_fine = isinstance(record, Caption) and not _is_coarse(record)
        if is_fine and _language(record) == _LANGUAGE:
            states.add(text.entity.state)
    return bool(states & {"rejected", "inactive"}) and "proposed" not in states


def _origin_of(text: DescribedText) -> CaptionOrigin:
    """The origin of a caption or rewrite; only drafts and rewrites derive from a prompt."""
    if text.entity.kind == Rewrite.kind:
        return "edited_rewrite" if text.by_person else "rewrite"
    if text.draft is not None:
        draft, caption = text.draft.record(Caption), text.entity.record(Caption)
        same = draft.text.split() == caption.text.split()
        return "confirmed_draft" if same else "edited_draft"
    if text.by_person:
        return "edited"
    if text.prompts or text.is_computed:
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
        origin=_origin_of(text),
        drafter=published_name(drafter or ""),
    )
