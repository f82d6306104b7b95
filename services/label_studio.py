"""Our own Label Studio: its environment, hardening, token and accounts."""

import json
import re
import secrets
import subprocess
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import httpx
from pydantic import SecretStr

from loupe.models.profiles.settings import Settings
from loupe.schemas.errors import ConfigurationError, ServiceError, UsageError
from loupe.schemas.processes import inherited
from loupe.services.credentials import (
    WorkspaceCredentials,
    desk_key,
    load_credentials,
    locked,
    private_folder,
    save_token,
    services_folder,
)
from loupe.services.environments import environment_folder, environment_python
from loupe.services.process import (
    LOOPBACK,
    PLAIN_HTTP,
    RunningService,
    ServiceSpec,
    record_path,
    running,
    start,
)
from loupe.services.public import public_site

NAME = "label-studio"
WATCHER = "queue-watcher"
"""The service that Label Studio tells about answers."""
DESK_SERVER = Path(__file__).parent / "desk_server"
"""Our settings of Label Studio: isolated workspaces and their accounts."""
# 25 s on an idle machine; migrations are slow if many processes share two cores.
_FIRST_START_SECONDS = 600.0
_INHERITED = r"PATH|HOME|LANG|LC_.*|TZ|TMPDIR|SSL_CERT_.*|.*_proxy|.*_PROXY"


class LabelStudioAccess(NamedTuple):
    """The URL of a Label Studio and a token for it."""

    url: str
    token: SecretStr


def start_label_studio(
    home: Path,
    port: int,
    environment: Path,
    database_url: str = "",
    logins: Mapping[str, str] | None = None,
) -> RunningService:
    """Start Label Studio on the loopback interface, with its data under `<home>/label-studio`.

    Args:
        home: the installation's folder.
        port: the port to listen on.
        environment: the virtual environment that Label Studio is installed in.
        database_url: `postgresql://user:password@host:port/name`; empty for SQLite.
        logins: variables of a provider of logins (`loupe.services.oidc`).

    Raises:
        ServiceError: it could not be started.
    """
    variables = label_studio_variables(home, database_url)
    program = environment / "bin" / "label-studio"
    options = ("--no-browser", "--log-level", "ERROR", "--internal-host", LOOPBACK)
    spec = ServiceSpec(
        name=NAME,
        command=(str(program), "start", *options, "--port", str(port)),
        working_directory=Path(variables["LABEL_STUDIO_BASE_DATA_DIR"]),
        environment={**variables, **(logins or {}), "LABEL_STUDIO_PORT": str(port)},
        port=port,
        port_option="--label-studio-port",
        timeout_seconds=_FIRST_START_SECONDS,
    )
    return start(home, spec)


def label_studio_variables(home: Path, database_url: str = "") -> dict[str, str]:
    """Return the environment variables of Label Studio's programs; they include secrets.

    Label Studio reads every variable first with its prefix and then without (`DEBUG`, `HOST`,
    `PASSWORD`), so it inherits only a few variables of our own environment.
    """
    data = private_folder(home, "label-studio")
    credentials = load_credentials(home)
    site = public_site(home)
    public_hosts = [site.host] if site else []
    public = {}
    if site:
        public = {
            "LOUPE_PUBLIC_ORIGIN": site.origin(),
            "LOUPE_PUBLIC_IMAGES": site.origin("images"),
        }
    return {
        **inherited(_INHERITED),
        "LABEL_STUDIO_SSRF_PROTECTION_ENABLED": "true",
        "LABEL_STUDIO_DISABLE_SIGNUP_WITHOUT_LINK": "true",
        "LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED": "false",
        "LABEL_STUDIO_ENABLE_LOCAL_FILES_STORAGE": "false",
        "LABEL_STUDIO_ALLOWED_HOSTS": ",".join((LOOPBACK, "localhost", *public_hosts)),
        "LABEL_STUDIO_CORS_ALLOW_ALL_ORIGINS": "false",
        "LABEL_STUDIO_COLLECT_ANALYTICS": "false",
        "LABEL_STUDIO_LATEST_VERSION_CHECK": "false",
        "LABEL_STUDIO_SENTRY_DSN": "",
        "LABEL_STUDIO_FRONTEND_SENTRY_DSN": "",
        "LABEL_STUDIO_DEBUG": "false",
        # the first user and the signing key, which other users of the machine cannot read
        "LABEL_STUDIO_USERNAME": credentials.label_studio_email,
        "LABEL_STUDIO_PASSWORD": credentials.label_studio_password.get_secret_value(),
        "SECRET_KEY": credentials.label_studio_secret_key.get_secret_value(),
        **_database(database_url),
        "LABEL_STUDIO_BASE_DATA_DIR": str(data),
        "PYTHONPATH": str(DESK_SERVER),
        "PYTHONSAFEPATH": "1",
        "DJANGO_SETTINGS_MODULE": "loupe_desk.settings",
        "LOUPE_QUEUE_WATCHER": str(record_path(home, WATCHER)),
        "LOUPE_DESK_KEY": desk_key(home),
        **public,
    }


