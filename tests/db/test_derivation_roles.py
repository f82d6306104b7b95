"""Every derivation role has a cascade policy and is used."""

from pathlib import Path

import pytest

from db.roles import ROLES, CascadePolicy, cascade_policy, empties
from schemas.errors import IntegrityError
from schemas.provenance import Role

REPOSITORY = Path(__file__).parents[2]


def test_every_role_has_a_policy_with_a_reason_and_is_used() -> None:
    """The type checker ensures that the code uses no undefined roles."""
    assert ROLES.keys() == set(Role)
    assert all(role.why.strip() for role in ROLES.values())
    folders = (REPOSITORY / name for name in ("flows", "annotate", "db", "sources"))
    modules = [path for folder in folders for path in folder.rglob("*.py")]
    code = "".join(path.read_text(encoding="utf-8") for path in modules if path.name != "roles.py")
    assert [role for role in Role if f"Role.{role.name}" not in code] == []


def test_some_policies_depend_on_more_than_the_role() -> None:
    assert cascade_policy("contrast_of", "search") is CascadePolicy.REMOVE
    for method in ("edit", None):
        assert cascade_policy("contrast_of", method) is CascadePolicy.ERASE
    assert empties("edited_from", "tracklet")
    assert not empties("edited_from", "caption")
    with pytest.raises(IntegrityError, match="inspired_by"):
        cascade_policy("inspired_by")
