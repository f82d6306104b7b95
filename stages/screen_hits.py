"""Turns down what a search found but nobody may use: nothing of it is downloaded (CCD, step 2)."""

from collections.abc import Sequence
from typing import Final

from schemas.image_search import SearchHit
from schemas.licences import permits_use
from schemas.records import Rejection

STAGE: Final = "search"
VERSION: Final = "1"

WEB: Final = ("http://", "https://")
"""How addresses begin that services on the web may name."""
FOLDER: Final = ("folder:",)
"""How those begin that the search of a folder names."""


def screen_hits(
    query: str, hits: Sequence[SearchHit], schemes: tuple[str, ...] = WEB
) -> list[SearchHit | Rejection]:
    """One for each hit, in order: itself, or why it is turned down.

    `licence_not_permitted`: its licence is unknown, or lets no derived work be released.
    `page_missing`: there is no page to name with it. `not_an_address`: the image has no address
    that begins with one of `schemes`, so that no service leads to a file of ours.
    """
    return [_screened(query, hit, schemes) for hit in hits]


def _screened(query: str, hit: SearchHit, schemes: tuple[str, ...]) -> SearchHit | Rejection:
    if not permits_use(hit.licence):
        licence = hit.licence or "unknown"
        detail = f"the licence is {licence}, wanted one that lets a derived work be released"
        return _rejection("licence_not_permitted", detail, query, hit)
    if not hit.page_url:
        detail = "the service names no page that shows the image, wanted one to name with it"
        return _rejection("page_missing", detail, query, hit)
    if not hit.image_url.casefold().startswith(schemes):
        wanted = " or ".join(schemes)
        detail = f"the image is at {hit.image_url[:80]!r}, wanted an address with {wanted}"
        return _rejection("not_an_address", detail, query, hit)
    return hit


def _rejection(reason: str, detail: str, query: str, hit: SearchHit) -> Rejection:
    return Rejection(
        stage=STAGE,
        reason=reason,
        detail=f"hit {hit.rank} for {query!r}: {detail}",
        context={"query": query, "hit": hit.model_dump(mode="json")},
    )
