"""`signature.json`: an Ed25519 signature (RFC 8032) of the id of a release.

The signature is next to the manifest and not listed in it, so that the id is the same whether a
release is signed or not. Signing is deterministic, so that a rebuilt release has the same bytes.
"""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from loupe.release.format.files import read_plain, replace_file
from loupe.release.format.findings import Findings
from loupe.schemas.base import HexSha256, Record
from loupe.schemas.errors import ConfigurationError, UsageError
from loupe.schemas.validation import fault_of

if TYPE_CHECKING:  # heavy, and needed for signatures alone
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

SIGNATURE = "signature.json"
_MAX_BYTES = 4096
_HEX_KEY = re.compile(r"[0-9a-f]{64}")
"""The 32 bytes of an Ed25519 key in hex digits."""
_WEAK_KEYS = frozenset(
    {
        "00" * 32,
        "01" + "00" * 31,
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "ec" + "ff" * 30 + "7f",
        "ed" + "ff" * 30 + "7f",
        "ee" + "ff" * 30 + "7f",
    }
)
"""Points whose order divides 8, without the sign: anybody can make signatures that fit them."""


class Signature(Record):
    """The signature of a release by the holder of a key.

    The signed text is `loupe release ID`, where ID are the 64 digits of `release`.
    """

    algorithm: Literal["Ed25519"] = "Ed25519"
    public_key: HexSha256
    release: HexSha256
    signature: str = Field(pattern=r"^[0-9a-f]{128}$")

    def is_right(self) -> bool:
        """Whether the signature is valid for this release, by a key that others cannot imitate."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        if _is_weak(self.public_key):
            return False
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(self.public_key))
        try:
            key.verify(bytes.fromhex(self.signature), _signed_text(self.release))
        except InvalidSignature:
            return False
        return True

    def text(self) -> bytes:
        """The bytes of `signature.json`."""
        return (self.model_dump_json(indent=2) + "\n").encode()


class Signer:
    """Signs releases with a private key, which is never exposed."""

    def __init__(self, key: "Ed25519PrivateKey") -> None:
        self._key = key
        self.public_key: str = key.public_key().public_bytes_raw().hex()

    def sign(self, release_id: str) -> Signature:
        """The signature of the release with this id."""
        signature = self._key.sign(_signed_text(release_id)).hex()
        return Signature(public_key=self.public_key, release=release_id, signature=signature)


def signer_from_pem(pem: bytes, where: str) -> Signer:
    """The signer with the private key in `pem`; `where` names its location in messages.

    Raises:
        ConfigurationError: if it is not an Ed25519 key as PKCS#8, or has a password.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigurationError(
            f"{where} must hold an Ed25519 private key as PEM (PKCS#8, no password), as "
            f"`openssl genpkey -algorithm ed25519` makes it"
        )
    return Signer(key)


def public_key_called(key: str) -> str:
    """Parse a public key, given as 64 hex digits or as a file that holds them or a PEM.

    Raises:
        UsageError: if it is neither.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    text = key.strip().lower()
    if _HEX_KEY.fullmatch(text):
        return text
    try:
        data = read_plain(Path(key).resolve(), _MAX_BYTES)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"a public key must be 64 hex digits or a file with one; got {key!r}"
        ) from error
    if _HEX_KEY.fullmatch(details := data.decode("ascii", "replace").strip().lower()):
        return details
    try:
        found = load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm):
        found = None
    if not isinstance(found, Ed25519PublicKey):
        raise UsageError(f"{key} holds no Ed25519 public key, neither as PEM nor as hex digits")
    return found.public_bytes_raw().hex()


def write_signature(folder: Path, signature: Signature) -> None:
    """Write `signature.json` into `folder`, as a whole or not at all."""
    replace_file(folder / SIGNATURE, signature.text())


def add_signature(folder: Path, signature: Signature) -> bool:
    """Sign the release in `folder`, which must be sound; False if it has this signature already.

    Raises:
        UsageError: if it has another signature, or the folder cannot be written to.
    """
    try:
        found = read_signature(folder)
    except (ValueError, OSError) as error:
        raise UsageError(
            f"{folder / SIGNATURE} cannot be read ({fault_of(error)}); remove it and sign again"
        ) from error
    if found == signature:
        return False
    if found is not None:
        raise UsageError(
            f"{folder} is signed already, by the key {found.public_key}; "
            f"remove {SIGNATURE} to sign it with another"
        )
    try:
        write_signature(folder, signature)
    except OSError as error:
        raise UsageError(f"{folder} cannot be signed ({error.strerror})") from error
    return True


def read_signature(folder: Path) -> Signature | None:
    """The signature in `folder`, unchecked; None if there is none.

    Raises:
        ValueError: if it is invalid.
        OSError: if it cannot be read.
    """
    path = folder / SIGNATURE
    if not os.path.lexists(path):
        return None
    data = read_plain(path, _MAX_BYTES)
    found = Signature.model_validate_json(data)
    if found.text() != data:
        raise ValueError("its bytes are not as they were written")
    return found


def verify_signature(
    folder: Path, release_id: str, public_key: str | None, findings: Findings
) -> None:
    """Check the signature in `folder` for the release with this id.

    It may be missing, or made with any key, unless `public_key` is given.
    """
    try:
        found = read_signature(folder)
    except (ValueError, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else fault_of(error)
        message = f"{SIGNATURE} cannot be read: {why}"
        findings.add("signature_unreadable", message, SIGNATURE)
        return
    if found is None:
        if public_key is not None:
            message = f"{SIGNATURE} is missing; expected one by the key {public_key}"
            findings.add("signature_missing", message, SIGNATURE)
        return
    if _is_weak(found.public_key):
        message = f"{SIGNATURE} is by a key with which anybody can sign (of small order)"
        findings.add("signature_by_weak_key", message, SIGNATURE)
    elif not found.is_right():
        message = f"{SIGNATURE} is not a signature of {found.release} by the key {found.public_key}"
        findings.add("signature_wrong", message, SIGNATURE)
    if found.release != release_id:
        message = f"{SIGNATURE} signs the release {found.release}; this is {release_id}"
        findings.add("signature_of_other_release", message, SIGNATURE)
    if public_key is not None and found.public_key != public_key:
        message = f"{SIGNATURE} is by the key {found.public_key}; expected {public_key}"
        findings.add("signature_by_other_key", message, SIGNATURE)


def _signed_text(release_id: str) -> bytes:
    return f"loupe release {release_id}".encode()


def _is_weak(public_key: str) -> bool:
    last = int(public_key[-2:], 16) & 0x7F
    return f"{public_key[:-2]}{last:02x}" in _WEAK_KEYS
