"""What happens to a child when a parent in a derivation role is withdrawn."""

from enum import StrEnum
from typing import NamedTuple

from schemas.errors import IntegrityError
from schemas.provenance import Role


class CascadePolicy(StrEnum):
    """What happens to a child when its parent is withdrawn.

    `ERASE`: it repeats, shows or describes its parent; it is withdrawn, and its bytes are erased
    with its parent's. `REMOVE`: it holds nothing of its parent but is useless without it; it is
    withdrawn, its bytes may stay. `KEEP`: it stays.
    """

    ERASE = "erase"
    REMOVE = "remove"
    KEEP = "keep"


class RolePolicy(NamedTuple):
    """What a role means for withdrawals.

    Attributes:
        policy: what happens to the child.
        why: the reason, completing "the child …".
        goes_empty: whether the parent shows only what its children show, so that it is withdrawn
            once all of its children in such roles are.
    """

    policy: CascadePolicy
    why: str
    goes_empty: bool = False


def _erase(why: str, *, goes_empty: bool = False) -> RolePolicy:
    return RolePolicy(CascadePolicy.ERASE, why, goes_empty)


def _remove(why: str) -> RolePolicy:
    return RolePolicy(CascadePolicy.REMOVE, why)


def _keep(why: str, *, goes_empty: bool = False) -> RolePolicy:
    return RolePolicy(CascadePolicy.KEEP, why, goes_empty)


ROLES: dict[str, RolePolicy] = {
    # images and videos
    Role.IMPORTED_FROM: _erase("was imported from the source"),
    Role.COMPUTED_FROM: _erase("holds what was computed from the records of the shard"),
    Role.PROMOTED_FROM: _erase("is a record of the shard"),
    Role.SAMPLED_FROM: _erase("is a copy in another dataset"),
    Role.CROP_OF: _erase("is cut out of the video"),
    Role.TRACKED_IN: _erase("holds crops of the video"),
    Role.REPORT_OF: _erase("describes each crop of the track", goes_empty=True),
    Role.PART_OF: _erase("is made of the track's crops", goes_empty=True),
    Role.SELECTED_IN: _erase("is a crop of the tracklet", goes_empty=True),
    Role.LOOKS_LIKE: _erase("is a fingerprint of the image"),
    Role.RENDERED_FROM: _erase("was rendered from that truth", goes_empty=True),
    Role.WORDED_BY: _erase("was made from that pair of texts"),
    Role.KNOWN_FROM: _keep("existed before this was known about it", goes_empty=True),
    # texts
    Role.READ_IN: _erase("quotes the text in the image"),
    Role.DESCRIBES: _erase("describes the image"),
    Role.REWRITE_OF: _erase("rephrases the text"),
    Role.EDITED_FROM: _erase("is a person's edit of it"),
    Role.REVISED_FROM: _erase("is the text, rewritten"),
    Role.REFINES: _erase("repeats the coarse caption in more detail"),
    Role.CONFUSES: _erase("uses the words of the caption"),
    Role.ANNOTATED_BY: _erase("was made from the answer"),
    # contrastive images
    Role.ANCHOR: _erase("describes the image and what to change"),
    Role.DRAFTED_AS: _erase("was made from the draft", goes_empty=True),
    Role.EDITED_FOR: _erase("is the edited image of the strategy"),
    Role.EDITED_AS: _erase("is the same image"),
    Role.DOWNLOADED_FROM: _erase("is the image that was found there", goes_empty=True),
    Role.FOUND_AS: _erase("is the same image"),
    Role.ACCEPTED_FROM: _erase("is the same image"),
    Role.CONTRAST_OF: _erase("is an edit of the image; a found one only needs it"),
    Role.ORDERED_BY: _remove("was requested for that strategy, or obtained for that request"),
    Role.MADE_FOR: _remove("was made for that strategy only"),
    Role.FOUND_FOR: _remove("was found for that request only"),
    Role.FAILED_FOR: _remove("reports an edit for it that failed"),
    Role.CONSIDERED_FOR: _remove("reports the results of that request"),
    Role.MEMBER: _remove("is a group of these images, and another one without one of them"),
    Role.REFINED_FOR: _remove(
        "distinguishes the images of the group: without one, it has no purpose"
    ),
    Role.WRITTEN_IN: _remove("was written, and judged, with the others of its group"),
    # answers, questions and measurements: useless without their subject
    Role.ANNOTATES: _remove("is an answer about it"),
    Role.SELECTS: _remove("is a question about it"),
    Role.COMPARES: _remove("is a question about both"),
    Role.ASKS_ABOUT: _remove("is a question about it"),
    Role.ASKS_WITH: _remove("is a question about both"),
    Role.DISTRACTOR: _remove("is a question that shows it"),
    Role.EXAMINES: _remove("lists reasons against it"),
    Role.CHECKS: _remove("is a report on it"),
    Role.MEASURES: _remove("is a measurement of it"),
    Role.MEASURED: _remove("is a measurement of it"),
    Role.MATCHES: _remove("states how similar it is"),
    Role.CORRECTS: _remove("states its right terms"),
    # references
    Role.PROMOTED_WITH: _keep("was promoted with what the shard holds of it"),
    Role.SIMILAR_TO: _keep("is another image, chosen because it is similar"),
    Role.DRAWN_FROM: _keep("is a record of a draw, and holds nothing of the source"),
    Role.MEMBER_OF: _keep("was drawn in that sample, and does not depend on it"),
    Role.PROMPTED_BY: _keep("was generated with that prompt, and does not repeat it"),
    Role.DRAFTED_WITH: _keep("was made with those settings"),
    Role.WRITTEN_WITH: _keep("was made with those settings"),
    Role.VALIDATED_WITH: _keep("was made with those settings"),
    Role.EXPANDED_WITH: _keep("was chosen with those settings"),
    Role.TRACKED_WITH: _keep("was made with those settings"),
    Role.FILTERED_WITH: _keep("was made with those settings"),
    Role.PROPOSED_WITH: _keep("was made with those settings"),
}
"""Each role, read as: the child … (the parent)."""

EMPTIED = (Role.EDITED_FROM, *(role for role, known in ROLES.items() if known.goes_empty))
"""The roles in which a parent may be withdrawn once all its children are (`empties`)."""


def empties(role: str, parent_kind: str) -> bool:
    """Return whether a parent of a kind is withdrawn once all its children in such roles are.

    A tracklet contains the crops that people selected; an edited text is another text.
    """
    return ROLES[role].goes_empty or (role == Role.EDITED_FROM and parent_kind == "tracklet")


def cascade_policy(role: str, method: str | None = None) -> CascadePolicy:
    """Return the policy of a role; for a contrastive image it depends on the `method`.

    An image that was found is not the anchor's image. One that was edited, or whose method is not
    known, counts as the anchor's image.

    Raises:
        IntegrityError: the role is not classified.
    """
    if role not in ROLES:
        raise IntegrityError(
            f"something is derived in the role {role!r}, which db/roles.py does not "
            f"classify; was it written by a newer Loupe?"
        )
    if role == Role.CONTRAST_OF and method == "search":
        return CascadePolicy.REMOVE
    return ROLES[role].policy
