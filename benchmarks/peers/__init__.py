"""Peers, each run in a separate environment."""

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple


class Peer(NamedTuple):
    """A package, and the script in this folder that does the work with it."""

    name: str
    requirements: tuple[str, ...]
    script: str


def python_of(peer: Peer, environments: Path) -> Path:
    """Return the Python of a peer's environment, which is made and filled by `uv`."""
    environment = environments / peer.name
    python = environment / "bin" / "python"
    if not python.exists():
        subprocess.run(["uv", "venv", "--quiet", str(environment)], check=True)
    install = ["uv", "pip", "install", "--quiet", "--python", str(python), *peer.requirements]
    subprocess.run(install, check=True)
    return python


def installed(environments: Path, peers: Sequence[Peer]) -> Iterator[tuple[Peer, Path]]:
    """Yield the peers that can be installed, each with the Python of its environment."""
    for peer in peers:
        try:
            yield peer, python_of(peer, environments)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"left out: {peer.name} cannot be installed ({error})")
