"""Writes the rows of a release."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from db.blobs import BlobStore
from release.contamination import Checks, OwnImages, SeenImage, WrittenSample, look_at
from release.contents import Contents, FoundRow
from release.files import DigestingFile, place_file
from release.row_files import ParquetRows, texts_of
from release.row_making import embedding_of
from release.rows import ReleaseRow
from release.scratch import Scratch
from release.statistics import ReleaseAccumulator
from release.threads import ordered_map
from retrieval.similarity.distances import perceptual_hash
from schemas.release import ReleasedFile


def write_rows(
    contents: Contents,
    dataset: str,
    blobs: BlobStore,
    folder: Path,
    scratch: Scratch,
    tally: ReleaseAccumulator,
    checks: Checks,
    on_row: Callable[[int], None],
) -> tuple[OwnImages, list[WrittenSample]]:
    """Write all rows into the folder of a release, count them and list the files in `scratch`.

    Images are read from `blobs`; `on_row` is called with the number of finished rows.

    Returns:
        The images to compare with other datasets, and the samples to measure, if any.
    """
    form, own, samples = contents.form, OwnImages(), list[WrittenSample]()

    def copied(found: FoundRow) -> tuple[FoundRow, bytes, int | None, SeenImage | None]:
        """Write the image of a row, and hash it as far as it is compared with others."""
        row = found.row
        image = blobs.read(row.sha256, row.media_type)
        place_file(folder, row.file_path, image)
        hashed = perceptual_hash(image) if tally.has_splits else None
        seen = _seen_row(row, image) if checks.against is not None else None
        return found, image, hashed, seen

    with ExitStack() as stack:
        texts = texts_of(dataset, form)
        files = {name: DigestingFile(folder / name) for name in texts}
        for file in files.values():
            stack.callback(file.close)
        parquet = stack.enter_context(ParquetRows(folder, form))
        for done, one in enumerate(ordered_map(copied, contents.rows()), 1):
            (row, left_out, crop), image, hashed, seen = one
            columns = row.columns(form)
            parquet.write(columns, image)
            for name, text in texts.items():
                files[name].write(text.row(columns, is_first=done == 1))
            embedding = embedding_of(crop) if tally.has_splits else None
            tally.add(row, hashed, embedding, crop.embedder if crop else "")
            tally.statistics.add_left_out(
                rejected=left_out["rejected"], pending=left_out["proposed"]
            )
            scratch.add_items(row.entity_ids())
            scratch.add_listed(
                ReleasedFile(row.file_path, row.sha256, len(image), row.image_entity_id)
            )
            if seen is not None:
                own.add(seen)
            if checks.nearest is not None and form.contrasts:
                samples.append(_sample(row, folder))
            on_row(done)
        scratch.add_all_listed(parquet.finish())
        for name, text in texts.items():
            files[name].write(text.ending)
            files[name].close()
            scratch.add_listed(files[name].as_released(name))
    return own, samples


def _sample(row: ReleaseRow, folder: Path) -> WrittenSample:
    captions, coarse = (
        tuple(one.text for one in many) for many in (row.captions, row.coarse_captions)
    )
    return WrittenSample(row.sha256, folder / row.file_path, captions, coarse, row.contrast)


def _seen_row(row: ReleaseRow, image: bytes) -> SeenImage:
    """The row with the perceptual hash of its image."""
    return SeenImage(
        name=row.file_path,
        sha256=row.sha256,
        look=look_at(image).perceptual_hash,
        split=row.split,
        identity=(row.source, row.identity),
        video_sha256=row.crop.video_sha256 if row.crop else None,
        captions=tuple(one.text for one in (*row.captions, *row.coarse_captions)),
    )
