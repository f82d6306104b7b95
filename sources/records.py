"""What comes out of an annotation file: rows that can be used, and records that cannot."""

import json
from typing import Any, Literal

from pydantic import Field

from schemas.base import Record
from schemas.records import Attribution, Rejection, Split
from schemas.taxonomy import DifferenceType

_RAW_CHARACTERS = 2000
_SHOWN_CHARACTERS = 80


class SourceContrast(Record):
    """How an image differs from its anchor, which is given as a row without captions."""

    anchor: "SourceRow"
    difference: DifferenceType
    detail: str
    plan: str
    way: Literal["search", "edit"] | None


class SourceRow(Record):
    """One image with its captions, whatever format it was written in.

    `index` counts the file's records from 0 (in line formats: lines that are not blank). `captions`
    are those that could be used and `positions[i]` is where `captions[i]` stood in the record, so
    that a quarantined caption leaves a gap and not a shift; formats of bare images have none.
    `file_path` has forward slashes; that it stays inside the image root is checked when the image
    is opened. `other_paths` are tried where there is no such file. `facts` and `categories` are
    those of `schemas.records.ImageFacts`.

    Contrastive benchmarks have more: `coarse_captions`, translations by language (each in the place
    of its caption, None where there is none), and what an image differs in from which anchor;
    `is_grouped` says that images are in groups.
    """

    index: int = Field(ge=0)
    identity: str
    split: Split
    file_path: str
    captions: tuple[str, ...] = ()
    positions: tuple[int, ...] = ()
    other_paths: tuple[str, ...] = Field(default=(), exclude_if=lambda paths: not paths)
    facts: tuple[str, ...] = Field(default=(), exclude_if=lambda facts: not facts)
    categories: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    attribution: Attribution | None = Field(default=None, exclude_if=lambda own: own is None)
    coarse_captions: tuple[str, ...] = Field(default=(), exclude_if=lambda texts: not texts)
    translations: tuple[tuple[str, tuple[str | None, ...]], ...] = Field(
        default=(), exclude_if=lambda texts: not texts
    )
    contrast: SourceContrast | None = Field(default=None, exclude_if=lambda other: other is None)
    is_grouped: bool = Field(default=False, exclude_if=lambda grouped: not grouped)


Scope = Literal["caption", "fact", "record", "file"]
"""What was lost."""


class BadRow(Record):
    """What could not be used, and why.

    `scope` tells what was lost: one `caption` or one `fact` (its row goes on with the others), one
    `record`, or the rest of the `file`. `field` is written as a path (`captions[1]`), empty where
    the record as a whole is wrong. `reason` is a stable snake_case word for counting, `detail` the
    sentence for people, `raw` the record's JSON text, cut to a readable length.
    """

    file: str
    index: int = Field(ge=0)
    field: str
    reason: str
    detail: str
    raw: str
    scope: Scope = "record"

    def as_rejection(self) -> Rejection:
        """The same as the rejection that goes to quarantine."""
        context = self.model_dump(exclude={"reason", "detail"})
        return Rejection(
            stage="import_source", reason=self.reason, detail=self.detail, context=context
        )


Row = SourceRow | BadRow


class ReadOptions(Record):
    """How a file is read.

    `split` is for formats that name none (a format that does ignores it). A caption of more words
    or characters than the limits is quarantined, and so is what follows a record of more than
    `max_record_characters`: a file that keeps one record open for ever must not fill the memory.
    """

    split: Split | None = None
    max_words: int = Field(default=1000, gt=0)
    max_caption_characters: int = Field(default=20_000, gt=0)
    max_record_characters: int = Field(default=16 * 1024 * 1024, gt=0)

    @property
    def split_or_test(self) -> Split:
        """The split of records that name none."""
        return self.split or "test"


DEFAULT_OPTIONS = ReadOptions()


def raw_text(value: Any) -> str:
    """`value` as JSON text fit to be stored, cut after 2,000 characters, with its length."""
    return _cut(_json_text(value), _RAW_CHARACTERS)


def shown(value: Any) -> str:
    """`value` as short JSON text, for a sentence."""
    return _cut(_json_text(value), _SHOWN_CHARACTERS)


def storable(text: str) -> str:
    """`text` without what UTF-8 cannot hold: lone surrogates become written-out escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _json_text(value: Any) -> str:
    try:
        return storable(json.dumps(value, ensure_ascii=False))
    except RecursionError:
        return "(nested too deeply to be shown)"


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}… ({len(text):,} characters)"
