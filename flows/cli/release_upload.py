"""`loupe release upload`: a release on the Hugging Face Hub."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.filesize import decimal
from rich.markup import escape

from flows.cli.output import JsonOption, err, out, print_json
from flows.cli.release_opening import FolderArgument, VerifyOption

if TYPE_CHECKING:
    from release.hub.plan import PlannedUpload, UploadPlan
    from release.hub.uploading import Uploaded


def upload(
    folder: FolderArgument,
    repository: Annotated[str, typer.Option("--to", help="The repository: OWNER/NAME.")],
    send: Annotated[
        bool,
        typer.Option("--upload", help="Send it. Default: dry run."),
    ] = False,
    private: Annotated[
        bool,
        typer.Option(
            "--private/--public",
            help="Whether the repository is private. Uploading to a public one needs --public.",
        ),
    ] = True,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace",
            help="Remove what the repository holds, whatever it is. Without, only an earlier "
            "version of the same dataset gives way.",
        ),
    ] = False,
    images: Annotated[
        bool | None,
        typer.Option(
            "--images/--no-images",
            help="Send the image files, which the Parquet files hold too. By default where there "
            "are at most 10,000.",
        ),
    ] = None,
    verify: VerifyOption = True,
    as_json: JsonOption = False,
) -> None:
    """Upload a release to the Hugging Face Hub.

    One commit with a tag. Default: dry run.

    An upload that was cut off goes on where it was. The token is that of HF_TOKEN.
    """
    from flows.withdrawal.withdrawn import known_notices, withdrawal_in
    from profiles.settings import load_settings
    from release.hub.plan import planned_upload
    from schemas.errors import UsageError

    if withdrawal := withdrawal_in(folder, known_notices(load_settings())):
        raise UsageError(f"{withdrawal.sentence}; it is not uploaded")
    with planned_upload(folder, repository, with_images=images, verify=verify) as planned:
        uploaded = _sent(planned, private=private, replace=replace) if send else None
    if as_json:
        details = {"uploaded": send, "url": uploaded and uploaded.url}
        if uploaded:
            details["is_new"] = uploaded.is_new
        print_json({**planned.plan.model_dump(mode="json"), **details})
    elif uploaded:
        done = "is uploaded:" if uploaded.is_new else "is there already, unchanged:"
        name = f"{planned.plan.dataset} {planned.plan.version}"
        out.print(f"{name} {done} {escape(uploaded.url)}", soft_wrap=True)
    else:
        _tell(planned.plan, private=private)


def _sent(planned: "PlannedUpload", *, private: bool, replace: bool) -> "Uploaded":
    """Sends it, with a progress bar of its files."""
    from huggingface_hub.utils.tqdm import disable_progress_bars
    from rich.progress import Progress

    from release.hub.uploading import upload_release

    disable_progress_bars()  # the hub's own
    with Progress(console=err, transient=True, disable=not err.is_terminal) as bars:
        task = bars.add_task("uploading", total=planned.plan.files)
        return upload_release(
            planned,
            private=private,
            replace=replace,
            on_progress=lambda done, total: bars.update(task, completed=done, total=total),
        )


def _tell(plan: "UploadPlan", *, private: bool) -> None:
    what = "with its image files" if plan.with_images else "without image files (in Parquet alone)"
    seen = "private" if private else "open to all"
    marks = [
        word
        for word, is_so in (
            ("demonstration", plan.demonstration),
            ("unreviewed", plan.unreviewed),
        )
        if is_so
    ]
    says = f"  it says of itself: {', '.join(marks)}\n" if marks else ""
    out.print(
        f"{plan.dataset} {plan.version} would go to {escape(plan.repository)}, {what}:\n"
        f"  {plan.files:,} files, {decimal(plan.size_bytes)}, one commit, with the tag {plan.tag}\n"
        f"  the repository, if it is made, is {seen}\n"
        f"{says}"
        f"nothing was sent; add --upload to send it",
        soft_wrap=True,
    )
