"""What becomes of a child when the parent that it names in a role is taken back.

Every role of the graph stands here with the reason; a test finds those that do not.
"""

from enum import StrEnum
from typing import NamedTuple

from schemas.errors import IntegrityError


class Bond(StrEnum):
    """How strongly a child hangs on its parent.

    `HOLDS`: it repeats, shows or retells what the parent is, so it goes with it, its bytes too.
    `NEEDS`: it holds nothing of the parent and is of no use without it: it goes, its bytes may
    stay. `REFERS`: it stays.
    """

    HOLDS = "holds"
    NEEDS = "needs"
    REFERS = "refers"


class Role(NamedTuple):
    """A role: the bond, why, and whether the parent holds what its children show.

    Such a parent goes, too, once nothing is left of what hung on it in that role (`goes_empty`).
    """

    bond: Bond
    why: str
    goes_empty: bool = False


def _holds(why: str, *, goes_empty: bool = False) -> Role:
    return Role(Bond.HOLDS, why, goes_empty)


def _needs(why: str) -> Role:
    return Role(Bond.NEEDS, why)


def _refers(why: str, *, goes_empty: bool = False) -> Role:
    return Role(Bond.REFERS, why, goes_empty)


COPY = "sampled_from"
"""The role of the same thing in the dataset that it was taken from."""
CONTRAST = "contrast_of"
"""The role whose bond hangs on how the child was come by (`bond_of`)."""

ROLES: dict[str, Role] = {
    # pictures and videos
    "imported_from": _holds("was brought by the source"),
    COPY: _holds("is the same thing in another dataset"),
    "crop_of": _holds("is cut out of the video"),
    "tracked_in": _holds("holds crops of the video"),
    "report_of": _holds("tells of each crop of the track", goes_empty=True),
    "part_of": _holds("is made of the track's crops", goes_empty=True),
    "selected_in": _holds("is a crop of the tracklet", goes_empty=True),
    "looks_like": _holds("is a fingerprint of the picture"),
    "rendered_from": _holds("is drawn from that truth", goes_empty=True),
    "worded_by": _holds("is made of that pair of texts"),
    "known_from": _refers("was there before anybody knew this of it", goes_empty=True),
    # texts
    "describes": _holds("tells what is in the picture"),
    "rewrite_of": _holds("says the text in another way"),
    "edited_from": _holds("is the thing as a person changed it"),
    "revised_from": _holds("is the text written anew"),
    "refines": _holds("says what the coarse caption says, in more detail"),
    "confuses": _holds("is written in the words of the caption"),
    "annotated_by": _holds("is what the answer says"),
    # contrastive images
    "anchor": _holds("tells what is in the picture, and what to change"),
    "drafted_as": _holds("is the draft as it was taken", goes_empty=True),
    "edited_for": _holds("is the picture of the strategy, changed"),
    "edited_as": _holds("is that very picture"),
    "downloaded_from": _holds("is the picture that was found there", goes_empty=True),
    "found_as": _holds("is that very picture"),
    "accepted_from": _holds("is that very picture"),
    CONTRAST: _holds("is the picture, changed; what was found elsewhere only needs it"),
    "ordered_by": _needs("is wanted for that strategy, or was come by for that order"),
    "made_for": _needs("serves that strategy alone"),
    "found_for": _needs("was found for that order alone"),
    "failed_for": _needs("tells of an edit for it that could not be made"),
    "considered_for": _needs("tells of the results of that order"),
    "member": _needs("is a group of these images, and another one without one of them"),
    "refined_for": _needs("tells the images of the group apart: without one, it has no reason"),
    "written_in": _needs("was written, and judged, with the others of its group"),
    # answers, questions and measurements: of no use without what they are about
    "annotates": _needs("is an answer about it"),
    "selects": _needs("is a question about it"),
    "compares": _needs("is a question about both"),
    "asks_about": _needs("is a question about it"),
    "asks_with": _needs("is a question about both"),
    "distractor": _needs("is a question that shows it"),
    "examines": _needs("says what speaks against it"),
    "checks": _needs("is a report on it"),
    "measures": _needs("is a measurement of it"),
    "measured": _needs("is a measurement of it"),
    "matches": _needs("says how similar it is"),
    # what merely refers
    "similar_to": _refers("is another image, which was chosen because it is like this one"),
    "drawn_from": _refers("is a record of a draw, and holds nothing of the source"),
    "member_of": _refers("was drawn in that sample, and is what it is without it"),
    "prompted_by": _refers("was asked for with that prompt, and does not repeat it"),
    "drafted_with": _refers("was made with those settings"),
    "written_with": _refers("was made with those settings"),
    "validated_with": _refers("was made with those settings"),
    "expanded_with": _refers("was chosen with those settings"),
    "tracked_with": _refers("was made with those settings"),
    "filtered_with": _refers("was made with those settings"),
    "proposed_with": _refers("was made with those settings"),
}
"""Each role, read as: the child … (the parent)."""

_EDIT = "edited_from"
EMPTIED = (_EDIT, *(role for role, known in ROLES.items() if known.goes_empty))
"""The roles in which a parent may go once all its children have (`empties`)."""


def empties(role: str, parent_kind: str) -> bool:
    """Whether a parent of a kind goes once all that hangs on it in such roles has gone.

    A tracklet holds the crops of what people made of it; a text that was edited is another text.
    """
    return ROLES[role].goes_empty or (role == _EDIT and parent_kind == "tracklet")


def bond_of(role: str, way: str | None = None) -> Bond:
    """The bond of a role; of a contrastive image it hangs on the `way` that it was come by.

    What was found is another picture than its anchor; what was edited, or is not known to have been
    found, is taken for the anchor's picture.

    Raises:
        IntegrityError: nobody has said what becomes of a child in that role.
    """
    if role not in ROLES:
        raise IntegrityError(
            f"something is derived in the role {role!r}, of which db/derivation_roles.py does not "
            f"say what becomes of it; was it written by a newer Loupe?"
        )
    if role == CONTRAST and way == "search":
        return Bond.NEEDS
    return ROLES[role].bond
