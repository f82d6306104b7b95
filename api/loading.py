"""Finds pipelines: in a Python file, a module, a TOML file, or a plugin."""

import importlib
import sys
from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from pathlib import Path
from types import ModuleType
from typing import Any

from loupe.api.pairs import SimilarPair
from loupe.api.parts import Part
from loupe.api.pipeline import Pipeline, gate, release, source
from loupe.api.references import faults_of, module_in
from loupe.api.step import Step
from loupe.api.steps import step_called
from loupe.api.values import Caption, Image
from loupe.flows.engine.pipeline import PipelineSpec
from loupe.schemas.errors import ConfigurationError, LoupeError, UsageError
from loupe.schemas.plugins import load_plugin, plugins
from loupe.schemas.proposals import Candidate, Strategy, Tracklet
from loupe.schemas.records import Rewrite
from loupe.schemas.text_files import read_toml
from loupe.schemas.validation import nearest_hint, unknown_key
from loupe.sources.remote import quiet

_USUAL = "pipeline"


def load_pipeline(named: str, say: Callable[[str], None] = quiet) -> Pipeline:
    """Return the pipeline of a name.

    Args:
        named: `shop.py`, `shop.py:pipeline`, `module:pipeline`, `shop.toml`, or that of a plugin.
        say: is called with a sentence on each other name of a file that cannot be used.

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
        module = _imported(path)
        faults = {
            key: ConfigurationError(f"{path}{_place_of(error, path)}: {error}")
            for key, error in faults_of(module).items()
        }
        return _in_module(module, name, named, faults, say)
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(place)
    except ModuleNotFoundError as error:
        raise UsageError(f"no module is called {error.name!r}; expected module:pipeline") from error
    except LoupeError:
        raise
    except (Exception, SystemExit) as error:
        said = f"{type(error).__name__}: {error}"
        raise ConfigurationError(f"the module {place} cannot be imported: {said}") from error
    return _in_module(module, name, named, {}, say)


def _imported(path: Path) -> ModuleType:
    try:
        return module_in(str(path.resolve()))
    except UsageError as error:
        raise ConfigurationError(f"{path}{_place_of(error, path)}: {error}") from error
    except LoupeError:
        raise
    except (Exception, SystemExit) as error:
        place = _place_of(error, path)
        raise ConfigurationError(
            f"{path} cannot be imported: {type(error).__name__}: {error}{place}"
        ) from error


def _place_of(error: BaseException, path: Path) -> str:
    """Return the last line of the file that an error came through."""
    found, trace = "", error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path.resolve()):
            found = f" (line {trace.tb_lineno})"
        trace = trace.tb_next
    return found


def _in_module(
    module: ModuleType,
    name: str,
    named: str,
    faults: Mapping[str, LoupeError],
    say: Callable[[str], None],
) -> Pipeline:
    """Return a pipeline of a module, and say what else of it cannot be used.

    Raises:
        UsageError: there is none, there are several and none is named, or it cannot be used.
    """
    found = {key: one for key, one in vars(module).items() if isinstance(one, Pipeline)}
    wanted = name or _USUAL
    if wanted in faults or (faults and not name and wanted not in found):
        raise faults.get(wanted) or next(iter(faults.values()))
    if wanted in found:
        for sentence in dict.fromkeys(map(str, faults.values())):
            say(f"warning: {sentence}; the rest of the file is used")
        return found[wanted]
    if name:
        hint = nearest_hint(name, found)
        raise UsageError(f"{named}: no pipeline is called {name!r}; {hint}")
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

_NEEDED = ("dataset", "version", "sources", "steps")


def pipeline_of(values: Mapping[str, Any], folder: Path, what: str) -> Pipeline:
    """Return the pipeline that the tables of a TOML file state.

    Raises:
        ConfigurationError: a key or a step is unknown, or has wrong values.
    """
    known = [*_NEEDED, "faces", "max_unusable_share", "seed", "tags"]
    if unknown := sorted(values.keys() - set(known)):
        raise ConfigurationError(f"{what}: {unknown_key(unknown[0], known)}")
    if missing := [key for key in _NEEDED if key not in values]:
        raise ConfigurationError(f"{what}: {missing[0]} is missing")
    for key in ("sources", "steps"):
        if not isinstance(values[key], list):
            said = f"{key} must be a list of tables: write [[{key}]] above each"
            raise ConfigurationError(f"{what}: {said}")
    made = Pipeline(
        values["dataset"],
        version=values["version"],
        seed=values.get("seed", 0),
        max_unusable_share=values.get("max_unusable_share", 0.5),
        faces=values.get("faces", "keep"),
        tags=values.get("tags", ()),
        sources=[
            _stated_source(one, number, what) for number, one in enumerate(values["sources"], 1)
        ],
        steps=[_stated_step(one, number, what) for number, one in enumerate(values["steps"], 1)],
        folder=folder,
    )
    made.where = what
    return made


def _stated_source(stated: Any, number: int, what: str) -> Any:
    try:
        return source(**stated) if isinstance(stated, dict) else stated
    except UsageError as error:
        raise ConfigurationError(f"{what}: [[sources]] {number}: {error}") from error


_PARTS: Mapping[str, Callable[..., Part]] = {"gate": gate, "release": release}
_KINDS = {
    "candidate": Candidate,
    "caption": Caption,
    "image": Image,
    "pair": SimilarPair,
    "rewrite": Rewrite,
    "strategy": Strategy,
    "tracklet": Tracklet,
}
_LISTED = Parameter.VAR_POSITIONAL


def _stated_step(stated: Any, number: int, what: str) -> Part:
    place = f"{what}: step {number}"
    if not isinstance(stated, Mapping) or not isinstance(stated.get("use"), str):
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
    if isinstance(kind := values.get("of"), str):
        if kind not in _KINDS:
            raise UsageError(f"of = {kind!r}: there is no such kind; {nearest_hint(kind, _KINDS)}")
        values["of"] = _KINDS[kind]
    make = _PARTS.get(name) or step_called(name, _PARTS)
    if isinstance(make, Step):
        return make.using(**values) if values else make
    if isinstance(make, Part):
        return make
    listed = [one.name for one in signature(make).parameters.values() if one.kind is _LISTED]
    items = values.pop(listed[0], ()) if listed else ()  # such as the checks of `check`
    return make(*items, **values)
