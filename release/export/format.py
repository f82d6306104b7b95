"""What a format of exports is."""

from typing import Protocol

from release.export.source import ReleaseSource
from release.export.target import ExportTarget


class ExportFormat(Protocol):
    """Writes a release in the layout that others load; a value without state."""

    @property
    def name(self) -> str:
        """What the user calls it by."""

    @property
    def options(self) -> dict[str, int]:
        """What was chosen and changes the bytes."""

    def write(self, source: ReleaseSource, target: ExportTarget) -> None:
        """Writes all rows into `target.folder`, holding a few in memory, and lists every file.

        The same release gives the same bytes.

        Raises:
            IntegrityError: the release turns out not to be as it was released.
        """
