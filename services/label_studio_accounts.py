"""People's accounts on the Label Studio that we run: each in a workspace of their own.

A workspace is an organisation with two members: the person, and a service account through which
Loupe exchanges tasks and answers. Accounts are made by a program inside Label Studio's environment
(`desk_server/`), because its interface for programs knows one organisation only.
"""

import json
import re
import secrets
import subprocess
import unicodedata
from collections.abc import Sequence
from typing import Any, NamedTuple

import httpx
from pydantic import SecretStr

from profiles.settings import Settings
from schemas.errors import ServiceError, UsageError
from services.credentials import WorkspaceCredentials
from services.environments import environment_python
from services.label_studio import label_studio_variables

_DOMAIN = "localhost"
_NAME_CHARACTERS = 60
_SECONDS = 600.0
_RESERVED = ("loupe",)


class Workspace(NamedTuple):
    """A person's account, and what acts for them."""

    user_id: int
    credentials: WorkspaceCredentials


def add_workspaces(settings: Settings, names: Sequence[str]) -> list[Workspace]:
    """Workspaces on our own Label Studio, one for each name, in order.

    A name that has one already keeps its account and work, and gets a new password and token.

    Raises:
        UsageError: a name cannot be made into an address.
        ServiceError: Label Studio does not do it.
    """
    people = [_new_person(name) for name in names]
    made = _ask(settings, "make", people)
    return [
        Workspace(
            answer["user_id"],
            WorkspaceCredentials(
                token=SecretStr(answer["token"]),
                email=person["email"],
                password=SecretStr(person["password"]),
            ),
        )
        for person, answer in zip(people, made, strict=True)
    ]


def adopt_workspace(url: str, token: SecretStr) -> Workspace:
    """The workspace of an account on a Label Studio that we do not run, by its own token.

    Raises:
        ServiceError: Label Studio does not accept the token.
    """
    with httpx.Client(base_url=url, timeout=60) as client:
        try:
            answer = client.post("/api/token/refresh/", json={"refresh": token.get_secret_value()})
            headers = {"Authorization": f"Bearer {answer.raise_for_status().json()['access']}"}
            account = client.get("/api/current-user/whoami", headers=headers).raise_for_status()
        except httpx.HTTPError as error:
            raise ServiceError(
                f"Label Studio at {url} does not accept the personal access token: {error}"
            ) from error
    return Workspace(int(account.json()["id"]), WorkspaceCredentials(token=token))


def let_in(settings: Settings, email: str, allowed: bool) -> None:
    """Lets a person log in to our Label Studio, or not any more; work that was done stays.

    Raises:
        ServiceError: Label Studio does not do it.
    """
    _ask(settings, "set_active", [{"email": email, "active": allowed}])


def address_of(name: str) -> str:
    """The e-mail address that a person logs in with, made from their name.

    Raises:
        UsageError: nothing can be made of the name.
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    if not slug or slug in _RESERVED or len(name) > _NAME_CHARACTERS or not name.isprintable():
        raise UsageError(
            f"an annotator's name must have letters or digits, at most {_NAME_CHARACTERS} "
            f"characters, and not be {' or '.join(map(repr, _RESERVED))}; got {name!r}"
        )
    return f"{slug}@{_DOMAIN}"


def _new_person(name: str) -> dict[str, Any]:
    email = address_of(name)
    return {
        "name": name,
        "email": email,
        "service_email": f"loupe+{email}",
        "password": secrets.token_urlsafe(18),
    }


def _ask(settings: Settings, command: str, people: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lets the program inside Label Studio's environment do it; secrets pass through pipes."""
    variables = label_studio_variables(settings.home, settings.label_studio_database_url)
    python = environment_python(settings.environments / "label-studio")
    try:
        done = subprocess.run(
            [python, "-m", "loupe_desk.accounts"],
            input=json.dumps({"command": command, "people": people}),
            env=variables,
            cwd=variables["LABEL_STUDIO_BASE_DATA_DIR"],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
            umask=0o077,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServiceError(f"Label Studio's accounts could not be changed: {error}") from error
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        raise ServiceError(f"Label Studio's accounts could not be changed: {last[0]}")
    answer: list[dict[str, Any]] = json.loads(done.stdout)
    return answer
