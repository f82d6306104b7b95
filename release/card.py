"""The dataset card in Markdown: what a user of a release must know."""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import dropwhile
from typing import Any, Final, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from release.citation import bibtex, citation
from release.contamination import distance_in_words, leak_rule
from release.facts import (
    cited_sources,
    collection_sentence,
    is_of_persons,
    review_shares,
    uncited_names,
)
from release.markup import as_link, as_text, yaml_lines
from release.model_use import embedder_table
from release.published import CCD_TABLE, COMPARED, RECOS, RECOS_TASKS, published_beside
from release.rows import Column, RowForm, columns_of
from release.terms import (
    apart_sentences,
    stated_licences,
    terms_table,
    texts_sentence,
    whole_sentence,
)
from schemas.licences import licence_of
from schemas.quality import wilson_interval
from schemas.records import Split
from schemas.release import (
    AgreementStatistics,
    Distribution,
    Manifest,
    ReleaseAbout,
    SplitStatistics,
    TaskStatistics,
)
from schemas.retrieval_task import TIERS, Tier, tiers_within
from schemas.similarity import Contamination
from schemas.taxonomy import PrimaryType

_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_HUB: Final = {
    **{
        name: name.lower()
        for name in (
            *("CC0-1.0", "CC-BY-2.0", "CC-BY-2.5", "CC-BY-3.0", "CC-BY-4.0"),
            *("CC-BY-SA-3.0", "CC-BY-SA-4.0", "CC-BY-NC-2.0", "CC-BY-NC-3.0", "CC-BY-NC-4.0"),
            *("CC-BY-NC-SA-2.0", "CC-BY-NC-SA-3.0", "CC-BY-NC-SA-4.0"),
            *("MIT", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "Unlicense"),
            *("CDLA-Sharing-1.0", "CDLA-Permissive-1.0", "CDLA-Permissive-2.0", "etalab-2.0"),
        )
    },
    "ODbL-1.0": "odbl",
    "ODC-By-1.0": "odc-by",
    "PDDL-1.0": "pddl",
}
"""The hub's identifiers of licences (huggingface.co/docs/hub/repositories-licenses)."""


def _front_matter(manifest: Manifest) -> str:
    """The front matter of a card, without the `---` lines around it."""
    return "\n".join(yaml_lines(_front_values(manifest)))


def _front_values(manifest: Manifest) -> dict[str, Any]:
    """The values of the front matter, by the hub's names."""
    statistics, about = manifest.statistics, manifest.about
    published = published_beside(manifest)
    name = f"{published.title}-style {manifest.dataset}" if published else manifest.dataset
    spoken = languages(manifest)
    return {
        "pretty_name": about.title if about and about.title else name,
        **_licence_values(manifest),
        "language": spoken,
        "multilinguality": ["translation" if len(spoken) > 1 else "monolingual"],
        "annotations_creators": _creators_of_captions(manifest),
        "language_creators": _creators_of_captions(manifest),
        "source_datasets": ["original" if manifest.videos else "extended"],
        "task_categories": ["image-to-text"],
        "tags": _tags(manifest),
        "size_categories": [size_category(statistics.images)],
        "configs": [
            {
                "config_name": "default",
                "data_files": [
                    {"split": one.split, "path": f"data/{one.split}-*.parquet"}
                    for one in statistics.splits
                ],
            }
        ],
        "dataset_info": {
            "config_name": "default",
            "features": _features(columns_of(form_of(manifest))),
        },
    }


def languages(manifest: Manifest) -> list[str]:
    """The languages of the captions and of their translations (ISO 639-1)."""
    contrasts = manifest.statistics.contrasts
    translated = [language for language, _ in contrasts.translations] if contrasts else []
    return ["en", *sorted(set(translated) - {"en"})]


def form_of(manifest: Manifest) -> RowForm:
    """The form of a release, which determines the columns of its rows."""
    counted = manifest.statistics
    contrasts = counted.contrasts is not None
    return RowForm(bool(counted.tasks), contrasts, bool(counted.licences) or contrasts)


def _creators_of_captions(manifest: Manifest) -> list[str]:
    """The creators of the captions, by the hub's terms."""
    statistics = manifest.statistics
    made = statistics.descriptions
    here = made.written + made.edited + made.drafted if made else 0
    people = (made.written + made.edited if made else 0) + statistics.rewrites.edited
    kinds = {
        "found": sum(source.originals for source in statistics.sources) > here,
        "expert-generated": people > 0,
        "machine-generated": bool((made and made.drafted) or statistics.rewrites.released),
    }
    return [kind for kind, is_there in kinds.items() if is_there] or ["no-annotation"]


