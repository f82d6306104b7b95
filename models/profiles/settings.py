"""Where this installation stores its data, and on which ports its servers listen.

Every setting has a default that works on a laptop and can be overridden by an environment variable
with the prefix `LOUPE_`: `LOUPE_HOME`, `LOUPE_DATABASE_URL`, `LOUPE_LABEL_STUDIO_PORT` and so on.
"""

import errno
import logging
import os
import secrets
import shlex
import stat
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from loupe.schemas.base import sha256_of
from loupe.schemas.checkout import default_environments
from loupe.schemas.errors import ConfigurationError
from loupe.schemas.processes import write_atomically
from loupe.schemas.validation import at_home, nearest_hint, rule_of
from loupe.schemas.wording import storable

PREFIX = "LOUPE_"
_READ_ELSEWHERE = ("LOUPE_PROFILE__", "LOUPE_TESTS_")  # by the loader and the tests
SECRETS_OF_BUILDS = ("signing_key", "signing_key_file", "label_studio_token")
"""The secret settings that a build uses."""
_SECRETS = frozenset(
    {*SECRETS_OF_BUILDS, "label_studio_database_url", "notify_urls", "oidc_client_secret"}
)
_HOME = ".loupe"
Port = Annotated[int, Field(ge=1, le=65535)]
SecretUrl = Annotated[str, Field(repr=False)]
"""A URL that may contain a password: it is excluded from `repr`."""


class Settings(BaseSettings):
    """The settings of one installation; read them with `load_settings`.

    `home` is searched upwards from the working directory; a stranger's is refused. Paths are
    absolute, so that servers and workers started elsewhere use the same locations. An empty
    `label_studio_url` means the Label Studio that `loupe up` starts; an empty
    `label_studio_database_url` means a SQLite file under `home`. `worker_variables` names further
    environment variables that runs through Prefect get. With `continue_builds`, the queue watcher
    starts builds again when people have decided all that they waited for; it sends messages to
    `notify_urls` (Apprise's addresses, which contain secrets). With an `oidc_issuer`, people log in
    to Label Studio with its accounts, if they are invited and in one of `oidc_groups` (empty: any);
    `oidc_leads` are the addresses of those who work with the installation's own account.

    CPU-bound work is done in `engine_workers` processes (None: one per CPU) or in threads of the
    run, as `engine` says; a chunk may take `engine_seconds` of CPU time. The engine `ray`
    uses the cluster at `ray_address`, or starts Ray on this machine if it is empty; a worker there
    is given `engine_cpus` and `engine_gpus`, or what the program requests. With a `signing_key`
    (PEM) or a `signing_key_file`, releases are signed.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, frozen=True, extra="forbid"
    )

    home: Path = Path(_HOME)
    environments: Path = default_environments()
    profile: str = "builtin"
    database_url: SecretUrl = ""
    blobs_url: str = ""
    queues_file: Path = Path("queues.toml")
    releases_file: Path = Path("releases.toml")
    prefect_port: Port = 4200
    label_studio_port: Port = 8080
    blobs_port: Port = 8090
    label_studio_url: str = ""
    label_studio_token: SecretStr | None = None
    label_studio_database_url: SecretUrl = ""
    worker_variables: str = ""
    continue_builds: bool = True
    notify_urls: SecretStr | None = None
    oidc_issuer: str = ""
    oidc_client_id: str = ""
    oidc_client_secret: SecretStr | None = None
    oidc_groups: str = ""
    oidc_leads: str = ""
    engine: Literal["auto", "threads", "processes", "ray"] = "auto"
    engine_workers: Annotated[int, Field(ge=1)] | None = None
    engine_cpus: Annotated[float, Field(gt=0)] | None = None
    engine_gpus: Annotated[float, Field(ge=0)] | None = None
    ray_address: str = ""
    engine_seconds: Annotated[float, Field(gt=0)] = 600.0
    signing_key: SecretStr | None = None
    signing_key_file: Path | None = None

    @model_validator(mode="before")
    @classmethod
    def _derive_from_home(cls, values: dict[str, object]) -> dict[str, object]:
        home = _absolute(values.get("home") or _found_home())
        if values.get("signing_key_file"):
            values = {**values, "signing_key_file": _absolute(values["signing_key_file"])}
        return {
            "database_url": f"sqlite:///{home / 'loupe.db'}",
            "blobs_url": str(home / "blobs"),
            **values,
            "home": home,
            "queues_file": _absolute(values.get("queues_file", home / "queues.toml")),
            "releases_file": _absolute(values.get("releases_file", home / "releases.toml")),
            "environments": _absolute(values.get("environments", default_environments())),
        }

    @property
    def images_url(self) -> str:
        """The URL from which annotators' browsers load the images of open review tasks."""
        return f"http://127.0.0.1:{self.blobs_port}/blobs"

    def environment(self, *secrets: str) -> dict[str, str]:
        """Return these settings as environment variables for a process that shares them.

        Secrets are in plain text: pass it to a process, never to a log or a command line.

        Args:
            *secrets: the secret settings that the process uses; it gets no others.
        """
        variables: dict[str, str] = {}
        for name, value in self:
            plain = value.get_secret_value() if isinstance(value, SecretStr) else value
            if plain not in (None, "") and (name in secrets or name not in _SECRETS):
                variables[PREFIX + name.upper()] = str(plain)
        return variables


