"""The wheel in an environment of its own, in a folder with modules of common names."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from loupe.services.process import free_port
from tests.requirements import unavailable
from tests.services.migrated import migrate_home

ROOT = Path(__file__).parents[2]
FOREIGN = ("models/__init__.py", "db/__init__.py", "prompts.py", "flows.py")

pytestmark = [pytest.mark.slow, pytest.mark.label_studio, pytest.mark.prefect]


class Installed(NamedTuple):
    """The installed command, and a folder of somebody's own with a home for Loupe."""

    command: Path
    folder: Path
    environment: dict[str, str]

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            [self.command, *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{arguments}: {done.stdout}\n{done.stderr}"
        return done.stdout


def run_uv(*arguments: str | Path) -> None:
    """Run uv; packages come from its cache, which `make setup` filled from the same lock."""
    program = shutil.which("uv") or ROOT / ".cache" / "uv" / "bin" / "uv"
    if not Path(program).exists():
        unavailable("uv is not installed")
    subprocess.run([program, *arguments, "--quiet"], cwd=ROOT, check=True)


@pytest.fixture
def installed(tmp_path: Path, label_studio_environment: Path) -> Installed:
    run_uv("build", "--out-dir", tmp_path / "built")  # the wheel is built from the source archive
    (wheel,) = (tmp_path / "built").glob("*.whl")
    python = tmp_path / "environment" / "bin" / "python"
    run_uv("venv", "--python", sys.executable, python.parents[1])
    run_uv("pip", "install", "--python", python, "--constraint", "requirements.lock", wheel)
    for name in FOREIGN:
        path = tmp_path / "own" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("raise RuntimeError('a module of the working folder ran')\n", "utf-8")
    ports = ("PREFECT_PORT", "LABEL_STUDIO_PORT", "BLOBS_PORT")
    home = tmp_path / "own" / ".loupe"
    environment = {
        **os.environ,
        "LOUPE_HOME": str(home),
        "LOUPE_ENVIRONMENTS": str(label_studio_environment.parent),
        **{f"LOUPE_{port}": str(free_port()) for port in ports},
    }
    home.mkdir(mode=0o700)
    migrate_home(label_studio_environment, home)
    return Installed(python.with_name("loupe"), tmp_path / "own", environment)


def test_a_wheel_runs_the_demonstration_and_the_services(installed: Installed) -> None:
    assert "loupe release verify" in installed.run("demo")
    findings = json.loads(installed.run("doctor", "--json"))
    assert "uv pip install 'loupe-datasets[torch]'" in json.dumps(findings)
    try:
        assert "build-ufine3c" in installed.run("up")
        installed.run("status")
    finally:
        installed.run("down")
