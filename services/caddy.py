"""Caddy in front of the servers of an installation, with TLS.

All others keep listening on the loopback interface only.
"""

import shutil
import socket
from pathlib import Path

from loupe.schemas.errors import ServiceError
from loupe.schemas.processes import write_atomically
from loupe.services.credentials import private_folder
from loupe.services.process import LOOPBACK, RunningService, ServiceSpec, start
from loupe.services.public import HTTPS_PORT, PublicSite

NAME = "caddy"
_START_SECONDS = 30.0


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
    if site.port != HTTPS_PORT or site.is_on_this_machine:
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
