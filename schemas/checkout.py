"""Where this code runs from: a checkout of the repository, or an installed wheel."""

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

DISTRIBUTION = "loupe-datasets"


@cache
def checkout() -> Path | None:
    """Return the root of the checkout that this code belongs to; None if it was installed."""
    root = Path(__file__).resolve().parents[1]  # through the links of `src/loupe`
    return root if (root / "src" / "loupe").is_dir() else None


_WITHOUT_DEPENDENCIES = "vision"
"""The extra of packages of which only files are read: what their code needs contradicts ours."""


def install_command(extra: str) -> str:
    """Return the command that installs an extra of this package."""
    if extra == _WITHOUT_DEPENDENCIES:
        packages = " ".join(f"'{one}'" for one in _packages_of(extra))
        return f"uv pip install --no-deps {packages}"
    package = f"{DISTRIBUTION}[{extra}]" if checkout() is None else f".[{extra}]"
    return f"uv pip install {'-e ' if checkout() else ''}'{package}'"


def _packages_of(extra: str) -> Iterator[str]:
    """Yield the packages of an extra of this package, with their versions."""
    from importlib.metadata import requires  # slow, and hardly ever needed

    for requirement in requires(DISTRIBUTION) or ():
        package, _, condition = requirement.partition(";")
        if condition.strip() in {f"extra == '{extra}'", f'extra == "{extra}"'}:
            yield package.strip()


def default_environments() -> Path:
    """Return where the environments of servers are: in the checkout, or in the user's cache."""
    if (root := checkout()) is not None:
        return root / ".environments"
    cache_folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache_folder) / "loupe" / "environments"
