"""Which labelling interfaces there are."""

from annotate.interfaces.interface import Interface
from annotate.interfaces.rewrite_revision import RewriteRevision
from annotate.queues import Queue

INTERFACES: dict[str, Interface] = {interface.name: interface for interface in (RewriteRevision(),)}


def interface_of(queue: Queue) -> Interface:
    """The page on which the entities of a queue are shown."""
    return INTERFACES[queue.interface]
