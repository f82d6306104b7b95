"""The results of reading an annotation file: usable rows, and unusable records."""

import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, SkipValidation

from loupe.schemas.base import IF_ANY, IF_KNOWN, Record, Split
from loupe.schemas.columns import TableColumns
from loupe.schemas.records import Attribution, Rejection
from loupe.schemas.taxonomy import DifferenceType
from loupe.schemas.wording import storable

HeldImage = SkipValidation[Any]
"""The `Piece` of a file that holds images; never stored."""
_HELD: Any = Field(default=None, exclude=True, repr=False)
_RAW_CHARACTERS = 2000
_SHOWN_CHARACTERS = 80


class SourceContrast(Record):
    """How an image differs from its anchor, which is given as a row without captions."""

    anchor: "SourceRow"
    difference: DifferenceType
    detail: str
    plan: str
    method: Literal["search", "edit"] | None


def _from_zero(known: dict[str, Any]) -> tuple[int, ...]:
    return tuple(range(len(known.get("captions", ()))))


class SourceRow(Record):
    """One image with its captions, independent of its format.

    `index` counts the records of a file from 0 (in line formats: non-blank lines), `file` is one of
    several files of a source. `captions` are the usable ones, and `positions[i]` is the position of
    `captions[i]` in the record, so that a quarantined caption leaves a gap and does not shift the
    others; without positions, they count from 0. Formats without captions have none. `file_path`
    has forward slashes; it is checked to be inside the image root when the image is opened.
    `other_paths` are tried if there is no such file. `facts` and `categories` are those of
    `loupe.schemas.records.ImageFacts`. If the file holds its images, `is_held`: the bytes are in
    `held`, and `file_path` is a place in that file (`train-0.parquet/17`).

    Contrastive benchmarks have more fields: `coarse_captions`, translations by language (each at
    the position of its caption, None if there is none), and the difference from an anchor;
    `is_grouped` says that images are in groups.
    """

    index: int = Field(ge=0)
    file: str | None = IF_KNOWN
    identity: str
    split: Split
    file_path: str
    captions: tuple[str, ...] = ()
    positions: tuple[int, ...] = Field(default_factory=_from_zero)
    other_paths: tuple[str, ...] = IF_ANY
    facts: tuple[str, ...] = IF_ANY
    categories: tuple[str, ...] = IF_ANY
    attribution: Attribution | None = IF_KNOWN
    coarse_captions: tuple[str, ...] = IF_ANY
    translations: tuple[tuple[str, tuple[str | None, ...]], ...] = IF_ANY
    contrast: SourceContrast | None = IF_KNOWN
    is_grouped: bool = Field(default=False, exclude_if=lambda grouped: not grouped)
    is_held: bool = Field(default=False, exclude_if=lambda held: not held)
    held: HeldImage = _HELD


Scope = Literal["caption", "fact", "record", "file"]
"""The scope of a bad row."""


class BadRow(Record):
    """An unusable part of a source, and the reason.

    `scope` is what was lost: one `caption` or one `fact` (its row continues with the others), one
    `record`, or the rest of the `file`. `field` is a path (`captions[1]`), empty if the record as a
    whole is invalid. `reason` is a stable snake_case word for counting, `detail` a sentence for
    users, `raw` the record's JSON text, cut to a readable length.
    """

    file: str
    index: int = Field(ge=0)
    field: str
    reason: str
    detail: str
    raw: str
    scope: Scope = "record"
    held: HeldImage = _HELD

    def as_rejection(self) -> Rejection:
        """Return the rejection that goes to quarantine."""
        context = self.model_dump(exclude={"reason", "detail"})
        return Rejection(
            stage="import_source", reason=self.reason, detail=self.detail, context=context
        )


Row = SourceRow | BadRow


class ReadOptions(Record):
    """Options for reading a file.

    `split` is for formats without splits, and ignored by those with splits; if the user stated it
    (`is_split_stated`), it is also that of a file of those in which no record has one. A caption of
    more words or characters than the limits is quarantined, and so is everything after a record of
    more than `max_record_characters`: a file with an endless record must not fill the memory.
    `columns` are those that hold what. Without `images`, images inside the file are not read.
    """

    split: Split | None = None
    is_split_stated: bool = Field(default=False, exclude_if=lambda stated: not stated)
    max_words: int = Field(default=1000, gt=0)
    max_caption_characters: int = Field(default=20_000, gt=0)
    max_record_characters: int = Field(default=16 * 1024 * 1024, gt=0)
    columns: TableColumns | None = IF_KNOWN
    images: bool = Field(default=True, exclude=True)

    @property
    def split_or_test(self) -> Split:
        """Return the split of records that name none."""
        return self.split or "test"


DEFAULT_OPTIONS = ReadOptions()


def raw_text(value: Any) -> str:
    """Return `value` as storable JSON text, cut after 2,000 characters, with its length."""
    return _cut(_json_text(value), _RAW_CHARACTERS)


def shown(value: Any) -> str:
    """Return `value` as short JSON text, for a message."""
    return _cut(_json_text(value), _SHOWN_CHARACTERS)


def _json_text(value: Any) -> str:
    try:
        return storable(json.dumps(value, ensure_ascii=False, default=_as_json))
    except RecursionError:
        return "(nested too deeply to be shown)"


def _as_json(value: Any) -> Any:
    """Return what stands for a value of a table that is no JSON, such as bytes or a date."""
    if isinstance(value, Mapping):
        return {str(name): one for name, one in value.items()}
    return f"({len(value):,} bytes)" if isinstance(value, bytes) else str(value)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}… ({len(text):,} characters)"
