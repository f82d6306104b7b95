"""Load profiles: TOML files, validated, overridable by environment variables.

`LOUPE_PROFILE__REWRITE__MAX_CHARACTERS=500` overrides `rewrite.max_characters`. A value that is
valid JSON is parsed as JSON, so whole lists can be given too. A table `[server]` contains what all
models with `provider = "openai"` share.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from schemas.errors import ConfigurationError
from schemas.profile import Profile
from schemas.text_files import read_toml
from schemas.validation import validated

_FOLDER = Path(__file__).parent
_OVERRIDE = "LOUPE_PROFILE__"


def profile_names() -> list[str]:
    """Return the profiles that ship with Loupe."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def load_profile(name_or_path: str, environment: Mapping[str, str] = os.environ) -> Profile:
    """Load the profile of that name, or from that TOML file.

    Raises:
        ConfigurationError: there is no such profile, or a key in it is unknown or invalid.
    """
    path = Path(name_or_path)
    if path.suffix != ".toml":
        path = _FOLDER / f"{name_or_path}.toml"
    if "\0" not in name_or_path and not os.path.lexists(path):
        raise ConfigurationError(
            f"there is no profile {name_or_path!r}; there is {', '.join(profile_names())}, "
            f"or give the path of a .toml file"
        )
    values = read_toml(path, f"profile {name_or_path!r}")
    values.setdefault("name", path.stem)
    _apply_overrides(values, environment)
    _complete_servers(values, values.pop("server", {}))
    return validate_profile(values)


def validate_profile(values: Mapping[str, Any]) -> Profile:
    """Validate `values` as a profile.

    Raises:
        ConfigurationError: a key is unknown, missing or invalid; the message names it.
    """
    return validated(Profile, values, f"profile {values.get('name', '?')!r}")


def _apply_overrides(values: dict[str, Any], environment: Mapping[str, str]) -> None:
    for variable, text in sorted(environment.items()):
        if not variable.startswith(_OVERRIDE):
            continue
        *path, last = variable.removeprefix(_OVERRIDE).lower().split("__")
        target = values
        for part in path:
            target = target.setdefault(part, {})
            if not isinstance(target, dict):
                raise ConfigurationError(f"{variable} goes through {part!r}, which is not a table")
        target[last] = _as_json(text)


def _complete_servers(values: Any, shared: Any) -> None:
    """Complete models behind a server with missing values from the table `[server]`."""
    if not isinstance(shared, dict):
        raise ConfigurationError(f"server must be a table; got {shared!r}")
    if isinstance(values, list):
        for one in values:
            _complete_servers(one, shared)
    elif isinstance(values, dict):
        if values.get("provider") == "openai":
            values |= {key: value for key, value in shared.items() if key not in values}
        for one in values.values():
            _complete_servers(one, shared)


def _as_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
