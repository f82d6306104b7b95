"""Trace where released entities come from: crops, embedders, strategies."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from db.entities import StoredEntity, children_in, entities_by_id, links, pages, rows_in
from db.tables import Activity, Entity, Plan
from schemas.base import canonical_json
from schemas.errors import IntegrityError
from schemas.proposals import Strategy, Tracklet, TrackletFrame
from schemas.provenance import Role
from schemas.records import Image
from schemas.recos import ConfusionCheck, ConfusionMatch, DiscriminabilityReport
from schemas.release import EmbedderPurpose
from schemas.video import StageSettings, Track, Video

# Origins of crops: the video, the tracklet that they were selected in, and the frame.
#
# The graph above an image that was cut out of a video::
#
# image ─crop_of─► video ─imported_from─► source
#   └─selected_in─► tracklet (─edited_from─► tracklet) ─► filter report ─► track

_TO_TRACKS = ("tracklet", "filter_report")


class CropOrigin(NamedTuple):
    """The origin of an image that was cut out of a video.

    `embedding` is the detector's vector of the crop, packed as in `Observation`, and `embedder` is
    the tracker that made it. They are None and "" if no track contains the crop.
    """

    video_id: str
    video: Video
    tracklet_id: str
    frame: TrackletFrame
    embedding: str | None
    embedder: str


def crop_origins(
    connection: Connection, images: Mapping[str, StoredEntity]
) -> dict[str, CropOrigin]:
    """Return the origin of each image that was cut out of a video, by its id.

    Raises:
        IntegrityError: no tracklet that an image was selected in contains it.
    """
    videos = _parents(connection, images, Role.CROP_OF)
    tracklets = _parents(connection, videos, Role.SELECTED_IN)
    embeddings = _embeddings(connection, {one.id for many in tracklets.values() for one in many})
    found = {}
    for id_, (video, *_) in videos.items():
        image = images[id_].record(Image)
        tracklet_id, frame = _selection(id_, image, video.id, tracklets.get(id_, ()))
        embedding, embedder = embeddings.get(image.sha256, (None, ""))
        record = video.record(Video)
        found[id_] = CropOrigin(video.id, record, tracklet_id, frame, embedding, embedder)
    return found


def _parents(
    connection: Connection, ids: Iterable[str], role: Role
) -> dict[str, list[StoredEntity]]:
    """Return the parents of each id in `role`, in order of their ids."""
    found = sorted((link.parent, link.child) for link in links(connection, ids, (role,)))
    stored = entities_by_id(connection, {parent for parent, _ in found})
    parents: dict[str, list[StoredEntity]] = defaultdict(list)
    for parent, child in found:
        parents[child].append(stored[parent])
    return parents


def _selection(
    image_id: str, image: Image, video_id: str, tracklets: Iterable[StoredEntity]
) -> tuple[str, TrackletFrame]:
    """Return the first of the tracklets that contains an image, and its frame there.

    The frame is identified by the name of the image, `<video>/<track>-<frame>.jpg`, as two frames
    of a still scene can have the same bytes.
    """
    end = PurePosixPath(image.file_path).stem.rpartition("-")[2]
    number = int(end) if end.isdecimal() else None
    for tracklet in tracklets:
        for frame in tracklet.record(Tracklet).frames:
            if (frame.frame, frame.crop.sha256) == (number, image.sha256):
                return tracklet.id, frame
    raise IntegrityError(
        f"image {image_id} ({image.file_path!r}) was cut out of video {video_id}, but no tracklet "
        f"that it was selected in shows its bytes ({image.sha256}) in frame {number}"
    )


def _embeddings(connection: Connection, tracklets: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return (embedding, embedder) of the crops of the tracks behind `tracklets`, by digest."""
    found: dict[str, tuple[str, str]] = {}
    below = set(tracklets)
    while below:
        above = entities_by_id(connection, {link.parent for link in links(connection, below)})
        for id_ in sorted(above):
            if above[id_].kind == Track.kind:
                track = above[id_].record(Track)
                for seen in (one for one in track.observations if one.embedding):
                    found[seen.crop.sha256] = seen.embedding, track.author
        below = {id_ for id_, entity in above.items() if entity.kind in _TO_TRACKS}
    return found


