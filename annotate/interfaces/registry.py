"""The registry of labelling interfaces."""

from annotate.interfaces.confusing_caption import ConfusingCaption
from annotate.interfaces.description_writing import DescriptionWriting
from annotate.interfaces.group_refinement import GroupRefinement
from annotate.interfaces.image_pages import DuplicateCheck, ImageFilter, ImageSelection
from annotate.interfaces.page import Interface
from annotate.interfaces.six_way_choice import SixWayChoice
from annotate.interfaces.strategy_check import StrategyCheck
from annotate.interfaces.text_pages import CaptionVerification, RewriteRevision
from annotate.interfaces.tracklet_selection import TrackletSelection
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
