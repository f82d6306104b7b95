"""Form identities from the accepted tracklets: their crops become images, in train or in test."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import PurePosixPath
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from loupe.db.annotations import decided_by_answers, successors_of
from loupe.db.entities import (
    LIVE,
    NewEntity,
    StoredEntity,
    WorkResult,
    fetch,
    find,
    new_entity,
    parents_of,
)
from loupe.db.store import Store
from loupe.db.withdrawals import withdrawn_digests
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.importing import WITHDRAWN
from loupe.flows.engine.report import StageReport
from loupe.flows.engine.runner import Stage, run_each
from loupe.flows.engine.scope import EVERYTHING, Scope
from loupe.models.tracking.association import unpacked
from loupe.retrieval.similarity.distances import ComparedImage, near_duplicates, perceptual_hash
from loupe.schemas.base import Split, canonical_json, digest_of
from loupe.schemas.proposals import Tracklet, TrackletFrame
from loupe.schemas.provenance import Role
from loupe.schemas.records import Image, Rejection
from loupe.schemas.similarity import LeakLimits, SplitSettings
from loupe.schemas.video import Track, Video

# Decides which accepted tracklets are one person, from all decisions of annotators together.

_MERGING_STAGE = "form_identities"
_MERGING_VERSION = "1"
_DIGEST_CHARACTERS = 8


class AcceptedTracklet(NamedTuple):
    """A tracklet that annotators (or a policy) accepted, and its entity id."""

    id: str
    record: Tracklet


class Identity(NamedTuple):
    """A person: all tracklets that show them, in order of time."""

    name: str
    tracklets: tuple[AcceptedTracklet, ...]


class MergedIdentities(NamedTuple):
    """The result of merging: every tracklet is in one identity or has a rejection, by its id."""

    identities: tuple[Identity, ...]
    rejections: dict[str, Rejection]


def merge_identities(
    tracklets: Sequence[AcceptedTracklet], successors: Mapping[str, Sequence[str]]
) -> MergedIdentities:
    """Return the persons in the order of their names; an unmerged tracklet is a person of its own.

    Decisions about tracklets that were rejected later still connect the others: tracklets that show
    the same third person show the same person. Contradictory decisions reject all tracklets
    concerned, which would otherwise be one person under two names, or two under one.

    Args:
        tracklets: the accepted tracklets.
        successors: the replacements of each edited tracklet, by id: one, or the parts of a split.
    """
    from scipy.cluster.hierarchy import DisjointSet

    by_id = {tracklet.id: tracklet for tracklet in tracklets}
    persons = DisjointSet(sorted(by_id))
    unclear: dict[str, str] = {}
    for tracklet in by_id.values():
        for named in tracklet.record.same_person_as:
            latest = named
            while latest not in by_id and len(successors.get(latest, ())) == 1:
                latest = successors[latest][0]
            if latest not in by_id and successors.get(latest):
                unclear[tracklet.id] = named
                continue
            persons.add(latest)
            persons.merge(tracklet.id, latest)
    identities: list[Identity] = []
    rejections: dict[str, Rejection] = {}
    for person in persons.subsets():
        group = sorted((by_id[id_] for id_ in person if id_ in by_id), key=_by_time)
        if refusal := _contradiction(group, unclear):
            reason, detail = refusal
            ids = [one.id for one in group]
            for id_ in ids:
                rejections[id_] = Rejection.of(
                    _MERGING_STAGE, reason, detail, tracklet_id=id_, together_with=ids
                )
        else:
            identities.append(Identity(_identity_name(group[0].record), tuple(group)))
    return MergedIdentities(tuple(sorted(identities, key=lambda one: one.name)), rejections)


def _identity_name(earliest: Tracklet) -> str:
    """Name a person after their earliest tracklet.

    The name contains the video (with its digest, because file names are not unique), the track and
    the first frame (because the parts of a split have one track). It does not depend on the rest of
    the dataset.
    """
    stem = PurePosixPath(earliest.video).stem
    digest = earliest.video_sha256[:_DIGEST_CHARACTERS]
    return f"{stem}-{digest}-{earliest.track}-{earliest.frames[0].frame}"


def _contradiction(
    group: Sequence[AcceptedTracklet], unclear: Mapping[str, str]
) -> tuple[str, str] | None:
    """Return why tracklets, in order of time, cannot be one person: a reason and a sentence.

    `unclear` maps tracklets to the tracklet they were merged with, if that one was split later.
    """
    for one in group:
        if one.id in unclear:
            return "ambiguous_merge", (
                f"tracklet {one.id} is said to show the same person as "
                f"{unclear[one.id]}, which was split later; it is not known which part is meant"
            )
    for earlier, later in pairwise(group):
        same_video = earlier.record.video_sha256 == later.record.video_sha256
        last, first = earlier.record.frames[-1].frame, later.record.frames[0].frame
        if same_video and first <= last:
            return "seen_at_once", (
                f"tracklets {earlier.id} and {later.id} were merged as one person, but appear at "
                f"the same time in {earlier.record.video!r}: frame {first} to {last}"
            )
    return None


def _by_time(tracklet: AcceptedTracklet) -> tuple[str, str, int, int, str]:
    record = tracklet.record
    return record.video, record.video_sha256, record.frames[0].frame, record.track, tracklet.id


# The images of an identity: the crops of its tracklets, each with what it was cut from.

_SUFFIXES = {"image/jpeg": ".jpg", "image/png": ".png", "image/webp": ".webp"}


def crop_images(identity: Identity, split: Split) -> list[tuple[Image, AcceptedTracklet]]:
    """Return the images of a person in order of time, each with the tracklet that selected it.

    Where and when a crop was seen is read from the tracklet, by the digest of the crop.
    """
    return [
        (
            Image(
                source=tracklet.record.source,
                identity=identity.name,
                split=split,
                file_path=_file_path(tracklet, frame),
                source_sha256=frame.crop.sha256,
                **frame.crop.model_dump(exclude={"image_id"}),
            ),
            tracklet,
        )
        for tracklet in identity.tracklets
        for frame in tracklet.record.frames
    ]


def _file_path(tracklet: AcceptedTracklet, frame: TrackletFrame) -> str:
    """Return the path of a crop in its collection: `<video>/<track>-<frame>.jpg`."""
    suffix = _SUFFIXES.get(frame.crop.media_type, "")
    return f"{tracklet.record.video}/{tracklet.record.track}-{frame.frame}{suffix}"


# Train or test: identities that share a video or a near-duplicate image go together.
#
# Identities, the videos they are seen in, and images of the same content (as in a video that was
# encoded again) form connected components. A component is in one split as a whole.

_SPLITTING_STAGE = "assign_splits"


ImageKey = tuple[str, str]
"""An image, given by its identity and its own name."""


class AssignedSplits(NamedTuple):
    """The result of the assignment: every identity has a split or a rejection.

    `tied` maps each image (identity, name) that cannot stay in train to an image of the other split
    (identity, name) that it shares a video or content with.
    """

    splits: dict[str, Split]
    rejections: dict[str, Rejection]
    tied: dict[ImageKey, ImageKey]


def assign_splits(
    images: Sequence[ComparedImage],
    settings: SplitSettings,
    taken: Mapping[str, Split],
) -> AssignedSplits:
    """Assign a split to every identity in `images`.

    Identities that have a split keep it, and the rest of their component gets the same one. The
    others go to test or train so that the share of test identities is as close to the wanted share
    as it can be, in an order that the seed determines. New identities that belong to train and to
    test are rejected (`would_leak`). If a new image connects two identities of different splits,
    both stay, but the images in train that are connected to test do not (`tied`), because data that
    models were tested on must not change.

    Args:
        images: all images of the dataset, old and new.
        settings: the wanted share of test identities, the seed, and the near-duplicate thresholds.
        taken: the splits assigned earlier, by identity and by the digest of the video.
    """
    from scipy.cluster.hierarchy import DisjointSet

    together = DisjointSet()
    for image in images:
        for node in _nodes(image):
            together.add(node)
            together.merge(("identity", image.identity), node)
    for first, second in near_duplicates(images, settings.limits):
        together.merge(("identity", first.identity), ("identity", second.identity))
    splits: dict[str, Split] = {}
    rejections: dict[str, Rejection] = {}
    free: list[list[str]] = []
    torn: set[str] = set()
    for component in map(sorted, together.subsets()):
        identities = [name for kind, name in component if kind == "identity"]
        given = {name: taken[name] for kind, name in component if kind != "file" and name in taken}
        splits.update((name, taken[name]) for name in identities if name in taken)
        if len(set(given.values())) > 1:
            new = [name for name in identities if name not in taken]
            rejections.update((name, _would_leak(name, given)) for name in new)
            torn.update(name for name in identities if name in taken)
        elif given:
            splits.update(dict.fromkeys(identities, next(iter(given.values()))))
        else:
            free.append(identities)
    splits.update(_draw_splits(free, settings, splits))
    tied = _find_tied([one for one in images if one.identity in torn], splits, settings.limits)
    return AssignedSplits(dict(sorted(splits.items())), dict(sorted(rejections.items())), tied)


def _nodes(image: ComparedImage) -> Iterable[tuple[str, str]]:
    """Return the nodes of an image: its person, its file, and its video if it has one."""
    yield "identity", image.identity
    yield "file", image.sha256
    if image.video_sha256 is not None:
        yield "video", image.video_sha256


def _find_tied(
    images: Iterable[ComparedImage], splits: Mapping[str, Split], limits: LeakLimits
) -> dict[ImageKey, ImageKey]:
    """Return the images in train that are connected to test, each with the first such image."""
    ordered = sorted(images, key=lambda image: (image.identity, image.name))
    in_test: dict[tuple[str, str], ComparedImage] = {}
    for image in ordered:
        if splits[image.identity] == "test":
            for node in _nodes(image):
                in_test.setdefault(node, image)
    sharing = [
        (image, in_test[node])
        for image in ordered
        if splits[image.identity] == "train"
        for node in _nodes(image)
        if node in in_test
    ]
    tied: dict[ImageKey, ImageKey] = {}
    for first, second in (*sharing, *near_duplicates(ordered, limits)):
        if splits[first.identity] != splits[second.identity]:
            in_train = splits[first.identity] == "train"
            leaves, stays = (first, second) if in_train else (second, first)
            tied.setdefault((leaves.identity, leaves.name), (stays.identity, stays.name))
    return dict(sorted(tied.items()))


def _draw_splits(
    free: Iterable[list[str]], settings: SplitSettings, given: Mapping[str, Split]
) -> dict[str, Split]:
    """Draw splits for the components without one: of all choices, one nearest to the share."""
    components = sorted(free, key=lambda names: digest_of(str(settings.seed), *names))
    wanted = settings.test_share * (len(given) + sum(map(len, components)))
    wanted -= sum(split == "test" for split in given.values())
    in_test = _with_sum_nearest(wanted, [len(names) for names in components])
    splits: dict[str, Split] = {}
    for at, names in enumerate(components):
        splits.update(dict.fromkeys(names, "test" if at in in_test else "train"))
    return splits


def _with_sum_nearest(wanted: float, sizes: Sequence[int]) -> set[int]:
    """Return the places of those whose sum is nearest to `wanted`; the first ones, if several."""
    sums_of_first = [1]  # bit n: some of the first sizes have the sum n
    for size in sizes:
        sums_of_first.append(sums_of_first[-1] | sums_of_first[-1] << size)
    reachable = sums_of_first[-1]
    left = min(
        (total for total in range(reachable.bit_length()) if reachable >> total & 1),
        key=lambda total: abs(total - wanted),
    )
    chosen = set()
    for at in reversed(range(len(sizes))):
        if not sums_of_first[at] >> left & 1:  # the first ones alone do not reach it
            chosen.add(at)
            left -= sizes[at]
    return chosen


def _tied_images(tracklet_id: str, tied: Mapping[str, ImageKey]) -> Rejection:
    """Reject the images of a tracklet that are left out of train, naming the image in test."""
    (name, (identity, other)), *more = tied.items()
    others = f"; so are {len(more):,} more of its images" if more else ""
    detail = (
        f"image {name!r} (train) is left out: it shares its video or content with "
        f"{other!r} of {identity} (test){others}"
    )
    pairs = {one: list(to) for one, to in tied.items()}
    return Rejection.of(
        _SPLITTING_STAGE, "tied_to_test", detail, tracklet_id=tracklet_id, tied=pairs
    )


def _would_leak(name: str, given: Mapping[str, Split]) -> Rejection:
    examples = {split: key for key, split in reversed(list(given.items()))}
    touched = " and ".join(f"{examples[split]} ({split})" for split in sorted(examples))
    detail = f"identity {name} shares videos or content with {touched}; it fits in neither split"
    return Rejection.of(_SPLITTING_STAGE, "would_leak", detail, identity=name, touches=dict(given))


# The step: makes identities of the accepted tracklets. Their crops become images, in train or in
# test.


def form_identities(
    context: RunContext,
    dataset: str,
    tracklet_ids: Collection[str],
    settings: SplitSettings,
    least_images: int,
    scope: Scope = EVERYTHING,
) -> tuple[StageReport, set[str]]:
    """Form the identities of `dataset` from the accepted ones of these tracklets.

    Returns the report and the images that count, which the caller lets be the active ones.

    They form one transaction, because identities and the split of each can only be known of all
    together. Splits that were assigned stay. The images that count are computed in every run, even
    if they were stored before. Withdrawn crops are left out.

    Without a human decision, tracklets lose suspected frames and need `least_images` others.
    """
    store = context.store
    found = sorted(fetch(store, tracklet_ids).values(), key=lambda one: one.seq)
    accepted = [entity for entity in found if entity.state == "accepted"]
    tracklets, rejections = _drop_suspected_frames(store, accepted, least_images)
    withdrawn = withdrawn_digests(store, dataset)
    successors = _successors(store, tracklets)
    taken = _earlier_splits(store, dataset)
    frames = {one.id: [frame.frame for frame in _left(one.record, withdrawn)] for one in tracklets}
    stage = Stage(
        name=_MERGING_STAGE,
        version=_MERGING_VERSION,
        dataset=dataset,
        configuration=scope.configuration(
            {
                "tracklets": digest_of(canonical_json([frames, sorted(rejections), successors])),
                "settings": settings.model_dump(mode="json"),
                "taken": digest_of(canonical_json(taken)),
            }
        ),
        chunk_size=max(1, len(accepted)),
        workers=1,
        label="form identities",
    )

    @cache
    def formed() -> _FormedImages:
        merged = merge_identities(tracklets, successors)
        identities, gone = _drop_withdrawn_frames(merged.identities, withdrawn)
        images, left_out = _images(context, dataset, identities, settings, taken, scope)
        return _FormedImages(images, rejections | merged.rejections | gone | left_out)

    def result(number: int, entity: StoredEntity) -> WorkResult:
        images = tuple(formed().images.get(entity.id, ()))
        return WorkResult(number, images, rejection=formed().rejections.get(entity.id))

    report = run_each(context, stage, [(one.seq, one) for one in accepted], result)
    return report, {image.id for images in formed().images.values() for image in images}


class _FormedImages(NamedTuple):
    """Images by tracklet, and the reasons why a tracklet has none, or only some."""

    images: Mapping[str, Sequence[NewEntity]]
    rejections: Mapping[str, Rejection]


def _earlier_splits(store: Store, dataset: str) -> dict[str, Split]:
    """Return the splits assigned earlier, by identity and by the digest of the video.

    Inactive images keep their split as well. If the splits differ, that of the active images
    counts.
    """
    taken: dict[str, Split] = {}
    images = sorted(find(store, dataset, Image.kind), key=lambda image: image.state in LIVE)
    videos = parents_of(store, [image.id for image in images], Role.CROP_OF)
    stored = fetch(store, {video for found in videos.values() for video in found})
    digests = {video: entity.record(Video).sha256 for video, entity in stored.items()}
    for image in images:
        record = image.record(Image)
        if record.split is None:
            continue
        taken[record.identity] = record.split
        taken.update((digests[video], record.split) for video in videos.get(image.id, ()))
    return taken


def _images(
    context: RunContext,
    dataset: str,
    identities: Sequence[Identity],
    settings: SplitSettings,
    taken: Mapping[str, Split],
    scope: Scope,
) -> tuple[dict[str, list[NewEntity]], dict[str, Rejection]]:
    """Return the images of each tracklet, and the reasons why one has none, or only some."""
    assigned = assign_splits(_images_to_compare(context, identities), settings, taken)
    videos = {
        (video.source, video.file_path, video.sha256): entity.id
        for entity in find(context.store, dataset, Video.kind)
        for video in (entity.record(Video),)
    }
    images: dict[str, list[NewEntity]] = defaultdict(list)
    rejections: dict[str, Rejection] = {}
    tied: dict[str, dict[str, ImageKey]] = defaultdict(dict)
    for identity in identities:
        if rejection := assigned.rejections.get(identity.name):
            rejections |= dict.fromkeys((one.id for one in identity.tracklets), rejection)
            continue
        for image, tracklet in crop_images(identity, assigned.splits[identity.name]):
            if tied_to := assigned.tied.get((identity.name, image.file_path)):
                tied[tracklet.id][image.file_path] = tied_to
                continue
            record = tracklet.record
            video = videos[record.source, record.video, record.video_sha256]
            images[tracklet.id].append(
                new_entity(
                    image,
                    dataset,
                    parents=[
                        (Role.CROP_OF, video),
                        (Role.SELECTED_IN, tracklet.id),
                        *scope.links,
                    ],
                    split=image.split,
                    group=f"{image.source}/{image.identity}",
                )
            )
    return images, rejections | {id_: _tied_images(id_, one) for id_, one in tied.items()}


def _images_to_compare(context: RunContext, identities: Iterable[Identity]) -> list[ComparedImage]:
    """Return the images of all identities, for comparison with each other."""
    tracklets = [(identity, one) for identity in identities for one in identity.tracklets]
    embeddings = _crop_embeddings(context.store, [tracklet.id for _, tracklet in tracklets])
    compared = []
    for identity, tracklet in tracklets:
        for frame in tracklet.record.frames:
            crop = frame.crop
            embedder, embedding = embeddings.get(crop.sha256, ("", None))
            compared.append(
                ComparedImage(
                    name=_file_path(tracklet, frame),
                    identity=identity.name,
                    sha256=crop.sha256,
                    perceptual_hash=perceptual_hash(
                        context.blobs.read(crop.sha256, crop.media_type)
                    ),
                    video_sha256=tracklet.record.video_sha256,
                    embedding=embedding,
                    embedder=embedder,
                )
            )
    return compared


def _drop_suspected_frames(
    store: Store, accepted: Sequence[StoredEntity], least_images: int
) -> tuple[list[AcceptedTracklet], dict[str, Rejection]]:
    """Return the tracklets; those without a human decision lose the suspected frames.

    If they lose any, those with fewer than `least_images` others are rejected.
    """
    with store.read() as connection:
        by_people = decided_by_answers(connection, [entity.id for entity in accepted])
    tracklets, rejections = [], {}
    for entity in accepted:
        record = entity.record(Tracklet)
        if entity.id not in by_people:
            clean = tuple(frame for frame in record.frames if not frame.suspicions)
            if len(clean) < min(least_images, len(record.frames)):
                detail = (
                    f"The filter suspects {len(record.frames) - len(clean)} of the "
                    f"{len(record.frames)} frames of track {record.track} of {record.video!r}, and "
                    f"nobody has looked at them; needed are {least_images} others."
                )
                about = {"tracklet_id": entity.id, "file": record.video}
                rejections[entity.id] = Rejection.of(
                    _MERGING_STAGE, "too_few_images", detail, **about
                )
                continue
            record = record.model_copy(update={"frames": clean})
        tracklets.append(AcceptedTracklet(entity.id, record))
    return tracklets, rejections


def _drop_withdrawn_frames(
    identities: Iterable[Identity], withdrawn: Collection[str]
) -> tuple[list[Identity], dict[str, Rejection]]:
    """Return the identities without withdrawn crops; those that keep any keep their names."""
    found, rejections = [], {}
    for identity in identities:
        tracklets = []
        for id_, record in identity.tracklets:
            frames = _left(record, withdrawn)
            if gone := len(record.frames) - len(frames):
                detail = (
                    f"{gone} of the {len(record.frames)} images of tracklet {id_} were withdrawn"
                )
                rejections[id_] = Rejection.of(
                    _MERGING_STAGE, WITHDRAWN, detail, tracklet_id=id_, file=record.video
                )
            if frames:
                record = record.model_copy(update={"frames": frames})
                tracklets.append(AcceptedTracklet(id_, record))
        if tracklets:
            found.append(Identity(identity.name, tuple(tracklets)))
    return found, rejections


def _left(tracklet: Tracklet, withdrawn: Collection[str]) -> tuple[TrackletFrame, ...]:
    """Return the frames whose crop is not withdrawn."""
    return tuple(one for one in tracklet.frames if one.crop.sha256 not in withdrawn)


def _successors(store: Store, tracklets: Iterable[AcceptedTracklet]) -> dict[str, list[str]]:
    """Return what replaced the tracklets that others were merged with."""
    found: dict[str, list[str]] = {}
    wanted = {named for one in tracklets for named in one.record.same_person_as}
    while wanted:
        with store.read() as connection:
            found |= successors_of(connection, wanted)
        wanted = {after for one in wanted for after in found.get(one, ())} - found.keys()
    return found


def _crop_embeddings(
    store: Store, tracklet_ids: Sequence[str]
) -> dict[str, tuple[str, NDArray[np.float32]]]:
    """Map the digest of each crop of these tracklets' tracks to its embedder and embedding."""
    ids = set(tracklet_ids)
    while edited := parents_of(store, ids, Role.EDITED_FROM):
        ids = ids - edited.keys() | _all(edited)
    reports = _all(parents_of(store, ids, Role.PART_OF))
    tracks = fetch(store, _all(parents_of(store, reports, Role.REPORT_OF)))
    return {
        one.crop.sha256: (track.author, unpacked(one.embedding))
        for track in (entity.record(Track) for entity in tracks.values())
        for one in track.observations
        if one.embedding
    }


def _all(related: Mapping[str, Iterable[str]]) -> set[str]:
    return {one for many in related.values() for one in many}