# Origins by embedder: which chose and validated images and captions of a benchmark.
#
# The graph around them::
#
# discriminability_report ─measures─► caption
# discriminability_report ─validated_with─► settings
# confusion_check ─measured─► caption
# confusion_match ─matches─► image similar to an existing one
# candidate without captions ─expanded_with─► settings
# contrastive image ─accepted_from─► candidate (─written_with─► settings, if edited)

_DISCRIMINABILITY = ("k", "eta", "rounds")
_EXPANSION = ("neighbours", "near_duplicates")
_CHOICE = ("first", "floor", "ceiling")


class EmbedderOrigin(NamedTuple):
    """An embedder (`name@revision`), its purpose, and its settings as canonical JSON."""

    embedder: str
    purpose: EmbedderPurpose
    settings: str


def embedder_origins(connection: Connection, ids: Iterable[str]) -> dict[EmbedderOrigin, int]:
    """Count the images and captions among `ids` that each embedder chose or validated."""
    counted = Counter[EmbedderOrigin]()
    for page in pages(ids):
        counted.update(origin for _, origin in set(_origins(connection, page)))
    return dict(counted)


def _origins(connection: Connection, ids: Sequence[str]) -> Iterator[tuple[str, EmbedderOrigin]]:
    """Return those of the images and captions that an embedder chose or validated, with origins."""
    yield from _validations(connection, ids)
    for id_, stored in _linked_entities(connection, ids, Role.MEASURED, ConfusionCheck.kind):
        check = stored.record(ConfusionCheck)
        chosen = canonical_json({"margin": check.margin})
        yield id_, EmbedderOrigin(check.embedder, "confusing_captions", chosen)
    for id_, stored in _linked_entities(connection, ids, Role.MATCHES, ConfusionMatch.kind):
        match = stored.record(ConfusionMatch)
        yield id_, EmbedderOrigin(match.embedder, "similar_images", "{}")
    for id_, values in _settings(connection, ids, Role.EXPANDED_WITH):
        chosen = canonical_json({name: values[name] for name in _EXPANSION if name in values})
        yield id_, EmbedderOrigin(values["embedder"], "candidates", chosen)
    yield from _contrastive_images(connection, ids)


def _validations(
    connection: Connection, captions: Sequence[str]
) -> Iterator[tuple[str, EmbedderOrigin]]:
    """Return the measured captions, each with the embedder and settings of the measurement."""
    reports: dict[str, list[str]] = defaultdict(list)
    for caption, report in _linked_entities(
        connection, captions, Role.MEASURES, DiscriminabilityReport.kind
    ):
        reports[report.id].append(caption)
    for report_id, values in _settings(connection, reports, Role.VALIDATED_WITH):
        limits = {name: values["discriminability"][name] for name in _DISCRIMINABILITY}
        settings = canonical_json({**limits, "temperature": values["temperature"]})
        for caption in reports[report_id]:
            yield caption, EmbedderOrigin(values["embedder"], "validated_captions", settings)


def _contrastive_images(
    connection: Connection, ids: Sequence[str]
) -> Iterator[tuple[str, EmbedderOrigin]]:
    """Return the images that were found or edited for an anchor, by their candidates."""
    made = _above(connection, {id_: {id_} for id_ in ids}, Role.ACCEPTED_FROM)
    images = {
        candidate: image
        for image, many in _with_edit_sources(connection, made).items()
        for candidate in many
    }
    for candidate, values in _settings(connection, images, Role.WRITTEN_WITH):
        chosen = canonical_json({"least_shift": values["check"]["least_shift"]})
        yield images[candidate], EmbedderOrigin(values["embedder"], "edited_images", chosen)
    query = (
        select(Entity.id, Plan.configuration)
        .join(Activity, Activity.id == Entity.activity_id)
        .join(Plan, Plan.id == Activity.plan_id)
    )
    for candidate, configuration in rows_in(connection, query, Entity.id, images):
        if "choice" in configuration:  # of a search
            choice = configuration["choice"]
            chosen = canonical_json({name: choice[name] for name in _CHOICE})
            origin = EmbedderOrigin(configuration["embedder"], "found_images", chosen)
            yield images[candidate], origin


