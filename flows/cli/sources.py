"""`loupe import` and `loupe duplicates`."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from loupe.flows.cli.options import opened_run
from loupe.flows.cli.output import Answer, err, note
from loupe.schemas.errors import UsageError

if TYPE_CHECKING:
    from loupe.flows.engine.contamination import FolderDuplicates


_VIDEOS = "videos"
_KEYS = "docs/build-files.md"


def _formats() -> list[str]:
    from loupe.sources.importer import IMPORTERS

    return [*IMPORTERS, _VIDEOS]


def import_(
    format_name: Annotated[str, typer.Argument(metavar="FORMAT", autocompletion=_formats)],
    path: str,
    *,
    images: Path | None = None,
    name: str | None = None,
    licence: str | None = None,
    citation: str | None = None,
    split: Literal["train", "val", "test"] | None = None,
    shards: bool = False,
) -> Answer:
    """Import annotations and images, or videos.

    Records that cannot be used are quarantined with a reason. A second import adds only what is
    missing. Exit code 1 if a record was quarantined.

    Args:
        format_name: Annotation format: cuhk-pedes, icfg-pedes, rstpreid, ufine6926, ufine3c,
            coco-captions, karpathy-coco, karpathy-flickr30k, mscoco-fg, flickr30k-fg, json-lines,
            image-list, ccd, total-text, coco-instances, licensed-images or videos.
        path: Annotation file; for videos a folder, file, glob pattern, list (.txt) or URL.
        images: Folder that image paths are relative to (default: that of the annotation
            file).
        name: Name of the source (default: the name of the format).
        licence: Licence, if it differs from the known licence of the format.
        citation: Citation, if it differs from the known citation of the format.
        split: Split of all records, if the annotation file states none (default: test).
        shards: Import into shards of 10,000 records, for sources with millions (`loupe shards`).
    """
    from loupe.flows.engine.importing import import_source
    from loupe.schemas.build import SourceSpec, VideoSourceSpec
    from loupe.schemas.validation import validated
    from loupe.sources.importer import importer_for

    context = opened_run()
    note(f"home: {context.settings.home}")
    values: dict[str, Any] = {"licence": licence, "citation": citation}
    if format_name == _VIDEOS:
        from loupe.flows.ufine6926.video_import import import_videos

        if shards:
            raise UsageError("videos cannot be imported into shards; leave out --shards")
        if licence is None:
            raise UsageError("videos need a licence; give it with --licence")
        values |= {"name": name or _VIDEOS, "videos": path, "citation": citation or ""}
        videos = validated(VideoSourceSpec, values, "source", see=_KEYS)
        dataset, (_, report) = videos.name, import_videos(context, videos)
    else:
        values |= {"name": name or importer_for(format_name).format, "format": format_name}
        values |= {"annotations": Path(path), "images": images or Path(path).parent}
        values |= {"split": split} if split else {}
        spec = validated(SourceSpec, values, "source", see=_KEYS)
        dataset = spec.name
        if shards:
            from loupe.flows.shards.steps import import_shards

            report = import_shards(context, spec)
        else:
            _, report = import_source(context, spec)
    if report.rejected:
        note(f"show the quarantined records with: loupe quarantine {dataset}")
    return Answer(report.as_json(), failed=bool(report.rejected))


def duplicates(
    folder: Path, *, radius: Annotated[int | None, typer.Option(min=0, max=64)] = None
) -> Answer:
    """List duplicate images in a folder.

    Finds exact, near and mirrored duplicates. In each cluster, the largest image is marked as kept
    (if several are equally large, the first by name). The folder is not changed. Unreadable files
    are skipped; exit code 1 if there are any.

    Args:
        folder: The folder, searched recursively.
        radius: Compare images whose perceptual hashes differ in at most this many bits (default:
            10).
    """
    from loupe.flows.engine.contamination import find_in_folder
    from loupe.flows.engine.report import console_progress
    from loupe.schemas.similarity import NearDuplicateSettings

    settings = NearDuplicateSettings()
    if radius is not None:
        settings = settings.model_copy(update={"hash_bits": radius})
    found = find_in_folder(folder, settings, console_progress(err))
    for rejection in found.unreadable:
        note(rejection.detail)
    return Answer(found.as_json(), _lines(found), failed=bool(found.unreadable))


def _lines(duplicates: "FolderDuplicates") -> Iterator[str]:
    from loupe.flows.engine.contamination import similarity_name

    found, report = duplicates.found, duplicates.found.report
    for cluster in found.clusters:
        yield cluster.kept
        for name, pair in zip(cluster.members[1:], cluster.dropped, strict=True):
            yield f"  {similarity_name(pair):<9} {name}"
    for pair in found.doubtful:
        yield f"in doubt: {pair.first} and {pair.second} ({similarity_name(pair)})"
    yield (
        f"{report.images:,} images, {report.kept:,} of them different; duplicates: "
        f"{report.exact:,} exact, {report.near:,} near, {report.mirrored:,} mirrored; "
        f"pairs in doubt: {report.doubtful:,}"
    )
