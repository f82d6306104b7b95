"""Where crops come from: the video, the tracklet that they were selected in, and the frame.

The graph above an image that was cut out of a video::

    image ─crop_of─► video ─imported_from─► source
      └─selected_in─► tracklet (─edited_from─► tracklet) ─► filter report ─► track
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import NamedTuple

from sqlalchemy import Connection, select
from sqlalchemy.orm import aliased

from db.entities import StoredEntity, pages, select_entities
from db.tables.provenance import Derivation, Entity
from schemas.errors import IntegrityError
from schemas.proposals import Tracklet, TrackletFrame
from schemas.provenance import Role
from schemas.records import Image
from schemas.video import Track, Video

_TO_TRACKS = ("tracklet", "filter_report")


class CropOrigin(NamedTuple):
    """What an image was cut out of.

    `embedding` is the detector's vector of the crop, packed as in `Observation`, and `embedder` the
    tracker that made it; None and "" where no track holds the crop.
    """

    video_id: str
    video: Video
    tracklet_id: str
    frame: TrackletFrame
    embedding: str | None
    embedder: str


class _Embedding(NamedTuple):
    packed: str
    embedder: str


def crop_origins(
    connection: Connection, images: Mapping[str, StoredEntity]
) -> dict[str, CropOrigin]:
    """For each image that was cut out of a video, by its id, where that was.

    Raises:
        IntegrityError: no tracklet that an image was selected in shows it.
    """
    videos = _parents(connection, images, Role.CROP_OF)
    cropped = {id_: images[id_].record(Image) for id_ in videos}
    tracklets = _parents(connection, cropped, Role.SELECTED_IN)
    embeddings = _embeddings(connection, {one.id for many in tracklets.values() for one in many})
    return {
        id_: _origin(id_, image, videos[id_][0], tracklets.get(id_, []), embeddings)
        for id_, image in cropped.items()
    }


def _origin(
    image_id: str,
    image: Image,
    video: StoredEntity,
    tracklets: Iterable[StoredEntity],
    embeddings: Mapping[str, _Embedding],
) -> CropOrigin:
    number = _frame_number(image)
    for tracklet in tracklets:
        for frame in tracklet.record(Tracklet).frames:
            if (frame.frame, frame.crop.sha256) == (number, image.sha256):
                packed, embedder = embeddings.get(image.sha256, (None, ""))
                record = video.record(Video)
                return CropOrigin(video.id, record, tracklet.id, frame, packed, embedder)
    raise IntegrityError(
        f"image {image_id} ({image.file_path!r}) was cut out of video {video.id}, but no tracklet "
        f"that it was selected in shows its bytes ({image.sha256}) in frame {number}"
    )


def _frame_number(image: Image) -> int | None:
    """The frame that an image is of, by its name `<video>/<track>-<frame>.jpg`.

    The bytes do not tell: where nothing moves, those of two frames are the same.
    """
    number = PurePosixPath(image.file_path).stem.rpartition("-")[2]
    return int(number) if number.isdecimal() else None


def _embeddings(connection: Connection, tracklets: Iterable[str]) -> dict[str, _Embedding]:
    """The embeddings of the crops of the tracks behind `tracklets`, by the digest of the crop."""
    found: dict[str, _Embedding] = {}
    below = set(tracklets)
    while below:
        above = _parents_of_any_role(connection, below)
        for track in (entity.record(Track) for entity in above if entity.kind == Track.kind):
            for seen in (one for one in track.observations if one.embedding):
                found[seen.crop.sha256] = _Embedding(seen.embedding, track.author)
        below = {entity.id for entity in above if entity.kind in _TO_TRACKS}
    return found


def _parents(
    connection: Connection, ids: Iterable[str], role: str
) -> dict[str, list[StoredEntity]]:
    """For each id the entities that it was derived from in `role`, in order of their ids."""
    child, link = aliased(Entity), aliased(Derivation)
    query = (
        select_entities()
        .add_columns(child.id)
        .join(link, link.parent_seq == Entity.seq)
        .join(child, link.child_seq == child.seq)
        .where(link.role == role)
        .order_by(Entity.id)
    )
    parents: dict[str, list[StoredEntity]] = defaultdict(list)
    for page in pages(ids):
        for *entity, child_id in connection.execute(query.where(child.id.in_(page))):
            parents[child_id].append(StoredEntity._make(entity))
    return parents


def _parents_of_any_role(connection: Connection, ids: Iterable[str]) -> list[StoredEntity]:
    child, link = aliased(Entity), aliased(Derivation)
    found: list[StoredEntity] = []
    for page in pages(ids):
        parents = (
            select(link.parent_seq)
            .join(child, link.child_seq == child.seq)
            .where(child.id.in_(page))
        )
        query = select_entities().where(Entity.seq.in_(parents)).order_by(Entity.id)
        found += map(StoredEntity._make, connection.execute(query))
    return found
