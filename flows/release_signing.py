"""The key that releases of this installation are signed with, and signing one that is there."""

import os
import stat
from pathlib import Path

from profiles.settings import Settings
from release.reading import read_listed
from release.signing import (
    SIGNATURE,
    Signature,
    Signer,
    add_signature,
    signer_from_pem,
)
from release.verify import verify_release
from schemas.errors import ConfigurationError, IntegrityError

_KEY, _FILE = "LOUPE_SIGNING_KEY", "LOUPE_SIGNING_KEY_FILE"
_MOST_BYTES = 64 * 1024  # of a key; a device has no end


def release_signer(settings: Settings) -> Signer | None:
    """The signer with the key that the settings name; None where they name none.

    Raises:
        ConfigurationError: the key cannot be read, is none, or is named twice.
    """
    secret, file = settings.signing_key, settings.signing_key_file
    if secret is not None and file is not None:
        raise ConfigurationError(f"set {_KEY} or {_FILE}, not both")
    if secret is not None:
        return signer_from_pem(secret.get_secret_value().encode(), _KEY)
    if file is None:
        return None
    try:
        with file.open("rb") as opened:
            _require_private(os.fstat(opened.fileno()), file)
            pem = opened.read(_MOST_BYTES)
    except OSError as error:
        raise ConfigurationError(f"{_FILE}: {file} cannot be read ({error.strerror})") from error
    return signer_from_pem(pem, f"{_FILE} ({file})")


def _require_private(status: os.stat_result, file: Path) -> None:
    """Nothing, if only its owner can read a key of ours, as `ssh` demands it."""
    others = stat.S_IMODE(status.st_mode) & (stat.S_IRWXG | stat.S_IRWXO)
    if others and status.st_uid == os.geteuid():
        raise ConfigurationError(
            f"{_FILE}: {file} has the mode {stat.S_IMODE(status.st_mode):03o}, so that others may "
            f"use the key; make it yours alone with: chmod 600 {file}"
        )


def sign_release(folder: Path, signer: Signer) -> tuple[Signature, bool]:
    """Signs the release in `folder`; also gives whether it was not signed so already.

    Raises:
        UsageError: there is no release in `folder`, or it has a signature by another key.
        IntegrityError: it is not sound, so that nobody should sign it.
    """
    manifest, _ = read_listed(folder)
    problems = [one for one in verify_release(folder) if one.file != SIGNATURE]
    if problems:
        raise IntegrityError(f"{folder} is not signed, as it is not sound: {problems[0].message}")
    signature = signer.sign(manifest.id)
    return signature, add_signature(folder, signature)
