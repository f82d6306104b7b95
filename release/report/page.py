"""`index.html`, its style sheet and its script."""

from collections import Counter
from collections.abc import Iterable, Iterator
from decimal import Decimal
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlencode

from release.facts import bibtex, citation
from release.files import found_at
from release.markup import share_text
from release.model_use import PURPOSES, settings_in_words
from release.report.charts import (
    HEIGHT,
    THUMBNAILS,
    WIDTH,
    Bar,
    Bars,
    Histogram,
    Part,
    bars,
    histogram,
    picture_path,
    stacked,
)
from release.rows import number_in
from release.statistics import HISTOGRAM_STEP
from release.terms import apart_sentences, conditions_in_words, texts_sentence, whole_sentence
from schemas.base import Count, DatasetName, HexSha256, Record, Version
from schemas.errors import UsageError
from schemas.pages import page_environment
from schemas.release import Manifest, ModelUse, ReleaseAbout, ReleaseStatistics

REPORT = "report.json"
_LAYOUT = 3
"""Increased whenever the same release would get another report."""


class ReportRecord(Record):
    """The record of a report, stored as `report.json`.

    Attributes:
        layout: the version of the layout.
        release: the id of the release.
        previous: the id of the release that it is compared with.
        previews: whether it has medium-sized pictures of all images.
        beside: the name of the release's folder if it is next to the report, which then shows
            its images at full size; otherwise None.
        rows: the number of rows.
        lineage: whether it shows the lineage of rows.
        withdrawn: the number of rows that are hidden in whole or in part because of withdrawals.
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
        f"or made with other options; remove it or choose a folder that does not exist"
    )


_SHOWN_VIDEOS = 200
_SCRIPTS = ("loading", "elements", "filtering", "searching", "gallery", "row", "lineage", "main")
"""The parts of the script, ordered by dependency."""


def write_page(
    folder: Path, manifest: Manifest, difference: dict[str, Any] | None, withdrawn: str = ""
) -> None:
    """Write the files that hold no data; only the page differs between reports.

    `withdrawn` is a sentence on what was withdrawn from the release.
    """
    scripts = "\n".join(_template(f"scripts/{name}.js") for name in _SCRIPTS)
    texts = {
        "index.html": _render_page(manifest, difference, withdrawn),
        "report.css": _template("report.css"),
        # a single script that exports only the receiver of data
        "report.js": f'(() => {{\n"use strict";\n{scripts}}})();\n',
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")


def _render_page(manifest: Manifest, difference: dict[str, Any] | None, withdrawn: str) -> str:
    """Render the page, which describes the release as a whole."""
    statistics, terms = manifest.statistics, manifest.terms
    sentences = (whole_sentence(manifest), texts_sentence(manifest), *apart_sentences(terms))
    by_granularity = {str(one.granularity): one.words for one in statistics.granularities}
    environment = page_environment("release.report", with_files=True)
    environment.filters.update(
        number=lambda value: f"{value:,}",
        web=_web,
        row_number=number_in,
        thumbnail=partial(picture_path, THUMBNAILS),
        money=_money,
        purpose=PURPOSES.get,
        settings=settings_in_words,
        conditions=conditions_in_words,
    )
    return environment.get_template("index.html.j2").render(
        release=manifest,
        statistics=statistics,
        words=list(_words(statistics)),
        spreads={
            "all captions": statistics.words,
            **(by_granularity if len(by_granularity) > 1 else {}),
        },
        sections={
            "Composition": [*_types(statistics), *_make_up(statistics)],
            "Review": list(_review(statistics)),
            "Similarity": list(_similarity(statistics)),
        },
        cost=list(_cost(manifest.models)),
        difference=difference,
        withdrawn=withdrawn,
        width=WIDTH,
        height=HEIGHT,
        shown_videos=_SHOWN_VIDEOS,
        of_persons=not (statistics.tasks or statistics.contrasts),
        about=manifest.about or ReleaseAbout(),
        bibtex=bibtex(citation(manifest)),
        sentences=[sentence for sentence in sentences if sentence],
    )


def _web(url: str | None) -> str | None:
    """`url` if it is a web or mail address and may become a link, else None."""
    return url if url and url.lower().startswith(("https://", "http://", "mailto:")) else None


def _template(name: str) -> str:
    return files("release.report").joinpath("templates", name).read_text(encoding="utf-8")


# The distributions of a release, from its manifest alone.

_SIX = 100 / 6
_SHOWN_AUTHORS = 30


def _chosen(**filters: str) -> str:
    """The link to the gallery, filtered to the rows with these values."""
    return f"#/rows?{urlencode(filters)}"


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


def _images_by(
    statistics: ReleaseStatistics, title: str, counted: Iterable[tuple[str, int]], facet: str = ""
) -> Bars:
    """A chart of images by value; with `facet`, each value links to its images in the gallery."""
    pairs = list(counted)
    links = [_chosen(**{facet: value}) for value, _ in pairs] if facet else []
    return bars(title, ("", "images"), pairs, whole=statistics.images, links=links)


def _make_up(statistics: ReleaseStatistics) -> Iterator[Bars]:
    images_by = partial(_images_by, statistics)
    splits = ((one.split, one.images) for one in statistics.splits)
    yield images_by("Images by split", splits, "split")
    sources = ((one.name, one.images) for one in statistics.sources)
    yield images_by("Images by source", sources, "source")
    if len(statistics.granularities) > 1:
        kinds = ((str(one.granularity), one.images) for one in statistics.granularities)
        yield images_by("Images by granularity", kinds)
    if statistics.licences:
        licences = ((one.licence, one.images) for one in statistics.licences)
        yield images_by("Images by licence", licences, "licence")
    authors = sorted(statistics.authors, key=lambda one: (-one[1], one[0]))
    more = len(authors) - _SHOWN_AUTHORS
    note = f"the first {_SHOWN_AUTHORS} of {len(authors):,}" if more > 0 else ""
    shown, whole = authors[:_SHOWN_AUTHORS], statistics.captions
    yield bars("Captions by author", ("", "captions"), shown, whole=whole, note=note)
    styles = ((_authors(count), images) for count, images in statistics.styles_per_image)
    yield images_by("Images by their captions’ authors", styles)


def _authors(count: int) -> str:
    return "no captions" if not count else "one author" if count == 1 else f"{count} authors"


def _types(statistics: ReleaseStatistics) -> Iterator[Bars]:
    if statistics.tasks:
        tasks = [(str(one.task or "not known"), one.images) for one in statistics.tasks]
        links = [_chosen(task=str(one.task)) if one.task else "" for one in statistics.tasks]
        whole = statistics.images
        yield bars("Images by task", ("", "images"), tasks, whole=whole, links=links)
        tiers: Counter[str] = Counter()
        for one in statistics.tasks:
            tiers.update({tier.tier: tier.images for tier in one.tiers})
        if tiers:
            yield _images_by(statistics, "Images by their first tier", tiers.items(), "tier")
    if (contrasts := statistics.contrasts) is not None:
        most = max([one.images for one in contrasts.differences] + [1])
        lines = []
        for type_ in contrasts.differences:
            unknown = type_.images - type_.found - type_.edited
            values = [
                ("plain", "found by search", type_.found),
                ("second", "edited", type_.edited),
                ("third", "not known", unknown),
            ]
            bar = stacked(str(type_.difference), values, most)
            link = _chosen(difference=str(type_.difference)) if type_.images else ""
            share = share_text(type_.images, contrasts.contrastive)
            lines.append(bar._replace(text=f"{type_.images:,}", note=share, link=link))
        legend = (("plain", "found by search"), ("second", "edited"), ("third", "not known"))
        title = "Contrastive images by type of difference"
        note = f"{contrasts.contrastive:,} contrastive images of {contrasts.anchors:,} anchors"
        yield Bars(title, ("", "images"), tuple(lines), note, legend)


_DECIDED = (("good", "reviewed by a person"), ("faint", "not reviewed by a person"))


def _review(statistics: ReleaseStatistics) -> Iterator[Bars]:
    lines = list(_reviewed(statistics))
    if lines:
        yield Bars("Reviewed by people", ("", "reviewed"), tuple(lines), "", _DECIDED)
    rewrites = statistics.rewrites
    if rewrites.rejected or rewrites.pending:
        values = [
            ("released", rewrites.released),
            ("rejected", rewrites.rejected),
            ("undecided", rewrites.pending),
        ]
        whole = sum(count for _, count in values)
        yield bars("Rewrites by outcome", ("", "rewrites"), values, whole=whole)
    if statistics.audits:
        yield _audits(statistics)


def _reviewed(statistics: ReleaseStatistics) -> Iterator[Bar]:
    rewrites, made = statistics.rewrites, statistics.descriptions
    kinds = [("rewrites", rewrites.reviewed, rewrites.released)]
    if made is not None:
        by_people = made.written + made.edited
        kinds.append(("descriptions by people", by_people, by_people))
        kinds.append(("drafts of models", made.reviewed, made.drafted))
    if statistics.tracklets is not None:
        kinds.append(("tracklets", statistics.tracklets.reviewed, statistics.tracklets.released))
    for name, reviewed, whole in kinds:
        if whole:
            decided = ("good", "reviewed by a person", reviewed)
            left = ("faint", "not reviewed by a person", whole - reviewed)
            yield stacked(name, [decided, left], whole)


def _audits(statistics: ReleaseStatistics) -> Bars:
    """Error rates with their intervals, on a scale up to the largest of them."""
    most = max(max(one.upper for one in statistics.audits), 0.01)
    lines = []
    for one in statistics.audits:
        start, end = 100 * one.lower / most, 100 * one.upper / most
        interval = Part(round(start, 2), round(end - start, 2), "faint", str(one))
        point = Part(round(max(100 * one.error_rate / most - 0.6, 0), 2), 1.2, "plain", str(one))
        text = f"{100 * one.error_rate:.1f} %"
        note = (
            f"{100 * one.lower:.1f}–{100 * one.upper:.1f} %; {one.wrong:,} of {one.audited:,} wrong"
        )
        lines.append(Bar(one.queue, text, (interval, point), note))
    note = "Accepted items that other people reviewed again; with 95 % intervals."
    return Bars("Error rates found by audit samples", ("queue", "wrong"), tuple(lines), note)


def _similarity(statistics: ReleaseStatistics) -> Iterator[Bars]:
    contrasts = statistics.contrasts
    if contrasts is not None and (nearest := contrasts.nearest) is not None:
        values = [
            ("images", nearest.images),
            ("images, anchors only", nearest.original_images),
            ("captions", nearest.captions),
            ("coarse captions of anchors only", nearest.original_captions),
        ]
        known = [(name, value) for name, value in values if value is not None]
        clipped = [(name, max(value, 0.0)) for name, value in known]
        texts = [f"{value:.3f}" for _, value in known]
        note = f"The mean cosine of a sample with its five nearest others, by {nearest.embedder}."
        made = bars(
            "Similarity to other samples", ("", "cosine"), clipped, texts=texts, note=note, whole=1
        )
        yield made._replace(bars=tuple(bar._replace(note="") for bar in made.bars))
    if statistics.choices:
        lines = []
        for one in statistics.choices:
            share = 100 * one.correct / one.total if one.total else 0
            part = Part(0, round(share, 2), "plain", f"{one.correct:,} of {one.total:,}")
            label = f"{one.direction}, {one.tester}"
            note = f"{one.correct:,} of {one.total:,}"
            lines.append(Bar(label, f"{share:.1f} %", (part,), note))
        title, columns = "Correct answers in the forced-choice test (6-AFC)", ("", "right")
        yield Bars(title, columns, tuple(lines), "", (), round(_SIX, 2), "chance: 16.7 %")


def _money(cost: str | None, currency: str | None) -> str:
    return "not known" if cost is None else f"{cost} {currency or ''}".strip()


def _cost(models: tuple[ModelUse, ...]) -> Iterator[Bars]:
    """One chart per currency, because amounts in different currencies cannot be compared."""
    found: dict[str, list[tuple[str, Decimal]]] = {}
    for one in models:
        if one.cost is not None:
            amounts = found.setdefault(one.currency or "", [])
            amounts.append((f"{one.name}@{one.revision}", Decimal(one.cost)))
    for currency, amounts in found.items():
        total = sum((cost for _, cost in amounts), Decimal(0))
        if not total:
            continue
        values = [(name, float(cost)) for name, cost in amounts]
        texts = [_money(str(cost), currency) for _, cost in amounts]
        note = f"{total} {currency} in total".replace("  ", " ")
        title = "Cost of captions and contrasts by model"
        yield bars(title, ("model", "cost"), values, texts=texts, whole=float(total), note=note)
