"""Finds pipelines: in a Python file, a module, a TOML file, or a plugin."""

import importlib
import sys
from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

from loupe.api.contrasts import Contrast
from loupe.api.parts import Part
from loupe.api.pipeline import Pipeline, gate, release
from loupe.api.references import module_in
from loupe.api.step import Step
from loupe.api.steps import step_called
from loupe.api.values import Caption, Image
from loupe.flows.engine.pipeline import PipelineSpec
from loupe.schemas.errors import ConfigurationError, LoupeError, UsageError
from loupe.schemas.plugins import load_plugin, plugins
from loupe.schemas.records import Rewrite
from loupe.schemas.text_files import read_toml
from loupe.schemas.validation import nearest_hint, unknown_key

_USUAL = "pipeline"


def load_pipeline(named: str) -> Pipeline:
    """Return the pipeline of a name.

    Args:
        named: `shop.py`, `shop.py:pipeline`, `module:pipeline`, `shop.toml`, or that of a plugin.

    Raises:
        UsageError: there is none, or several.
        ConfigurationError: the file cannot be read.
    """
    if named in plugins("pipelines"):
        return _checked(load_plugin("pipelines", named), named)
    place, _, name = named.partition(":")
    path = Path(place)
    if path.suffix == ".toml":
        values = read_toml(path, f"pipeline {path}")
        return pipeline_of(values, path.absolute().parent, str(path))
    if path.suffix == ".py":
        if not path.is_file():
            raise UsageError(f"there is no file {path}")
        return _in_module(_imported(path), name, named)
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(place)
    except ModuleNotFoundError as error:
        raise UsageError(f"no module is called {error.name!r}; expected module:pipeline") from error
    return _in_module(module, name, named)


def _imported(path: Path) -> Any:
    try:
        return module_in(str(path.resolve()))
    except UsageError as error:
        raise ConfigurationError(f"{path}{_place_of(error, path)}: {error}") from error
    except LoupeError:
        raise
    except Exception as error:
        place = _place_of(error, path)
        raise ConfigurationError(
            f"{path} cannot be imported: {type(error).__name__}: {error}{place}"
        ) from error


def _place_of(error: Exception, path: Path) -> str:
    """Return the last line of the file that an error came through."""
    found, trace = "", error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path.resolve()):
            found = f" (line {trace.tb_lineno})"
        trace = trace.tb_next
    return found


def _in_module(module: Any, name: str, named: str) -> Pipeline:
    found = {key: one for key, one in vars(module).items() if isinstance(one, Pipeline)}
    if name:
        if name not in found:
            hint = nearest_hint(name, found)
            raise UsageError(f"{named}: no pipeline is called {name!r}; {hint}")
        return found[name]
    if _USUAL in found:
        return found[_USUAL]
    if not found:
        raise UsageError(f"{named} holds no loupe.Pipeline; assign one to the name 'pipeline'")
    first, *others = found
    if others:
        raise UsageError(f"{named} holds several pipelines: name one, such as {named}:{first}")
    return found[first]


def _checked(found: Any, named: str) -> Pipeline:
    made = found() if callable(found) and not isinstance(found, Pipeline) else found
    if isinstance(made, PipelineSpec):
        raise UsageError(
            f"{named} is described by a build file (docs/build-files.md): "
            f"loupe run {named} --config FILE"
        )
    if not isinstance(made, Pipeline):
        package = plugins("pipelines")[named].package
        raise ConfigurationError(
            f"the pipeline {named!r} of {package} must be a loupe.Pipeline, or return one; "
            f"got {made!r:.80}"
        )
    return made


# Pipelines in TOML.


def pipeline_of(values: Mapping[str, Any], folder: Path, what: str) -> Pipeline:
    """Return the pipeline that the tables of a TOML file state.

    Raises:
        ConfigurationError: a key or a step is unknown, or has wrong values.
    """
    known = {"dataset", "version", "seed", "max_unusable_share", "tags", "sources", "steps"}
    if unknown := sorted(values.keys() - known):
        raise ConfigurationError(
            f"{what}: unknown key {unknown[0]!r}; known keys are {', '.join(sorted(known))}"
        )
    if missing := [key for key in ("dataset", "version", "sources", "steps") if key not in values]:
        raise ConfigurationError(f"{what}: {missing[0]} is missing")
    return Pipeline(
        values["dataset"],
        version=values["version"],
        seed=values.get("seed", 0),
        max_unusable_share=values.get("max_unusable_share", 0.5),
        tags=values.get("tags", ()),
        sources=values["sources"],
        steps=[_stated_step(one, number, what) for number, one in enumerate(values["steps"], 1)],
        folder=folder,
    )


_PARTS: Mapping[str, Callable[..., Part]] = {"gate": gate, "release": release}
_KINDS = {"caption": Caption, "contrast": Contrast, "image": Image, "rewrite": Rewrite}
_LISTED = Parameter.VAR_POSITIONAL


def _stated_step(stated: Mapping[str, Any], number: int, what: str) -> Part:
    place = f"{what}: step {number}"
    if "use" not in stated:
        raise ConfigurationError(f'{place} does not say what it uses: use = "describe"')
    name, values = stated["use"], {key: one for key, one in stated.items() if key != "use"}
    try:
        return _made_of(name, values)
    except UsageError as error:
        raise ConfigurationError(f"{place} ({name}): {error}") from error


def _made_of(name: str, values: dict[str, Any]) -> Part:
    """Return the part that a table of a TOML file states.

    Raises:
        UsageError: a key or a value cannot be used.
    """
    if values.get("of") in _KINDS:
        values["of"] = _KINDS[values["of"]]
    make = _PARTS.get(name) or step_called(name)
    if isinstance(make, Step):
        return make.using(**values) if values else make
    if isinstance(make, Part):
        return make
    listed = [one.name for one in signature(make).parameters.values() if one.kind is _LISTED]
    items = values.pop(listed[0], ()) if listed else ()  # such as the checks of `check`
    _require_keys(make, values)
    try:
        return make(*items, **values)
    except (TypeError, AttributeError, ValueError) as error:
        shown = ", ".join(f"{key} = {value!r}" for key, value in values.items())
        raise UsageError(f"a value is of a wrong type ({error}); got {shown}") from error


def _require_keys(make: Callable[..., Part], values: Mapping[str, Any]) -> None:
    """Refuse keys that a step does not take, and missing ones, with the nearest name.

    Raises:
        UsageError: there are some.
    """
    parameters = signature(make).parameters.values()
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return
    known = [one.name for one in parameters if one.kind is not _LISTED]
    if unknown := sorted(values.keys() - set(known)):
        raise UsageError(unknown_key(unknown[0], known))
    for one in parameters:
        if one.name in known and one.default is one.empty and one.name not in values:
            raise UsageError(f"{one.name} is missing")
