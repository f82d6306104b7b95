"""Secrets of the servers that Loupe starts, in private files."""

import fcntl
import hashlib
import hmac
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from pydantic import PlainSerializer, SecretStr, TypeAdapter, ValidationError

from loupe.models.profiles.settings import make_home
from loupe.schemas.base import Record
from loupe.schemas.errors import ServiceError
from loupe.schemas.processes import write_atomically

# Files that only their owner can read, replaced atomically.


def services_folder(home: Path) -> Path:
    """Return `<home>/services`, created if missing with mode 700, for records, logs and secrets."""
    return private_folder(home, "services")


def private_folder(home: Path, name: str) -> Path:
    """Return `<home>/<name>`, created if missing; it and the home are closed to other users."""
    make_home(home)
    folder = home / name
    folder.mkdir(exist_ok=True)
    folder.chmod(0o700)
    return folder


def private_opener(path: str, flags: int) -> int:
    """Opener for `open(…, opener=)` that creates files with mode 600, independent of the umask."""
    return os.open(path, flags, 0o600)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on `path` between processes; it is released if the process dies."""
    with open(path, "a", opener=private_opener) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# Secrets of the servers that Loupe starts: random, generated once, kept in one private file.


_Secret = Annotated[SecretStr, PlainSerializer(SecretStr.get_secret_value, when_used="json")]
"""Printed as `**********`."""


class Credentials(Record):
    """Logins for our Label Studio and our Prefect."""

    label_studio_email: str
    label_studio_password: _Secret
    label_studio_secret_key: _Secret
    label_studio_token: _Secret | None = None
    prefect_password: _Secret


class WorkspaceCredentials(Record):
    """Credentials for one annotator: the API token of their workspace, and their login.

    E-mail address and password are None on an external Label Studio; the password alone is None if
    the person set it.
    """

    token: _Secret
    email: str | None = None
    password: _Secret | None = None


_Workspaces = TypeAdapter(dict[str, WorkspaceCredentials])


def credentials_path(home: Path) -> Path:
    """Return the path of the credentials of the installation in `home`."""
    return home / "services" / "credentials.json"


def load_credentials(home: Path) -> Credentials:
    """Load the credentials of the installation in `home`, generated on the first call.

    Raises:
        ServiceError: the file is damaged.
    """
    path = credentials_path(home)
    services_folder(home)
    with locked(path.with_suffix(".lock")):
        if not path.exists():
            made = Credentials(
                label_studio_email="loupe@localhost",
                label_studio_password=SecretStr(secrets.token_urlsafe(24)),
                label_studio_secret_key=SecretStr(secrets.token_urlsafe(48)),
                prefect_password=SecretStr(secrets.token_urlsafe(32)),
            )
            write_atomically(path, made.model_dump_json(indent=2).encode())
    path.chmod(0o600)
    try:
        return Credentials.model_validate_json(path.read_text(encoding="utf-8"))
    except ValidationError as error:
        raise ServiceError(
            f"{path} does not contain credentials ({error.error_count()} problems); restore it, or "
            "remove it together with the Label Studio data beside it to start again"
        ) from None


def desk_key(home: Path) -> str:
    """Return the key that Label Studio, the image server and the queue watcher share.

    It is derived, so that it reveals nothing about the key that signs Label Studio's sessions.
    """
    secret = load_credentials(home).label_studio_secret_key.get_secret_value()
    return hmac.new(secret.encode(), b"loupe desk", hashlib.sha256).hexdigest()


def save_token(home: Path, token: SecretStr) -> Credentials:
    """Store the API token of Label Studio with the password that it was created with."""
    credentials = load_credentials(home).model_copy(update={"label_studio_token": token})
    write_atomically(credentials_path(home), credentials.model_dump_json(indent=2).encode())
    return credentials


def workspaces_path(home: Path) -> Path:
    """Return the path of the credentials of the annotators' workspaces."""
    return home / "services" / "annotators.json"


def load_workspaces(home: Path) -> dict[str, WorkspaceCredentials]:
    """Load the credentials of all annotators by pseudonym.

    Raises:
        ServiceError: the file is damaged.
    """
    path = workspaces_path(home)
    if not path.exists():
        return {}
    path.chmod(0o600)
    try:
        return _Workspaces.validate_json(path.read_bytes())
    except ValidationError as error:
        raise ServiceError(
            f"{path} does not contain the credentials of annotators ({error.error_count()} "
            "problems); restore it, or remove it and add the annotators again under their names"
        ) from None


def save_workspace(home: Path, pseudonym: str, credentials: WorkspaceCredentials) -> None:
    """Store the credentials of one annotator with those of the others."""
    path = workspaces_path(home)
    services_folder(home)
    with locked(path.with_suffix(".lock")):
        kept = {**load_workspaces(home), pseudonym: credentials}
        write_atomically(path, _Workspaces.dump_json(kept, indent=2))
