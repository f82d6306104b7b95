"""Words of provenance that the store writes and releases publish; no database is needed."""

from typing import Any, Literal, NamedTuple

AgentKind = Literal["person", "model", "software"]
State = Literal["proposed", "accepted", "rejected", "superseded", "inactive", "withdrawn"]

STATE_AFTER: dict[str, State] = {
    "accept": "accepted",
    "reject": "rejected",
    "edit": "superseded",
    "withdraw": "withdrawn",
    "reopen": "proposed",
}
"""The state that a verdict alone would make."""

ANSWERED = ("answered", "truncated")
"""The states of calls that a model answered; all others say what went wrong."""

WITHHELD_WHOLE = "*"
"""The only entry of `withheld` where nothing of a payload is published."""

ROLES = frozenset(
    (
        *("imported_from", "sampled_from", "crop_of", "tracked_in", "report_of", "part_of"),
        *("selected_in", "looks_like", "rendered_from", "worded_by", "known_from", "describes"),
        *("rewrite_of", "edited_from", "revised_from", "refines", "confuses", "annotated_by"),
        *("anchor", "drafted_as", "edited_for", "edited_as", "downloaded_from", "found_as"),
        *("accepted_from", "contrast_of", "ordered_by", "made_for", "found_for", "failed_for"),
        *("considered_for", "member", "refined_for", "written_in", "annotates", "selects"),
        *("compares", "asks_about", "asks_with", "distractor", "examines", "checks"),
        *("measures", "measured", "matches", "similar_to", "drawn_from", "member_of"),
        *("prompted_by", "drafted_with", "written_with", "validated_with", "expanded_with"),
        *("tracked_with", "filtered_with", "proposed_with"),
    )
)
"""The roles of derivations; `db.roles` says what each means for withdrawals."""


class CallRow(NamedTuple):
    """An answered model call without its text; `calls` of them are equal."""

    name: str
    revision: str
    parameters: dict[str, Any]
    tokens_in: int | None
    tokens_out: int | None
    cost: float | None
    currency: str | None
    calls: int = 1
