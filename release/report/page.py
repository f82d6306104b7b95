"""`index.html`, its style sheet and its script."""

from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

from release.embedder_use import embedder_table
from release.report.charts import HEIGHT, WIDTH
from release.report.differences import ShownDifference
from release.report.numbers import chosen, numbers_of
from release.report.record import ReportRecord
from release.report.stated import stated_facts
from schemas.pages import page_environment
from schemas.release import Manifest

PAGE = "index.html"
STYLE = "report.css"
SCRIPT = "report.js"

_SHOWN_VIDEOS = 200
_SCRIPTS = ("loading", "elements", "filtering", "searching", "gallery", "row", "lineage", "main")
"""The parts of the script, in the order in which they need each other."""


def write_page(
    folder: Path,
    manifest: Manifest,
    record: ReportRecord,
    difference: ShownDifference | None,
    withdrawn: str = "",
) -> None:
    """Writes all that is not data: the same for all reports but the page.

    `withdrawn` is a sentence on what was withdrawn from the release.
    """
    texts = {
        PAGE: render_page(manifest, record, difference, withdrawn),
        STYLE: _template("report.css"),
        SCRIPT: script(_template(f"scripts/{name}.js") for name in _SCRIPTS),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")


def render_page(
    manifest: Manifest, record: ReportRecord, difference: ShownDifference | None, withdrawn: str
) -> str:
    """The page: everything about the release as a whole."""
    environment = page_environment("release.report", with_files=True)
    environment.filters.update(number=_number, web=_web)
    return environment.get_template("index.html.j2").render(
        release=manifest,
        statistics=manifest.statistics,
        numbers=numbers_of(manifest),
        difference=difference,
        withdrawn=withdrawn,
        record=record,
        chosen=chosen,
        width=WIDTH,
        height=HEIGHT,
        shown_videos=_SHOWN_VIDEOS,
        of_persons=not (manifest.statistics.tasks or manifest.statistics.contrasts),
        stated=stated_facts(manifest),
        embedders=embedder_table(manifest),
    )


def script(parts: Iterable[str]) -> str:
    """The parts as one script that leaves nothing behind but the receiver of data."""
    return '(() => {\n"use strict";\n' + "\n".join(parts) + "})();\n"


def _number(value: Any) -> str:
    return f"{value:,}"


def _web(url: str | None) -> str | None:
    """`url` where it leads into the web or to a mailbox, so that it may be a link; else None."""
    return url if url and url.lower().startswith(("https://", "http://", "mailto:")) else None


def _template(name: str) -> str:
    return files("release.report").joinpath("templates", name).read_text(encoding="utf-8")
