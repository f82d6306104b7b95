"""The registry of labelling interfaces."""

from loupe.annotate.interfaces.image_pages import (
    DuplicateCheck,
    ImageCheck,
    ImageFilter,
    ImageSelection,
    TrackletSelection,
)
from loupe.annotate.interfaces.page import Interface
from loupe.annotate.interfaces.strategy_pages import GroupRefinement, StrategyCheck
from loupe.annotate.interfaces.text_pages import (
    CaptionVerification,
    ConfusingCaption,
    DescriptionWriting,
    RewriteRevision,
    SixWayChoice,
)
from loupe.annotate.queues import Queue

INTERFACES: dict[str, Interface] = {
    interface.name: interface
    for interface in (
        DescriptionWriting(),
        RewriteRevision(),
        ImageCheck(),
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