def load_settings(**overrides: object) -> Settings:
    """Return the current settings: `overrides` before environment variables before defaults.

    An existing home is closed to other users.

    Raises:
        ConfigurationError: a value is invalid, or a `LOUPE_` variable is unknown.
    """
    _refuse_unknown_variables()
    try:
        settings = Settings.model_validate(overrides)
    except ValidationError as error:
        problems: list[str] = []
        for problem in error.errors():
            variable = PREFIX + str(problem["loc"][0]).upper()
            problems.append(f"{variable}: {rule_of(problem)}, got {problem['input']!r}")
        what = f"the settings cannot be used: {'; '.join(problems)}"
        raise ConfigurationError(what) from error
    home = str(settings.home)
    if storable(home) != home:
        raise ConfigurationError(
            f"the home {storable(home)} has a name that is no UTF-8; rename it, or set LOUPE_HOME "
            f"to another folder"
        )
    close_home(settings.home)
    if settings.home.is_dir() and (overrides.get("home") or os.environ.get(f"{PREFIX}HOME")):
        _record(settings.home)
    return settings


def _found_home() -> Path:
    """Return the `.loupe` of the working directory or of the nearest parent folder that has one.

    If none has one, it is the `.loupe` of the working directory.

    Raises:
        ConfigurationError: it was made by another user, or came with other files.
    """
    here = Path.cwd()
    possible = [folder / _HOME for folder in (here, *here.parents)]
    home = next(filter(Path.is_dir, possible), None)
    if home is None:
        return here / _HOME
    if not _is_owned(home):
        raise ConfigurationError(
            f"{home} belongs to another user and is not used; work in another folder, or name it "
            f"in LOUPE_HOME if you trust it"
        )
    if not _is_known(home):
        raise ConfigurationError(
            f"{home} was not made by your Loupe and is not used; if you trust it, say so once: "
            f"LOUPE_HOME={shlex.quote(str(home))} loupe status"
        )
    return home


# A home that is found by searching is used only if this user made or named it: one that lies in a
# cloned folder or is another user's holds decisions, paid answers and the passwords of servers that
# are somebody else's. Each home has a token; the user's list has its digest. So a home may be moved
# and copied.

_TOKEN = "token"  # noqa: S105 - the name of a file


