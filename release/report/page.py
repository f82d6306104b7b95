"""`index.html`, its style sheet and its script."""

from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError

from release.citation import bibtex, citation
from release.model_use import embedder_table
from release.report.charts import HEIGHT, WIDTH
from release.report.differences import ShownDifference
from release.report.numbers import chosen, numbers_of
from release.terms import (
    TermsLine,
    apart_sentences,
    terms_table,
    texts_sentence,
    whole_sentence,
)
from schemas.base import Record
from schemas.errors import UsageError
from schemas.pages import page_environment
from schemas.release import (
    Count,
    Creator,
    DatasetName,
    HexSha256,
    Manifest,
    ReleaseAbout,
    TermsPermission,
    Version,
)

REPORT = "report.json"
_LAYOUT = 3
"""Grows where the same release gives another report."""


class ReportRecord(Record):
    """A report in one record.

    Attributes:
        layout: which way of making reports it was made in.
        release: the id of the release.
        previous: the id of the release that it is compared with.
        previews: whether it holds middle-sized pictures of all images.
        beside: the name of the folder that the release lies in beside the report, whose images it
            shows at full size; None where it shows none of them.
        rows: how many rows it shows.
        lineage: whether it draws where rows come from.
        withdrawn: of how many rows it shows nothing, or not all, because it was withdrawn.
    """

    schema_version: Literal[1] = 1
    layout: int = _LAYOUT
    release: HexSha256
    dataset: DatasetName
    version: Version
    previous: HexSha256 | None
    previews: bool
    beside: str | None
    rows: Count
    lineage: bool
    withdrawn: Count = 0


def write_record(folder: Path, record: ReportRecord) -> None:
    """Writes `report.json` into `folder`."""
    (folder / REPORT).write_text(record.model_dump_json(indent=2) + "\n", encoding="utf-8")


def is_there(out: Path, wanted: ReportRecord) -> bool:
    """Whether the very report lies at `out`; False where there is nothing, or an empty folder.

    Raises:
        UsageError: something else is there.
    """
    if not (out.exists() or out.is_symlink()) or (out.is_dir() and not any(out.iterdir())):
        return False
    try:
        found = ReportRecord.model_validate_json((out / REPORT).read_text(encoding="utf-8"))
    except (OSError, ValidationError, ValueError) as error:
        raise UsageError(
            f"{out} exists and is not a report; choose a folder that does not exist"
        ) from error
    if found == wanted:
        return True
    raise UsageError(
        f"{out} is another report: of {found.dataset} {found.version} ({found.release[:12]}), "
        f"or made in another way; remove it or choose a folder that does not exist"
    )


class _StatedFacts(NamedTuple):
    """The content of the cards "Cite and contact" and "Terms".

    Attributes:
        about: what the curators state; everything may be missing.
        creators: who they are.
        doi_page: where the digital object identifier leads.
        bibtex: how the release is cited.
        terms: a line for each licence of images.
        sentences: what the licences ask for, of the whole and of the texts.
        permissions: why terms in words of their own permit the release.
    """

    about: ReleaseAbout
    creators: tuple[Creator, ...]
    doi_page: str | None
    bibtex: str
    terms: list[TermsLine]
    sentences: list[str]
    permissions: tuple[TermsPermission, ...]


def _stated_facts(manifest: Manifest) -> _StatedFacts:
    """The facts, in the sentences of the dataset card."""
    about = manifest.about or ReleaseAbout()
    details = (whole_sentence(manifest), texts_sentence(manifest), *apart_sentences(manifest.terms))
    return _StatedFacts(
        about=about,
        creators=about.creators,
        doi_page=f"https://doi.org/{about.doi}" if about.doi else None,
        bibtex=bibtex(citation(manifest)),
        terms=terms_table(manifest.terms),
        sentences=[sentence for sentence in details if sentence],
        permissions=manifest.terms.permissions,
    )


_PAGE = "index.html"
_STYLE = "report.css"
_SCRIPT = "report.js"

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
        _PAGE: _render_page(manifest, record, difference, withdrawn),
        _STYLE: _template("report.css"),
        _SCRIPT: _script(_template(f"scripts/{name}.js") for name in _SCRIPTS),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")


def _render_page(
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
        stated=_stated_facts(manifest),
        embedders=embedder_table(manifest),
    )


def _script(parts: Iterable[str]) -> str:
    """The parts as one script that leaves nothing behind but the receiver of data."""
    return '(() => {\n"use strict";\n' + "\n".join(parts) + "})();\n"


def _number(value: Any) -> str:
    return f"{value:,}"


def _web(url: str | None) -> str | None:
    """`url` where it leads into the web or to a mailbox, so that it may be a link; else None."""
    return url if url and url.lower().startswith(("https://", "http://", "mailto:")) else None


def _template(name: str) -> str:
    return files("release.report").joinpath("templates", name).read_text(encoding="utf-8")
