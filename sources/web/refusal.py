"""Why an address of the web gives no image."""

from typing import Any

from schemas.records import Rejection
from sources.records import storable

STAGE = "download_image"


class DownloadRefusedError(Exception):
    """An address breaks a rule or does not answer; becomes the `Rejection` of that address.

    Args:
        reason: a stable snake_case word for counting.
        what: the rest of the sentence that begins with the address.
        retry: whether the fault is the world's, and may be gone in a moment.
        retry_after_seconds: how long the host asks to be left alone.
        facts: what is needed to fix or repeat it.
    """

    def __init__(
        self,
        reason: str,
        what: str,
        *,
        retry: bool = False,
        retry_after_seconds: float = 0,
        **facts: Any,
    ) -> None:
        super().__init__(what)
        self.reason = reason
        self.what = what
        self.retry = retry
        self.retry_after_seconds = retry_after_seconds
        self.facts = facts
        if retry_after_seconds:
            self.facts["retry_after_seconds"] = round(retry_after_seconds, 1)

    def as_rejection(self, url: str) -> Rejection:
        """The same as a record; `url` is the address as it may be shown (`urls.shown`)."""
        return Rejection(
            stage=STAGE,
            reason=self.reason,
            detail=storable(f"{url} {self.what}"),
            context={"url": url, **self.facts},
        )
