"""This code as an agent of decisions and derivations, its revision, and this machine."""

import os
import platform
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path
from subprocess import run

import psutil

from loupe.db.entities import AgentRef
from loupe.schemas.checkout import DISTRIBUTION, checkout
from loupe.schemas.provenance import Hardware

_PROCESSORS = Path("/proc/cpuinfo")


@cache
def software() -> AgentRef:
    """Return this code as an agent."""
    return AgentRef("software", "loupe", version(DISTRIBUTION))


@cache
def code_revision() -> str:
    """Return the commit of this code (with `+changed` if edited), or its version."""
    installed = f"{DISTRIBUTION} {version(DISTRIBUTION)}"
    if (root := checkout()) is None:
        return installed
    described = run(
        ["git", "-C", str(root), "describe", "--always", "--abbrev=40", "--dirty=+changed"],
        capture_output=True,
        text=True,
        check=False,
    )
    return described.stdout.strip() or installed


def hardware() -> Hardware:
    """This machine. A GPU is named if torch is loaded and sees one."""
    return Hardware(
        processor=_processor(),
        cores=os.cpu_count() or 1,
        memory_bytes=psutil.virtual_memory().total,
        accelerator=_accelerator(),
    )


@cache
def _processor() -> str:
    try:
        lines = _PROCESSORS.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(filter(None, names), platform.processor() or platform.machine())


def _accelerator() -> str | None:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    return str(torch.cuda.get_device_name())