def _settings(
    connection: Connection, ids: Iterable[str], role: Role
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Return the settings that each of `ids` is linked to in a role."""
    found = list(links(connection, ids, (role,)))
    stored = entities_by_id(connection, {link.parent for link in found})
    for link in found:
        yield link.child, stored[link.parent].record(StageSettings).values


def _linked_entities(
    connection: Connection, ids: Iterable[str], role: Role, kind: str
) -> Iterator[tuple[str, StoredEntity]]:
    """Return (id, entity of a kind with this parent in a role), without withdrawn entities."""
    for parent_id, _, stored in children_in(connection, ids, (role,)):
        if stored.kind == kind and stored.state != "withdrawn":
            yield parent_id, stored


# Origins of strategies: the models and prompts that proposed the changes of contrastive images.
#
# The graph above a contrastive image that was made here::
#
# image ─accepted_from─► candidate ─made_for─► strategy ─prompted_by─► prompt
#
# A candidate or strategy that a person changed is `edited_from` a model's proposal.

_Above = Mapping[str, set[str]]


class StrategyOrigin(NamedTuple):
    """The ids of prompts, the keys of model calls and the models behind an image's strategy."""

    prompts: frozenset[str] = frozenset()
    model_calls: frozenset[str] = frozenset()
    models: frozenset[str] = frozenset()


UNKNOWN = StrategyOrigin()
"""The origin of an image without a known strategy."""


def strategy_origins(connection: Connection, ids: Iterable[str]) -> dict[str, StrategyOrigin]:
    """Return the origin of the strategy of each contrastive image that was made here."""
    candidates = _with_edit_sources(
        connection, _above(connection, {id_: {id_} for id_ in ids}, Role.ACCEPTED_FROM)
    )
    strategies = _with_edit_sources(connection, _above(connection, candidates, Role.MADE_FOR))
    prompts = _above(connection, {one: {one} for one in _all(strategies)}, Role.PROMPTED_BY)
    proposed = [one for one, of_it in prompts.items() if of_it]
    query = select(Entity.id, Entity.model_call_key)
    calls = {id_: key for id_, key in rows_in(connection, query, Entity.id, proposed) if key}
    authors = {
        one: strategy.record(Strategy).author
        for one, strategy in entities_by_id(connection, proposed).items()
    }
    return {
        image: StrategyOrigin(
            frozenset(prompt for one in many for prompt in prompts[one]),
            frozenset(calls[one] for one in many if one in calls),
            frozenset(authors[one] for one in many if authors.get(one)),
        )
        for image, many in strategies.items()
        if many
    }


def _above(connection: Connection, below: _Above, role: Role) -> dict[str, set[str]]:
    """Return, for each key, the parents of its entities in a role."""
    parents: dict[str, set[str]] = defaultdict(set)
    for link in links(connection, _all(below), (role,)):
        parents[link.child].add(link.parent)
    return {key: {up for one in many for up in parents[one]} for key, many in below.items()}


def _with_edit_sources(connection: Connection, found: _Above) -> dict[str, set[str]]:
    """Return, for each key, its entities and all entities that they were edited from."""
    whole = {key: set(many) for key, many in found.items()}
    level: _Above = found
    while any(level.values()):
        level = _above(connection, level, Role.EDITED_FROM)
        for key, many in level.items():
            whole[key] |= many
    return whole


def _all(found: _Above) -> set[str]:
    return {one for many in found.values() for one in many}
