"""The address of an installation on the Internet: a host name for each server, below one domain.

Label Studio does not work below a path.
"""

import ipaddress
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import ValidationError

from loupe.schemas.base import Record
from loupe.schemas.errors import ConfigurationError, UsageError
from loupe.schemas.processes import write_atomically
from loupe.services.credentials import services_folder

HTTPS_PORT = 443
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
        return urlsplit(self.url).port or HTTPS_PORT

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
        port = "" if self.port == HTTPS_PORT else f":{self.port}"
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


def _path(home: Path) -> Path:
    return home / "services" / "public.json"
