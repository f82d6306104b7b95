"""Reads build files: TOML that says what to build."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from schemas.build import (
    CcdBuild,
    RecosBuild,
    SourceSpec,
    TaskSpec,
    UFine3CBuild,
    UFine6926Build,
    VideoSourceSpec,
)
from schemas.errors import ConfigurationError
from schemas.faults import fault_of
from schemas.toml_file import read_toml

_UNKNOWN = "is no key of a build; see docs/build-files.md"
_Build = TypeVar("_Build", UFine3CBuild, UFine6926Build, RecosBuild, CcdBuild)
_Source = TypeVar("_Source", SourceSpec, VideoSourceSpec)


def load_build(path: Path) -> UFine3CBuild:
    """The UFine3C-style build in `path`; relative paths in it are relative to the file.

    Raises:
        ConfigurationError: the file is not there, is no TOML, or a key in it is unknown or wrong.
    """
    build = _loaded(path, UFine3CBuild)
    sources = tuple(_resolved(source, path.parent) for source in build.sources)
    return build.model_copy(update={"sources": sources})


def load_video_build(path: Path) -> UFine6926Build:
    """The UFine6926-style build in `path`; relative paths in it are relative to the file.

    Raises:
        ConfigurationError: as for `load_build`.
    """
    build = _loaded(path, UFine6926Build)
    sources = tuple(_resolved_videos(source, path.parent) for source in build.sources)
    return build.model_copy(update={"sources": sources})


def load_recos_build(path: Path) -> RecosBuild:
    """The ReCoS-style build in `path`; relative paths in it are relative to the file.

    Raises:
        ConfigurationError: as for `load_build`.
    """
    build = _loaded(path, RecosBuild)
    sources = tuple(_resolved(source, path.parent) for source in build.sources)
    tasks = tuple(_resolved_task(task, path.parent) for task in build.tasks)
    return build.model_copy(update={"sources": sources, "tasks": tasks})


def load_ccd_build(path: Path) -> CcdBuild:
    """The CCD-style build in `path`; relative paths in it are relative to the file.

    Raises:
        ConfigurationError: as for `load_build`.
    """
    build = _loaded(path, CcdBuild)
    sources = tuple(_resolved(source, path.parent) for source in build.sources)
    searched = build.search_folder
    folder = None if searched is None else path.parent / at_home(searched)
    return build.model_copy(update={"sources": sources, "search_folder": folder})


def _loaded(path: Path, form: type[_Build]) -> _Build:
    values = read_toml(path, f"build file {path}")
    try:
        build = form.model_validate(values)
    except ValidationError as error:
        raise ConfigurationError(
            f"build file {path}: {fault_of(error, unknown=_UNKNOWN)}"
        ) from error
    others = tuple(_resolved_other(one, path.parent) for one in build.against)
    return build.model_copy(update={"against": others})


def load_source(**values: Any) -> SourceSpec:
    """The source that `values` describe.

    Raises:
        ConfigurationError: a value is wrong.
    """
    return _described(SourceSpec, values)


def load_video_source(**values: Any) -> VideoSourceSpec:
    """The collection of videos that `values` describe.

    Raises:
        ConfigurationError: a value is wrong.
    """
    return _described(VideoSourceSpec, values)


def _described(form: type[_Source], values: Mapping[str, Any]) -> _Source:
    try:
        return form.model_validate(values)
    except ValidationError as error:
        raise ConfigurationError(f"source: {fault_of(error, unknown=_UNKNOWN)}") from error


def at_home(path: str | Path) -> Path:
    """The path with a home folder for `~`.

    Raises:
        ConfigurationError: it is the home of nobody.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ConfigurationError(f"{str(path)!r} begins with the home folder of nobody") from error


def _resolved(source: SourceSpec, folder: Path) -> SourceSpec:
    paths = {
        "annotations": folder / at_home(source.annotations),
        "images": folder / at_home(source.images),
    }
    return source.model_copy(update=paths)


def _resolved_other(named: str, folder: Path) -> str:
    """What a release is held against: folders, also as `NAME=FOLDER`, with whole paths."""
    name, separator, path = named.rpartition("=")
    found = folder / at_home(path)
    is_folder = os.path.isdir(found)  # noqa: PTH112 - pathlib raises where a name is too long
    return f"{name}{separator}{found}" if is_folder else named


def _resolved_task(task: TaskSpec, folder: Path) -> TaskSpec:
    names = None if task.names is None else folder / at_home(task.names)
    return task.model_copy(update={"names": names})


def _resolved_videos(source: VideoSourceSpec, folder: Path) -> VideoSourceSpec:
    """The source with whole paths; addresses with a scheme (`s3://…`) stay as they are."""
    videos = tuple(
        address if "://" in address else str(folder / at_home(address)) for address in source.videos
    )
    return source.model_copy(update={"videos": videos})
