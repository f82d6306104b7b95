"""The site of the documentation: `make docs`."""

import re
import shutil
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import loupe
from benchmarks import reference, settings, site

NAMED = re.compile(r"^::: (loupe\.[\w.]+)", re.MULTILINE)
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a site without the outputs of notebooks."""
    out = tmp_path_factory.mktemp("site")
    site.write_pages(out / "docs", runs_notebooks=False)
    return out


@pytest.mark.slow
def test_the_site_is_built_and_loads_nothing_from_elsewhere(out: Path) -> None:
    assert site.build(out) == 0
    pages = sorted((out / "site").rglob("*.html"))
    assert len(pages) > len(list(site.DOCS.glob("*.md")))
    foreign = [f"{page.name}: {url}" for page in pages for url in loaded_by(page) if "//" in url]
    assert not foreign


@pytest.mark.slow
@pytest.mark.parametrize("target", ["start.md#no-such-heading", "no-such-page.md"])
def test_a_broken_link_fails(out: Path, target: str, tmp_path: Path) -> None:
    shutil.copytree(out / "docs", tmp_path / "docs")
    with (tmp_path / "docs" / "index.md").open("a", encoding="utf-8") as page:
        page.write(f"\n[broken]({target})\n")
    assert site.build(tmp_path) == 1


def test_a_link_to_a_file_that_is_gone_fails() -> None:
    with pytest.raises(SystemExit, match=r"docs/index.md: there is no ../nowhere.py"):
        site.site_link("nowhere", "../nowhere.py", site.DOCS / "index.md")


def test_every_page_is_in_the_navigation(out: Path) -> None:
    config = tomllib.loads((site.ROOT / "zensical.toml").read_text(encoding="utf-8"))
    listed = sorted(pages_of(config["project"]["nav"]))
    there = sorted(str(page.relative_to(out / "docs")) for page in (out / "docs").rglob("*.md"))
    assert listed == there


def test_every_picture_is_taken_by_the_script_and_shown() -> None:
    script = (site.ROOT / "benchmarks" / "pictures.py").read_text(encoding="utf-8")
    texts = "".join(page.read_text(encoding="utf-8") for page in site.DOCS.glob("*.md"))
    pictures = [one.name for one in (site.DOCS / "images").iterdir()]
    assert [name for name in pictures if f'"{name}"' not in script] == []
    assert [name for name in pictures if f"images/{name}" not in texts] == []


def test_every_public_name_is_in_the_reference() -> None:
    text = (site.DOCS / "api.md").read_text(encoding="utf-8")
    named = {place.rpartition(".")[2] for place in NAMED.findall(text)}
    assert named >= {*loupe.__all__, *loupe.testing.__all__} - {"steps", "testing"}
    assert "`loupe.steps`" in text
    assert "`loupe.testing`" in text


def test_the_table_of_public_names_is_up_to_date() -> None:
    assert reference.API_PAGE.read_text(encoding="utf-8") == reference.api_page(), "make reference"


def test_the_reference_of_settings_is_up_to_date() -> None:
    assert settings.PAGE.read_text(encoding="utf-8") == settings.page(), "make reference"


@pytest.mark.slow
@pytest.mark.parametrize("source", sorted(site.NOTEBOOKS.glob("*.py")), ids=lambda path: path.stem)
def test_a_notebook_runs_beside_files_with_the_names_of_our_packages(
    source: Path, tmp_path: Path
) -> None:
    for foreign in ("models", "release", "sources"):
        (tmp_path / foreign).mkdir()
        (tmp_path / foreign / "__init__.py").write_text("raise ImportError('not Loupe')\n")
    (tmp_path / "prompts.py").write_text("raise ImportError('not Loupe')\n")
    notebook = site.read_notebook(source)
    site.run_notebook(notebook, str(tmp_path))
    outputs = [one for cell in notebook.cells for one in cell.get("outputs", ())]
    shown = "".join(one.get("data", {}).get("text/html", "") for one in outputs)
    assert "data:image/jpeg;base64," in shown or source.stem == "review"
    assert "file:" not in shown
    assert "<pre" not in shown  # tables of the terminal, which Jupyter would show a second time
    assert list(tmp_path.glob(".loupe/releases/*/manifest.json"))


def pages_of(entries: Any) -> Iterator[str]:
    """Yield the pages of a navigation."""
    if isinstance(entries, str):
        yield entries
        return
    for entry in entries.values() if isinstance(entries, dict) else entries:
        yield from pages_of(entry)


def loaded_by(page: Path) -> list[str]:
    """Return the addresses that a page loads when it is opened."""
    found: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
            values = dict(attributes)
            if tag != "link" or values.get("rel") not in {"canonical", "prev", "next"}:
                found.append(values.get(LOADED.get(tag, "")) or "")

    Reader().feed(page.read_text(encoding="utf-8"))
    return [url for url in found if not url.startswith("data:")]