def has_label_studio(settings: Settings) -> bool:
    """Tell whether our own Label Studio runs, or the settings name another."""
    return bool(settings.label_studio_url) or running(settings.home, NAME) is not None


def label_studio_access(settings: Settings) -> LabelStudioAccess:
    """Return the Label Studio of the settings: an external one by URL and token, else our own.

    Raises:
        ConfigurationError: a URL is set without a token.
        ServiceError: our own does not run, or refuses the login.
    """
    if settings.label_studio_url:
        if settings.label_studio_token is None:
            raise ConfigurationError(
                f"LOUPE_LABEL_STUDIO_URL is {settings.label_studio_url!r}, so "
                "LOUPE_LABEL_STUDIO_TOKEN must hold a personal access token of it; it is not set"
            )
        return LabelStudioAccess(settings.label_studio_url, settings.label_studio_token)
    service = running(settings.home, NAME)
    if service is None or service.url is None:
        raise ServiceError("Label Studio is not running; start it with: loupe up")
    return LabelStudioAccess(service.url, label_studio_token(settings.home, service.url))


def label_studio_address(settings: Settings) -> str:
    """Return the URL of the Label Studio of the settings for browsers, running or not."""
    site = public_site(settings.home)
    if site is not None and not settings.label_studio_url:
        return site.origin()
    service = running(settings.home, NAME)
    own = service.url if service is not None else None
    return settings.label_studio_url or own or f"http://{LOOPBACK}:{settings.label_studio_port}"


def adding_people(settings: Settings, name: str = "NAME") -> str:
    """Return the command that adds a person on the Label Studio of the settings.

    The person of a public one sets a password through a link; that of another has an account there.
    """
    if settings.label_studio_url:
        return f"loupe annotator add {name} --token-file FILE"
    return f"loupe annotator {'add' if public_site(settings.home) is None else 'invite'} {name}"


def label_studio_name(settings: Settings) -> str:
    """Return the name of the settings' Label Studio in the store; ours has one name on any port."""
    return settings.label_studio_url.rstrip("/") or NAME


def label_studio_token(home: Path, url: str) -> SecretStr:
    """Return a personal access token of our Label Studio, created on the first call and stored.

    Raises:
        ServiceError: Label Studio does not answer, or refuses the password.
    """
    with (
        locked(services_folder(home) / "label-studio-token.lock"),
        httpx.Client(base_url=url, trust_env=False, timeout=60, verify=PLAIN_HTTP) as client,
    ):
        credentials = load_credentials(home)
        try:
            if (token := credentials.label_studio_token) is not None:
                kept = {"refresh": token.get_secret_value()}
                if client.post("/api/token/refresh/", json=kept).is_success:
                    return token
            email, password = credentials.label_studio_email, credentials.label_studio_password
            token = personal_token(client, email, password)
        except httpx.HTTPError as error:
            message = f"Label Studio at {url} gave an unexpected answer: {error}"
            raise ServiceError(message) from error
        save_token(home, token)
        return token


def log_in(client: httpx.Client, email: str, password: SecretStr) -> None:
    """Log in like a browser, which is required to create the first token."""
    page = "/user/login/"
    client.get(page).raise_for_status()
    form = {
        "email": email,
        "password": password.get_secret_value(),
        "csrfmiddlewaretoken": client.cookies["csrftoken"],
    }
    referer = str(client.base_url.join(page))
    if client.post(page, data=form, headers={"Referer": referer}).status_code != httpx.codes.FOUND:
        raise ServiceError(
            f"Label Studio at {client.base_url} does not accept the password of {email}; if it was "
            "changed there, put the new one into credentials.json"
        )
    client.headers.update({"Referer": referer, "X-CSRFToken": client.cookies["csrftoken"]})


def personal_token(client: httpx.Client, email: str, password: SecretStr) -> SecretStr:
    """Return a new token of a person.

    Label Studio allows one token per user and shows it in full only once, so an older one must be
    revoked first.

    The SDK makes no such requests: it signs all with a token, and here there is only a session.

    Raises:
        ServiceError: Label Studio refuses the login.
    """
    log_in(client, email, password)
    for lost in client.get("/api/token/").raise_for_status().json():
        client.post("/api/token/blacklist/", json={"refresh": lost["token"]}).raise_for_status()
    return SecretStr(client.post("/api/token/").raise_for_status().json()["token"])


