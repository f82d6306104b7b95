"""`loupe release verify`, `sign`, `export`, `report` and `upload`: what is done with a release."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.filesize import decimal

from loupe.flows.cli.options import (
    FolderArgument,
    VerifyOption,
    folder_called,
    known_withdrawals,
    notices_at_hand,
    progress_bar,
    releases_at_hand,
    settings,
    withdrawal_from,
)
from loupe.flows.cli.output import Answer, first, warn
from loupe.schemas.errors import ConfigurationError, UsageError
from loupe.schemas.wording import many

if TYPE_CHECKING:
    from loupe.release.format.findings import Problem
    from loupe.release.hub import PlannedUpload, Uploaded, UploadPlan


# Check that a copy of a release is complete, and list what was withdrawn from it.


_SHOWN_PROBLEMS = 50


def verify(
    folder: Path,
    *,
    expected_id: Annotated[str | None, typer.Option("--id")] = None,
    decode: bool = False,
    public_key: str | None = None,
    notices: Path | None = None,
    without_images: bool = False,
    newest: bool = False,
) -> Answer:
    """Check every file and row of a release.

    Works offline and needs only the folder. A newer release beside it, or in the store of this
    installation, is named.

    Lists the problems and ends with exit code 1 if something is wrong or was withdrawn.

    Args:
        folder: Folder of the release.
        expected_id: Expected id of the release: at least 12 of its 64 hex digits.
        decode: Decode every image in full.
        public_key: Public key of the expected signature: 64 hex digits, or a file (PEM).
        notices: Also check these withdrawals: a later release, its withdrawals.json, or a folder of
            published notices. Those of this installation are always checked.
        without_images: Allow missing image files; the rows, which hold their bytes, are checked.
        newest: Treat a newer release as a problem. With --public-key, only releases signed with
            this key count.
    """
    from loupe.release.format.files import shown_path
    from loupe.release.format.findings import Problem
    from loupe.release.format.manifest import MANIFEST
    from loupe.release.format.signing import public_key_called, read_signature
    from loupe.release.newer import newest_of
    from loupe.release.verify import verify_release
    from loupe.release.withdrawn.notices import notice_source

    known = notices_at_hand()
    asked = None if notices is None else notice_source(notices)
    if asked is not None:
        known += asked.notices
    problems, manifest, release_id, withdrawn = verify_release(
        folder,
        expected_id=expected_id,
        decode=decode,
        public_key=public_key,
        notices=known,
        without_images=without_images,
    )
    newer = None
    if manifest is not None:
        key = None if public_key is None else public_key_called(public_key)
        newer = newest_of(manifest, releases_at_hand(folder, manifest.dataset), key)
    said = f"{newer.version} in {newer.folder} is newer (id {newer.id})" if newer else ""
    if newest and newer is not None:
        problems = [*problems, Problem(fault="not_newest", message=said, file=MANIFEST)]
    signature = None if problems else read_signature(folder)
    signed_by = signature.public_key if signature else None
    where = shown_path(folder)
    dataset, version = (manifest.dataset, manifest.version) if manifest else (None, None)
    message = asked.describe(manifest) if asked and manifest else ""
    applies = bool(asked and manifest and asked.covers(manifest))
    if message and not applies:
        warn(message)
    document = {
        "folder": where,
        "ok": not problems,
        "dataset": dataset,
        "version": version,
        "id": release_id,
        "signed_by": signed_by,
        "newer": newer._asdict() if newer else None,
        "problems": problems,
        "withdrawn": withdrawn,
        "notices": {"apply": applies, "message": message} if message else None,
    }
    if problems:
        lines = list(_problem_lines(problems, len(withdrawn), where))
    else:
        lines = [f"✓ {where} is complete and unchanged"]
    if manifest is not None:
        says = "it says it is " if problems else ""
        lines.append(f"  {says}{dataset} {version}, id {release_id}")
        if tied := manifest.statistics.repeats.images:
            lines.append(f"  {tied:,} images are those of several identities (see README.md)")
    if newer is not None and not newest:
        lines.append(f"  {said}")
    if signed_by:
        whose = "" if public_key else ", whose owner is unknown (see --public-key)"
        lines.append(f"  signed by the key {signed_by}{whose}")
    if applies:
        lines.append(f"  {message}")
    return Answer(document, lines, failed=bool(problems))


_NO_DAMAGE = (
    *("not_newest", "other_release", "withdrawn", "signature", "documents_unknown"),
    "images_left_out",
)
"""What the names of problems begin with that are none of the files themselves."""


def _problem_lines(problems: "Sequence[Problem]", withdrawn: int, where: str) -> Iterator[str]:
    """Yield the first problems, what they mean together, and how many rows were withdrawn."""
    messages = [f"✗ {problem.message}" for problem in problems]
    yield from first(messages, _SHOWN_PROBLEMS, "… and {:,} more; --json lists them")
    if any(problem.row is not None for problem in problems):
        yield "  rows are counted from 1, like the files in images/"
    damage = [one for one in problems if not one.fault.startswith(_NO_DAMAGE)]
    if damage:
        problems_are = many(len(damage), "problem")
        yield f"✗ {where} is damaged or was changed ({problems_are}): get a new copy"
    if withdrawn:
        rows = "the row that was" if withdrawn == 1 else f"all {withdrawn:,} rows that were"
        yield f"--json lists {rows} withdrawn"


def sign(folder: FolderArgument) -> Answer:
    """Sign a release.

    The key is read from LOUPE_SIGNING_KEY or LOUPE_SIGNING_KEY_FILE.

    The release is verified first. A release that is damaged, or withdrawn in whole or in part, is
    not signed.
    """
    from loupe.flows.engine.releasing import release_signer, sign_release

    if withdrawal := withdrawal_from(folder):
        raise UsageError(f"{withdrawal.sentence}; it is not signed")
    signer = release_signer(settings())
    if signer is None:
        raise ConfigurationError(
            "there is no key to sign with; set LOUPE_SIGNING_KEY_FILE to a key file, created with "
            "`openssl genpkey -algorithm ed25519`"
        )
    signature, is_new = sign_release(folder, signer)
    lines = [
        f"{folder} {'is signed' if is_new else 'is signed already, unchanged'}",
        f"  release id {signature.release}",
        f"  public key {signature.public_key}",
    ]
    return Answer({**signature.model_dump(mode="json"), "is_new": is_new}, lines)


# A release in the formats of other libraries.


def export(
    name: Annotated[str, typer.Argument(metavar="RELEASE")],
    *,
    format_name: Annotated[str, typer.Option("--format")],
    target: Annotated[Path, typer.Option("--out")],
    shard_megabytes: Annotated[int | None, typer.Option("--shard-mb", min=1)] = None,
    verify: VerifyOption = True,
) -> Answer:
    """Write a release in the format of another library.

    The same release always gives the same bytes.

    Args:
        name: Release: its folder, DATASET (newest version), DATASET@VERSION, or the first digits of
            its id.
        format_name: Format: webdataset, hf, coco, parquet, csv, fiftyone or published.
        target: The folder to write; must not exist.
        shard_megabytes: webdataset only: megabytes per shard. Default: 500.
    """
    from loupe.release.export import export_release
    from loupe.release.export.formats import format_called

    shard_bytes = None if shard_megabytes is None else shard_megabytes * 1_000_000
    chosen, folder = format_called(format_name, shard_bytes), folder_called(name)
    if withdrawal := withdrawal_from(folder):
        warn(withdrawal.sentence)
    with progress_bar("exporting") as on_progress:
        exported = export_release(folder, chosen, target, verify=verify, on_progress=on_progress)
    record = exported.record
    place = {"folder": exported.folder, "is_new": exported.is_new}
    done = "exported as" if exported.is_new else "already exists, unchanged, as"
    lines = [
        f"{record.dataset} {record.version} {done} {record.format}: {exported.folder}",
        f"  {record.images:,} images, {record.captions:,} captions",
    ]
    return Answer(record.model_dump(mode="json") | place, lines)


# A release as HTML pages that open from disk.


def report(
    folder: FolderArgument,
    *,
    target: Annotated[Path, typer.Option("--out")],
    previous: Path | None = None,
    verify: VerifyOption = True,
) -> Answer:
    """Write an HTML report on a release.

    It shows statistics, terms, a small gallery and the differences from an earlier release. Open
    its index.html in a browser; to look at all rows, use loupe explore.

    Args:
        target: The folder to write; must not exist.
        previous: Folder of an earlier release to compare with.
    """
    from loupe.release.report.writing import write_report

    with progress_bar("reading rows") as on_progress:
        written = write_report(
            folder,
            target,
            previous=previous,
            verify=verify,
            notices=known_withdrawals(),
            on_progress=on_progress,
        )
    record, page = written.record, written.folder / "index.html"
    if record.withdrawn:
        warn(f"{record.withdrawn:,} rows are left out of the gallery because of a withdrawal")
    if written.unreadable:
        warn(f"no preview could be made of: {', '.join(written.unreadable)}")
    place = {"page": page, "is_new": written.is_new, "unreadable": written.unreadable}
    done = "has a report:" if written.is_new else "already has a report, unchanged:"
    lines = [f"{record.dataset} {record.version} {done} {page}", f"  {record.rows:,} rows"]
    return Answer(record.model_dump(mode="json") | place, lines)


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
) -> Answer:
    """Upload a release to the Hugging Face Hub.

    Creates one commit with a tag. Default: dry run.

    An interrupted upload continues where it stopped. The token is read from HF_TOKEN.

    Args:
        repository: The repository: OWNER/NAME.
        send: Upload the release. Default: dry run.
        private: Whether the repository is private. Uploading to a public one needs --public.
        replace: Replace any content of the repository. Default: replace only an earlier version of
            the same dataset.
        images: Also upload the image files, although the Parquet files contain the images. Default:
            if there are at most 10,000.
    """
    from loupe.release.hub import planned_upload

    if withdrawal := withdrawal_from(folder):
        raise UsageError(f"{withdrawal.sentence}; it is not uploaded")
    planned = planned_upload(folder, repository, with_images=images, verify=verify)
    plan = planned.plan
    if not send:
        document = plan.model_dump(mode="json") | {"uploaded": False, "url": None}
        return Answer(document, _dry(plan, private=private))
    uploaded = _sent(planned, private=private, replace=replace)
    details = {"uploaded": True, "url": uploaded.url, "is_new": uploaded.is_new}
    done = "is uploaded:" if uploaded.is_new else "already exists, unchanged:"
    sentence = f"{plan.dataset} {plan.version} {done} {uploaded.url}"
    return Answer(plan.model_dump(mode="json") | details, [sentence])


def _sent(planned: "PlannedUpload", *, private: bool, replace: bool) -> "Uploaded":
    """Upload it, with a progress bar of its files."""
    from huggingface_hub.utils.tqdm import disable_progress_bars

    from loupe.release.hub import upload_release

    disable_progress_bars()  # the Hub's own
    with progress_bar("uploading") as on_progress:
        return upload_release(planned, private=private, replace=replace, on_progress=on_progress)


def _dry(plan: "UploadPlan", *, private: bool) -> list[str]:
    what = "with its image files" if plan.with_images else "without image files (only in Parquet)"
    marks = ["demonstration"] * plan.demonstration + ["unreviewed"] * plan.unreviewed
    return [
        f"{plan.dataset} {plan.version} would be uploaded to {plan.repository}, {what}:",
        f"  {plan.files:,} files, {decimal(plan.size_bytes)}, one commit, with the tag {plan.tag}",
        f"  a new repository would be {'private' if private else 'public'}",
        *([f"  it is marked as: {', '.join(marks)}"] if marks else []),
        "nothing was uploaded; add --upload to upload it",
    ]
