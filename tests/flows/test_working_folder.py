"""Files of the working folder are data: no command runs them, whatever their names are."""

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from loupe.flows.cli.main import app
from loupe.schemas.records import Granularity
from tests.flows.worlds import write_people

PROGRAMS = ("git", "uv", "sh", "env", "unshare", "python", "python3", "nvidia-smi", "chromium")
WHY = ("--ground", "privacy", "--reason", "a test", "--dry-run")
GIVEN: dict[str, list[str]] = {
    "run": ["build-ufine3c"],
    "import": ["cuhk-pedes", "."],
    "track": ["--detections", "missing.txt", "--out", "out"],
    "train": ["{release}", "--config", "missing.toml"],
    "evaluate": ["{release}"],
    "lineage": ["images/1.jpg", "--release", "{release}"],
    "withdraw": ["images/1.jpg", "--release", "{release}", *WHY],
    "duplicates": ["."],
    "up": [part for name in ("prefect", "label-studio", "watcher") for part in ("--without", name)],
    "queue watch": ["--help"],  # it runs until it is stopped
    "release verify": [".", "--decode"],
    "release report": ["{release}", "--out", "report"],
    "release export": ["{release}", "--format", "hf", "--out", "exported"],
}
"""Arguments with which a command comes far; others get a word for each that they require."""
DRIVER = """
import json, sys, traceback
from loupe.flows.cli.main import app, main  # as the script `loupe` does
from typer.main import get_command
command = get_command(app)
for words in json.loads(sys.argv[1]):
    try:
        main(lambda: command(words, "loupe"))
    except SystemExit as end:
        print(end.code, *words, flush=True)
    except Exception:
        traceback.print_exc()
        print("fault", *words, flush=True)
"""


def leaves(command: Any, *names: str) -> dict[str, Any]:
    """Return all commands by their names."""
    if not hasattr(command, "commands"):
        return {" ".join(names): command}
    found: dict[str, Any] = {}
    for name, part in command.commands.items():
        found |= leaves(part, *names, name)
    return found


def required(command: Any) -> list[str]:
    """Return words for the arguments and options that a command requires."""
    words: list[str] = []
    for parameter in command.params:
        if parameter.required:
            words += parameter.opts[:1] if parameter.param_type_name == "option" else []
            words.append("1")
    return words


def plant(folder: Path, marker: Path) -> None:
    """Write modules of all names that anything here imports, and programs."""
    ours = ("flows", "db", "models", "prompts", "schemas", "services", "sources", "release")
    installed = importlib.metadata.packages_distributions()
    for name in {*sys.stdlib_module_names, *installed, *ours, "sitecustomize", "usercustomize"}:
        if name.isidentifier():
            text = f"open({str(marker)!r}, 'a').write('{name} ')"
            (folder / f"{name}.py").write_text(text, encoding="utf-8")
    for name in PROGRAMS:
        (folder / name).write_text(f"#!/bin/sh\necho {name} >>{marker}\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    (folder / ".numba_config.yaml").write_text(f"cache_dir: {marker}\n", encoding="utf-8")
    (folder / ".env").write_text("LOUPE_PROFILE=hosted\n", encoding="utf-8")


@pytest.mark.slow
def test_no_command_runs_files_of_the_working_folder(tmp_path: Path) -> None:
    folder, marker = tmp_path / "hostile", tmp_path / "marker"
    write_people(folder, Granularity.COARSE, identities=3, images=2, captions=2)
    plant(folder, marker)
    home = tmp_path / "home"
    commands = leaves(get_command(app))
    assert set(GIVEN) <= set(commands)
    calls = [
        [*name.split(), *GIVEN.get(name, required(command))]
        for name, command in commands.items()  # `demo` is the first
        if name != "down"
    ]
    release = str(home / "releases/ufine3c-demo-0.1.0")
    asked = json.dumps([*calls, ["down"]]).replace("{release}", release)
    environment = os.environ | {
        "PATH": f".::{os.environ['PATH']}",
        "LOUPE_HOME": str(home),
        "LOUPE_ENGINE": "processes",
        "LOUPE_ENGINE_WORKERS": "1",
    }
    # Not `-P`: an installed script is started so, and takes the folder of the script instead.
    (tmp_path / "script").mkdir()
    script = tmp_path / "script" / "loupe"
    script.write_text(DRIVER, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, script, asked],
        cwd=folder,
        env={name: value for name, value in environment.items() if name != "PYTHONSAFEPATH"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    ran = [line for line in done.stdout.splitlines() if line[:2] in {"0 ", "1 ", "2 ", "fa"}]
    assert len(ran) >= len(calls), done.stderr
    assert not marker.exists(), marker.read_text()
    for far in ("run", "evaluate", "lineage", "demo", "release report", "up", "duplicates"):
        assert any(line.startswith(f"0 {far}") for line in ran), (far, ran, done.stderr)
