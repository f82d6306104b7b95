"""This code as an agent of decisions and derivations, and its revision."""

from functools import cache
from importlib.metadata import version
from pathlib import Path
from subprocess import run

from db.entities import AgentRef

DISTRIBUTION = "loupe-datasets"


@cache
def software() -> AgentRef:
    """Return this code as an agent."""
    return AgentRef("software", "loupe", version(DISTRIBUTION))


@cache
def code_revision() -> str:
    """Return the commit of this code (with `+changed` if edited), or its version."""
    folder = Path(__file__).parent
    described = run(
        ["git", "-C", str(folder), "describe", "--always", "--abbrev=40", "--dirty=+changed"],
        capture_output=True,
        text=True,
        check=False,
    )
    return described.stdout.strip() or f"{DISTRIBUTION} {version(DISTRIBUTION)}"
