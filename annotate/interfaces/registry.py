"""The registry of labelling interfaces."""

from annotate.interfaces.image_pages import (
    DuplicateCheck,
    ImageFilter,
    ImageSelection,
    TrackletSelection,
)
from annotate.interfaces.page import Interface
from annotate.interfaces.strategy_pages import GroupRefinement, StrategyCheck
from annotate.interfaces.text_pages import (
    CaptionVerification,
    ConfusingCaption,
    DescriptionWriting,
    RewriteRevision,
    SixWayChoice,
)
from annotate.queues import Queue

INTERFACES: dict[str, Interface] = {
    interface.name: interface
    for interface in (
        DescriptionWriting(),
        RewriteRevision(),
        ImageSelection(),
        CaptionVerification(),
        ConfusingCaption(),
        DuplicateCheck(),
        SixWayChoice(),
        TrackletSelection(),
        StrategyCheck(),
        ImageFilter(),
        GroupRefinement(),
    )
}


def interface_of(queue: Queue) -> Interface:
    """Return the labelling interface of a queue."""
    return INTERFACES[queue.interface]
