"""What was withdrawn is not taken in again, wherever it comes from next."""

from collections.abc import Iterable

from db.store import Store
from db.tombstones import count_refused, refused_files
from schemas.records import Rejection

WITHDRAWN = "withdrawn"
"""The reason of such a rejection."""


class Tombstones:
    """The files that are not taken in again, as of the last look. Safe in threads.

    Look once a chunk: that costs a query, and asking of a file none.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: tuple[int, dict[str, str]] = (0, {})

    def look(self) -> None:
        """Learns what was withdrawn meanwhile."""
        if (count := count_refused(self._store)) != self._known[0]:
            self._known = (count, refused_files(self._store))

    def refusal(self, stage: str, file_path: str, digests: Iterable[str]) -> Rejection | None:
        """Why a file is not taken in, where one of its digests is that of a withdrawn file."""
        _, keys = self._known
        key = next((keys[one] for one in digests if one in keys), None)
        if key is None:
            return None
        return Rejection(
            stage=stage,
            reason=WITHDRAWN,
            detail=f"{file_path!r} was withdrawn before, by withdrawal {key[:12]}; "
            f"its bytes are not stored again",
            context={"file_path": file_path, "withdrawal": key},
        )
