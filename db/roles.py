"""What happens to a child when a parent in a derivation role is withdrawn."""

import tomllib
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from loupe.schemas.errors import IntegrityError
from loupe.schemas.provenance import Role


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


_DATA = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
ROLES = {
    role: RolePolicy(policy, why, role in _DATA["goes_empty"])
    for policy in CascadePolicy
    for role, why in _DATA[policy].items()
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
            f"something is derived in the role {role!r}, which db/roles.toml does not "
            f"classify; was it written by a newer Loupe?"
        )
    if role == Role.CONTRAST_OF and method == "search":
        return CascadePolicy.REMOVE
    return ROLES[role].policy
