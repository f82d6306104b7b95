"""Where this code runs from: a checkout of the repository, or an installed wheel."""

import os
from functools import cache
from pathlib import Path

DISTRIBUTION = "loupe-datasets"


@cache
def checkout() -> Path | None:
    """Return the root of the checkout that this code belongs to; None if it was installed."""
    root = Path(__file__).resolve().parents[1]  # through the links of `src/loupe`
    return root if (root / "src" / "loupe").is_dir() else None


def install_command(extra: str) -> str:
    """Return the command that installs an extra of this package."""
    package = f"{DISTRIBUTION}[{extra}]" if checkout() is None else f".[{extra}]"
    return f"uv pip install {'-e ' if checkout() else ''}'{package}'"


def default_environments() -> Path:
    """Return where the environments of servers are: in the checkout, or in the user's cache."""
    if (root := checkout()) is not None:
        return root / ".environments"
    cache_folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache_folder) / "loupe" / "environments"
