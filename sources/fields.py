"""The rules for single fields: what a record must hold to become a row."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple, get_args

from schemas.records import Split
from sources.records import BadRow, ReadOptions, Row, SourceRow, raw_text, shown

SPLITS: Final[tuple[Split, ...]] = get_args(Split)
_MAX_NAME_CHARACTERS = 1000
# Paths that are in normal form already, which is nearly all: PurePosixPath is slow.
_PLAIN_PATH = re.compile(r"[^/\\.][^/\\]*(?:/[^/\\.][^/\\]*)*")
# Controls that are not white space, lone surrogates, bidirectional overrides, non-characters.
_CONTROL = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069\ufffe\uffff]"
)


class _Missing:
    """Stands for a field that a record does not have (null is a value)."""

    def __repr__(self) -> str:
        return "nothing"


MISSING: Final = _Missing()


class Field(NamedTuple):
    """A field of a record as it was found: its path in the record, and its value or `MISSING`."""

    path: str
    value: Any

    def inner(self, key: str) -> "Field":
        """The field `key` of this field, which holds an object."""
        return Field(f"{self.path}.{key}", self.value.get(key, MISSING))


class FieldError(Exception):
    """One field breaks one rule; becomes a `BadRow` and goes no further."""

    def __init__(self, field: str, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.field = field
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True)
class RawRow:
    """A record taken apart by its format, nothing checked yet.

    `caption_key` is the key of the text in formats whose captions are objects; a caption that is a
    plain string is taken as it is.
    """

    index: int
    identity: Field
    split: Field
    file_path: Field
    captions: Field
    record: Any
    caption_key: str | None = None


def checked_rows(raw: RawRow, file: str, options: ReadOptions) -> Iterator[Row]:
    """The row that `raw` makes, or the bad row instead; before it, one bad row per bad caption."""
    try:
        identity = checked_identity(raw.identity)
        split = checked_split(raw.split)
        file_path = checked_path(raw.file_path)
        fields = _caption_fields(raw)
    except FieldError as fault:
        yield bad_row(fault, file, raw.index, raw.record)
        return
    texts: dict[int, str] = {}
    for position, field in enumerate(fields):
        try:
            texts[position] = checked_caption(field, options)
        except FieldError as fault:
            yield bad_row(fault, file, raw.index, raw.record, caption=True)
    if not texts:
        detail = f"{raw.captions.path} has no caption that can be used, wanted at least one"
        none_left = FieldError(raw.captions.path, "no_usable_caption", detail)
        yield bad_row(none_left, file, raw.index, raw.record)
        return
    yield SourceRow(
        index=raw.index,
        identity=identity,
        split=split,
        file_path=file_path,
        captions=tuple(texts.values()),
        positions=tuple(texts),
    )


def bad_row(
    fault: FieldError,
    file: str,
    index: int,
    record: Any,
    *,
    caption: bool = False,
    fact: bool = False,
) -> BadRow:
    """`fault` as the bad row of record `index`, or of one caption or fact of it."""
    return BadRow(
        file=file,
        index=index,
        field=fault.field,
        reason=fault.reason,
        detail=fault.detail,
        raw=raw_text(record),
        scope="caption" if caption else "fact" if fact else "record",
    )


def checked_object(value: Any) -> dict[str, Any]:
    """`value`, which must be a JSON object.

    Raises:
        FieldError: it is something else.
    """
    if isinstance(value, dict):
        return value
    raise _wrong_type(Field("", value), "an object", subject="the record")


def checked_identity(field: Field) -> str:
    """A person's or an image's name in its source: a whole number from 0 on, or a short text.

    Re-identification sets number what is nobody −1: such a record has no identity.

    Raises:
        FieldError: it is neither.
    """
    value = _present(field)
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            raise _wrong_value(field, "negative_identity", "is negative", "a number from 0 on")
        return str(value)
    if not isinstance(value, str):
        raise _wrong_type(field, "a whole number or a text")
    return _name(field, value.strip())


def checked_split(field: Field) -> Split:
    """One of the three splits.

    Raises:
        FieldError: it is something else.
    """
    value = _present(field)
    if not isinstance(value, str):
        raise _wrong_type(field, "a text")
    for split in SPLITS:
        if value.strip().casefold() == split:
            return split
    raise _wrong_value(field, "unknown_split", "names no split", f"one of {', '.join(SPLITS)}")


def checked_path(field: Field) -> str:
    """A path with forward slashes and without empty parts. Where it leads is not asked here.

    Raises:
        FieldError: it is not a text, empty, too long or holds control characters.
    """
    value = _present(field)
    if not isinstance(value, str):
        raise _wrong_type(field, "a path")
    name = _name(field, value)
    return name if _PLAIN_PATH.fullmatch(name) else str(PurePosixPath(name.replace("\\", "/")))


def checked_caption(field: Field, options: ReadOptions) -> str:
    """A caption in Unicode NFC, its runs of white space made single spaces.

    What a caption says is not judged: one that gives orders to a language model is a text like any
    other, and who puts it into a prompt marks it off as data.

    Raises:
        FieldError: it is not a text, without words, over a limit or holds control characters.
    """
    value = _present(field)
    if not isinstance(value, str):
        raise _wrong_type(field, "a text")
    if len(value) > options.max_caption_characters:
        raise _too_long(field, len(value), options.max_caption_characters, "characters")
    _refuse_controls(field, value)
    words = unicodedata.normalize("NFC", value).split()
    if len(words) > options.max_words:
        raise _too_long(field, len(words), options.max_words, "words")
    text = " ".join(words)
    if not any(map(str.isalnum, text)):
        raise _wrong_value(field, "empty_caption", "has no words", "a sentence")
    return text


def _caption_fields(raw: RawRow) -> list[Field]:
    value = _present(raw.captions)
    if not isinstance(value, list):
        raise _wrong_type(raw.captions, "a list of captions")
    fields = [Field(f"{raw.captions.path}[{at}]", item) for at, item in enumerate(value)]
    key = raw.caption_key
    return [f.inner(key) if key and isinstance(f.value, dict) else f for f in fields]


def _name(field: Field, value: str) -> str:
    if not value.strip():
        raise _wrong_value(field, "empty_field", "is empty", "a name")
    if len(value) > _MAX_NAME_CHARACTERS:
        raise _too_long(field, len(value), _MAX_NAME_CHARACTERS, "characters")
    _refuse_controls(field, value)
    return value


def _present(field: Field) -> Any:
    if field.value is MISSING:
        detail = f"{field.path} is missing, wanted a value"
        raise FieldError(field.path, "missing_field", detail)
    return field.value


def _refuse_controls(field: Field, value: str) -> None:
    found = _CONTROL.search(value)
    if found is None:
        return
    is_surrogate = unicodedata.category(found.group()) == "Cs"
    reason = "invalid_unicode" if is_surrogate else "control_characters"
    kind = "what is not Unicode text," if is_surrogate else "the control character"
    where = f"U+{ord(found.group()):04X} at position {found.start()}"
    raise FieldError(field.path, reason, f"{field.path} has {kind} {where}, wanted plain text")


def _wrong_type(field: Field, wanted: str, subject: str = "") -> FieldError:
    detail = (
        f"{subject or field.path} has the wrong type: got {shown(field.value)}, wanted {wanted}"
    )
    return FieldError(field.path, "wrong_type", detail)


def _wrong_value(field: Field, reason: str, problem: str, wanted: str) -> FieldError:
    detail = f"{field.path} {problem}: got {shown(field.value)}, wanted {wanted}"
    return FieldError(field.path, reason, detail)


def _too_long(field: Field, got: int, limit: int, unit: str) -> FieldError:
    detail = f"{field.path} is too long: got {got:,} {unit}, wanted at most {limit:,}"
    return FieldError(field.path, "too_long", detail)
