"""The data of a row for the page: in full for its own page, in short for its gallery tile."""

import re
from collections.abc import Mapping
from typing import Any

SNIPPET_CHARACTERS = 140
_NUMBER = re.compile(r"([0-9]+)\.[A-Za-z0-9]+\Z")
_SAFE_URL = re.compile(r"https?://[^\s]+\Z", re.IGNORECASE)
_CROP = ("video", "frame", "time_seconds", "box_xyxy", "score")
_CONTRAST = ("difference", "detail", "plan", "way")
_PLAIN = (
    *("id", "source", "identity", "split", "file_path", "source_file_path", "width_px"),
    *("height_px", "sha256", "image_entity_id", "task", "tier", "licence", "creator"),
)


def number_in(file_path: str) -> int | None:
    """The number of the row that an image is named by: 13 of `images/12_13.jpg`."""
    found = _NUMBER.search(file_path)
    return int(found[1]) if found else None


def row_detail(row: Mapping[str, Any], shown: bool) -> dict[str, Any]:
    """All that a row's own page tells; what the row has not is left out.

    Captions are lists of text, author, origin, reviewed and entity id; coarse ones of text and
    entity id; translations of language, caption's place, text, author and entity id. `shown` is
    whether there is a picture of it in the report.
    """
    details: dict[str, Any] = {name: row[name] for name in _PLAIN if row.get(name) is not None}
    details["captions"] = [list(one) for one in captions_of(row)]
    if row.get("coarse_captions"):
        ids = row["coarse_caption_entity_ids"]
        details["coarse"] = [list(one) for one in zip(row["coarse_captions"], ids, strict=True)]
    if row.get("translations"):
        details["translations"] = [
            [one[name] for name in ("language", "caption", "text", "author", "entity_id")]
            for one in row["translations"]
        ]
    if contrast := row.get("contrast"):
        details["contrast"] = {name: contrast[name] for name in _CONTRAST if contrast[name]}
    if crop := row.get("crop"):
        details["crop"] = {name: crop[name] for name in _CROP}
    if (url := row.get("source_url")) is not None:
        details["url" if _SAFE_URL.fullmatch(url) else "place"] = url
    if not shown:
        details["hidden"] = 1
    if row.get("withdrawn"):
        details["withdrawn"] = 1
    return details


def captions_of(row: Mapping[str, Any]) -> list[tuple[str, str, str, int, str]]:
    """Text, author, origin, whether a person decided on it (0 or 1), and entity id of each."""
    names = ("captions", "caption_authors", "caption_origins", "caption_reviewed")
    columns = (*(row[name] for name in names), row["caption_entity_ids"])
    return [
        (text, author, origin, int(reviewed), entity_id)
        for text, author, origin, reviewed, entity_id in zip(*columns, strict=True)
    ]


def row_tile(row: Mapping[str, Any], shown: bool) -> list[Any]:
    """The beginning of the first text of a row, and 1 where there is no picture of it."""
    if row.get("withdrawn"):
        return ["withdrawn", 1]
    contrast = row.get("contrast")
    text = row["captions"][0] if row["captions"] else (contrast["plan"] if contrast else "")
    short = text if len(text) <= SNIPPET_CHARACTERS else f"{text[: SNIPPET_CHARACTERS - 1]}…"
    return [short] if shown else [short, 1]


def texts_of(row: Mapping[str, Any]) -> list[str]:
    """All texts that a search looks into: captions, coarse ones, translations, the difference."""
    contrast = row.get("contrast")
    return [
        *row["captions"],
        *(row.get("coarse_captions") or ()),
        *(one["text"] for one in row.get("translations") or ()),
        *((contrast["detail"], contrast["plan"]) if contrast else ()),
    ]
