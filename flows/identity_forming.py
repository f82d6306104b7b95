"""Makes identities of the accepted tracklets: their crops become images, in train or in test."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from annotate.items import EDITED_FROM
from db.annotations import last_decisions, standing_successors
from db.crop_origins import CROP_OF, SELECTED_IN
from db.entities import (
    LIVE,
    NewEntity,
    StoredEntity,
    fetch,
    find,
    find_in_groups,
    new_entity,
    parents_of,
)
from db.store import Store
from db.work import WorkResult
from flows.context import RunContext
from flows.report import StageReport
from flows.retiring import keep_current
from flows.runner import Stage, run_stream
from models.tracking.association import unpacked
from schemas.base import canonical_json, digest_of
from schemas.leaks import SplitSettings
from schemas.nearness import ComparedImage, perceptual_hash
from schemas.proposals import Tracklet
from schemas.records import Image, Rejection, Split
from schemas.video import Track, Video
from stages.identities.crops import CroppedImage, compared_images, crop_images
from stages.identities.merging import (
    STAGE,
    VERSION,
    AcceptedTracklet,
    Identity,
    merge_identities,
)
from stages.identities.splitting import ImageKey, assign_splits, tied_images
from stages.tracklets import PART_OF, REPORT_OF


def form_identities(
    context: RunContext, dataset: str, tracklet_groups: Collection[str], settings: SplitSettings
) -> StageReport:
    """Forms the identities of `dataset` from what is accepted of the tracklets in these groups.

    All of them are one transaction: who is the same person, and which split nobody may leave, is
    known of all together. Splits that were given stay. What counts now is computed in every run,
    also where it was stored long ago: images that do not count any more (all, where nothing is
    accepted) are retired, and those that count again come back.
    """
    accepted = [
        entity
        for entity in find_in_groups(context.store, dataset, Tracklet.kind, tracklet_groups)
        if entity.state == "accepted"
    ]
    selected = _selected(context.store, accepted)
    taken = _taken(context.store, dataset)
    stage = Stage(
        name=STAGE,
        version=VERSION,
        dataset=dataset,
        configuration={
            "tracklets": selected.digest(),
            "settings": settings.model_dump(mode="json"),
            "taken": digest_of(canonical_json(taken)),
        },
        chunk_size=max(1, len(accepted)),
        workers=1,
        label="form identities",
    )

    @cache
    def formed() -> _Formed:
        return _formed(context, dataset, selected, settings, taken)

    def work(tracklets: Sequence[tuple[int, StoredEntity]]) -> list[WorkResult]:
        return [formed().result(entity) for _, entity in tracklets]

    numbered = sorted((entity.seq, entity) for entity in accepted)
    report = run_stream(context, stage, iter(numbered), work, total=len(accepted))
    current = formed().image_ids()
    keep_current(context, dataset, Image.kind, lambda image: image.id in current, LIVE)
    return report


def _taken(store: Store, dataset: str) -> dict[str, Split]:
    """The splits that were given before, by identity and by the digest of the video.

    Those of retired images, too: what comes back later was promised its split. Where they differ,
    what is live counts.
    """
    taken: dict[str, Split] = {}
    images = sorted(find(store, dataset, Image.kind), key=lambda image: image.state in LIVE)
    videos = parents_of(store, [image.id for image in images], CROP_OF)
    stored = fetch(store, {video for found in videos.values() for video in found})
    digests = {video: entity.record(Video).sha256 for video, entity in stored.items()}
    for image in images:
        record = image.record(Image)
        if record.split is None:
            continue
        taken[record.identity] = record.split
        taken.update((digests[video], record.split) for video in videos.get(image.id, ()))
    return taken


class _Selected(NamedTuple):
    """The tracklets that identities are formed of, those that cannot be, and what was edited."""

    tracklets: Sequence[AcceptedTracklet]
    rejections: Mapping[str, Rejection]
    successors: Mapping[str, Sequence[str]]

    def digest(self) -> str:
        """Equal where the same is selected."""
        frames = {one.id: [frame.frame for frame in one.record.frames] for one in self.tracklets}
        left_out = sorted(self.rejections)
        return digest_of(canonical_json([frames, left_out, dict(self.successors)]))


def _selected(store: Store, accepted: Sequence[StoredEntity]) -> _Selected:
    """Drops suspected frames that nobody has looked at."""
    tracklets, rejections = _without_suspicions(store, accepted)
    return _Selected(tracklets, rejections, _successors(store, tracklets))


class _Formed(NamedTuple):
    """What became of the tracklets: images by tracklet, and rejections.

    `left_out` speaks of those tracklets that give some of their images only.
    """

    images: Mapping[str, Sequence[NewEntity]]
    rejections: Mapping[str, Rejection]
    left_out: Mapping[str, Rejection]

    def result(self, tracklet: StoredEntity) -> WorkResult:
        """What became of one."""
        rejection = self.rejections.get(tracklet.id) or self.left_out.get(tracklet.id)
        images = tuple(self.images.get(tracklet.id, ()))
        return WorkResult(tracklet.seq, entities=images, rejection=rejection)

    def image_ids(self) -> frozenset[str]:
        """The images that count now."""
        return frozenset(image.id for images in self.images.values() for image in images)


def _formed(
    context: RunContext,
    dataset: str,
    selected: _Selected,
    settings: SplitSettings,
    taken: Mapping[str, Split],
) -> _Formed:
    """Merges, splits, and makes images."""
    merged = merge_identities(selected.tracklets, selected.successors)
    rejections = {**selected.rejections, **merged.rejections}
    assigned = assign_splits(_compared(context, selected, merged.identities), settings, taken)
    images: dict[str, list[NewEntity]] = defaultdict(list)
    tied: dict[str, dict[str, ImageKey]] = defaultdict(dict)
    videos = _videos(context.store, dataset)
    for identity in merged.identities:
        if rejection := assigned.rejections.get(identity.name):
            rejections |= dict.fromkeys((one.id for one in identity.tracklets), rejection)
            continue
        for image in crop_images(identity, assigned.splits[identity.name]):
            name = image.record.file_path
            if tied_to := assigned.tied.get((identity.name, name)):
                tied[image.tracklet_id][name] = tied_to
            else:
                images[image.tracklet_id].append(_entity(image, dataset, videos))
    return _Formed(images, rejections, {id_: tied_images(id_, one) for id_, one in tied.items()})


def _compared(
    context: RunContext, selected: _Selected, identities: Iterable[Identity]
) -> list[ComparedImage]:
    """The images of all identities as they are held against each other."""
    hash_of = _hashes(context, selected.tracklets)
    embeddings = crop_embeddings(context.store, [one.id for one in selected.tracklets])
    return [
        image
        for identity in identities
        for image in compared_images(identity, hash_of, embeddings.get)
    ]


def _without_suspicions(
    store: Store, accepted: Sequence[StoredEntity]
) -> tuple[list[AcceptedTracklet], dict[str, Rejection]]:
    """The tracklets; of those that no person decided on, only the frames that nothing speaks of."""
    with store.read() as connection:
        last = last_decisions(connection, [entity.id for entity in accepted])
    tracklets, rejections = [], {}
    for entity in accepted:
        record = entity.record(Tracklet)
        if last[entity.id].annotation_key is None:
            clean = tuple(frame for frame in record.frames if not frame.suspicions)
            if not clean:
                rejections[entity.id] = _all_suspected(entity, record)
                continue
            record = record.model_copy(update={"frames": clean})
        tracklets.append(AcceptedTracklet(entity.id, record))
    return tracklets, rejections


def _all_suspected(entity: StoredEntity, tracklet: Tracklet) -> Rejection:
    return Rejection(
        stage=STAGE,
        reason="all_frames_suspected",
        detail=(
            f"The filter suspects every frame of track {tracklet.track} of {tracklet.video!r}, "
            f"and nobody has looked at them."
        ),
        context={"tracklet_id": entity.id, "file": tracklet.video},
    )


def _successors(store: Store, tracklets: Iterable[AcceptedTracklet]) -> Mapping[str, Sequence[str]]:
    """What took the place of the tracklets that others are said to show the same person as."""
    found: dict[str, list[str]] = {}
    wanted = {named for one in tracklets for named in one.record.same_person_as}
    while wanted:
        with store.read() as connection:
            found |= standing_successors(connection, wanted)
        wanted = {after for one in wanted for after in found.get(one, ())} - found.keys()
    return found


def _hashes(context: RunContext, tracklets: Iterable[AcceptedTracklet]) -> Callable[[str], int]:
    """Gives the perceptual hash of the stored bytes of a crop, by its digest."""
    types = {
        frame.crop.sha256: frame.crop.media_type
        for tracklet in tracklets
        for frame in tracklet.record.frames
    }
    return lambda sha256: perceptual_hash(context.blobs.read(sha256, types[sha256]))


def crop_embeddings(
    store: Store, tracklet_ids: Sequence[str]
) -> dict[str, tuple[str, NDArray[np.float32]]]:
    """For the digest of each crop of these tracklets' tracks, who embedded it and the embedding."""
    ids = set(tracklet_ids)
    while edited := parents_of(store, ids, EDITED_FROM):
        ids = ids - edited.keys() | _all(edited)
    reports = _all(parents_of(store, ids, PART_OF))
    tracks = fetch(store, _all(parents_of(store, reports, REPORT_OF)))
    return {
        one.crop.sha256: (track.author, unpacked(one.embedding))
        for track in (entity.record(Track) for entity in tracks.values())
        for one in track.observations
        if one.embedding
    }


def _all(related: Mapping[str, Iterable[str]]) -> set[str]:
    return {one for many in related.values() for one in many}


def _videos(store: Store, dataset: str) -> dict[tuple[str, str, str], str]:
    """The ids of the videos by source, path and digest."""
    found = {}
    for entity in find(store, dataset, Video.kind):
        video = entity.record(Video)
        found[video.source, video.file_path, video.sha256] = entity.id
    return found


def _entity(
    image: CroppedImage, dataset: str, videos: Mapping[tuple[str, str, str], str]
) -> NewEntity:
    record = image.record
    file_path = record.file_path.rpartition("/")[0]
    video = videos[record.source, file_path, image.video_sha256]
    return new_entity(
        record,
        dataset,
        parents=[(CROP_OF, video), (SELECTED_IN, image.tracklet_id)],
        split=record.split,
        group=f"{record.source}/{record.identity}",
    )
