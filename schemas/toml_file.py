"""Configuration files: TOML, read within limits, with errors reported in one sentence."""

import tomllib
from pathlib import Path
from typing import Any, Final

from schemas.errors import ConfigurationError

_MOST_BYTES: Final = 4 * 1024 * 1024
_INTEGERS: Final = range(-(2**63), 2**63)


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """Return the tables of a TOML file.

    Args:
        path: the file.
        what: its name in error messages, such as "build file runs/a.toml".

    Raises:
        ConfigurationError: it cannot be read, is too long or is not TOML, or contains values that
            databases, file systems or other TOML readers reject: integers beyond 64 bits, NUL
            characters.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:  # the second for a path with a NUL
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigurationError(f"{what} cannot be read: {reason}") from error
    if len(content) > _MOST_BYTES:
        raise ConfigurationError(f"{what} is longer than {_MOST_BYTES:,} bytes")
    try:
        values = tomllib.loads(content.decode("utf-8"))
        _check(values)
    except ValueError as error:
        raise ConfigurationError(f"{what} is not valid TOML: {error}") from error
    except RecursionError:
        raise ConfigurationError(f"{what} is not valid TOML: it is nested too deeply") from None
    return values


def at_home(path: str | Path) -> Path:
    """Return the path with `~` expanded to a home folder.

    Raises:
        ConfigurationError: there is no such user.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ConfigurationError(
            f"{str(path)!r} begins with the home folder of an unknown user"
        ) from error


def _check(value: object) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            if not key.isprintable():
                raise ValueError(f"a key with a control character, {key[:40]!r}")
            _check(inner)
    elif isinstance(value, list):
        for inner in value:
            _check(inner)
    elif isinstance(value, str) and "\0" in value:
        raise ValueError(f"a NUL character in {value[:40]!r}")
    elif isinstance(value, int) and value not in _INTEGERS:
        raise ValueError("an integer beyond 64 bits")