def size_category(rows: int) -> str:
    """The Hugging Face term for a number of rows."""
    return next((name for limit, name in _SIZES if rows < limit), "n>1M")


def hub_licences(manifest: Manifest) -> list[str]:
    """The hub's identifiers for the licences of images and texts; empty if one of them has none."""
    words: list[str | None] = []
    for stated in stated_licences(manifest):
        known = licence_of(stated)
        parts = [name for choice in known.choices for name in sorted(choice)] if known else []
        is_one = known is not None and len(parts) == 1
        words.append(_HUB.get(parts[0]) if is_one else None)
    return sorted({word for word in words if word}) if all(words) else []


def _licence_values(manifest: Manifest) -> dict[str, Any]:
    words = hub_licences(manifest)
    if words:
        return {"license": words[0] if len(words) == 1 else words}
    return {
        "license": "other",
        "license_name": "per-image" if manifest.statistics.licences else "per-source",
        "license_link": "README.md#licences-and-citations",
    }


def _tags(manifest: Manifest) -> list[str]:
    tags = ["image-text-retrieval"]
    tags += ["person-retrieval"] if is_of_persons(manifest) else []
    tags += ["demonstration"] if manifest.demonstration else []
    return tags + (["unreviewed"] if manifest.unreviewed else [])


def _features(columns: Iterable[Column]) -> list[dict[str, Any]]:
    """Columns as `datasets` writes them into front matter."""
    return [{"name": one.name, **_kind(one)} for one in columns]


def _kind(column: Column) -> dict[str, Any]:
    if column.parts and column.type != "image":
        parts = _features(column.parts)
        return {"list": parts} if column.is_list else {"struct": parts}
    return {"list" if column.is_list else "dtype": column.type}


CARD = "README.md"

_CCD_CHOICES = {"caption-to-image": (96.5, 95.8), "image-to-caption": (97.8, 97.5)}
"""Accuracy in per cent of the two testers of CCD (appendix A.4, table 3)."""
_BAR_WIDTH = 40
_SHOWN_VIDEOS = 50
_SHOWN_AUTHORS = 30


def render_card(manifest: Manifest) -> str:
    """The `README.md` of a release."""
    template = card_environment().get_template("card.md.j2")
    return template.render(
        release=manifest,
        front=_front_matter(manifest),
        about=manifest.about or ReleaseAbout(),
        bibtex=bibtex(citation(manifest)),
        statement=_data_statement(manifest),
        shares=review_shares(manifest),
        alpha=_alpha,
        terms=terms_table(manifest.terms),
        whole=whole_sentence(manifest),
        apart=apart_sentences(manifest.terms),
        texts_licence=texts_sentence(manifest),
        statistics=manifest.statistics,
        published=published_beside(manifest),
        compared=COMPARED,
        splits=_by_split(manifest),
        tasks=task_table(manifest),
        versions=version_table(manifest),
        contrasts=manifest.statistics.contrasts,
        ccd=CCD_TABLE,
        ccd_choices=_CCD_CHOICES,
        aspects=list(PrimaryType),
        interval=wilson_interval,
        of_persons=is_of_persons(manifest),
        rewritten=_is_rewritten(manifest),
        imported=_is_imported(manifest),
        embedders=embedder_table(manifest),
        cited=cited_sources(manifest),
        uncited=uncited_names(manifest),
        shown_videos=_SHOWN_VIDEOS,
        shown_authors=_SHOWN_AUTHORS,
        alone=dict(manifest.statistics.styles_per_image).get(1, 0),
        leak_rule=leak_rule,
        distance=distance_in_words,
        hash_thresholds=_hash_thresholds(manifest.contamination),
        share=_percentage,
    )


def _hash_thresholds(held: tuple[Contamination, ...]) -> list[int]:
    """All distances of perceptual hashes at which images are counted."""
    measures = (one for other in held for one in other.measures)
    hashes = [one for one in measures if one.measure == "perceptual_hash"]
    return sorted({most for one in hashes for split in one.splits for most, _ in split.within})


