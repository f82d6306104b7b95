"""Checks of the whole tree: import contracts, lazy imports, package names and tracked files."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import grimp
import pytest

import loupe
from benchmarks.measure import in_order_of_imports, longest_import_chains, packages
from loupe.schemas.checkout import DISTRIBUTION
from tests.requirements import unavailable

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
STUB = (ROOT / "src" / "loupe" / "__init__.pyi").read_text(encoding="utf-8")
HEAVY = {
    *("torch", "torchvision", "transformers", "open_clip", "diffusers", "vllm"),
    *("datasets", "matplotlib", "numba", "ray", "scipy"),
}

IMPORT_ALL = """
import importlib, pkgutil, sys
# `network` needs torch and `kernels` numba; both are imported inside functions only.
left_out = ("migrations.", ".network", ".kernels", "__main__")
def import_all(package, *left_out):
    folders = importlib.import_module(package).__path__
    for module in pkgutil.walk_packages(folders, f"{package}."):
        if not any(part in module.name for part in left_out):
            importlib.import_module(module.name)
sys.modules["loupe.demo"] = None  # its import fails: nothing else needs the demonstration
import_all("loupe", "loupe.demo", *left_out)
del sys.modules["loupe.demo"]
import_all("loupe.demo", *left_out)
print("\\n".join(sys.modules))
"""
HELP = """
import sys
from loupe.flows.cli.main import main
sys.argv = ["loupe", "--help"]
try:
    main()
except SystemExit as end:
    print("\\nEND", end.code, *sys.modules, sep="\\n")
"""


def run_python(code: str, *arguments: str) -> str:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_the_build_backend_is_installed_by_its_hash() -> None:
    locked = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    backends = [re.split("[<>=]", one)[0] for one in PROJECT["build-system"]["requires"]]
    assert [name for name in backends if f"\n{name}==" not in locked] == []
    assert "--no-build-isolation --editable" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_import_contracts_hold() -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--config", "pyproject.toml"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert in_order_of_imports(grimp.build_graph("loupe", cache_dir=None))


def test_examples_use_public_names_only() -> None:
    public = set(loupe.__all__)
    assert len(public) <= 60
    assert set(re.findall(r'^    "(\w+)",$', STUB, re.MULTILINE)) == public
    for path in (ROOT / "examples").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("loupe"):
                assert node.module == "loupe", path
                assert {one.name for one in node.names} <= public, path
            elif isinstance(node, ast.Import):
                assert not [one.name for one in node.names if one.name.startswith("loupe.")], path


def test_importing_loupe_is_cheap() -> None:
    loaded = set(run_python("import loupe, sys; print(*sys.modules)").split())
    assert not {"numpy", "pydantic", "sqlalchemy", "loupe.api"} & loaded


def test_no_chain_of_imports_is_longer_than_19_modules() -> None:
    assert longest_import_chains([])[""] <= 19


def test_every_package_is_built_linted_and_type_checked() -> None:
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert set(packages()) == folders - {"benchmarks", "tests"}
    assert set(PROJECT["tool"]["mypy"]["packages"]) == {"loupe", "benchmarks", "tests"}


@pytest.mark.slow
def test_importing_our_modules_needs_no_demonstration_and_loads_no_heavy_packages() -> None:
    loaded = set(run_python(IMPORT_ALL).split())
    assert "loupe.flows.ufine3c" in loaded
    assert "loupe.models.vllm_chat" in loaded
    assert loaded & HEAVY == set()


def test_help_loads_neither_database_nor_server_nor_models() -> None:
    end = run_python(HELP).rsplit("END", 1)[1].split()
    assert end[0] == "0"
    too_much = {"sqlalchemy", "alembic", "prefect", "httpx", "pydantic", "jinja2", "numpy", "PIL"}
    assert set(end) & (too_much | HEAVY) == set()


def test_no_other_distribution_has_a_package_of_our_name() -> None:
    assert set(packages_distributions().get("loupe", ())) <= {DISTRIBUTION}


def tracked_files() -> Iterator[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        unavailable("this is no git checkout, so nobody can tell which files are tracked")
    for name in listed.stdout.split("\0"):
        path = ROOT / name
        if path.is_file():
            yield path


MACHINE_PATHS = re.compile(rb"(?<![\w.])/(?:work|root|home/[a-z]+)/")
REGISTRIES = re.compile(rb"--(?:extra-)?index-url|/simple/?\s|files\.python" + rb"hosted\.org")


def test_no_tracked_file_contains_machine_paths_or_registries(subtests: pytest.Subtests) -> None:
    cases: list[re.Pattern[bytes]] = [
        MACHINE_PATHS,
        REGISTRIES,
    ]
    for pattern in cases:
        with subtests.test(pattern=pattern):
            this = Path(__file__)
            found = {
                str(path.relative_to(ROOT)): match.group()
                for path in tracked_files()
                if path != this and (match := pattern.search(path.read_bytes()))
            }
            assert found == {}
