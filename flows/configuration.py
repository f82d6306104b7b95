"""Reads build files: TOML that says what to build."""

import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from schemas.build import SourceSpec, UFine3CBuild
from schemas.errors import ConfigurationError


def load_build(path: Path) -> UFine3CBuild:
    """The build in `path`; relative paths in it are relative to the file.

    Raises:
        ConfigurationError: the file is not there, is no TOML, or a key in it is unknown or wrong.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"build file {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"build file {path} is not valid TOML: {error}") from error
    try:
        build = UFine3CBuild.model_validate(values)
    except ValidationError as error:
        raise ConfigurationError(f"build file {path}: {_first_problem(error)}") from error
    return _resolved(build, path.parent)


def load_source(**values: Any) -> SourceSpec:
    """The source that `values` describe.

    Raises:
        ConfigurationError: a value is wrong.
    """
    try:
        return SourceSpec.model_validate(values)
    except ValidationError as error:
        raise ConfigurationError(f"source: {_first_problem(error)}") from error


def _first_problem(error: ValidationError) -> str:
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    if not key:
        return first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        return f"{key} is no key of a build; see docs/build-files.md"
    if first["type"] == "missing":
        return f"{key} is missing"
    return f"{key}: {first['msg']}, got {first['input']!r}"


def _resolved(build: UFine3CBuild, folder: Path) -> UFine3CBuild:
    sources = tuple(
        source.model_copy(
            update={
                "annotations": folder / source.annotations.expanduser(),
                "images": folder / source.images.expanduser(),
            }
        )
        for source in build.sources
    )
    return build.model_copy(update={"sources": sources})
