"""Which columns the rows of a release have, and which of them the published JSON has."""

from collections.abc import Container, Mapping
from itertools import product
from typing import Any, NamedTuple

_PUBLISHED = ("id", "source", "split", "file_path", "captions")
_PUBLISHED_TASK = ("id", "source", "task", "tier", "split", "file_path", "captions")
_PUBLISHED_CROP = ("split", "id", "file_path", "captions")
_PUBLISHED_CONTRAST = ("coarse_captions", "translations", "contrast")
_PUBLISHED_TERMS = ("licence", "creator", "source_url")
_OF_CONTRAST = ("anchor", "difference", "detail", "plan", "way")


class RowForm(NamedTuple):
    """What rows have beside what all have.

    Attributes:
        tasks: task and tier, for benchmarks of tasks.
        contrasts: coarse captions, translations, and what differs from which anchor.
        terms: licence, creator and source page, where images have terms of their own.
    """

    tasks: bool = False
    contrasts: bool = False
    terms: bool = False

    @classmethod
    def of(cls, columns: Container[str]) -> "RowForm":
        """The form of rows with these columns."""
        return cls("task" in columns, "contrast" in columns, "licence" in columns)


PLAIN = RowForm()
"""Rows with nothing more than all have."""

FORMS = tuple(RowForm(*flags) for flags in product((False, True), repeat=3))
"""All forms that there are."""


def translated(row: Mapping[str, Any]) -> dict[str, list[str | None]]:
    """The captions of a row in each other language, in their places; None where one is missing."""
    texts: dict[str, list[str | None]] = {}
    for one in row["translations"]:
        places = texts.setdefault(one["language"], [None] * len(row["captions"]))
        places[one["caption"]] = one["text"]
    return texts


def published_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row, given by its columns, in the published JSON format.

    UFine6926's for what was cut from a video, else UFine3C's, which tells the source too; task and
    tier, contrasts and terms beside it where the rows have any.
    """
    form = RowForm.of(row)
    fields = [*(_PUBLISHED_CROP if row["crop"] else _PUBLISHED_TASK if form.tasks else _PUBLISHED)]
    fields += _PUBLISHED_CONTRAST if form.contrasts else ()
    fields += _PUBLISHED_TERMS if form.terms else ()
    details = {field: row[field] for field in fields}
    if form.contrasts:
        contrast = row["contrast"]
        details["translations"] = translated(row)
        details["contrast"] = contrast and {field: contrast[field] for field in _OF_CONTRAST}
    return details
