"""A process is identified by boot, namespaces, id and start, never by clock or host name."""

import os
import subprocess
import sys
from pathlib import Path

from loupe.schemas.processes import is_process_alive, is_process_dead, own_place, place_of
from tests.separation import OWN_NAMESPACE, require


def test_a_zombie_process_is_dead() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    place = place_of(child.pid)
    assert is_process_alive(place)
    assert not is_process_dead(place)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, and left as a zombie
    assert is_process_dead(place)
    assert not is_process_alive(place)
    child.communicate()
    assert is_process_dead(place)
    assert not is_process_alive(place)


def test_a_process_whose_id_was_reused_is_dead() -> None:
    machine, pid, started = own_place().rsplit("/", 2)
    assert not is_process_dead(own_place())
    earlier = f"{machine}/{pid}/{int(started) - 1}"
    assert is_process_dead(earlier)
    assert not is_process_alive(earlier)


def test_processes_of_other_boots_or_namespaces_are_neither_dead_nor_alive() -> None:
    machine, pid, started = own_place().rsplit("/", 2)
    boot, *namespaces = machine.split("~")
    for other in (["another-boot", *namespaces], [boot, "pid:[1]", *namespaces[1:]]):
        place = f"{'~'.join(other)}/{pid}/{int(started) - 1}"
        assert not is_process_dead(place), other
        assert not is_process_alive(f"{'~'.join(other)}/{pid}/{started}"), other
    assert not is_process_dead("")
    assert not is_process_alive("")


def test_a_process_in_another_pid_namespace_has_another_place() -> None:
    require("unshare")
    program = "from loupe.schemas.processes import own_place; print(own_place())"
    python = (sys.executable, "-c", program)
    inside = subprocess.check_output([*OWN_NAMESPACE, *python], text=True).strip()
    assert inside.endswith("/1/" + inside.rpartition("/")[2])
    assert not is_process_dead(inside), "its state is unknown, although it has ended"
    foreign_proc = [option for option in OWN_NAMESPACE if option != "--mount-proc"]
    outside = subprocess.check_output([*foreign_proc, *python], text=True).strip()
    assert outside.startswith("/"), "a place without a machine"
    assert not is_process_dead(outside)


def test_without_proc_a_process_is_identified_by_its_creation_time(tmp_path: Path) -> None:
    """As on macOS, where the creation time is recorded once and does not follow the clock."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        place = place_of(child.pid, tmp_path)
        assert is_process_alive(place, tmp_path)
        assert not is_process_alive(f"/{os.getpid()}/{place.split('/')[2]}", tmp_path)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not is_process_alive(place, tmp_path)
    assert not is_process_alive(place, tmp_path)
    assert not is_process_dead(place), "machines without /proc cannot be distinguished"
