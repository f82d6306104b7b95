"""A small dataset of described crops of videos, as produced by `build-ufine6926`."""

import base64
import io
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Picture

from loupe.db.entities import AgentRef, NewDecision, NewEntity, new_entity
from loupe.schemas.base import Split, sha256_of
from loupe.schemas.chat import ModelRef
from loupe.schemas.proposals import Tracklet, TrackletFrame
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Granularity, Image
from loupe.schemas.records import Picture as Crop
from loupe.schemas.video import CropMeasures, FilterReport, Observation, Track, Video, VideoFacts
from tests.release.worlds import GATE, QWEN, Composer, source

DATASET = "ufine6926"
TRACKER = "ifzhang/fairmot_dla34@4aa6297"
STREET = source(
    "LUPerson-NL", Granularity.FINE, format="videos", annotation_file="videos", homepage=None
)
WRITERS = (AgentRef("person", "reviewer-aa"), AgentRef("person", "reviewer-bb"))
Vector = NDArray[np.float64]
WORDS = [
    "coat",
    "shoes",
    "tall",
    "woman",
    "blue",
    "young",
    "grey",
    "bag",
    "left",
    "hand",
    "walks",
    "short",
    "hair",
    "trousers",
]


@cache
def crop(content: int, quality: int = 90, size: tuple[int, int] = (24, 60)) -> bytes:
    """An encoded image; equal contents look alike, different ones do not."""
    chance = np.random.default_rng(content)
    coarse = Picture.fromarray(chance.integers(0, 255, (6, 4, 3), np.uint8))
    buffer = io.BytesIO()
    coarse.resize(size, Picture.Resampling.BICUBIC).save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


class Walk(NamedTuple):
    """A person walking through a video: contents of the crops and their split."""

    video: str
    identity: str
    split: Split
    contents: tuple[int, ...]


WALKS = (
    Walk("cam1/street.mp4", "street-1", "train", (1, 2, 3)),
    Walk("cam1/street.mp4", "street-2", "train", (4, 5)),
    Walk("cam2/street.mp4", "street-9", "train", (6,)),
    Walk("square.mp4", "square-1", "test", (7, 8)),
)


class StreetComposer(Composer):
    """Compose a dataset of crops."""

    def __init__(self) -> None:
        super().__init__(DATASET)
        self.source = self.add(new_entity(STREET, DATASET))

    def walk(
        self,
        walk: Walk,
        track: int,
        *,
        data: dict[int, bytes] | None = None,
        embeddings: dict[int, Vector] | None = None,
    ) -> list[str]:
        """Add the images of a walk; `data` and `embeddings` override those of some contents."""
        video_id, video = self._video(walk.video)
        pictures = [(data or {}).get(one) or crop(one) for one in walk.contents]
        self.pictures += pictures
        frames = tuple(_frame(number, one) for number, one in enumerate(pictures))
        vectors = [(embeddings or {}).get(one, _embedding(one)) for one in walk.contents]
        tracklet = self._tracklet(video, track, frames, vectors)
        return [
            self.add(_image(walk, one, video_id, tracklet, f"{walk.video}/{track}-{one.frame}.jpg"))
            for one in frames
        ]

    def described(self, image: str, number: int) -> list[str]:
        """Add descriptions of an image by two people."""
        return [
            self.described_by(image, text_of(number, place), who)
            for place, who in enumerate(WRITERS)
        ]

    def described_by(self, image: str, text: str, by: AgentRef) -> str:
        """Add a caption written by a person."""
        caption = Caption(source=STREET.name, text=text, position=0, author=by.name)
        entity = self.add(
            new_entity(caption, DATASET, parents=[(Role.DESCRIBES, image)], group=image)
        )
        self.decisions.append(NewDecision(entity, "accept", by))
        return entity

    def drafted(
        self, image: str, text: str, model: ModelRef = QWEN, by: AgentRef | None = GATE
    ) -> str:
        """Add a draft of a model; it is accepted unless `by` is None."""
        caption = Caption(source=STREET.name, text=text, position=0, author=str(model))
        parents = [(Role.DESCRIBES, image), (Role.PROMPTED_BY, self.prompt)]
        entity = self.add(new_entity(caption, DATASET, parents=parents, group=image))
        if by is not None:
            self.decisions.append(NewDecision(entity, "accept", by))
        return entity

    def edited(self, draft: str, image: str, text: str, by: AgentRef) -> str:
        """Add the edit of a draft by a person."""
        caption = Caption(source=STREET.name, text=text, position=0, author=by.name)
        parents = [(Role.DESCRIBES, image), (Role.EDITED_FROM, draft)]
        entity = self.add(new_entity(caption, DATASET, parents=parents, group=image))
        self.decisions.append(NewDecision(draft, "edit", by, successor_id=entity))
        self.decisions.append(NewDecision(entity, "accept", by))
        return entity

    def _video(self, path: str) -> tuple[str, Video]:
        facts = VideoFacts(
            width_px=640, height_px=480, frame_rate=25, duration_seconds=61.5, codec="h264"
        )
        record = Video(
            source=STREET.name,
            file_path=path,
            sha256=sha256_of(path.encode()),
            size_bytes=1000,
            facts=facts,
        )
        entity = new_entity(record, DATASET, parents=[(Role.IMPORTED_FROM, self.source)])
        return self.add(entity), record

    def _tracklet(
        self,
        video: Video,
        number: int,
        frames: tuple[TrackletFrame, ...],
        embeddings: list[Vector],
    ) -> str:
        """Add a track, its report, the proposed tracklet and its edit by a person."""
        track = Track(
            source=STREET.name,
            video=video.file_path,
            video_sha256=video.sha256,
            number=number,
            first_frame=0,
            last_frame=frames[-1].frame,
            seen_frames=len(frames),
            observations=tuple(map(_observation, frames, embeddings)),
            author=TRACKER,
        )
        track_id = self.add(new_entity(track, DATASET))
        report = FilterReport(source=STREET.name, track=number)
        report_id = self.add(new_entity(report, DATASET, parents=[(Role.REPORT_OF, track_id)]))
        proposed = Tracklet(
            source=STREET.name,
            video=video.file_path,
            video_sha256=video.sha256,
            track=number,
            frames=frames,
            author=TRACKER,
        )
        proposed_id = self.add(new_entity(proposed, DATASET, parents=[(Role.PART_OF, report_id)]))
        edited = proposed.model_copy(update={"author": "reviewer-cc"})
        kept = self.add(new_entity(edited, DATASET, parents=[(Role.EDITED_FROM, proposed_id)]))
        self.decisions.append(NewDecision(kept, "accept", AgentRef("person", "reviewer-cc")))
        return kept


