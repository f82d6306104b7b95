"""`index.html` and its style sheet."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, NamedTuple

from loupe.release.card.documents import (
    BLIND_QUESTIONS,
    p_value_in_words,
    rendering,
    too_few_in_words,
)
from loupe.release.card.facts import (
    apart_sentences,
    bibtex,
    citation,
    conditions_in_words,
    drawn_sentence,
    faces_sentence,
    has_identities,
    limitations,
    quota_sentence,
    texts_sentence,
    unreviewed_sentence,
    whole_sentence,
)
from loupe.release.card.markup import share_text
from loupe.release.card.model_use import PURPOSES, settings_in_words
from loupe.release.format.files import found_at
from loupe.release.format.rows import number_in
from loupe.release.report.charts import (
    HEIGHT,
    WIDTH,
    Histogram,
    histogram,
    thumbnail_path,
)
from loupe.schemas.base import Count, DatasetName, EntityId, HexSha256, Record, Version
from loupe.schemas.errors import UsageError
from loupe.schemas.pages import page_environment
from loupe.schemas.release import (
    HISTOGRAM_STEP,
    Manifest,
    ModelUse,
    ReleaseAbout,
    ReleaseStatistics,
)

REPORT = "report.json"
_LAYOUT = 9
"""Increased whenever the same release would get another report."""


class ReportRecord(Record):
    """The record of a report, stored as `report.json`.

    Attributes:
        layout: the version of the layout.
        release: the id of the release.
        previous: the id of the release that it is compared with.
        rows: the number of rows.
        withdrawn: the number of rows that are hidden in whole or in part because of withdrawals.
        withheld: the digest of the entities withdrawn from both releases; None if there are none.
    """

    schema_version: Literal[1] = 1
    layout: int = _LAYOUT
    release: HexSha256
    dataset: DatasetName
    version: Version
    previous: HexSha256 | None
    rows: Count
    withdrawn: Count = 0
    withheld: EntityId | None = None


def write_record(folder: Path, record: ReportRecord) -> None:
    """Write `report.json` into `folder`."""
    (folder / REPORT).write_text(record.model_dump_json(indent=2) + "\n", encoding="utf-8")


def _read_record(folder: Path) -> ReportRecord:
    return ReportRecord.model_validate_json((folder / REPORT).read_text(encoding="utf-8"))


def is_there(out: Path, wanted: ReportRecord) -> bool:
    """Whether exactly this report is at `out`; False if `out` is missing or an empty folder.

    Raises:
        UsageError: if `out` is something else.
    """
    found = found_at(out, _read_record, "a report")
    if found is None or found == wanted:
        return found is not None
    raise UsageError(
        f"{out} is another report: of {found.dataset} {found.version} ({found.release[:12]}), "
        f"or made with other options or before a withdrawal; remove it or choose a folder that "
        f"does not exist"
    )


_SHOWN_VIDEOS = 200
_SHOWN_AUTHORS = 30
_SHOWN_ROWS = 12
"""Rows of each kind in the difference from the previous release."""


class Tile(NamedTuple):
    """A row in the gallery.

    `identity` is empty for images without one, `text` the beginning of the first caption.
    """

    number: int
    source: str
    split: str
    identity: str
    text: str


def write_page(
    folder: Path,
    manifest: Manifest,
    difference: Mapping[str, Any] | None,
    tiles: Sequence[Tile] = (),
    withdrawn: str = "",
) -> None:
    """Write the page and its style sheet.

    `withdrawn` is a sentence on what was withdrawn from the release.

    Raises:
        IntegrityError: if the manifest has values that no release has.
    """
    with rendering(manifest):
        page = _render_page(manifest, difference, tiles, withdrawn)
    for name, text in {"index.html": page, "report.css": _template("report.css")}.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")


def _render_page(
    manifest: Manifest,
    difference: Mapping[str, Any] | None,
    tiles: Sequence[Tile],
    withdrawn: str,
) -> str:
    """Render the page, which describes the release as a whole."""
    statistics, terms = manifest.statistics, manifest.terms
    sentences = (whole_sentence(manifest), texts_sentence(manifest), *apart_sentences(terms))
    by_granularity = {str(one.granularity): one.words for one in statistics.granularities}
    environment = page_environment("loupe.release.report", with_files=True)
    environment.filters.update(
        number=lambda value: f"{value:,}",
        web=_web,
        row_number=number_in,
        thumbnail=thumbnail_path,
        money=_money,
        purpose=PURPOSES.get,
        settings=settings_in_words,
        conditions=conditions_in_words,
        blind_question=BLIND_QUESTIONS.get,
        too_few=too_few_in_words,
        p_value=p_value_in_words,
    )
    environment.globals["share"] = share_text
    return environment.get_template("index.html.j2").render(
        release=manifest,
        statistics=statistics,
        words=list(_words(statistics)),
        spreads={
            "all captions": statistics.words,
            **(by_granularity if len(by_granularity) > 1 else {}),
        },
        tiers=_tiers(statistics),
        costs=_costs(manifest.models),
        difference=difference,
        tiles=tiles,
        withdrawn=withdrawn,
        width=WIDTH,
        height=HEIGHT,
        shown_videos=_SHOWN_VIDEOS,
        shown_authors=_SHOWN_AUTHORS,
        shown_rows=_SHOWN_ROWS,
        has_identities=has_identities(manifest),
        about=manifest.about or ReleaseAbout(),
        bibtex=bibtex(citation(manifest)),
        faces_sentence=faces_sentence(manifest) or drawn_sentence(manifest),
        unreviewed_sentence=unreviewed_sentence(manifest),
        limitations=limitations(manifest),
        quota_sentence=quota_sentence(manifest),
        sentences=[sentence for sentence in sentences if sentence],
    )


def _web(url: str | None) -> str | None:
    """`url` if it is a web or mail address and may become a link, else None."""
    return url if url and url.lower().startswith(("https://", "http://", "mailto:")) else None


def _template(name: str) -> str:
    return files("loupe.release.report").joinpath("templates", name).read_text(encoding="utf-8")


# The distributions of a release, from its manifest alone.


def _words(statistics: ReleaseStatistics) -> Iterator[Histogram]:
    """One histogram per granularity, all on the same horizontal scale."""
    of_all = statistics.granularities
    last = [start for one in of_all for start, _ in one.histogram]
    end = max(last, default=0) + HISTOGRAM_STEP
    for one in of_all:
        alone = len(of_all) == 1
        title = "Words per caption" if alone else f"Words per caption: {one.granularity}"
        images = one.images - statistics.candidates if alone else one.images
        note = (
            f"{one.words.count:,} captions of {images:,} images; median "
            f"{one.words.median:,}, mean {one.words.mean:,.1f}"
        )
        yield histogram(title, one.histogram, HISTOGRAM_STEP, end=end, note=note)


def _tiers(statistics: ReleaseStatistics) -> Counter[str]:
    """The number of images by their first tier."""
    tiers: Counter[str] = Counter()
    for task in statistics.tasks:
        tiers.update({one.tier: one.images for one in task.tiers})
    return tiers


def _costs(
    models: tuple[ModelUse, ...],
) -> list[tuple[str, Decimal, list[tuple[str, Decimal]]]]:
    """Currency, total, and the cost of each model; amounts in currencies cannot be compared."""
    found: dict[str, list[tuple[str, Decimal]]] = {}
    for one in models:
        if one.cost is not None:
            amounts = found.setdefault(one.currency or "", [])
            amounts.append((f"{one.name}@{one.revision}", Decimal(one.cost)))
    costs = []
    for currency, amounts in found.items():
        total = sum((cost for _, cost in amounts), Decimal(0))
        if total:
            costs.append((currency, total, amounts))
    return costs


def _money(cost: str | Decimal | None, currency: str | None) -> str:
    return "not known" if cost is None else f"{cost} {currency or ''}".strip()
