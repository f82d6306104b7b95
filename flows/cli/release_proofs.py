"""`loupe release sign`, `prove` and `check-proof`: whose a release is, and what belongs to it."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from flows.cli.output import JsonOption, err, out, print_json, warn
from flows.cli.release_opening import FolderArgument
from schemas.errors import IntegrityError, UsageError


def prove(
    folder: FolderArgument,
    file: Annotated[str, typer.Argument(help="A file of the release, such as images/7.jpg.")],
    out_file: Annotated[
        Path | None,
        typer.Option("--out", help="A new file to write the proof to. Default: print it."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a proof that a file belongs to a release.

    It can be checked with the file and the release's id alone.
    """
    from release.proofs import prove as proof_of
    from release.proofs import write_proof

    _refuse_withdrawn(folder, file)
    proof = proof_of(folder, file)
    values = proof.model_dump(mode="json")
    if out_file is not None:
        write_proof(proof, out_file, folder)
    if as_json or out_file is None:
        print_json(values)
        return
    details = f"{out_file} proves that {file} belongs to the release {proof.manifest.id}"
    out.print(escape(details), soft_wrap=True)


def _refuse_withdrawn(folder: Path, file: str) -> None:
    """Proves no image that was withdrawn; of other files of such a release it warns."""
    from flows.withdrawal.withdrawn import known_notices, withdrawal_in, withdrawn_in
    from profiles.settings import load_settings

    known = known_notices(load_settings())
    withdrawal = withdrawal_in(folder, known)
    if withdrawal is None:
        return
    asked = Path(file).as_posix()
    if any(row.is_whole and row.file_path == asked for row in withdrawn_in(folder, known)):
        raise UsageError(f"{asked} was withdrawn and is not proved: {withdrawal.sentence}")
    warn(withdrawal.sentence)


def check_proof(
    proof: Annotated[Path, typer.Argument(help="The proof that `loupe release prove` wrote.")],
    file: Annotated[Path, typer.Argument(help="The file; its name does not matter.")],
    release_id: Annotated[
        str, typer.Option("--id", help="The release's whole id as cited: 64 hex digits.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Check a proof that a file belongs to a release.

    Ends with exit code 1 where it does not.
    """
    from release.manifest import id_of
    from release.proofs import check_proof as check
    from release.proofs import read_proof

    found = read_proof(proof)
    problem = None
    try:
        check(found, file, release_id)
    except IntegrityError as error:
        problem = str(error)
    manifest = found.manifest
    if as_json:
        print_json(
            {
                "ok": problem is None,
                "problem": problem,
                "release": id_of(manifest),
                "dataset": manifest.dataset,
                "version": manifest.version,
                **found.file.model_dump(mode="json"),
            }
        )
    elif problem is None:
        details = f"{file} is {found.file.path} of {manifest.dataset} {manifest.version}"
        out.print(f"[green]✓[/green] {escape(details)}", soft_wrap=True)
    else:
        err.print(f"[red]✗[/red] {escape(problem)}", soft_wrap=True)
    if problem is not None:
        raise typer.Exit(1)


def sign(
    folder: FolderArgument,
    as_json: JsonOption = False,
) -> None:
    """Sign a release.

    The key is in LOUPE_SIGNING_KEY or LOUPE_SIGNING_KEY_FILE.

    It is verified first; one that is not sound, or of which anything was withdrawn, is not signed.
    """
    from flows.engine.releasing import release_signer, sign_release
    from flows.withdrawal.withdrawn import known_notices, withdrawal_in
    from profiles.settings import load_settings
    from schemas.errors import ConfigurationError, UsageError

    settings = load_settings()
    if withdrawal := withdrawal_in(folder, known_notices(settings)):
        raise UsageError(f"{withdrawal.sentence}; it is not signed")
    signer = release_signer(settings)
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
