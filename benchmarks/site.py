"""Build the site of the documentation in `build/site`: `make docs`.

    python -m benchmarks.site [--without-notebooks] [--out build]

Copies the pages of `docs/` into `build/docs`, with those of the examples, the changelog and the
guide for contributors; runs the notebooks and writes them as pages with what they print; and lets
Zensical build all (`zensical.toml`). A link to a page or an anchor that is not there ends it with
exit code 1.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
NOTEBOOKS = DOCS / "notebooks"
COPIED = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
EXAMPLES = ("products", "web_persons", "plugin")
CELL_SECONDS = 300  # on a busy machine; together they take less than two minutes on an idle one
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
_CODE_OF = {".py": "python", ".toml": "toml", ".md": "markdown", ".csv": "text"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--without-notebooks", action="store_true", help="do not run them")
    parser.add_argument("--out", type=Path, default=ROOT / "build")
    arguments = parser.parse_args()
    write_pages(arguments.out / "docs", runs_notebooks=not arguments.without_notebooks)
    sys.exit(build(arguments.out))


def write_pages(folder: Path, *, runs_notebooks: bool) -> None:
    """Write all pages of the site, in Markdown, into a new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(DOCS, folder, ignore=shutil.ignore_patterns("*.toml", "notebooks"))
    for page in DOCS.glob("*.md"):
        (folder / page.name).write_text(linked(page), encoding="utf-8")
    for name, place in COPIED.items():
        (folder / place).write_text(linked(ROOT / name), encoding="utf-8")
    (folder / "examples").mkdir()
    for name in EXAMPLES:
        text = "\n".join(example_page(ROOT / "examples" / name))
        (folder / "examples" / f"{name}.md").write_text(text, encoding="utf-8")
    (folder / "notebooks").mkdir()
    for source in sorted(NOTEBOOKS.glob("*.py")):
        write_notebook(source, folder / "notebooks", runs=runs_notebooks)


def linked(page: Path) -> str:
    """Return a page with its links as the site needs them."""
    text = page.read_text(encoding="utf-8")
    return _LINK.sub(lambda found: site_link(found[1], found[2], page), text)


def site_link(text: str, target: str, page: Path) -> str:
    """Return a link of a page of the repository as one of the site.

    A link to a file that is no page of the site is its text alone, but the file must exist.
    """
    path, _, anchor = target.partition("#")
    if not path or "://" in target:
        return f"[{text}]({target})"
    file = (page.parent / path).resolve()
    if not file.exists():
        raise SystemExit(f"{page.relative_to(ROOT)}: there is no {target}")
    place = place_of(file)
    if place is None:
        return f"`{text}`" if Path(text).suffix else text
    here = place_of(page)
    assert here is not None  # noqa: S101 - only pages of the site have links
    relative = os.path.relpath(place, here.parent)
    return f"[{text}]({relative}{'#' if anchor else ''}{anchor})"


def place_of(file: Path) -> Path | None:
    """Return where a file of the repository is in the site, or None if it is not there."""
    named = file.relative_to(ROOT)
    if named.parts[0] == "docs" and named.suffix == ".py":
        return Path(*named.parts[1:]).with_suffix(".md")
    if named.parts[0] == "docs" and named.suffix != ".toml":
        return Path(*named.parts[1:])
    if named.parts[0] == "examples" and named.name == "README.md":
        return Path("examples") / f"{named.parts[1]}.md"
    if named == Path("README.md"):
        return Path("index.md")
    return Path(COPIED[str(named)]) if str(named) in COPIED else None


def example_page(folder: Path) -> Iterator[str]:
    """Yield the page of an example: its text, and all its files."""
    yield linked(folder / "README.md")
    yield "## Its files\n"
    for file in sorted(folder.rglob("*")):
        if file.suffix in _CODE_OF and file.name != "README.md" and "egg-info" not in str(file):
            body = file.read_text(encoding="utf-8").rstrip()
            yield f"`{file.relative_to(folder)}`\n\n````{_CODE_OF[file.suffix]}\n{body}\n````\n"


def write_notebook(source: Path, folder: Path, *, runs: bool) -> None:
    """Write a notebook as a page, with what it prints and the pictures that it draws."""
    from nbconvert import MarkdownExporter

    notebook = read_notebook(source)
    with tempfile.TemporaryDirectory() as working:
        if runs:
            run_notebook(notebook, working)
        body, _ = MarkdownExporter().from_notebook_node(notebook)  # type: ignore[no-untyped-call]
    place = folder / f"{source.stem}.md"
    place.write_text(body.replace(f"{working}/", ""), encoding="utf-8")


def read_notebook(source: Path) -> Any:
    """Return the notebook in a file of Python with cells."""
    import jupytext

    return jupytext.read(source, fmt="py:percent")


def run_notebook(notebook: Any, folder: str) -> None:
    """Run a notebook in a folder, and add its outputs to it.

    Raises:
        CellExecutionError: a cell raised, or a command of it failed.
    """
    from nbclient import NotebookClient
    from nbconvert.filters import strip_ansi

    client = NotebookClient(
        notebook,
        timeout=CELL_SECONDS,
        kernel_name="python3",
        coalesce_streams=True,
        resources={"metadata": {"path": folder}},
    )
    client.execute(env=reader_environment())
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if output.output_type == "stream":
                output.text = strip_ansi(output.text)  # type: ignore[no-untyped-call]


def reader_environment() -> dict[str, str]:
    """Return the variables of somebody who has activated the environment and set nothing."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("LOUPE_")}
    path = os.pathsep.join([str(Path(sys.executable).parent), own.get("PATH", os.defpath)])
    return own | {"PATH": path, "COLUMNS": "110"}


def build(out: Path) -> int:
    """Build the site; return the exit code of Zensical, which is 1 if a link is broken."""
    config = ROOT / "zensical.toml"
    program = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    if out != ROOT / "build":
        config = out / "zensical.toml"
        text = (ROOT / "zensical.toml").read_text(encoding="utf-8")
        text = text.replace('"build/', '"').replace('["src"]', f'["{ROOT / "src"}"]')
        config.write_text(text, encoding="utf-8")
    return subprocess.run([*program, "--config-file", str(config)], cwd=ROOT).returncode


if __name__ == "__main__":
    main()
