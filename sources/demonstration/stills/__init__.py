"""A world of drawn stills of which everything is known, in the format of COCO captions.

Each still is about one task of a retrieval benchmark: colours, numbers, where things are, people,
kinds of things, what somebody does, a place, or a sign. Stills come in families that differ in a
detail or two, since only near neighbours can be confused.
"""

from sources.demonstration.stills.writing import (
    StillsWorld,
    StillTruth,
    TrueThing,
    load_stills_truth,
    write_stills_world,
)

__all__ = ["StillTruth", "StillsWorld", "TrueThing", "load_stills_truth", "write_stills_world"]
