"""Worlds of drawn stills that many tests look at and none changes."""

from pathlib import Path

from sources.demonstration.stills import StillsWorld, write_stills_world

_SEED = 11


class DrawnStills:
    """`drawn_stills(24)`: a world of so many stills, drawn when it is first asked for.

    The first stills are the same in each.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._worlds: dict[int, StillsWorld] = {}

    def __call__(self, count: int) -> StillsWorld:
        """The world; nobody may change its files."""
        if count not in self._worlds:
            world = write_stills_world(self._folder / str(count), seed=_SEED, count=count)
            self._worlds[count] = world
        return self._worlds[count]
