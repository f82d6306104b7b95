"""No telemetry is sent by Loupe or its dependencies."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from loupe.demo.builds import DONE, SEED
from loupe.demo.worlds import write_people_world

WATCH = """
import os, sys

def watch(event, arguments):
    if event in ("socket.connect", "socket.sendto", "socket.getaddrinfo"):
        address = arguments[0] if event == "socket.getaddrinfo" else arguments[1]
        host = address[0] if isinstance(address, tuple) else address
        local = host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", None)
        if not local and not (isinstance(address, (str, bytes)) and event != "socket.getaddrinfo"):
            with open(os.environ["WATCHED"], "a") as log:
                log.write(f"{event} {address!r}\\n")
            raise OSError("not here")

sys.addaudithook(watch)
"""


@pytest.mark.slow
def test_a_run_connects_only_to_this_machine(tmp_path: Path) -> None:
    """An audit hook in every Python process records and refuses other connections."""
    (tmp_path / "sitecustomize.py").write_text(WATCH)
    watched = tmp_path / "watched.txt"
    environment = {name: value for name, value in os.environ.items() if name != "DO_NOT_TRACK"} | {
        "PYTHONPATH": str(tmp_path),
        "WATCHED": str(watched),
        "LOUPE_HOME": str(tmp_path / "home"),
    }
    probe = "import socket; socket.create_connection(('198.51.100.1', 9))"
    tried = subprocess.run([sys.executable, "-c", probe], env=environment, check=False)
    assert tried.returncode != 0
    assert "198.51.100.1" in watched.read_text()  # the hook records and refuses it
    watched.unlink()
    people = tmp_path / "home" / "demonstration" / f"people-{SEED}"
    write_people_world(people, SEED, 2)  # a small world instead of the default one
    (people / DONE).touch()
    loupe = Path(sys.executable).with_name("loupe")
    done = subprocess.run(
        [loupe, "demo"], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not watched.exists(), watched.read_text()


def test_telemetry_of_prefect_and_the_hub_is_disabled() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "DO_NOT_TRACK"}
    script = (
        "import loupe.flows; from huggingface_hub import constants; "
        "from prefect._internal.analytics.enabled import is_telemetry_enabled; "
        "print(constants.HF_HUB_DISABLE_TELEMETRY, is_telemetry_enabled())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["True", "False"], done.stderr
