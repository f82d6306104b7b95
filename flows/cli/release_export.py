"""`loupe release export`, `report` and `upload`: a release for others to load and read."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.filesize import decimal
from rich.markup import escape

from flows.cli.options import (
    FolderArgument,
    VerifyOption,
    folder_called,
    known_withdrawals,
    progress_bar,
)
from flows.cli.output import JsonOption, out, print_json, warn

if TYPE_CHECKING:
    from release.hub import PlannedUpload, Uploaded, UploadPlan


# A release in the formats of other libraries.


def export(
    name: Annotated[str, typer.Argument(metavar="RELEASE")],
    *,
    format_name: Annotated[str, typer.Option("--format")],
    target: Annotated[Path, typer.Option("--out")],
    shard_megabytes: Annotated[int | None, typer.Option("--shard-mb", min=1)] = None,
    verify: VerifyOption = True,
    as_json: JsonOption = False,
) -> None:
    """Write a release in the format of another library.

    The same release always gives the same bytes.

    Args:
        name: The folder of a release, or DATASET (its newest), DATASET@VERSION, or an id's
            beginning.
        format_name: webdataset, hf, coco, parquet or published.
        target: The folder to write; must not exist.
        shard_megabytes: webdataset only: megabytes per shard. Default: 500.
    """
    from flows.withdrawal.releases import withdrawal_in
    from release.export import export_release
    from release.export.formats import format_called

    shard_bytes = None if shard_megabytes is None else shard_megabytes * 1_000_000
    chosen, folder = format_called(format_name, shard_bytes), folder_called(name)
    if withdrawal := withdrawal_in(folder, known_withdrawals()):
        warn(withdrawal.sentence)
    with progress_bar("exporting") as on_progress:
        exported = export_release(folder, chosen, target, verify=verify, on_progress=on_progress)
    record = exported.record
    if as_json:
        place = {"folder": str(exported.folder), "is_new": exported.is_new}
        print_json({**record.model_dump(mode="json"), **place})
        return
    done = "exported as" if exported.is_new else "already exists, unchanged, as"
    out.print(
        f"{escape(record.dataset)} {record.version} {done} {record.format}: "
        f"{escape(str(exported.folder))}\n"
        f"  {record.images:,} images, {record.captions:,} captions",
        soft_wrap=True,
    )


# A release as HTML pages that open from disk.


def report(
    folder: FolderArgument,
    *,
    target: Annotated[Path, typer.Option("--out")],
    previous: Path | None = None,
    previews: Annotated[bool | None, typer.Option("--previews/--no-previews")] = None,
    verify: VerifyOption = True,
    as_json: JsonOption = False,
) -> None:
    """Write an HTML report on a release.

    It shows a gallery, statistics, lineage and the differences from an earlier release. Open its
    index.html.

    Args:
        target: The folder to write; must not exist. Beside the release, the pages show its images
            at full size.
        previous: The folder of an earlier release to compare with.
        previews: Copy pictures of up to 800 pixels into the report. Default: only if the report is
            not beside the release.
    """
    from release.report.writing import write_report

    with progress_bar("writing pictures") as on_progress:
        written = write_report(
            folder,
            target,
            previous=previous,
            previews=previews,
            verify=verify,
            notices=known_withdrawals(),
            on_progress=on_progress,
        )
    if written.record.withdrawn:
        warn(
            f"of {written.record.withdrawn:,} rows nothing, or not all, is shown, because it was "
            f"withdrawn"
        )
    record, page = written.record, written.folder / "index.html"
    if as_json:
        place = {"page": str(page), "is_new": written.is_new}
        print_json({**record.model_dump(mode="json"), **place, "unreadable": written.unreadable})
        return
    done = "has a report:" if written.is_new else "already has a report, unchanged:"
    out.print(
        f"{escape(record.dataset)} {record.version} {done} {escape(str(page))}\n"
        f"  {record.rows:,} rows",
        soft_wrap=True,
    )
    if written.unreadable:
        warn(f"no preview could be made of: {', '.join(written.unreadable)}")


# A release on the Hugging Face Hub.


def upload(
    folder: FolderArgument,
    *,
    repository: Annotated[str, typer.Option("--to")],
    send: Annotated[bool, typer.Option("--upload")] = False,
    private: Annotated[bool, typer.Option("--private/--public")] = True,
    replace: bool = False,
    images: Annotated[bool | None, typer.Option("--images/--no-images")] = None,
    verify: VerifyOption = True,
    as_json: JsonOption = False,
) -> None:
    """Upload a release to the Hugging Face Hub.

    One commit with a tag. Default: dry run.

    An interrupted upload continues where it stopped. The token is read from HF_TOKEN.

    Args:
        repository: The repository: OWNER/NAME.
        send: Upload it. Default: dry run.
        private: Whether the repository is private. Uploading to a public one needs --public.
        replace: Replace whatever the repository holds. Default: replace only an earlier version of
            the same dataset.
        images: Also send the image files, which the Parquet files contain. Default: if there are at
            most 10,000.
    """
    from flows.withdrawal.releases import withdrawal_in
    from release.hub import planned_upload
    from schemas.errors import UsageError

    if withdrawal := withdrawal_in(folder, known_withdrawals()):
        raise UsageError(f"{withdrawal.sentence}; it is not uploaded")
    planned = planned_upload(folder, repository, with_images=images, verify=verify)
    uploaded = _sent(planned, private=private, replace=replace) if send else None
    if as_json:
        details = {"uploaded": send, "url": uploaded and uploaded.url}
        if uploaded:
            details["is_new"] = uploaded.is_new
        print_json({**planned.plan.model_dump(mode="json"), **details})
    elif uploaded:
        done = "is uploaded:" if uploaded.is_new else "already exists, unchanged:"
        name = f"{planned.plan.dataset} {planned.plan.version}"
        out.print(f"{name} {done} {escape(uploaded.url)}", soft_wrap=True)
    else:
        _tell(planned.plan, private=private)


def _sent(planned: "PlannedUpload", *, private: bool, replace: bool) -> "Uploaded":
    """Upload it, with a progress bar of its files."""
    from huggingface_hub.utils.tqdm import disable_progress_bars

    from release.hub import upload_release

    disable_progress_bars()  # the Hub's own
    with progress_bar("uploading") as on_progress:
        return upload_release(planned, private=private, replace=replace, on_progress=on_progress)


def _tell(plan: "UploadPlan", *, private: bool) -> None:
    what = "with its image files" if plan.with_images else "without image files (only in Parquet)"
    seen = "private" if private else "open to all"
    marks = ["demonstration"] * plan.demonstration + ["unreviewed"] * plan.unreviewed
    says = f"  it is marked as: {', '.join(marks)}\n" if marks else ""
    out.print(
        f"{plan.dataset} {plan.version} would be uploaded to {escape(plan.repository)}, {what}:\n"
        f"  {plan.files:,} files, {decimal(plan.size_bytes)}, one commit, with the tag {plan.tag}\n"
        f"  a new repository would be {seen}\n"
        f"{says}"
        f"nothing was uploaded; add --upload to upload it",
        soft_wrap=True,
    )
