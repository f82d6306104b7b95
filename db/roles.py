"""Derivation roles, and what happens to a child when a parent in that role is withdrawn.

A test finds roles in the code that are missing here.
"""

from enum import StrEnum
from typing import NamedTuple

from schemas.errors import IntegrityError


class CascadePolicy(StrEnum):
    """What happens to a child when its parent is withdrawn.

    `ERASE`: it repeats, shows or describes its parent; it is withdrawn, and its bytes are erased
    with its parent's. `REMOVE`: it holds nothing of its parent but is useless without it; it is
    withdrawn, its bytes may stay. `KEEP`: it stays.
    """

    ERASE = "erase"
    REMOVE = "remove"
    KEEP = "keep"


class Role(NamedTuple):
    """A derivation role.

    Attributes:
        policy: what happens to the child.
        why: the reason, completing "the child …".
        goes_empty: whether the parent shows only what its children show, so that it is withdrawn
            once all of its children in such roles are.
    """

    policy: CascadePolicy
    why: str
    goes_empty: bool = False


def _erase(why: str, *, goes_empty: bool = False) -> Role:
    return Role(CascadePolicy.ERASE, why, goes_empty)


def _remove(why: str) -> Role:
    return Role(CascadePolicy.REMOVE, why)


def _keep(why: str, *, goes_empty: bool = False) -> Role:
    return Role(CascadePolicy.KEEP, why, goes_empty)


SAMPLED_FROM = "sampled_from"
"""The role of the same thing in the dataset it was copied from."""
CONTRAST_OF = "contrast_of"
"""The role whose policy depends on how the child was obtained (`cascade_policy`)."""
CROP_OF = "crop_of"
SELECTED_IN = "selected_in"
ANNOTATES = "annotates"
"""The role of the subject of an answer."""
ANNOTATED_BY = "annotated_by"
"""The role of the answer from which something was made."""
EDITED_FROM = "edited_from"
WRITTEN_WITH = "written_with"
"""The role of the settings of what a model or an editor made: model, parameters, prompt."""

ROLES: dict[str, Role] = {
    # pictures and videos
    "imported_from": _erase("was brought by the source"),
    SAMPLED_FROM: _erase("is the same thing in another dataset"),
    CROP_OF: _erase("is cut out of the video"),
    "tracked_in": _erase("holds crops of the video"),
    "report_of": _erase("describes each crop of the track", goes_empty=True),
    "part_of": _erase("is made of the track's crops", goes_empty=True),
    SELECTED_IN: _erase("is a crop of the tracklet", goes_empty=True),
    "looks_like": _erase("is a fingerprint of the picture"),
    "rendered_from": _erase("is drawn from that truth", goes_empty=True),
    "worded_by": _erase("is made of that pair of texts"),
    "known_from": _keep("existed before this was known of it", goes_empty=True),
    # texts
    "describes": _erase("describes the picture"),
    "rewrite_of": _erase("rephrases the text"),
    EDITED_FROM: _erase("is the thing as a person changed it"),
    "revised_from": _erase("is the text, rewritten"),
    "refines": _erase("says what the coarse caption says, in more detail"),
    "confuses": _erase("is written in the words of the caption"),
    ANNOTATED_BY: _erase("is what the answer says"),
    # contrastive images
    "anchor": _erase("describes the picture, and what to change"),
    "drafted_as": _erase("is the draft as it was taken", goes_empty=True),
    "edited_for": _erase("is the picture of the strategy, changed"),
    "edited_as": _erase("is that very picture"),
    "downloaded_from": _erase("is the picture that was found there", goes_empty=True),
    "found_as": _erase("is that very picture"),
    "accepted_from": _erase("is that very picture"),
    CONTRAST_OF: _erase("is the picture, changed; what was found elsewhere only needs it"),
    "ordered_by": _remove("was requested for that strategy, or obtained for that request"),
    "made_for": _remove("serves that strategy alone"),
    "found_for": _remove("was found for that request alone"),
    "failed_for": _remove("reports an edit for it that failed"),
    "considered_for": _remove("reports the results of that request"),
    "member": _remove("is a group of these images, and another one without one of them"),
    "refined_for": _remove("distinguishes the images of the group: without one, it has no purpose"),
    "written_in": _remove("was written, and judged, with the others of its group"),
    # answers, questions and measurements: useless without their subject
    ANNOTATES: _remove("is an answer about it"),
    "selects": _remove("is a question about it"),
    "compares": _remove("is a question about both"),
    "asks_about": _remove("is a question about it"),
    "asks_with": _remove("is a question about both"),
    "distractor": _remove("is a question that shows it"),
    "examines": _remove("lists reasons against it"),
    "checks": _remove("is a report on it"),
    "measures": _remove("is a measurement of it"),
    "measured": _remove("is a measurement of it"),
    "matches": _remove("says how similar it is"),
    # references
    "similar_to": _keep("is another image, which was chosen because it is like this one"),
    "drawn_from": _keep("is a record of a draw, and holds nothing of the source"),
    "member_of": _keep("was drawn in that sample, and does not depend on it"),
    "prompted_by": _keep("was generated with that prompt, and does not repeat it"),
    "drafted_with": _keep("was made with those settings"),
    WRITTEN_WITH: _keep("was made with those settings"),
    "validated_with": _keep("was made with those settings"),
    "expanded_with": _keep("was chosen with those settings"),
    "tracked_with": _keep("was made with those settings"),
    "filtered_with": _keep("was made with those settings"),
    "proposed_with": _keep("was made with those settings"),
}
"""Each role, read as: the child … (the parent)."""

EMPTIED = (EDITED_FROM, *(role for role, known in ROLES.items() if known.goes_empty))
"""The roles in which a parent may be withdrawn once all its children are (`empties`)."""


def empties(role: str, parent_kind: str) -> bool:
    """Whether a parent of a kind is withdrawn once all its children in such roles are.

    A tracklet holds the crops that people selected of it; an edited text is another text.
    """
    return ROLES[role].goes_empty or (role == EDITED_FROM and parent_kind == "tracklet")


def cascade_policy(role: str, method: str | None = None) -> CascadePolicy:
    """The policy of a role; of a contrastive image it depends on the `method` it was obtained by.

    An image that was found is another picture than its anchor. One that was edited, or whose method
    is not known, counts as the anchor's picture.

    Raises:
        IntegrityError: the role is not classified.
    """
    if role not in ROLES:
        raise IntegrityError(
            f"something is derived in the role {role!r}, which db/roles.py does not "
            f"classify; was it written by a newer Loupe?"
        )
    if role == CONTRAST_OF and method == "search":
        return CascadePolicy.REMOVE
    return ROLES[role].policy
