"""Which columns of records hold what."""

from encodings import aliases
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from loupe.schemas.base import Record
from loupe.schemas.validation import nearest_name


def listed(value: object) -> object:
    """Return one name or path as a list of it, anything else as it is."""
    return (value,) if isinstance(value, str | Path) else value


def _known_encoding(name: str) -> str:
    try:
        "".encode(name)
    except (LookupError, ValueError):
        near = nearest_name(name, aliases.aliases.values()).replace("_", "-")
        hint = f"; did you mean {near}?" if near else ""
        raise ValueError(
            f"must be a known encoding, such as cp1252; got {name!r:.40}{hint}"
        ) from None
    return name


class TableColumns(Record):
    """The columns of records that hold what; case does not matter.

    Attributes:
        image: the column of the image or its path; None: the first usual column that exists
            (`image`, `file_name`, `path` …), else image files are named after their identity.
        identity: the column of what the image shows; None: `identity`, if it exists, else each
            image has an identity of its own.
        captions: the columns of captions; none: the first usual column that exists.
        split_column: the column of the split; None: `split`, if it exists.
        licence_column: the column of the image's own licence.
        attribution: the column of the creator to name.
        source_url: the column of the image's page.
        delimiter: what separates the cells of a text file; None to detect it.
        encoding: the encoding of a text file, such as `cp1252`; None to detect it.
    """

    image: str | None = None
    identity: str | None = None
    captions: Annotated[tuple[str, ...], BeforeValidator(listed)] = ()
    split_column: str | None = None
    licence_column: str | None = None
    attribution: str | None = None
    source_url: str | None = None
    delimiter: str | None = Field(default=None, min_length=1, max_length=1)
    encoding: Annotated[str, AfterValidator(_known_encoding)] | None = None
