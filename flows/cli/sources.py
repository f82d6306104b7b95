"""`loupe import`, `loupe sources sniff` and `loupe duplicates`."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from loupe.flows.cli.commands import command
from loupe.flows.cli.options import opened_run, settings
from loupe.flows.cli.output import Answer, Line, Note, err, note
from loupe.schemas.errors import UsageError

if TYPE_CHECKING:
    from loupe.flows.engine.contamination import FolderDuplicates
    from loupe.schemas.columns import TableColumns
    from loupe.sources.sniffing import Sniffed


_VIDEOS = "videos"
_KEYS = "docs/build-files.md"
_SHOWN = 120


def _formats() -> list[str]:
    from loupe.sources.importer import IMPORTERS

    return [*IMPORTERS, _VIDEOS]


def import_(
    format_name: Annotated[str, typer.Argument(metavar="FORMAT", autocompletion=_formats)],
    path: str,
    *,
    images: str | None = None,
    name: str | None = None,
    licence: str | None = None,
    citation: str | None = None,
    permitted_by: str | None = None,
    split: Literal["train", "val", "test"] | None = None,
    image: str | None = None,
    identity: str | None = None,
    captions: list[str] | None = None,
    split_column: str | None = None,
    licence_column: str | None = None,
    attribution: str | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
    shards: bool = False,
) -> Answer:
    """Import annotations and images, or videos.

    Records that cannot be used are quarantined with a reason. A second import adds only what is
    missing. Exit code 1 if a record was quarantined. `loupe sources sniff PATH` says which format
    and which columns to state.

    Args:
        format_name: Format: parquet, hf, webdataset, img2dataset, csv, tsv, json, folder,
            json-lines, fiftyone, label-studio, coco-captions, coco-instances, karpathy-coco,
            karpathy-flickr30k, cuhk-pedes, icfg-pedes, rstpreid, ufine6926, ufine3c, mscoco-fg,
            flickr30k-fg, ccd, image-list, total-text, licensed-images or videos.
        path: Annotations: a file, folder, pattern or address (s3://…); for videos also a list
            (.txt).
        images: Folder or address that image paths are relative to (default: that of the
            annotations).
        name: Name of the source (default: the name of the format).
        licence: Licence, if it differs from the known licence of the format.
        citation: Citation, if it differs from the known citation of the format.
        permitted_by: Reason why terms that are no known licence permit a release. It is not stored:
            state it to what makes the release, too.
        split: Split of all records, if the annotations state none (default: test).
        image: Column of the image or its path.
        identity: Column of what the image shows (default: identity, if there is one).
        captions: Column of captions; repeat it for several.
        split_column: Column of the split (default: split, if there is one).
        licence_column: Column of the licence of each image.
        attribution: Column of the creator to name.
        encoding: Encoding of a text file, such as cp1252 (default: what is found).
        delimiter: What separates the cells of a text file (default: what is found).
        shards: Import into shards of 10,000 records, for sources with millions (`loupe shards`).
    """
    from loupe.flows.engine.importing import import_source
    from loupe.schemas.build import SourceSpec, VideoSourceSpec
    from loupe.schemas.validation import validated
    from loupe.sources.importer import importer_for

    context = opened_run()
    note(f"home: {context.settings.home}")
    values: dict[str, Any] = {
        "licence": licence,
        "citation": citation,
        "permitted_by": permitted_by,
    }
    if format_name == _VIDEOS:
        from loupe.flows.engine.video_import import import_videos

        if shards:
            raise UsageError("videos cannot be imported into shards; leave out --shards")
        if licence is None:
            raise UsageError("videos need a licence; give it with --licence")
        values |= {
            "name": _VIDEOS if name is None else name,
            "videos": path,
            "citation": citation or "",
        }
        videos = validated(VideoSourceSpec, values, "source", see=_KEYS)
        dataset, (_, report) = videos.name, import_videos(context, videos)
    else:
        usual = importer_for(format_name).format
        values |= {"name": usual if name is None else name, "format": format_name}
        stated = {
            "annotations": path,
            "images": images,
            "split": split,
            "image": image,
            "identity": identity,
            "captions": captions,
            "split_column": split_column,
            "licence_column": licence_column,
            "attribution": attribution,
            "encoding": encoding,
            "delimiter": delimiter,
        }
        values |= {key: value for key, value in stated.items() if value}
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


app = typer.Typer(help="Look at annotations before they are imported.", no_args_is_help=True)


@command(app)
def sniff(
    path: str,
    *,
    to: Path | None = None,
    images: str | None = None,
    image: str | None = None,
    identity: str | None = None,
    captions: list[str] | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
) -> Answer:
    """Detect the format of a file or folder.

    Shows three rows as Loupe would read them, and prints the [[sources]] of a build file, with the
    columns that it needs. What is at an address (s3://…) is copied to the home first.

    Args:
        path: File, folder, pattern or address of annotations.
        to: Build file to add the [[sources]] to.
        images: Folder or address that image paths are relative to (default: what is found).
        image: Column of the image or its path (default: what is found).
        identity: Column of what the image shows (default: what is found).
        captions: Column of captions; repeat it for several (default: what is found).
        encoding: Encoding of a text file, such as cp1252 (default: what is found).
        delimiter: What separates the cells of a text file (default: what is found).
    """
    from loupe.flows.engine.importing import COPIES
    from loupe.schemas.wording import many, shortened
    from loupe.sources.records import BadRow
    from loupe.sources.remote import hub_address, located
    from loupe.sources.sniffing import sniff as sniffed

    place = located(hub_address(path), "", settings().home / COPIES, note)
    found = sniffed(
        place.annotations, stated_columns(image, identity, captions, encoding, delimiter)
    )
    folder = to.parent if to else Path()
    table = table_of(found, path, folder, source_name(path), images=images)
    if to is not None:
        with to.open("a", encoding="utf-8") as file:
            file.write(f"\n{table}")
    unknown = {"file_path", "other_paths"} if found.lacks_images else None
    rows = [
        one.model_dump(mode="json", exclude_defaults=True, exclude=unknown) for one in found.rows
    ]
    lines: list[Line] = [f"{path}: {found.format}", ""]
    for row in found.rows:
        if isinstance(row, BadRow):
            lines.append(f"  {row.file}, record {row.index:,}: cannot be used: {row.detail}")
            continue
        image_path = "no image found" if found.lacks_images else row.file_path
        lines.append(f"  {image_path} (identity {row.identity}, {row.split})")
        lines += [f"    {shortened(caption, _SHOWN)}" for caption in row.captions]
        if not row.captions:
            lines.append("    no caption")
    added = f"added to {to}:" if to else "for a build file:"
    lines += ["", added, "", *table.splitlines()]
    document = {
        "format": found.format,
        "fields": list(found.fields),
        "columns": dict(found.columns),
        "rows": rows,
        "table": table,
    }
    if found.lacks_images:
        lines += ["", Note("no column names the images: state it (--image)")]
    shown = many(len(rows), "row")
    return Answer(document, [*lines, "", Note(f"{shown} shown, with nothing imported")])


def stated_columns(
    image: str | None,
    identity: str | None,
    captions: list[str] | None,
    encoding: str | None,
    delimiter: str | None,
) -> "TableColumns | None":
    """Return the columns that options state, and how a text file is read, if any."""
    from loupe.schemas.columns import TableColumns
    from loupe.schemas.validation import validated

    stated = {
        "image": image,
        "identity": identity,
        "captions": captions,
        "encoding": encoding,
        "delimiter": delimiter,
    }
    found = {key: value for key, value in stated.items() if value}
    return validated(TableColumns, found, "the options") if found else None


def table_of(
    found: "Sniffed",
    path: str,
    folder: Path,
    name: str,
    licence: str | None = None,
    images: str | None = None,
) -> str:
    """Return the `[[sources]]` of a build file in a folder, which paths are relative to.

    `images` is the folder or address of the images, if it is stated.
    """
    if images is None and found.images is not None:
        images = str(found.images)
    if images and "://" not in images:
        images = os.path.relpath(images, folder)
    if "://" in path or not Path(path).parent.exists():
        return found.table(path, name, licence, images)
    stated = path if Path(path).is_absolute() else os.path.relpath(path, folder)
    return found.table(stated, name, licence, images)


def source_name(path: str) -> str:
    """Return a name for the source at a path."""
    name = Path(path.rstrip("/")).name.partition("@")[0]
    stem = name if Path(path).is_dir() else name.partition(".")[0]
    letters = "".join(
        one if one.isascii() and (one.isalnum() or one == ".") else "-" for one in stem
    )
    return letters.strip("-.")[:60] or "source"


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