def make_home(home: Path) -> None:
    """Create the home, closed to other users, unless it exists.

    Raises:
        ConfigurationError: a file is in its place, or it cannot be made there.
    """
    if home.is_dir():
        return
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise ConfigurationError(f"the home {home} is not a folder: {error.strerror}") from error
    except FileNotFoundError as error:  # where no folders can be made, such as in /proc
        raise ConfigurationError(
            f"the home {home} cannot be made: the system refuses the folder {error.filename}; set "
            f"LOUPE_HOME to another one"
        ) from error
    _record(home)


def _record(home: Path) -> None:
    """Note that this user made or named a home; nothing happens if it cannot be written."""
    if home.name != _HOME or not _is_owned(home) or _is_known(home):
        return
    token = secrets.token_hex(32).encode()
    listed = _list_of_homes()
    with suppress(OSError):
        write_atomically(home / _TOKEN, token)
        listed.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with listed.open("a", encoding="ascii") as file:
            file.write(f"{sha256_of(token)}\n")


def _is_owned(home: Path) -> bool:
    return {home.lstat().st_uid, home.stat().st_uid} == {os.getuid()}


def _is_known(home: Path) -> bool:
    try:
        known = _list_of_homes().read_text(encoding="ascii", errors="replace").split()
        return sha256_of((home / _TOKEN).read_bytes()) in known
    except OSError:
        return False


def _list_of_homes() -> Path:
    return at_home(os.environ.get("XDG_CONFIG_HOME") or "~/.config") / "loupe" / "homes"


def _absolute(path: object) -> Path:
    return at_home(str(path)).absolute()


def _refuse_unknown_variables() -> None:
    known = [PREFIX + name.upper() for name in Settings.model_fields]
    for name in sorted(os.environ):
        if name.startswith(PREFIX) and name not in known and not name.startswith(_READ_ELSEWHERE):
            raise ConfigurationError(
                f"the environment variable {name} is not a setting; {nearest_hint(name, known)}"
            )


# The home and its content are closed to other users.

_OTHERS = 0o077
_LOOKED_THROUGH = 1
"""Depth down to which closed folders below the home are searched.

What lies deeper cannot be accessed by others, and there may be millions of files.
"""

_log = logging.getLogger(__name__)


def close_home(home: Path) -> None:
    """Remove all permissions of other users from `home` and its content; fast if already done.

    Symbolic links are not followed, also not one in place of the home. A file written later is
    closed by the next call; until then other users cannot access it, as they cannot enter `home`.
    After an interrupted call, the next one completes the work, because a folder is closed after its
    content.

    Raises:
        ConfigurationError: `home` is a folder that also contains other things.
    """
    if not home.is_dir():
        return
    _refuse_shared(home)
    if home.is_symlink():
        if home.stat().st_mode & _OTHERS:
            _log.warning("%s is a link to a folder that others can read: chmod -R go= it", home)
        return
    try:
        _close(home, home.stat().st_mode)
        _close_below(home, depth=0)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EACCES, errno.EROFS):
            raise
        _log.warning("%s cannot be closed to other users (%s)", error.filename, error.strerror)


def _refuse_shared(home: Path) -> None:
    found = home.resolve()
    mode = found.stat().st_mode
    if found in (Path(found.anchor), Path("~").expanduser().resolve()) or mode & stat.S_ISVTX:
        raise ConfigurationError(
            f"LOUPE_HOME must be a separate folder, because it is closed to other users; "
            f"got {home}: choose a new folder, such as {home / '.loupe'}"
        )


def _close_below(folder: Path, depth: int) -> None:
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # removed meanwhile by another of our processes
                mode = entry.stat(follow_symlinks=False).st_mode
                if stat.S_ISLNK(mode):
                    continue
                if stat.S_ISDIR(mode) and (mode & _OTHERS or depth < _LOOKED_THROUGH):
                    _close_below(Path(entry.path), depth + 1)
                if mode & _OTHERS:  # a path object is not created for every file
                    _close(Path(entry.path), mode)


def _close(path: Path, mode: int) -> None:
    if mode & _OTHERS:
        path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
