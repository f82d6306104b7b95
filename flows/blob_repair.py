"""Repair damaged files of the blob store: find them elsewhere, or make them again.

Data is used only if its digest is right.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from loupe.db.blob_check import BlobCheck, FaultyBlob
from loupe.db.blobs import SHARD, suffix_of
from loupe.db.entities import StoredEntity, fetch, pages, parents_of
from loupe.db.releases import list_releases
from loupe.db.withdrawal_graph import Blob
from loupe.flows.cropping import MARGIN, cut, encode
from loupe.flows.engine.context import RunContext
from loupe.flows.shards.files import erase_again, files_in_shard, images_in_shard, root_in
from loupe.models.registry import build_image_editor
from loupe.release.format.manifest import MANIFEST, read_files
from loupe.retrieval.edit_measures import change_between, difference_overlay, opened_picture
from loupe.schemas.base import sha256_of
from loupe.schemas.chat import ChatImage
from loupe.schemas.contrast import StoredEdit
from loupe.schemas.errors import IntegrityError, LoupeError
from loupe.schemas.faces import Faces
from loupe.schemas.grouping import grouped
from loupe.schemas.image_edit import BuiltinEditor, EditRequest
from loupe.schemas.profile import EditCheckSettings
from loupe.schemas.proposals import Candidate, Strategy
from loupe.schemas.provenance import Role
from loupe.schemas.records import Image, Picture, Shard
from loupe.schemas.video import Observation, StageSettings, Track
from loupe.sources.faces import treat_faces, without_faces
from loupe.sources.images import InspectedImage, inspect_image
from loupe.sources.video.finding import FoundVideo, find_videos, video_digest
from loupe.sources.video.reader import VideoRefusedError, open_video
from loupe.sources.video.sequence import is_pattern

_PAGE = 2000
_ROUNDS = 4
"""An image needs its repaired shard; an edited one its anchor; a measurement needs both."""
_DRAWN = ("demonstration", "rendered")  # folders below the home with images drawn here

Data = tuple[bytes, str]
"""The bytes of a file, and a description of where they are from."""


class RepairedBlob(NamedTuple):
    """A repaired file, and where its bytes are from."""

    blob: Blob
    origin: str


def repair_blobs(
    context: RunContext, check: BlobCheck, folders: Sequence[Path] = ()
) -> Iterator[RepairedBlob]:
    """Restore the files that `check` found damaged or missing; the others remain in `check`.

    Args:
        context: the run.
        check: the damaged and missing files.
        folders: folders with sources, videos or a backup of the blob store; images drawn here and
            releases are always searched.

    Raises:
        ServiceError: the blob store cannot be written to.
    """
    sources = _Sources(context, check, folders)
    for _ in range(_ROUNDS):
        repaired, shards = 0, list[str]()
        for page in pages(check.faulty(), _PAGE):
            for blob, (data, origin) in sources.data_of(page):
                if check.repair(blob, data):
                    repaired += 1
                    yield RepairedBlob(blob, origin)
                    if blob.media_type == SHARD:
                        shards += [id_ for _, id_ in check.naming(blob)]
        if shards:
            erase_again(context)
        for shard in fetch(context.store, shards).values():
            check.look_at(files_in_shard(context.store, context.blobs, shard))
        if not repaired:
            return


class _Sources:
    """Where the bytes of a file may be available, from the cheapest to the most expensive."""

    def __init__(self, context: RunContext, check: BlobCheck, folders: Sequence[Path]) -> None:
        self._context = context
        self._check = check
        self._folders = folders
        self._drawn = [context.settings.home / name for name in _DRAWN]

    def data_of(self, page: Sequence[FaultyBlob]) -> Iterator[tuple[Blob, Data]]:
        """Return the right bytes of as many files as possible."""
        wanted = {one.blob for one in page}
        for find in (
            self._in_backups,
            self._in_releases,
            self._imported,
            self._cut_from_videos,
            self._edited,
            self._overlays,
        ):
            for blob, data in find(frozenset(wanted)):
                digest = root_in if blob.media_type == SHARD else sha256_of
                if blob in wanted and digest(data[0]) == blob.sha256:
                    wanted.discard(blob)
                    yield blob, data

    def _in_backups(self, wanted: Iterable[Blob]) -> Iterator[tuple[Blob, Data]]:
        for blob in wanted:
            name = f"{blob.sha256}{suffix_of(blob.media_type)}"
            for folder in self._folders:
                for below in ("", f"sha256/{name[:2]}", f"shards/{name[:2]}"):
                    path = folder / below / name
                    with suppress(OSError):
                        if path.is_file():  # a pipe may never end
                            yield blob, (path.read_bytes(), str(path))

    def _in_releases(self, wanted: Iterable[Blob]) -> Iterator[tuple[Blob, Data]]:
        by_digest = {blob.sha256: blob for blob in wanted}
        for folder in (one.folder for one in list_releases(self._context.store)):
            with suppress(IntegrityError):  # the release is missing or damaged as well
                for file in read_files(folder / MANIFEST):
                    if (blob := by_digest.get(file.sha256)) is not None:
                        path = folder / file.path
                        with suppress(OSError):
                            if path.is_file():
                                yield blob, (path.read_bytes(), str(path))

    def _imported(self, wanted: Iterable[Blob]) -> Iterator[tuple[Blob, Data]]:
        """Yield files of sources, converted as they were at import."""
        by_path: dict[str, set[Blob]] = defaultdict(set)
        treated: dict[Blob, Faces] = {}
        for blob, entity in self._naming(wanted, Image.kind):
            image = entity.record(Image)
            by_path[image.file_path].add(blob)
            if image.faces is not None:
                treated[blob] = image.faces.method
        of_shards = {entity.id: entity for _, entity in self._naming(wanted, Shard.kind)}
        lost = {blob.sha256: blob for blob in wanted}
        for shard in of_shards.values():
            for stored in images_in_shard(self._context.blobs, shard):
                if stored.sha256 in lost:
                    by_path[stored.file_path].add(lost[stored.sha256])
        for path, file in _files_below((*self._folders, *self._drawn), by_path):
            found = inspect_image(Path(file.as_posix().removesuffix(f"/{path}")), path)
            for blob in by_path[path]:
                as_stored = without_faces(treated.get(blob, "keep"), found)
                if isinstance(as_stored, InspectedImage):
                    yield blob, (as_stored.data, str(file))

    def _cut_from_videos(self, wanted: Iterable[Blob]) -> Iterator[tuple[Blob, Data]]:
        """Yield crops of people, cropped from their frames again."""
        seen: dict[tuple[str, str], dict[int, list[tuple[Blob, Observation]]]] = {}
        for blob, entity in self._naming(wanted, Track.kind):
            track = entity.record(Track)
            for one in track.observations:
                if one.crop.sha256 == blob.sha256:
                    frames = seen.setdefault((track.video, track.video_sha256), defaultdict(list))
                    frames[one.frame].append((blob, one))
        videos = {path for path, _ in seen}
        files = list(_videos_below((*self._folders, *self._drawn), videos))
        for (path, digest), frames in seen.items():
            for url in (file for found, file in files if found == path):
                with suppress(VideoRefusedError):
                    if video_digest(url, path)[0] == digest:
                        yield from _crops(url, path, frames)
                        break

    def _edited(self, wanted: Iterable[Blob]) -> Iterator[tuple[Blob, Data]]:
        """Yield images made by the built-in editor, which is deterministic."""
        store, spec = self._context.store, BuiltinEditor()
        for blob, entity in self._naming(wanted, StoredEdit.kind):
            edit = entity.record(StoredEdit)
            strategies = self._parents(entity, Role.EDITED_FOR)
            if edit.model != str(spec.ref) or not strategies:
                continue
            anchor = fetch(store, strategies)[strategies[0]].record(Strategy).anchor
            with suppress(LoupeError):  # the anchor is damaged as well: another round
                image = ChatImage(media_type=anchor.media_type, data=self._read(anchor))
                request = EditRequest(image=image, instruction=edit.instruction, seed=edit.seed)
                for _, made in build_image_editor(spec).edit([request]):
                    if (picture := getattr(made, "image", None)) is not None:
                        data = _treated(edit.picture, picture.data)
                        yield blob, (data, f"edited again by {edit.model}")

    def _overlays(self, wanted: Iterable[Blob]) -> Iterator[tuple[Blob, Data]]:
        """Yield images that show what an edit changed, drawn again."""
        store = self._context.store
        for blob, entity in self._naming(wanted, Candidate.kind):
            candidate = entity.record(Candidate)
            settings = self._parents(entity, Role.WRITTEN_WITH)
            if candidate.overlay is None or candidate.overlay.sha256 != blob.sha256:
                continue
            for one in fetch(store, settings).values():
                check = one.record(StageSettings).values.get("check")
                with suppress(IntegrityError, ValueError):  # one of the two is damaged as well
                    pictures = (candidate.anchor, candidate.image)
                    anchor, edited = (opened_picture(self._read(picture)) for picture in pictures)
                    change = change_between(anchor, edited, EditCheckSettings.model_validate(check))
                    yield blob, (difference_overlay(anchor, change), "drawn again")

    def _naming(self, blobs: Iterable[Blob], kind: str) -> Iterator[tuple[Blob, StoredEntity]]:
        """Return the entities of a kind that refer to any of the files."""
        found = [
            (blob, id_) for blob in blobs for of, id_ in self._check.naming(blob) if of == kind
        ]
        for page in pages(found, 500):
            entities = fetch(self._context.store, {id_ for _, id_ in page})
            yield from ((blob, entities[id_]) for blob, id_ in page if id_ in entities)

    def _parents(self, entity: StoredEntity, role: Role) -> list[str]:
        return parents_of(self._context.store, [entity.id], role).get(entity.id, [])

    def _read(self, picture: Picture) -> bytes:
        return self._context.blobs.read(picture.sha256, picture.media_type)


def _treated(picture: Picture, data: bytes) -> bytes:
    """Return the bytes of an image with its faces as those of the stored one."""
    return treat_faces(picture.faces.method if picture.faces else "keep", data).data


def _crops(
    url: str, path: str, wanted: dict[int, list[tuple[Blob, Observation]]]
) -> Iterator[tuple[Blob, Data]]:
    last = max(wanted)
    with open_video(url, file_path=path) as reader:
        for frame in reader.frames():
            for blob, seen in wanted.get(frame.number, ()):
                crop = encode(cut(frame.pixels, np.array(seen.box_xyxy, np.float64), MARGIN))
                yield blob, (_treated(seen.crop, crop.data), f"frame {frame.number} of {url}")
            if frame.number >= last:
                return


def _videos_below(roots: Sequence[Path], paths: set[str]) -> Iterator[tuple[str, str]]:
    """Yield (path, URL) for each video below `roots` whose path ends with one of `paths`."""
    yield from ((path, str(file)) for path, file in _files_below(roots, paths))
    patterns = [path for path in paths if is_pattern(path)]
    for root in roots if patterns else ():
        for found in find_videos(root):
            for path in patterns:
                if isinstance(found, FoundVideo) and found.url.endswith(f"/{path}"):
                    yield path, found.url


def _files_below(roots: Iterable[Path], paths: Iterable[str]) -> Iterator[tuple[str, Path]]:
    """Yield (path, file) for each file below `roots` whose path ends with one of `paths`."""
    by_name = grouped((path.rpartition("/")[2], path) for path in paths)
    for root in roots if by_name else ():
        for file in sorted(root.rglob("*")):
            for path in by_name.get(file.name, ()):
                if file.as_posix().endswith(f"/{path}") and file.is_file():
                    yield path, file
