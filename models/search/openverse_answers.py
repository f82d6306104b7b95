"""What Openverse says: its answers, and when it may be asked again."""

import re
from typing import Any, Final

import httpx
from pydantic import BaseModel, Field, ValidationError

from schemas.image_search import SearchHit
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


class _Result(BaseModel):
    url: str = Field(min_length=1)
    foreign_landing_url: str | None = None
    title: str | None = None
    creator: str | None = None
    license: str | None = None
    license_version: str | None = None
    license_url: str | None = None
    filetype: str | None = None
    width: int | None = None
    height: int | None = None


class _Page(BaseModel):
    results: list[Any]


def read_hits(body: bytes, first: int, count: int) -> tuple[SearchHit, ...]:
    """The hits of an answer, of which the first has rank `first`; without an address it is none.

    Raises:
        ValueError: the body is no answer to a search.
    """
    try:
        page = _Page.model_validate_json(body)
    except ValidationError as fault:
        raise ValueError(fault.errors()[0]["msg"]) from fault
    hits = []
    for rank, result in enumerate(page.results[:count], start=first):
        try:
            read = _Result.model_validate(result)
        except ValidationError:
            continue
        hits.append(_hit(rank, read))
    return tuple(hits)


def _hit(rank: int, read: _Result) -> SearchHit:
    stated = f"{read.license} {read.license_version or ''}".strip() if read.license else None
    return SearchHit(
        rank=rank,
        image_url=read.url,
        page_url=read.foreign_landing_url or None,
        title=read.title or "",
        licence=licence_name(stated, read.license_url),
        licence_url=read.license_url or None,
        creator=read.creator or None,
        width_px=read.width if read.width and read.width > 0 else None,
        height_px=read.height if read.height and read.height > 0 else None,
        media_type=_MEDIA_TYPES.get((read.filetype or "").casefold()),
    )


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
