"""Where a process runs, and whether it has ended, as its neighbours on the machine can tell.

Host names, process ids and wall clocks say little: containers share host names, every PID namespace
counts its own process ids, and clocks step. A *place* is a boot of a machine, the namespaces of a
process, its id there, and the clock tick since the boot at which it started.
"""

import os
from functools import cache
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
_DEAD = frozenset("ZX")  # a zombie was killed; its parent has not noticed yet


def own_place() -> str:
    """The place of this process; empty where `/proc` does not tell (macOS, a `/proc` of others)."""
    return place_of(os.getpid())


def place_of(pid: int) -> str:
    """The place of the process `pid` of this PID namespace; empty where it cannot be told."""
    stat = _stat_of(pid)
    machine = _machine()
    return f"{machine}/{pid}/{stat.start_ticks}" if stat and machine else ""


def is_process_dead(place: str) -> bool:
    """Whether the process of that place is known to have ended.

    False for an empty place and for processes of other machines, other boots and other namespaces:
    of those, nothing can be known from here.
    """
    machine, _, process = place.partition("/")
    if not machine or machine != _machine():
        return False
    pid, _, start_ticks = process.partition("/")
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # it runs as another user
    stat = _stat_of(int(pid))
    return stat is not None and (stat.state in _DEAD or stat.start_ticks != start_ticks)


class _Stat(NamedTuple):
    state: str
    start_ticks: str


def _stat_of(pid: int) -> _Stat | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text("utf-8", "replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # what stands in parentheses is a name, with anything
    return _Stat(fields[0], fields[19])


def _machine() -> str:
    return _machine_of(os.getpid())


@cache
def _machine_of(pid: int) -> str:
    """The boot and the namespaces in which process ids and ticks of this process mean something.

    Empty where `/proc` is missing or belongs to another PID namespace. `pid` is that of the caller:
    a forked child may be in other namespaces.
    """
    try:
        if (_PROC / "self").readlink().name != str(pid):
            return ""
        boot = (_PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()
        namespaces = [(_PROC / "self/ns" / kind).readlink().name for kind in ("pid", "time")]
    except OSError:
        return ""
    return "~".join([boot, *namespaces])