@cache
def card_environment() -> Environment:
    """The environment of the templates, which compiles each of them once."""
    environment = Environment(
        loader=PackageLoader("release"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - Markdown; foreign text goes through `text`, `code`, `yaml`
    )
    environment.filters.update(
        text=as_text,
        link=as_link,
        code=as_code_block,
        number=lambda value: f"{value:,}",
        decimals=_decimals,
        parameters=_parameters,
        bar=text_bars,
        row=_distribution_cells,
    )
    return environment


def _by_split(manifest: Manifest) -> dict[Split, SplitStatistics]:
    """The statistics by split, with zeros for a missing split."""
    counted = {one.split: one for one in manifest.statistics.splits}
    splits: tuple[Split, ...] = ("train", "val", "test")
    return {
        split: counted.get(split, SplitStatistics(split=split, identities=0, images=0, captions=0))
        for split in splits
    }


def _is_rewritten(manifest: Manifest) -> bool:
    """Whether the card covers rewrites.

    Releases of descriptions written for them are not covered unless something was rewritten.
    """
    statistics = manifest.statistics
    rewrites = statistics.rewrites
    proposed = rewrites.released + rewrites.rejected + rewrites.pending
    return proposed > 0 or (statistics.descriptions is None and is_of_persons(manifest))


def _is_imported(manifest: Manifest) -> bool:
    """Whether any caption is unchanged from its source."""
    made = manifest.statistics.descriptions
    here = made.written + made.edited + made.drafted if made else 0
    originals = sum(source.originals for source in manifest.statistics.sources)
    return originals > here


def _alpha(one: AgreementStatistics) -> str:
    """The coefficient with its interval, if there is one."""
    if one.coefficient is None:
        return "–"
    if one.low is None or one.high is None:
        return f"{one.coefficient:.3f}"
    return f"{one.coefficient:.3f} ({one.low:.3f} to {one.high:.3f})"


def as_code_block(value: str, language: str = "text") -> str:
    """`value` verbatim as a fenced block, even if it contains fences."""
    longest = max((len(run) for run in re.findall(r"`+", value)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{value.strip(chr(10))}\n{fence}"


def text_bars(histogram: tuple[tuple[int, int], ...]) -> str:
    """A histogram of words as lines of text, without the leading empty bins.

    The longest bar has a fixed width.
    """
    most = max(count for _, count in histogram)
    places = len(f"{most:,}")
    lines = []
    for start, count in dropwhile(lambda one: not one[1], histogram):
        bar = "█" * -(-count * _BAR_WIDTH // most)
        lines.append(f"{start:>4}-{start + 9:<4} {count:>{places},} {bar}".rstrip())
    return "\n".join(lines)


def _distribution_cells(words: Distribution) -> str:
    numbers = (
        words.minimum,
        words.lower_quartile,
        words.median,
        words.upper_quartile,
        words.maximum,
    )
    return " | ".join([f"{words.mean:.1f}", *map(str, numbers)])


def _decimals(value: float | None, places: int) -> str:
    return "–" if value is None else f"{value:.{places}f}"


def _parameters(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in sorted(values.items()))


def _percentage(part: int, whole: int) -> str:
    """A share in per cent, rounded down, so that 100 % means all."""
    return f"{part * 100 // whole} %" if whole else "0 %"


def card_body(manifest: Manifest) -> str:
    """The card without its front matter, for display."""
    return render_card(manifest).split("\n---\n", 1)[1].lstrip()


_NOT_ASKED = "age, gender, first language and training were not asked for"


def _data_statement(manifest: Manifest) -> dict[str, str]:
    """The data statement, by heading."""
    generated = "Generated; no situation applies."
    seen = "Written, not spoken: what an image shows, for readers who search for that image."
    details = {
        "Curation rationale": f"{collection_sentence(manifest)} {_rationale(manifest)}",
        "Language variety": _variety(manifest),
        "Authors of the texts": _authors(manifest),
        "Annotators": _annotators(manifest),
        "Situation": generated if manifest.demonstration else seen,
        "Text characteristics": _characteristics(manifest),
        "Images": _images(manifest),
    }
    return {heading: text for heading, text in details.items() if text}


def _rationale(manifest: Manifest) -> str:
    what = "people" if is_of_persons(manifest) else "scenes"
    return f"The texts are meant to distinguish {what} that look alike by all visible details."


def _variety(manifest: Manifest) -> str:
    spoken = languages(manifest)
    more = f"; translations into {', '.join(spoken[1:])}" if len(spoken) > 1 else ""
    return f"English (en), of no stated variety{more}."


def _authors(manifest: Manifest) -> str:
    statistics = manifest.statistics
    made, parts = statistics.descriptions, []
    here = made.written + made.edited + made.drafted if made else 0
    given = sum(one.originals for one in statistics.sources) - here
    if given:
        parts.append(f"{given:,} texts by authors of the sources")
    contrasts = statistics.contrasts
    if contrasts and (coarse := contrasts.coarse_captions):
        parts.append(f"{coarse:,} coarse captions of anchors by authors of the sources")
    if made and made.annotators:
        people = "1 person" if made.annotators == 1 else f"{made.annotators:,} people"
        parts.append(f"{made.written + made.edited:,} by {people} for this release")
    drafted = made.drafted if made else 0
    written = statistics.rewrites.released - statistics.rewrites.edited + drafted
    if written:
        models = ", ".join(sorted({one.name for one in manifest.models})) or "models"
        parts.append(f"{written:,} by {models}")
    if statistics.rewrites.edited:
        parts.append(f"{statistics.rewrites.edited:,} edits of rewrites by people for this release")
    return f"{'; '.join(parts)}." if parts else ""


def _annotators(manifest: Manifest) -> str:
    agreement = manifest.statistics.agreement
    made = manifest.statistics.descriptions
    counts = [one.annotators for one in agreement] + [made.annotators if made else 0]
    if not max(counts):
        if manifest.unreviewed:
            return "Nobody annotated or reviewed this release."
        return f"The number of reviewers is not recorded; {_NOT_ASKED}."
    least = max(counts)
    people = "one person" if least == 1 else f"{least:,} people"
    return f"At least {people}, known by pseudonyms; {_NOT_ASKED}."


def _characteristics(manifest: Manifest) -> str:
    statistics = manifest.statistics
    words = statistics.words
    return (
        f"Descriptions of {words.minimum} to {words.maximum} words, {words.mean:.1f} on average; "
        f"{statistics.vocabulary:,} different words."
    )


def _images(manifest: Manifest) -> str:
    if manifest.videos:
        seconds = [one.duration_seconds for one in manifest.videos]
        known = [one for one in seconds if one is not None]
        length = (
            f", {sum(known) / 60:.1f} minutes long in total" if len(known) == len(seconds) else ""
        )
        return f"Cut out of {len(manifest.videos):,} videos{length}; not re-encoded since."
    contrasts = manifest.statistics.contrasts
    edited = sum(one.edited for one in contrasts.differences) if contrasts else 0
    if edited:
        return f"{edited:,} are edited; the bytes of the others are those of their sources."
    return "The bytes are those of the sources; nothing was re-encoded."


# What the card of a benchmark of tasks compares with table 1 and figure 3 of the paper.


class TaskLine(NamedTuple):
    """A task: images by tier, all images, captions, and the published number of images of v0."""

    name: str
    tiers: tuple[int, ...]
    images: int
    captions: int
    published: int


class VersionLine(NamedTuple):
    """A version and its published figures; a version missing in this release has only these."""

    tier: Tier
    images: int | None
    captions: int | None
    published_images: int
    published_captions: int


def task_table(manifest: Manifest) -> list[TaskLine]:
    """A line for each task of the paper, then images without a known task, if any.

    Empty unless the release is a benchmark of tasks.
    """
    if not manifest.statistics.tasks:
        return []
    tiers = tiers_within(manifest.tier) if manifest.tier else ()
    counted = {one.task: one for one in manifest.statistics.tasks}
    known = [
        _task_line(counted.get(task), task.value, tiers, published)
        for task, published in RECOS_TASKS.items()
    ]
    unknown = counted.get(None)
    return known + [_task_line(unknown, "not known", tiers, 0)] * (unknown is not None)


def _task_line(
    counted: TaskStatistics | None, name: str, tiers: tuple[Tier, ...], published: int
) -> TaskLine:
    if counted is None:
        return TaskLine(name, (0,) * len(tiers), 0, 0, published)
    images = {one.tier: one.images for one in counted.tiers}
    by_tier = tuple(images.get(tier, 0) for tier in tiers)
    return TaskLine(name, by_tier, counted.images, counted.captions, published)


def version_table(manifest: Manifest) -> list[VersionLine]:
    """The three versions with all their tiers: v1 includes v0, v2 includes both.

    Empty unless the release is one of them.
    """
    if manifest.tier is None:
        return []
    parts = [tier for task in manifest.statistics.tasks for tier in task.tiers]
    lines = []
    for tier in TIERS:
        held = [one for one in parts if one.tier in tiers_within(tier)]
        is_there = tier in tiers_within(manifest.tier)
        images = sum(one.images for one in held) if is_there else None
        captions = sum(one.captions for one in held) if is_there else None
        published = RECOS[tier]
        lines.append(VersionLine(tier, images, captions, published.images, published.captions))
    return lines
