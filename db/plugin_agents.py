"""Packages as agents of what their plugins did."""

from collections.abc import Sequence

from loupe.db.entities import AgentRef
from loupe.schemas.plugins import PluginKind, foreign_plugins


def plugin_agents(kind: PluginKind, *names: str) -> tuple[AgentRef, ...]:
    """Return the packages that add plugins by these names, but Loupe itself, as agents."""
    found = foreign_plugins(kind, names)
    agents = [AgentRef("software", one.package, one.package_version) for one in found]
    return tuple(dict.fromkeys(agents))


def with_packages(agents: Sequence[AgentRef]) -> tuple[AgentRef, ...]:
    """Return agents, and the packages that add the models and services among them."""
    packages = plugin_agents("models", *(one.name for one in agents))
    return tuple(dict.fromkeys((*agents, *packages)))
