"""Processes in other namespaces, and dead processes."""

import shutil
import subprocess
import sys

from loupe.schemas.processes import place_of
from tests.requirements import unavailable

OWN_NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
"""Starts a program in a new PID namespace, where it has the process id 1."""


def require(*programs: str) -> None:
    """Skip the test if a program is missing or not permitted to work."""
    for program in programs:
        if shutil.which(program) is None:
            unavailable(f"{program} is not installed: apt-get install {program}")
    if "unshare" in programs:
        tried = subprocess.run([*OWN_NAMESPACE, "true"], capture_output=True, check=False)
        if tried.returncode != 0:
            unavailable(f"no PID namespace can be made here: {tried.stderr.decode().strip()}")


def ended_place() -> str:
    """Return the place of a process that has just ended."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        return place_of(child.pid)
