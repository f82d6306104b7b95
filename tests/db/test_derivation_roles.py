"""Every derivation role has a policy, and every one is used."""

from pathlib import Path

import pytest

from db.roles import ROLES, CascadePolicy, cascade_policy, empties
from schemas.errors import IntegrityError
from schemas.provenance import Role

REPOSITORY = Path(__file__).parents[2]


def test_every_role_has_a_policy() -> None:
    assert ROLES.keys() == set(Role)


def test_every_role_is_used() -> None:
    """That the code names no other role, its types say."""
    folders = (REPOSITORY / name for name in ("flows", "annotate", "db", "sources"))
    modules = [path for folder in folders for path in folder.rglob("*.py")]
    code = "".join(path.read_text(encoding="utf-8") for path in modules if path.name != "roles.py")
    assert [role for role in Role if f"Role.{role.name}" not in code] == []


def test_every_role_says_why() -> None:
    assert all(role.why.strip() for role in ROLES.values())


def test_an_unknown_role_is_refused_and_not_passed_over() -> None:
    with pytest.raises(IntegrityError, match="inspired_by"):
        cascade_policy("inspired_by")


def test_what_was_found_only_needs_its_anchor() -> None:
    assert cascade_policy("contrast_of", "search") is CascadePolicy.REMOVE
    assert (
        cascade_policy("contrast_of", "edit")
        is cascade_policy("contrast_of")
        is CascadePolicy.ERASE
    )


def test_a_tracklet_goes_with_what_was_made_of_it_and_a_text_does_not() -> None:
    assert empties("edited_from", "tracklet")
    assert not empties("edited_from", "caption")
