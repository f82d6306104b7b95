"""Terms of provenance that the store writes and releases publish; they need no database."""

from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import Any, Literal, NamedTuple

from pydantic import Field

from loupe.schemas.base import (
    EntityId,
    HexSha256,
    Record,
    entity_id,
    framed,
    leaf_hash,
    merkle_root,
)

AgentKind = Literal["person", "model", "software"]
State = Literal["proposed", "accepted", "rejected", "superseded", "inactive", "withdrawn"]

STATE_AFTER: dict[str, State] = {
    "accept": "accepted",
    "reject": "rejected",
    "edit": "superseded",
    "withdraw": "withdrawn",
    "reopen": "proposed",
}
"""The state after a verdict, if it is the only one."""

ANSWERED = ("answered", "truncated")
"""The states of calls that a model answered; all others describe an error."""

PROMOTE = "promote_record"
"""The stage that makes entities of records of shards; its configuration is a `Promotion`."""

WITHHELD_WHOLE = "*"
"""The only entry of `withheld` if nothing of a payload is published."""


class Role(StrEnum):
    """The role of a parent for its child, read as: the child … (the parent).

    `loupe.db.roles` defines what happens to the child if the parent is withdrawn.
    """

    IMPORTED_FROM = "imported_from"
    COMPUTED_FROM = "computed_from"
    PROMOTED_FROM = "promoted_from"
    PROMOTED_WITH = "promoted_with"
    SAMPLED_FROM = "sampled_from"
    CROP_OF = "crop_of"
    TRACKED_IN = "tracked_in"
    REPORT_OF = "report_of"
    PART_OF = "part_of"
    SELECTED_IN = "selected_in"
    LOOKS_LIKE = "looks_like"
    RENDERED_FROM = "rendered_from"
    WORDED_BY = "worded_by"
    KNOWN_FROM = "known_from"
    READ_IN = "read_in"
    CORRECTS = "corrects"
    DERIVED_FROM = "derived_from"
    DESCRIBES = "describes"
    REWRITE_OF = "rewrite_of"
    EDITED_FROM = "edited_from"
    REVISED_FROM = "revised_from"
    REFINES = "refines"
    CONFUSES = "confuses"
    ANNOTATED_BY = "annotated_by"
    ANCHOR = "anchor"
    DRAFTED_AS = "drafted_as"
    EDITED_FOR = "edited_for"
    EDITED_AS = "edited_as"
    DOWNLOADED_FROM = "downloaded_from"
    FOUND_AS = "found_as"
    ACCEPTED_FROM = "accepted_from"
    CONTRAST_OF = "contrast_of"
    ORDERED_BY = "ordered_by"
    MADE_FOR = "made_for"
    FOUND_FOR = "found_for"
    CONSIDERED_FOR = "considered_for"
    MEMBER = "member"
    REFINED_FOR = "refined_for"
    WRITTEN_IN = "written_in"
    ANNOTATES = "annotates"
    SELECTS = "selects"
    COMPARES = "compares"
    ASKS_ABOUT = "asks_about"
    ASKS_WITH = "asks_with"
    DISTRACTOR = "distractor"
    EXAMINES = "examines"
    CHECKS = "checks"
    MEASURES = "measures"
    MEASURED = "measured"
    MATCHES = "matches"
    SIMILAR_TO = "similar_to"
    DRAWN_FROM = "drawn_from"
    MEMBER_OF = "member_of"
    PROMPTED_BY = "prompted_by"
    DRAFTED_WITH = "drafted_with"
    WRITTEN_WITH = "written_with"
    VALIDATED_WITH = "validated_with"
    EXPANDED_WITH = "expanded_with"
    TRACKED_WITH = "tracked_with"
    FILTERED_WITH = "filtered_with"
    PROPOSED_WITH = "proposed_with"


SOURCE_ROLES = (Role.IMPORTED_FROM, Role.SAMPLED_FROM, Role.CROP_OF, Role.DERIVED_FROM)
"""The roles of links from images and videos to their source."""
TEXT_ROLES = (Role.DESCRIBES, Role.REWRITE_OF, Role.EDITED_FROM)
"""The roles of links from texts to the image that they describe."""


def record_hash(number: int, names: Iterable[str], rest: str) -> bytes:
    """Return the hash of a record in the Merkle tree of its shard.

    Args:
        number: the number of the record in its source.
        names: the ids of its entities and the keys of its model calls.
        rest: the digest of everything else.
    """
    return leaf_hash(framed(str(number), rest, *names))


class PromotedRow(Record):
    """A row of a shard from which a record was promoted, with its proof.

    Attributes:
        shard: the id of the shard.
        step: the step that made the shard.
        root: the Merkle root of the shard, with so many `records`.
        row: the position of the row, from 0.
        proof: the hashes beside the path from the row to the root, as hex digits.
        names: see `record_hash`, like `rest`.
    """

    shard: EntityId
    step: str
    root: HexSha256
    records: int = Field(gt=0, lt=1 << 63)
    row: int = Field(ge=0)
    proof: str = Field(pattern=r"^([0-9a-f]{64})*$")
    names: tuple[EntityId, ...]
    rest: HexSha256

    def is_proven(self, number: int) -> bool:
        """Return whether the shard contains the record with this number, by the proof."""
        proof = bytes.fromhex(self.proof)
        hashes = [proof[at : at + 32] for at in range(0, len(proof), 32)]
        leaf = record_hash(number, self.names, self.rest)
        root = merkle_root(leaf, self.row, self.records, hashes)
        return root is not None and root.hex() == self.root


class Promotion(Record):
    """The promotion of one record: the row it was imported to first, then what was computed."""

    number: int = Field(ge=0)
    rows: tuple[PromotedRow, ...]


class CallRow(NamedTuple):
    """An answered model call without its text; `calls` is the number of equal ones.

    `served` is what the model's server reported about it, a `loupe.schemas.chat.ServedModel` as
    JSON.
    """

    name: str
    revision: str
    parameters: dict[str, Any]
    tokens_in: int | None
    tokens_out: int | None
    cost: float | None
    currency: str | None
    served: str | None = None
    calls: int = 1


class Hardware(Record):
    """The machine that an evaluation or a training ran on."""

    processor: str
    cores: int
    memory_bytes: int
    accelerator: str | None = None


_PROMOTED = frozenset({Role.PROMOTED_FROM, Role.PROMOTED_WITH})
"""The roles of links from promoted entities to shards, which are part of no id."""
_LINKED_LATER = {
    "filter_report": frozenset({Role.FILTERED_WITH}),
    "rewrite": frozenset({Role.WRITTEN_WITH}),
    "tracklet": frozenset({Role.PROPOSED_WITH, Role.TRACKED_WITH}),
    "shard": frozenset({Role.FILTERED_WITH}),
}
"""By kind, the roles of parents that are not part of an id, such as settings.

If other settings lead to the same report, text, tracklet or shard, it keeps its id and the
decisions on it, and is linked to those settings as well.
"""


def is_id_of(
    id_: str, dataset: str, kind: str, payload: str, parents: Collection[tuple[str, str]]
) -> bool:
    """Return whether an entity has the id of its content and (role, parent id) pairs."""
    later = _LINKED_LATER.get(kind, frozenset()) | _PROMOTED
    first = [(role, parent) for role, parent in parents if role not in later]
    return any(entity_id(dataset, kind, payload, links) == id_ for links in (parents, first))
