"""The rules for single fields that a record must meet to become a row."""

import re
import unicodedata
from collections.abc import Container, Mapping
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple, get_args

from schemas.records import Split
from sources.records import BadRow, ReadOptions, Scope, raw_text, shown

SPLITS: Final[tuple[Split, ...]] = get_args(Split)
_SPLIT_IN_NAME = re.compile(rf"(?:^|[^a-z])({'|'.join(SPLITS)})(?![a-z])")
_MAX_NAME_CHARACTERS = 1000
# Paths in normal form already, which are nearly all, because PurePosixPath is slow.
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
        """Return the field `key` of this field, which holds an object."""
        return Field(f"{self.path}.{key}", self.value.get(key, MISSING))


class FieldError(Exception):
    """A field breaks a rule; becomes a `BadRow`."""

    def __init__(self, field: str, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.field = field
        self.reason = reason
        self.detail = detail


def bad_row(
    fault: FieldError,
    file: str,
    index: int,
    record: Any,
    scope: Scope = "record",
) -> BadRow:
    """Return `fault` as the bad row of record `index`, or of one caption or fact of it."""
    return BadRow(
        file=file,
        index=index,
        field=fault.field,
        reason=fault.reason,
        detail=fault.detail,
        raw=raw_text(record),
        scope=scope,
    )


def refuse_second(field: str, name: str, seen: Container[str]) -> None:
    """Reject an image that an earlier record has already.

    Raises:
        FieldError: `name` was seen before.
    """
    if name in seen:
        detail = f"{field} repeats {shown(name)} of a record before it, wanted its own"
        raise FieldError(field, "duplicate_image", detail)


def optional_text(fields: Mapping[str, Any], key: str, options: ReadOptions) -> str | None:
    """Return the text of a field; None if it is missing.

    Raises:
        FieldError: it is not a text, or is unusable.
    """
    value = fields.get(key)
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    return checked_caption(Field(key, value), options)


def source_page(fields: Mapping[str, Any], options: ReadOptions) -> str | None:
    """Return the web address in `source_url`; None if it is missing.

    Raises:
        FieldError: it is not a web address.
    """
    text = optional_text(fields, "source_url", options)
    if text is not None and (" " in text or not text.startswith(("http://", "https://"))):
        detail = f"source_url is no address of the web: got {shown(text)}, wanted https://…"
        raise FieldError("source_url", "not_an_address", detail)
    return text


def checked_object(value: Any) -> dict[str, Any]:
    """Return `value`, which must be a JSON object.

    Raises:
        FieldError: it is something else.
    """
    if isinstance(value, dict):
        return value
    raise wrong_type(Field("the record", value), "an object", path="")


def checked_identity(field: Field) -> str:
    """Return the name of a person or image in its source: a non-negative integer or a short text.

    Re-identification sets use −1 for no person: such a record has no identity.

    Raises:
        FieldError: it is neither.
    """
    value = present(field)
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            raise _wrong_value(field, "negative_identity", "is negative", "a number from 0 on")
        return str(value)
    if not isinstance(value, str):
        raise wrong_type(field, "a whole number or a text")
    return _name(field, value.strip())


def checked_split(field: Field) -> Split:
    """Return one of the three splits.

    Raises:
        FieldError: it is something else.
    """
    value = present(field)
    if not isinstance(value, str):
        raise wrong_type(field, "a text")
    for split in SPLITS:
        if value.strip().casefold() == split:
            return split
    raise _wrong_value(field, "unknown_split", "names no split", f"one of {', '.join(SPLITS)}")


def split_in_name(name: str) -> Split | None:
    """Return the split in the name of a file or a folder."""
    found = _SPLIT_IN_NAME.search(name.casefold())
    return next((split for split in SPLITS if found and split == found.group(1)), None)


def checked_path(field: Field) -> str:
    """Return a path with forward slashes and without empty parts; its target is not checked here.

    Raises:
        FieldError: it is not a text, empty, too long or holds control characters.
    """
    value = present(field)
    if not isinstance(value, str):
        raise wrong_type(field, "a path")
    name = _name(field, value)
    return name if _PLAIN_PATH.fullmatch(name) else str(PurePosixPath(name.replace("\\", "/")))


def checked_caption(field: Field, options: ReadOptions) -> str:
    """Return a caption in Unicode NFC with normalized white space.

    The contents of a caption are not judged. One that gives instructions to a language model is
    valid; code that puts captions into a prompt marks them as data.

    Raises:
        FieldError: it is not a text, without words, over a limit or holds control characters.
    """
    value = present(field)
    if not isinstance(value, str):
        raise wrong_type(field, "a text")
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


def _name(field: Field, value: str) -> str:
    if not value.strip():
        raise _wrong_value(field, "empty_field", "is empty", "a name")
    if len(value) > _MAX_NAME_CHARACTERS:
        raise _too_long(field, len(value), _MAX_NAME_CHARACTERS, "characters")
    _refuse_controls(field, value)
    return value


def present(field: Field) -> Any:
    """Return the value of a field.

    Raises:
        FieldError: it is missing.
    """
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


def wrong_type(field: Field, wanted: str, path: str | None = None) -> FieldError:
    """Return the error for a value of a wrong type; `path` is that of the field, if it has one."""
    detail = f"{field.path} has the wrong type: got {shown(field.value)}, wanted {wanted}"
    return FieldError(field.path if path is None else path, "wrong_type", detail)


def _wrong_value(field: Field, reason: str, problem: str, wanted: str) -> FieldError:
    detail = f"{field.path} {problem}: got {shown(field.value)}, wanted {wanted}"
    return FieldError(field.path, reason, detail)


def _too_long(field: Field, got: int, limit: int, unit: str) -> FieldError:
    detail = f"{field.path} is too long: got {got:,} {unit}, wanted at most {limit:,}"
    return FieldError(field.path, "too_long", detail)
