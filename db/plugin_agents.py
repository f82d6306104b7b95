"""Packages as agents of what their plugins did."""

from loupe.db.entities import AgentRef
from loupe.schemas.plugins import PluginKind, foreign_plugins


def plugin_agents(kind: PluginKind, *names: str) -> tuple[AgentRef, ...]:
    """Return the packages that add plugins by these names, but Loupe itself, as agents."""
    found = foreign_plugins(kind, names)
    agents = [AgentRef("software", one.package, one.package_version) for one in found]
    return tuple(dict.fromkeys(agents))
