"""`loupe release sign`."""

from rich.markup import escape

from flows.cli.output import JsonOption, out, print_json
from flows.cli.release_opening import FolderArgument


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