def _database(url: str) -> dict[str, str]:
    if not url:
        return {"LABEL_STUDIO_DJANGO_DB": "sqlite"}
    parts = urlsplit(url)
    name = parts.path.removeprefix("/")
    if not parts.scheme.startswith("postgres") or not parts.hostname or not name:
        raise ConfigurationError(
            "LOUPE_LABEL_STUDIO_DATABASE_URL must be postgresql://user:password@host:port/name; "
            f"got the scheme {parts.scheme!r}, host {parts.hostname!r} and name {name!r}"
        )
    return {
        "LABEL_STUDIO_DJANGO_DB": "default",
        "LABEL_STUDIO_POSTGRE_HOST": parts.hostname,
        "LABEL_STUDIO_POSTGRE_PORT": str(parts.port or 5432),
        "LABEL_STUDIO_POSTGRE_NAME": name,
        "LABEL_STUDIO_POSTGRE_USER": unquote(parts.username or ""),
        "LABEL_STUDIO_POSTGRE_PASSWORD": unquote(parts.password or ""),
    }


# Annotators' accounts on our own Label Studio, each in a separate workspace.
#
# A workspace is an organization with two members: the person, and a service account with which
# Loupe exchanges tasks and answers. A program inside Label Studio's environment (`desk_server/`)
# creates the accounts, because Label Studio's API supports only one organization.

_DOMAIN = "localhost"
_NAME_CHARACTERS = 60
_SECONDS = 600.0
_RESERVED = ("loupe",)


class Workspace(NamedTuple):
    """A person's account and the credentials of its workspace."""

    user_id: int
    credentials: WorkspaceCredentials


def add_workspaces(settings: Settings, names: Sequence[str]) -> list[Workspace]:
    """Create workspaces on our own Label Studio, one for each name, in order.

    A name with an existing workspace keeps its account and work, and gets a new password and token.

    Raises:
        UsageError: no address can be derived from a name.
        ServiceError: Label Studio refuses the request.
    """
    people = [
        {
            "name": name,
            "email": (email := address_of(name)),
            "service_email": f"loupe+{email}",
            "password": secrets.token_urlsafe(18),
        }
        for name in names
    ]
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


def let_in(settings: Settings, email: str, allowed: bool) -> None:
    """Enable or disable a person's login to our Label Studio; their work is kept.

    Raises:
        ServiceError: Label Studio refuses the request.
    """
    _ask(settings, "set_active", [{"email": email, "active": allowed}])


def invitation(settings: Settings, email: str) -> str:
    """Return a link with which a person sets a password: it works once, for a week.

    Raises:
        ServiceError: Label Studio refuses the request.
    """
    (made,) = _ask(settings, "invite", [{"email": email}])
    return f"{label_studio_address(settings)}{made['path']}"


def check_name(name: str) -> None:
    """Refuse a name that cannot be shown in one line.

    Raises:
        UsageError: it is blank, too long or not printable.
    """
    if not name.strip() or len(name) > _NAME_CHARACTERS or not name.isprintable():
        raise UsageError(
            f"an annotator's name must be one line of at most {_NAME_CHARACTERS} characters; got "
            f"{name!r}"
        )


def address_of(name: str) -> str:
    """Return the e-mail address that a person logs in with, derived from their name.

    Raises:
        UsageError: no address can be derived from the name.
    """
    check_name(name)
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    if not slug or slug in _RESERVED:
        raise UsageError(
            f"an annotator's name must have Latin letters or digits and not be "
            f"{' or '.join(map(repr, _RESERVED))}; got {name!r}"
        )
    return f"{slug}@{_DOMAIN}"


def _ask(settings: Settings, command: str, people: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Run the program inside Label Studio's environment; secrets are passed through pipes."""
    variables = label_studio_variables(settings.home, settings.label_studio_database_url)
    environment = environment_folder("label-studio", settings.environments)
    if service := running(settings.home, NAME):
        environment = Path(service.command[0]).parents[1]  # it may be older than this Loupe
    python = environment_python(environment)
    try:
        done = subprocess.run(
            [python, "-P", "-m", "loupe_desk.accounts"],
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
        last = done.stderr.strip().splitlines()[-1:] or ["without a message"]
        raise ServiceError(f"Label Studio's accounts could not be changed: {last[0]}")
    answer: list[dict[str, Any]] = json.loads(done.stdout)
    return answer
