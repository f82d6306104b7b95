"""Size and readability of the product: `make measure`.

Counts cover the installed packages, without tests and benchmarks. The modules and functions that
one caption passes are those called in a build of one image with one caption. What runs while a
module is imported, class bodies, comprehensions, lambdas and templates do not count.
"""

import argparse
import ast
import io
import json
import os
import re
import subprocess
import sys
import threading
import tokenize
from collections import Counter
from collections.abc import Iterator
from inspect import CO_OPTIMIZED
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any, NamedTuple

import grimp
from PIL import Image

ROOT = Path(__file__).parents[1]
ODD_WORDS = re.compile(
    r"\b(whence|anew|likewise|whoever|whom|told|tells? of|held against|come by|came by|for want of|"
    r"at the least|stands? (?:in|under|above|beside)|thereof|mend(?:ed|s)?)\b",
    re.IGNORECASE,
)
"""Words that are archaic or unidiomatic in technical English."""
_CODE_TOKENS = {tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.STRING}
_ONE_CAPTION = """
dataset = "one-caption"
gate = "auto"
identities_per_source = 1
[[sources]]
name = "one"
format = "cuhk-pedes"
granularity = "coarse"
annotations = "one.json"
images = "."
licence = "CC0-1.0"
citation = "none"
"""
_ONE_PERSON = {
    "split": "test",
    "captions": ["A woman with long black hair wears a red coat, blue jeans and white shoes."],
    "file_path": "one.jpg",
    "id": 1,
}


def packages() -> list[str]:
    """Top-level folders of the product: those that `src/loupe` links to."""
    return sorted(link.name for link in (ROOT / "src" / "loupe").iterdir() if link.is_symlink())


def files_of(folders: list[str]) -> list[Path]:
    """The Python files that git tracks in `folders`."""
    command = ["git", "ls-files", *(f"{folder}/*.py" for folder in folders)]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).exists()]


def docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    """Docstrings of a module and of its classes and functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            value = first.value if isinstance(first, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value


class Size(NamedTuple):
    """Tokens of code and the lines that they are on, without comments and docstrings."""

    tokens: int
    lines: int


def size_of(source: str, tree: ast.Module) -> Size:
    """Count the names, operators, numbers and strings of a module."""
    documented: set[int] = set()
    for text in docstrings(tree):
        documented.update(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    tokens = 0
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in _CODE_TOKENS and token.start[0] not in documented:
            tokens += 1
            lines.update(range(token.start[0], token.end[0] + 1))
    return Size(tokens, len(lines))


def comprehensions(tree: ast.Module) -> tuple[int, int]:
    """Number of comprehensions and generator expressions, and of those inside another."""
    kinds = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
    every = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    inside = {
        id(inner)
        for outer in every
        for inner in ast.walk(outer)
        if isinstance(inner, kinds) and inner is not outer
    }
    return len(every), len(inside)


def used_once_share(trees: dict[Path, ast.Module]) -> float:
    """Share of public functions whose only use is one reference in another module.

    References are counted by name, so names that are defined twice are left out.
    """
    defined: Counter[str] = Counter()
    home: dict[str, Path] = {}
    uses: Counter[str] = Counter()
    elsewhere: Counter[str] = Counter()
    for path, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name[0] != "_":
                defined[node.name] += 1
                home[node.name] = path
    for path, tree in trees.items():
        for reference in ast.walk(tree):
            name = getattr(reference, "id", None) or getattr(reference, "attr", None)
            if name in home:
                uses[name] += 1
                elsewhere[name] += home[name] != path
    unique = [name for name, times in defined.items() if times == 1]
    return sum(uses[name] == 1 == elsewhere[name] for name in unique) / max(len(unique), 1)


def longest_import_chains(folders: list[str]) -> dict[str, int]:
    """Number of modules in the longest chain of imports, of everything ("") and in each folder."""
    graph = grimp.build_graph("loupe", cache_dir=None)
    chains = {"": longest_chain(graph, graph.modules)}
    for folder in folders:
        root = f"loupe.{folder}"
        within = {name for name in graph.modules if f"{name}.".startswith(f"{root}.")}
        chains[folder] = longest_chain(graph, within)
    return chains


def longest_chain(graph: grimp.ImportGraph, modules: set[str]) -> int:
    """Number of modules in the longest chain of imports between `modules`."""
    imported = {
        module: graph.find_modules_directly_imported_by(module) & modules for module in modules
    }
    length: dict[str, int] = {}

    def measured(module: str, above: frozenset[str]) -> int:
        if module not in length:
            below = imported[module] - above  # imports inside functions may form cycles
            length[module] = 1 + max((measured(name, above | {name}) for name in below), default=0)
        return length[module]

    return max(measured(module, frozenset({module})) for module in sorted(imported))


def modules_of_one_caption() -> dict[str, int]:
    """Number of our modules and functions that run when one caption is built and released."""
    program = "from benchmarks.measure import trace_one_caption; trace_one_caption()"
    with TemporaryDirectory() as home:
        ran = subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "LOUPE_HOME": home},
            stdout=subprocess.PIPE,
            stderr=sys.stderr,
            text=True,
            check=True,
        )
    return dict(json.loads(ran.stdout.splitlines()[-1]))


def trace_one_caption() -> None:
    """Build the captions of one person in this process and print what ran as JSON."""
    from loupe.flows.cli.main import main

    seen: set[tuple[str, str, int]] = set()
    with TemporaryDirectory() as folder:
        config = Path(folder, "measure.toml")
        config.write_text(_ONE_CAPTION, encoding="utf-8")
        Path(folder, "one.json").write_text(json.dumps([_ONE_PERSON]), encoding="utf-8")
        Image.effect_noise((96, 192), 64).convert("RGB").save(Path(folder, "one.jpg"))
        sys.argv = ["loupe", "run", "build-ufine3c", "--config", str(config)]
        recorder = _Recorder(f"{ROOT / 'src' / 'loupe'}/", seen)
        threading.setprofile(recorder)
        sys.setprofile(recorder)
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise
        finally:
            sys.setprofile(None)
    print(json.dumps({"modules": len({path for path, _, _ in seen}), "functions": len(seen)}))


class _Recorder:
    """A profile function that adds the functions of our files that are called to `seen`."""

    def __init__(self, root: str, seen: set[tuple[str, str, int]]) -> None:
        self._root = root
        self._seen = seen
        self._importing = threading.local()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        code, depth = frame.f_code, getattr(self._importing, "depth", 0)
        if code.co_name == "<module>":
            self._importing.depth = depth + {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and depth == 0 and _is_function_of(code, self._root):
            self._seen.add((code.co_filename, code.co_qualname, code.co_firstlineno))


def _is_function_of(code: CodeType, root: str) -> bool:
    is_function = code.co_flags & CO_OPTIMIZED and not code.co_name.startswith("<")
    is_ours = code.co_filename.startswith(root) and code.co_filename.endswith(".py")
    return bool(is_function) and is_ours


def measure() -> dict[str, float]:
    """Compute all figures by name."""
    names = packages()
    sources = {path: path.read_text(encoding="utf-8") for path in files_of(names)}
    trees = {path: ast.parse(source) for path, source in sources.items()}
    words = [text for tree in trees.values() for text in docstrings(tree)]
    docs = " ".join(str(text.value) for text in words)
    tests = [path.read_text(encoding="utf-8") for path in files_of(["tests"])]
    passed = modules_of_one_caption()
    chains = longest_import_chains(names)
    sizes = [size_of(sources[path], trees[path]) for path in sources]
    tokens, lines = sum(one.tokens for one in sizes), sum(one.lines for one in sizes)
    found = [comprehensions(tree) for tree in trees.values()]
    return {
        "tokens of code": tokens,
        "lines of code": lines,
        "tokens a line": round(tokens / lines, 2),
        "comprehensions per 1,000 lines": round(1000 * sum(all_ for all_, _ in found) / lines, 1),
        "comprehensions inside others": sum(inside for _, inside in found),
        "files": len(sources),
        "lines of test code": sum(size_of(text, ast.parse(text)).lines for text in tests),
        "test files": len(tests),
        "public names": sum(
            isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
            for tree in trees.values()
            for node in tree.body
        ),
        "public functions used once, elsewhere (%)": round(100 * used_once_share(trees), 1),
        "longest import chain": chains[""],
        **{f"longest import chain in {name}/": chains[name] for name in names},
        "modules that one caption passes": passed["modules"],
        "functions that one caption passes": passed["functions"],
        "odd words per 1,000 of docstrings": round(
            1000 * len(ODD_WORDS.findall(docs)) / len(docs.split()), 2
        ),
        "words of documentation": sum(
            any(map(str.isalnum, token))
            for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
            for token in path.read_text(encoding="utf-8").split()
        ),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    figures = measure()
    if parser.parse_args().json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:45}{value:>10,}")
