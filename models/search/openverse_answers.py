"""What Openverse says: its answers, and when it may be asked again."""

import re
from typing import Any, Final

import httpx

from models.search.reading import (
    Results,
    json_of,
    number_text_of,
    size_of,
    text_of,
    unreadable_result,
)
from schemas.image_search import SearchHit, UnreadableResult
from schemas.licences import licence_name

_MEDIA_TYPES: Final = {
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "png": "image/png",
    "webp": "image/webp",
    "gif": "image/gif",
    "svg": "image/svg+xml",
    "tif": "image/tiff",
    "tiff": "image/tiff",
}
_AVAILABLE_IN: Final = re.compile(r"available in (\d+) second")


READER: Final = "2"
"""The version of `read_results`: answers that another one read are read again."""


def read_results(text: str, first: int, count: int) -> Results:
    """The results of an answer, of which the first has rank `first`; without an address it is none.

    Raises:
        ValueError: the text is no answer to a search.
    """
    page = json_of(text)
    results = page.get("results") if isinstance(page, dict) else None
    if not isinstance(results, list):
        raise ValueError("it has no list of results")  # noqa: TRY004
    hits: list[SearchHit] = []
    unreadable: list[UnreadableResult] = []
    for rank, result in enumerate(results[:count], start=first):
        if isinstance(result, dict) and (url := text_of(result.get("url"))):
            hits.append(_hit(rank, url, result))
        else:
            unreadable.append(unreadable_result(rank, result))
    return Results(tuple(hits), tuple(unreadable))


def _hit(rank: int, url: str, result: dict[str, Any]) -> SearchHit:
    return SearchHit(
        rank=rank,
        image_url=url,
        page_url=text_of(result.get("foreign_landing_url")),
        title=text_of(result.get("title")) or "",
        licence=_licence(result),
        licence_url=text_of(result.get("license_url")),
        creator=text_of(result.get("creator")),
        width_px=size_of(result.get("width")),
        height_px=size_of(result.get("height")),
        media_type=_MEDIA_TYPES.get((text_of(result.get("filetype")) or "").casefold()),
    )


def _licence(result: dict[str, Any]) -> str | None:
    """Its name; unknown where something is stated of it that cannot be read: a condition, maybe."""
    stated, version = text_of(result.get("license")), number_text_of(result.get("license_version"))
    address = text_of(result.get("license_url"))
    read = {"license": stated, "license_version": version, "license_url": address}
    if any(value is None and result.get(name) not in (None, "") for name, value in read.items()):
        return None
    return licence_name(f"{stated} {version or ''}".strip() if stated else None, address)


def wait_of(response: httpx.Response) -> float | None:
    """For how many seconds a server that refuses wants to be left alone, where it says so."""
    after = response.headers.get("retry-after", "")
    if after.isascii() and after.isdigit():
        return float(after)
    found = _AVAILABLE_IN.search(response.text)
    return float(found[1]) if found else None


def is_day_over(response: httpx.Response) -> bool:
    """Whether one of the limits that count a day is used up."""
    left = [
        value
        for name, value in response.headers.items()
        if name.casefold().startswith("x-ratelimit-available-") and "sustained" in name.casefold()
    ]
    return any(value.strip().lstrip("-").isdigit() and int(value) <= 0 for value in left)
