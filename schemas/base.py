"""The base class of all records, types of their fields, and the digests that identify them."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

# Types of fields.

Sha256 = str
Box = tuple[float, float, float, float]
"""A box as (left, top, right, bottom), in pixels of its frame or image."""
Split = Literal["train", "val", "test"]
NonBlank = Annotated[str, Field(pattern=r"\S")]
Count = Annotated[int, Field(ge=0)]
EntityId = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
HexSha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
VERSION_PATTERN = r"^[0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}$"
DATASET_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
Version = Annotated[str, Field(pattern=VERSION_PATTERN)]
DatasetName = Annotated[str, Field(pattern=DATASET_PATTERN)]

ID_BYTES = 16
IF_KNOWN: Any = Field(default=None, exclude_if=lambda value: value is None)
IF_ANY: Any = Field(default=(), exclude_if=lambda values: not values)
"""Fields that are left out, and do not change a payload, if they are unknown or empty."""


class Record(BaseModel):
    """An immutable, validated value. Unknown fields are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


class EntityRecord(Record):
    """A record that is stored as an entity; `kind` names its type in the store.

    It is given with the class: `class Image(EntityRecord, kind="image")`.
    """

    kind: ClassVar[str]

    def __init_subclass__(cls, *, kind: str | None = None, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if kind is not None:
            cls.kind = kind

    def payload(self) -> str:
        """The record as JSON, fields in declared order: the bytes its id is derived from."""
        return self.model_dump_json()


def canonical_json(value: Mapping[str, Any] | Iterable[Any] | str | float | None) -> str:
    """Return `value` as JSON with sorted keys and no spaces, the same for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest_of(*parts: str) -> str:
    """Return a 128-bit BLAKE2b digest over length-prefixed `parts`, as 32 hex digits."""
    return hashlib.blake2b(framed(*parts), digest_size=ID_BYTES).hexdigest()


def framed(*parts: str) -> bytes:
    """Return the bytes that `digest_of` hashes: each part prefixed with its length."""
    return b"".join([b"%d:%b" % (len(data), data) for data in map(str.encode, parts)])


def unframed(data: bytes) -> list[str]:
    """Return the parts that `framed` combined."""
    parts = []
    while data:
        length, _, rest = data.partition(b":")
        parts.append(rest[: int(length)].decode())
        data = rest[int(length) :]
    return parts


def entity_id(
    dataset: str, kind: str, payload: str, parents: Iterable[tuple[str, str]] = ()
) -> str:
    """Return the content-derived id of an entity, as 32 hex digits.

    Args:
        dataset: the dataset that the entity belongs to.
        kind: the record's `kind`.
        payload: the record as JSON (`EntityRecord.payload`).
        parents: (role, parent id) pairs; their order does not matter.
    """
    lineage = [f"{role}={parent}" for role, parent in sorted(parents)]
    return digest_of(dataset, kind, payload, *lineage)


def sha256_of(data: bytes) -> str:
    """Return the SHA-256 of `data` as 64 hex digits: the name of a blob and of a released file."""
    return hashlib.sha256(data).hexdigest()
