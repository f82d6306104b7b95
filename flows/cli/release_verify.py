"""`loupe release verify` and `sign`: check that a copy is complete and authentic."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from flows.cli.options import FolderArgument, known_withdrawals, notices_at_hand
from flows.cli.output import JsonOption, out, print_json, warn

if TYPE_CHECKING:
    from schemas.withdrawal import WithdrawnRow


# Check that a copy of a release is complete, and list what was withdrawn from it.


_SHOWN_PROBLEMS = 50


def verify(
    folder: Path,
    *,
    expected_id: Annotated[str | None, typer.Option("--id")] = None,
    decode: Annotated[bool, typer.Option("--decode/--no-decode")] = False,
    contains: Path | None = None,
    public_key: str | None = None,
    notices: Path | None = None,
    without_images: bool = False,
    as_json: JsonOption = False,
) -> None:
    """Check every file, row and reference of a release.

    Works offline, from the folder alone.

    Ends with exit code 1 and the list of problems if something is wrong or was withdrawn.

    Args:
        folder: The folder of a release.
        expected_id: The release's id as cited: at least 12 of its 64 hex digits.
        decode: Decode every image in full and recompute its perceptual hash.
        contains: The folder of another release whose rows must all be in this one.
        public_key: The key that must have signed it: 64 hex digits, or a file (PEM).
        notices: What was withdrawn: a later release, its withdrawals.json, or a folder of published
            notices. Those of this installation are always included.
        without_images: Allow missing image files; the bytes in the rows are checked.
    """
    from release.files import shown_path
    from release.notices import notice_source
    from release.signing import read_signature
    from release.verify import examine_release

    known = notices_at_hand()
    asked = None if notices is None else notice_source(notices)
    if asked is not None:
        known += asked.notices
    problems, manifest, release_id = examine_release(
        folder,
        expected_id=expected_id,
        decode=decode,
        contains=contains,
        public_key=public_key,
        notices=known,
        without_images=without_images,
    )
    withdrawn: tuple[WithdrawnRow, ...] = ()
    if problems:
        from flows.withdrawal.releases import withdrawn_in

        withdrawn = withdrawn_in(folder, known)
    signature = None if problems else read_signature(folder)
    signed_by = signature.public_key if signature else None
    where = shown_path(folder)
    if as_json:
        found = [problem.model_dump(mode="json") for problem in problems]
        rows = [row.model_dump(mode="json") for row in withdrawn]
        dataset, version = manifest and manifest.dataset, manifest and manifest.version
        named = {"dataset": dataset, "version": version, "id": release_id}
        applied = None
        if asked is not None and manifest is not None:
            applied = {"apply": asked.covers(manifest), "message": asked.describe(manifest)}
        sound = {"folder": where, "ok": not problems, **named, "signed_by": signed_by}
        print_json({**sound, "problems": found, "withdrawn": rows, "notices": applied})
    elif problems:
        _show_problems([problem.message for problem in problems], len(withdrawn))
    else:
        held = f", and contains all of {contains}" if contains else ""
        details = f"{where} is complete and unchanged{held}"
        out.print(f"[green]✓[/green] {escape(details)}", soft_wrap=True)
    if manifest is not None and not as_json:
        which = f"{manifest.dataset} {manifest.version}, id {release_id}"
        out.print(f"  {'this is ' if problems else ''}{escape(which)}", soft_wrap=True)
        if signed_by:
            whose = "" if public_key else ", whose owner is unknown (see --public-key)"
            out.print(f"  signed by the key {signed_by}{whose}", soft_wrap=True)
    if manifest is not None and asked is not None:
        details = asked.describe(manifest)
        if not asked.covers(manifest):
            warn(details)
        elif not as_json:
            out.print(f"  {escape(details)}", soft_wrap=True)
    if problems:
        raise typer.Exit(1)


def _show_problems(messages: Sequence[str], withdrawn: int) -> None:
    """Print the first problems, and how many rows were withdrawn."""
    for message in messages[:_SHOWN_PROBLEMS]:
        out.print(f"[red]✗[/red] {escape(message)}", soft_wrap=True)
    if (more := len(messages) - _SHOWN_PROBLEMS) > 0:
        out.print(f"… and {more:,} more; --json lists them")
    if withdrawn:
        rows = "the row that was" if withdrawn == 1 else f"all {withdrawn:,} rows that were"
        out.print(f"--json lists {rows} withdrawn")


def sign(folder: FolderArgument, *, as_json: JsonOption = False) -> None:
    """Sign a release.

    The key is read from LOUPE_SIGNING_KEY or LOUPE_SIGNING_KEY_FILE.

    The release is verified first. A damaged or withdrawn release is not signed.
    """
    from flows.engine.releasing import release_signer, sign_release
    from flows.withdrawal.releases import withdrawal_in
    from models.profiles.settings import load_settings
    from schemas.errors import ConfigurationError, UsageError

    if withdrawal := withdrawal_in(folder, known_withdrawals()):
        raise UsageError(f"{withdrawal.sentence}; it is not signed")
    signer = release_signer(load_settings())
    if signer is None:
        raise ConfigurationError(
            "there is no key to sign with; set LOUPE_SIGNING_KEY_FILE to a file as "
            "`openssl genpkey -algorithm ed25519` makes it"
        )
    signature, is_new = sign_release(folder, signer)
    if as_json:
        print_json({**signature.model_dump(mode="json"), "is_new": is_new})
        return
    done = "is signed" if is_new else "is signed already, unchanged"
    out.print(
        f"{escape(str(folder))} {done}\n"
        f"  release id {signature.release}\n"
        f"  public key {signature.public_key}",
        soft_wrap=True,
    )
