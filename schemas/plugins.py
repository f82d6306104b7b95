"""Plugins: what installed packages add to Loupe, found by their entry points.

A package declares them in its `pyproject.toml`; an entry point is imported when it is first used:

    [project.entry-points."loupe.formats"]
    shop-feed = "my_package.feed:ShopFeed"
"""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal, NamedTuple, get_args

from loupe.schemas.base import Record
from loupe.schemas.errors import ConfigurationError, UsageError
from loupe.schemas.validation import nearest_hint

PluginKind = Literal[
    "formats",
    "steps",
    "models",
    "checks",
    "strata",
    "pages",
    "exports",
    "pipelines",
    "profiles",
    "demonstrations",
]
PLUGIN_KINDS: tuple[PluginKind, ...] = get_args(PluginKind)
_OWN_PACKAGE = "loupe-datasets"

NOT_STATED = "not stated"
"""The stratum of an image whose captions do not state a dimension, in all of `loupe.strata`."""


class Plugin(Record):
    """One entry point: what it adds, under which name, and the package that declares it."""

    kind: PluginKind
    name: str
    target: str
    package: str
    package_version: str

    @property
    def named(self) -> str:
        """The package and its version."""
        return f"{self.package} {self.package_version}"

    @property
    def is_own(self) -> bool:
        """Tell whether Loupe itself declares it."""
        return self.package == _OWN_PACKAGE

    def load(self) -> Any:
        """Import what the entry point names.

        Raises:
            ConfigurationError: it cannot be imported, or its module lacks the name.
        """
        try:
            return EntryPoint(self.name, self.target, f"loupe.{self.kind}").load()
        except Exception as error:  # the code of other people
            raise ConfigurationError(
                f"the plugin {self.name!r} (loupe.{self.kind}) of {self.package} "
                f"{self.package_version} cannot be loaded from {self.target}: "
                f"{type(error).__name__}: {error}; update or uninstall {self.package}"
            ) from error


@cache
def plugins(kind: PluginKind) -> Mapping[str, Plugin]:
    """Return the plugins of one kind by name; the first package that declares a name keeps it."""
    found: dict[str, Plugin] = {}
    for point in entry_points(group=f"loupe.{kind}"):
        if point.dist is None:
            continue
        found.setdefault(
            point.name,
            Plugin(
                kind=kind,
                name=point.name,
                target=point.value,
                package=point.dist.name,
                package_version=point.dist.version,
            ),
        )
    return found


def foreign_plugins(kind: PluginKind, names: Iterable[str]) -> list[Plugin]:
    """Return the plugins of a kind by these names that packages other than Loupe add."""
    known = plugins(kind)
    found = [known[name] for name in names if name in known]
    return [one for one in found if not one.is_own]


class PluginState(NamedTuple):
    """A plugin, and why it cannot be used; empty if it can."""

    plugin: Plugin
    fault: str = ""


def survey_plugins() -> list[PluginState]:
    """Return the plugins of all kinds; each is imported, and broken ones say why."""
    found = []
    for kind in PLUGIN_KINDS:
        for _, plugin in sorted(plugins(kind).items()):
            try:
                plugin.load()
            except ConfigurationError as error:
                found.append(PluginState(plugin, str(error)))
            else:
                found.append(PluginState(plugin))
    return found


def load_plugin(kind: PluginKind, name: str) -> Any:
    """Import the plugin of a kind that has this name.

    Raises:
        ConfigurationError: it cannot be imported.
        UsageError: there is none of this name.
    """
    plugin = plugins(kind).get(name)
    if plugin is None:
        hint = nearest_hint(name, plugins(kind))
        raise UsageError(f"no installed package adds {name!r} to loupe.{kind}; {hint}")
    return plugin.load()
