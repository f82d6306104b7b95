"""Read-only drawn stills that tests share."""

from pathlib import Path

from loupe.demo.worlds.stills import StillsWorld, write_stills_world

_SEED = 11


class DrawnStills:
    """Draw worlds of stills at their first use; `drawn_stills(24)` is a world of 24 stills.

    A smaller world holds the first stills of a larger one.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._worlds: dict[int, StillsWorld] = {}

    def __call__(self, count: int) -> StillsWorld:
        """Return the world with this number of stills; its files are read-only."""
        if count not in self._worlds:
            world = write_stills_world(self._folder / str(count), seed=_SEED, count=count)
            self._worlds[count] = world
        return self._worlds[count]
