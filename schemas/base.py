"""The base class of all records, types of their fields, and the digests that identify them."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
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
TorchDevice = Annotated[str, Field(pattern=r"^(auto|cpu|cuda|cuda:\d+|mps)$")]
"""`auto` is CUDA if available, else the CPU; the others are torch's own names."""

ID_BYTES = 16
IF_KNOWN: Any = Field(default=None, exclude_if=lambda value: value is None)
IF_ANY: Any = Field(default=(), exclude_if=lambda values: not values)
"""Fields that are left out, and do not change a payload, if they are unknown or empty."""


class Record(BaseModel):
    """An immutable, validated value. Unknown fields are errors.

    Validators are built on first use: most commands need few of them.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", ser_json_inf_nan="constants", defer_build=True
    )


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


# Merkle trees over SHA-256 (RFC 6962, section 2.1).


def leaf_hash(data: bytes) -> bytes:
    """Return the hash of a leaf; the byte 0 before it cannot begin the content of a node."""
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of a node with two subtrees."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def merkle_levels(leaves: Sequence[bytes]) -> list[list[bytes]]:
    """Return the hashes of all levels of a tree, from its leaves (at least one) to its root."""
    levels = [list(leaves)]
    while len(last := levels[-1]) > 1:
        pairs = zip(last[::2], last[1::2], strict=False)
        levels.append([node_hash(*pair) for pair in pairs] + last[len(last) & ~1 :])
    return levels


def merkle_proof(levels: Sequence[Sequence[bytes]], place: int) -> list[bytes]:
    """Return the hashes beside the path from the leaf at `place` to the root, lowest first."""
    beside = [(level, (place >> height) ^ 1) for height, level in enumerate(levels)]
    return [level[at] for level, at in beside if at < len(level)]


def merkle_root(leaf: bytes, place: int, leaves: int, proof: Sequence[bytes]) -> bytes | None:
    """Return the root that a proof leads to from one of so many leaves; None if it is no proof."""
    if place >= leaves:
        return None
    found, hashes = leaf, list(proof)
    while leaves > 1:
        if place ^ 1 < leaves:
            if not hashes:
                return None
            other = hashes.pop(0)
            found = node_hash(other, found) if place & 1 else node_hash(found, other)
        place, leaves = place >> 1, (leaves + 1) >> 1
    return None if hashes else found
