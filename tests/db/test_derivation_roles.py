"""Every role used in the code is classified, and every classified role is used."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from db.roles import ROLES, CascadePolicy, cascade_policy, empties
from schemas.errors import IntegrityError

REPOSITORY = Path(__file__).parents[2]
PACKAGES = ("flows", "stages", "annotate", "db", "sources")
NAMES = {"parents", "roles", "links"}
ROLE = re.compile(r"[a-z]+(_[a-z]+)*")


def modules() -> dict[str, ast.Module]:
    return {
        str(path.relative_to(REPOSITORY)): ast.parse(path.read_text(encoding="utf-8"))
        for package in PACKAGES
        for path in sorted((REPOSITORY / package).rglob("*.py"))
        if "migrations" not in path.parts
    }


def constants(tree: ast.Module) -> dict[str, str]:
    """The texts that a module gives a name."""
    return {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name) and isinstance(node.value.value, str)
    }


def said_to_be_roles(tree: ast.Module) -> Iterator[str]:
    """Constants under which a docstring speaks of a role."""
    for node, after in zip(tree.body, tree.body[1:], strict=False):
        is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        if is_text and isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            assert isinstance(after, ast.Expr)
            assert isinstance(after.value, ast.Constant)
            if re.search(r"\broles?\b", str(after.value.value)):
                yield str(node.value.value)


def links(tree: ast.AST) -> Iterator[ast.Tuple]:
    """Every pair that stands where the parents of an entity are given."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            given = [word.value for word in node.keywords if word.arg in NAMES]
            called = ast.unparse(node.func)
            if called in ("get_or_create_entity", "_linked"):
                given += node.args[1:]
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign) and node.value:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            given = [node.value] if any(ast.unparse(one) in NAMES for one in targets) else []
        else:
            continue
        for value in given:
            yield from pairs(value)


def pairs(value: ast.AST) -> Iterator[ast.Tuple]:
    for node in ast.walk(value):
        if isinstance(node, ast.Tuple) and len(node.elts) == 2:
            yield node


@cache
def roles_in_code() -> dict[str, str]:
    """The roles that the code gives parents, each with a module that does."""
    trees = modules()
    known = {name: constants(tree) for name, tree in trees.items()}
    anywhere = {name: text for many in known.values() for name, text in many.items()}
    found: dict[str, str] = {}
    for module, tree in trees.items():
        found |= dict.fromkeys(said_to_be_roles(tree), module)
        for pair in links(tree):
            first = pair.elts[0]
            role = ""
            if isinstance(first, ast.Constant):
                role = str(first.value)
            elif isinstance(first, ast.Name):
                role = known[module].get(first.id) or anywhere.get(first.id, "")
            if ROLE.fullmatch(role):
                found.setdefault(role, module)
    return found


def test_every_role_in_the_code_is_classified() -> None:
    unknown = {role: module for role, module in roles_in_code().items() if role not in ROLES}
    assert not unknown, "classify these roles in db/roles.py"


def test_no_role_is_classified_that_the_code_does_not_know() -> None:
    assert ROLES.keys() <= roles_in_code().keys()


def test_a_role_that_is_added_to_the_code_is_seen() -> None:
    tree = ast.parse('x = new_entity(r, d, parents=[("inspired_by", one.id), *more])')
    assert [ast.literal_eval(pair.elts[0]) for pair in links(tree)] == ["inspired_by"]


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