def street_world() -> StreetComposer:
    """Four people in three videos, with two descriptions per image."""
    world = StreetComposer()
    number = 0
    for track, walk in enumerate(WALKS, 1):
        for image in world.walk(walk, track):
            number += 1
            world.described(image, number)
    return world


def text_of(number: int, place: int) -> str:
    """A description of at least 70 words."""
    words = [WORDS[(number * 7 + place * 3 + step) % len(WORDS)] for step in range(70 + number)]
    return f"{' '.join(words).capitalize()}."


def _frame(number: int, data: bytes) -> TrackletFrame:
    with Picture.open(io.BytesIO(data)) as opened:
        width, height = opened.size
    return TrackletFrame(
        frame=10 * number + 5,
        time_seconds=(10 * number + 5) / 25,
        crop=Crop(
            sha256=sha256_of(data), media_type="image/jpeg", width_px=width, height_px=height
        ),
        box_xyxy=(100.5, 20.0, 124.5, 80.25),
        score=0.875,
    )


def _embedding(content: int) -> Vector:
    return np.random.default_rng(content).normal(size=16)


def _observation(frame: TrackletFrame, embedding: Vector) -> Observation:
    unit = embedding / np.linalg.norm(embedding)
    return Observation(
        frame=frame.frame,
        time_seconds=frame.time_seconds,
        box_xyxy=frame.box_xyxy,
        score=frame.score,
        crop=frame.crop,
        measures=CropMeasures(
            width_px=24,
            height_px=60,
            cut_off=0,
            border_px=20,
            sharpness=100,
            brightness=120,
            contrast=40,
            overlap=0,
            other_people=0,
            perceptual_hash="0" * 16,
        ),
        embedding=base64.b64encode(unit.astype("<f2").tobytes()).decode(),
    )


def _image(
    walk: Walk, frame: TrackletFrame, video: str, tracklet: str, file_path: str
) -> NewEntity:
    record = Image(
        source=STREET.name,
        identity=walk.identity,
        split=walk.split,
        file_path=file_path,
        sha256=frame.crop.sha256,
        source_sha256=frame.crop.sha256,
        media_type="image/jpeg",
        width_px=frame.crop.width_px,
        height_px=frame.crop.height_px,
    )
    parents = [(Role.CROP_OF, video), (Role.SELECTED_IN, tracklet)]
    return new_entity(record, DATASET, parents=parents, split=walk.split, group=walk.identity)
