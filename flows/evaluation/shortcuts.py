"""The shortcut certificate of a release: what opponents reach that do not look at the content.

`original image`: a contrastive release asks for differences between an image and its edits, so
nothing but their content may say which is the original. `source of a caption`: if the wording says
which collection a caption is about, the gallery shrinks to that collection.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from loupe.flows.engine.embedding import image_file, read_image
from loupe.release.format.row_files import ReadRelease, read_release
from loupe.release.format.rows import ReleaseRow
from loupe.retrieval.shortcuts.features import (
    Features,
    file_features,
    name_features,
    pixel_features,
    size_features,
    text_features,
)
from loupe.retrieval.shortcuts.opponents import Evidence, corrected, find_wanted, tell_class
from loupe.schemas.shortcuts import BlindResult, ShortcutCertificate


def certify(folder: Path, split: str | None = None) -> ShortcutCertificate:
    """Return what blind opponents reach on one split of a release.

    Raises:
        IntegrityError: the release was changed.
        UsageError: `folder` is no release, or has no such split.
    """
    read = read_release(folder, split)
    results = [*_originals(read), *_sources(read)]
    return ShortcutCertificate(split=read.split, results=corrected(results))


def _originals(read: ReadRelease) -> Iterable[BlindResult]:
    """Yield how often each opponent finds the original of a contrastive group."""
    groups = [row.contrast.anchor if row.contrast else row.file_path for row in read.rows]
    if len(set(groups)) == len(groups):
        return
    is_original = np.array([row.contrast is None for row in read.rows])
    captions = [" ".join(caption.text for caption in row.captions) for row in read.rows]
    for evidence in _image_evidence(read):
        if found := find_wanted("original image", evidence, groups, is_original):
            yield found
    for evidence in _text_evidence(captions):
        if found := find_wanted("original captions", evidence, groups, is_original):
            yield found


def _image_evidence(read: ReadRelease) -> Iterable[Evidence]:
    pixels: list[Features] = []
    files: list[Features] = []
    for row in read.rows:
        file = image_file(row.sha256, read.folder / row.file_path)
        pixels.append(pixel_features(np.asarray(read_image(file))))
        files.append(file_features(file.read(), row.width_px, row.height_px))
    yield Evidence.of("pixel statistics", pixels)
    yield Evidence.of("file", files)
    yield Evidence.of("size", [size_features(row.width_px, row.height_px) for row in read.rows])
    yield Evidence.of("file name", [name_features(row.file_path) for row in read.rows])
    yield Evidence.of("order", _places(read.rows))


def _places(rows: Sequence[ReleaseRow]) -> list[Features]:
    """Return the places of each row: in the release, and by name and by id."""
    by_name = {name: at for at, name in enumerate(sorted(row.file_path for row in rows))}
    by_entity = {one: at for at, one in enumerate(sorted(row.image_entity_id for row in rows))}
    return [
        {
            "row": float(at),
            "id": float(row.id),
            "rank of name": float(by_name[row.file_path]),
            "rank of entity": float(by_entity[row.image_entity_id]),
        }
        for at, row in enumerate(rows)
    ]


def _text_evidence(texts: Sequence[str]) -> Iterable[Evidence]:
    yield Evidence.of("length of text", [text_features(text) for text in texts])
    if any(text.strip() for text in texts):
        yield Evidence.of_words("wording", texts)


def _sources(read: ReadRelease) -> Iterable[BlindResult]:
    """Yield how often the wording of a caption tells the source of its image."""
    rows = [row for row in read.rows for _ in row.captions]
    texts = [caption.text for row in read.rows for caption in row.captions]
    sources = [row.source for row in rows]
    if len(set(sources)) < 2:
        return
    persons = [row.id for row in rows]
    for evidence in _text_evidence(texts):
        if found := tell_class("source of a caption", evidence, persons, sources):
            yield found
