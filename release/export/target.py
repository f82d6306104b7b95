"""The folder that an export is written into, and the list of what was written."""

from collections.abc import Iterator
from pathlib import Path
from typing import Self

from release.folder import Workspace
from release.manifest import file_entry
from schemas.release import ReleasedFile


class ExportTarget:
    """Takes files; their names, sizes and digests are kept on disk. To be used in a `with`."""

    def __init__(self, workspace: Workspace) -> None:
        self.folder = workspace.content
        self._scratch = workspace.home
        self._list = (workspace.home / "files").open("w+b")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._list.close()

    def scratch_file(self, name: str) -> Path:
        """Where something may be kept that is no part of the export."""
        return self._scratch / name

    def add(self, file: ReleasedFile) -> None:
        """Lists a file that is written; files are listed in the order of these calls."""
        self._list.write(file_entry(file) + b"\n")

    def listed(self) -> Iterator[bytes]:
        """The files that were added, each as canonical JSON."""
        self._list.seek(0)
        for line in self._list:
            yield line.rstrip(b"\n")
