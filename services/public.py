"""The servers of an installation on the Internet: Caddy in front of them, with TLS.

Each server has a host name of its own below one domain, as Label Studio does not work below a path.
All of them but Caddy keep listening on the loopback interface only.
"""

import ipaddress
import shutil
import socket
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import ValidationError

from loupe.schemas.base import Record
from loupe.schemas.errors import ConfigurationError, ServiceError, UsageError
from loupe.schemas.processes import write_atomically
from loupe.services.credentials import private_folder, services_folder
from loupe.services.process import LOOPBACK, RunningService, ServiceSpec, start

NAME = "caddy"
_HTTPS_PORT = 443
_START_SECONDS = 30.0
_LOCAL = ("localhost", "test", "internal", "home.arpa")
"""Domains for which no public authority issues certificates."""


class PublicSite(Record):
    """The public address of an installation: `https://host`, or with a port for tries."""

    url: str

    @property
    def host(self) -> str:
        """The host name of Label Studio; those of the others are below it."""
        return str(urlsplit(self.url).hostname)

    @property
    def port(self) -> int:
        """The port of all hosts."""
        return urlsplit(self.url).port or _HTTPS_PORT

    @property
    def is_local(self) -> bool:
        """Whether it is for a try on this machine or in a closed network."""
        return self.host.rpartition(".")[2] in _LOCAL or self.host.endswith(".home.arpa")

    @property
    def is_on_this_machine(self) -> bool:
        """Whether nobody else can reach it: the name always means the loopback interface."""
        return self.host.rpartition(".")[2] == "localhost"

    def origin(self, part: str = "") -> str:
        """Return the origin of Label Studio, or of another part: `images` or `prefect`."""
        port = "" if self.port == _HTTPS_PORT else f":{self.port}"
        return f"https://{f'{part}.' if part else ''}{self.host}{port}"

    def host_of(self, part: str) -> str:
        """Return the host name of a part."""
        return f"{part}.{self.host}"


def parse_public(url: str) -> PublicSite:
    """Return the site with that address.

    Raises:
        UsageError: it is not `https://` and a host name alone.
    """
    parts = urlsplit(url)
    try:
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        has_port = False
    rest = (parts.path.strip("/"), parts.query, parts.fragment, parts.username)
    if parts.scheme != "https" or not parts.hostname or any(rest) or not has_port:
        raise UsageError(
            f"--public must be https:// and a host name, such as https://desk.example.org; got "
            f"{url!r}"
        )
    if _is_address(parts.hostname):
        raise UsageError(
            f"--public needs a host name, as images and Prefect get names below it; got {url!r}"
        )
    return PublicSite(url=f"https://{parts.netloc.lower()}")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def public_site(home: Path) -> PublicSite | None:
    """Return the public address that `loupe up --public` gave, or None.

    Raises:
        ConfigurationError: the file is damaged.
    """
    path = _path(home)
    try:
        return PublicSite.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise ConfigurationError(
            f"{path} is damaged; remove it, and name --public again"
        ) from error


def save_public_site(home: Path, site: PublicSite | None) -> None:
    """Keep the public address for later commands; None ends it."""
    services_folder(home)
    if site is None:
        _path(home).unlink(missing_ok=True)
    else:
        write_atomically(_path(home), site.model_dump_json().encode())


def start_caddy(home: Path, site: PublicSite, ports: dict[str, int]) -> RunningService:
    """Start Caddy in front of servers, with the port of each part ("" is Label Studio).

    Raises:
        ServiceError: it is not installed, or could not be started.
    """
    program = shutil.which("caddy")
    if program is None:
        raise ServiceError("--public needs Caddy: apt-get install caddy (docs/team.md)")
    folder = private_folder(home, "caddy")
    config = folder / "Caddyfile"
    write_atomically(config, caddyfile(folder, site, ports).encode())
    spec = ServiceSpec(
        name=NAME,
        command=(program, "run", "--adapter", "caddyfile", "--config", str(config)),
        working_directory=folder,
        environment={"PATH": "/usr/bin:/bin", "HOME": str(folder), "XDG_DATA_HOME": str(folder)},
        timeout_seconds=_START_SECONDS,
    )
    return start(home, spec, lambda: _accepts(site))


def caddyfile(folder: Path, site: PublicSite, ports: dict[str, int]) -> str:
    """Return Caddy's configuration.

    Certificates come from Let's Encrypt, or from Caddy's own authority where there can be none. A
    site that only this machine can reach listens on the loopback interface.
    """
    lines = ["{", "\tadmin off", f"\tstorage file_system {folder}", "\tskip_install_trust"]
    if site.port != _HTTPS_PORT or site.is_on_this_machine:
        lines.append("\tauto_https disable_redirects")
    lines += ["}", ""]
    for part, port in ports.items():
        lines.append(f"{site.origin(part)} {{")
        if site.is_on_this_machine:
            lines.append(f"\tbind {LOOPBACK}")
        if site.is_local:
            lines.append("\ttls internal")
        else:
            lines.append('\theader Strict-Transport-Security "max-age=31536000"')
        lines += ["\trequest_body {", "\t\tmax_size 20MB", "\t}"]
        lines += [f"\treverse_proxy {LOOPBACK}:{port}", "}", ""]
    return "\n".join(lines)


def _accepts(site: PublicSite) -> bool:
    try:
        socket.create_connection((LOOPBACK, site.port), timeout=1).close()
    except OSError:
        return False
    return True


def _path(home: Path) -> Path:
    return home / "services" / "public.json"
