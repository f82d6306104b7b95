"""The documents that are generated from a manifest: the last files before the manifest itself."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import chain, dropwhile, groupby
from pathlib import Path
from typing import Any, Final

import yaml
from jinja2 import Environment, TemplateError

from loupe.release.card.croissant import croissant_text
from loupe.release.card.facts import (
    apart_sentences,
    bibtex,
    captions_by_rules,
    citation,
    cited_sources,
    collection_sentence,
    conditions_in_words,
    drawn_sentence,
    faces_sentence,
    has_identities,
    is_of_persons,
    languages,
    may_show_people,
    quota_sentence,
    repeat_sentences,
    review_shares,
    rule_authors,
    stated_licences,
    texts_sentence,
    unreviewed_sentence,
    whole_sentence,
)
from loupe.release.card.leaks import certificate_text
from loupe.release.card.markup import as_link, as_text, share_text
from loupe.release.card.model_use import BUILTIN_PREFIX, PURPOSES, settings_in_words
from loupe.release.card.published import (
    CCD_TABLE,
    COMPARED,
    RECOS,
    RECOS_TASKS,
    UFINE6926,
    published_beside,
)
from loupe.release.card.terms import attribution_text
from loupe.release.contamination import distance_in_words, leak_rule
from loupe.release.format.files import (
    ATTRIBUTION,
    CARD,
    CITATION,
    CROISSANT,
    FIGURE,
    LEAKS,
    write_file,
)
from loupe.release.format.findings import ADVICE
from loupe.release.format.rows import Column, columns_of, form_of
from loupe.release.format.scratch import Scratch
from loupe.release.report.charts import histogram
from loupe.schemas.chat import UNPINNED
from loupe.schemas.errors import IntegrityError
from loupe.schemas.licences import licence_of
from loupe.schemas.pages import template_environment
from loupe.schemas.quality import wilson_interval
from loupe.schemas.release import HISTOGRAM_STEP, Manifest, ReleaseAbout, TaskStatistics
from loupe.schemas.shortcuts import FEWEST_GROUPS, ShortcutQuestion, TooFew
from loupe.schemas.similarity import SPLIT_TOLERANCE, TEST_SHARE, Contamination
from loupe.schemas.taxonomy import TIERS, PrimaryType, in_order, tiers_within

# The dataset card in Markdown: what a user of a release must know.

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


def _front_matter(manifest: Manifest) -> dict[str, Any]:
    """The values of the front matter of a card, by the hub's names."""
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
        parts = list(chain.from_iterable(map(sorted, known.choices))) if known else []
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
    tags += manifest.form.tags if manifest.form else ()
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


_CCD_CHOICES = {"caption-to-image": (96.5, 95.8), "image-to-caption": (97.8, 97.5)}
"""Accuracy in per cent of the two testers of CCD (appendix A.4, table 3)."""
_BAR_WIDTH = 40
_SHOWN_VIDEOS = 50
_SHOWN_AUTHORS = 30


BLIND_QUESTIONS: Final[dict[ShortcutQuestion, str]] = {
    "original image": "which image of a group is the original",
    "original captions": "which captions of a group are the original's",
    "matching pair": "which of two images a caption belongs to",
    "source of a caption": "which source a caption is about",
    "image with captions": "which images have captions",
}
"""The questions to blind opponents, in the words of the card and the leaderboard."""


def too_few_in_words(found: Sequence[TooFew]) -> str:
    """The questions that blind opponents were not asked, with the number of examples of each."""
    by_count = groupby(found, lambda one: one.groups)
    return "; ".join(
        f"{' and '.join(BLIND_QUESTIONS[one.question] for one in same)} "
        f"({groups}, and at least {FEWEST_GROUPS} are needed)"
        for groups, same in by_count
    )


def p_value_in_words(p_value: float) -> str:
    """A probability to three decimals."""
    return f"{p_value:.3f}" if p_value >= 0.001 else "< 0.001"


def render_card(manifest: Manifest) -> str:
    """The `README.md` of a release."""
    template = card_environment().get_template("card.md.j2")
    shares, cited = review_shares(manifest), cited_sources(manifest)
    gates = {one.gate for one in manifest.statistics.gates if one.by_people}
    return template.render(
        release=manifest,
        front=_as_yaml(_front_matter(manifest)),
        about=manifest.about or ReleaseAbout(),
        bibtex=bibtex(citation(manifest)),
        unreviewed_sentence=unreviewed_sentence(manifest),
        collected=collection_sentence(manifest),
        spoken=languages(manifest),
        shares=shares,
        gates_of_people=gates,
        decided=bool(gates) or any(one.reviewed for one in shares),
        whole=whole_sentence(manifest),
        apart=apart_sentences(manifest.terms),
        texts_licence=texts_sentence(manifest),
        statistics=manifest.statistics,
        published=published_beside(manifest),
        compared=COMPARED,
        tasks=task_table(manifest),
        versions=version_table(manifest),
        contrasts=manifest.statistics.contrasts,
        ccd=CCD_TABLE,
        ccd_choices=_CCD_CHOICES,
        aspects=list(PrimaryType),
        interval=wilson_interval,
        split_tolerance=SPLIT_TOLERANCE,
        has_identities=has_identities(manifest),
        of_persons=is_of_persons(manifest),
        may_show_people=may_show_people(manifest),
        faces_sentence=faces_sentence(manifest),
        drawn_sentence=drawn_sentence(manifest),
        quota_sentence=quota_sentence(manifest),
        repeat_sentences=repeat_sentences(manifest),
        as_published=bool(manifest.videos) and manifest.statistics.test_share == TEST_SHARE,
        builtin_models=any(one.name.startswith(BUILTIN_PREFIX) for one in manifest.models),
        by_rules=captions_by_rules(manifest),
        rules=rule_authors(manifest),
        cited=cited,
        uncited=sorted({one.name for one in manifest.sources} - {one.name for one in cited}),
        shown_videos=_SHOWN_VIDEOS,
        shown_authors=_SHOWN_AUTHORS,
        alone=dict(manifest.statistics.styles_per_image).get(1, 0),
        leak_rule=leak_rule,
        distance=distance_in_words,
        hash_thresholds=_hash_thresholds(manifest.contamination),
    )


def _hash_thresholds(held: tuple[Contamination, ...]) -> list[int]:
    """All distances of perceptual hashes at which images are counted."""
    thresholds: set[int] = set()
    for measure in chain.from_iterable(other.measures for other in held):
        if measure.measure == "perceptual_hash":
            for split in measure.splits:
                thresholds.update(most for most, _ in split.within)
    return sorted(thresholds)


@cache
def card_environment() -> Environment:
    """The environment of the templates, which compiles each of them once."""
    # in Markdown, foreign text goes through `text` or `code`
    environment = template_environment(
        "loupe.release.card", autoescape=False, keep_trailing_newline=True
    )
    environment.filters.update(
        text=as_text,
        link=as_link,
        code=as_code_block,
        number=lambda value: f"{value:,}",
        decimals=_decimals,
        parameters=_parameters,
        purpose=PURPOSES.get,
        settings=settings_in_words,
        conditions=conditions_in_words,
        bar=text_bars,
        blind_question=BLIND_QUESTIONS.get,
        too_few=too_few_in_words,
        p_value=p_value_in_words,
    )
    environment.globals.update(share=share_text, unpinned=UNPINNED)
    return environment


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


def _decimals(value: float | None, places: int) -> str:
    return "–" if value is None else f"{value:.{places}f}"


def _parameters(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in sorted(values.items()))


RENDERING_FAULTS = (
    *(ValueError, ArithmeticError, LookupError, TypeError, RecursionError, TemplateError),
)
"""The exceptions raised for manifests with values that no release has."""


@contextmanager
def rendering(manifest: Manifest) -> Iterator[None]:
    """Rendering of a manifest that may come from anyone.

    Raises:
        IntegrityError: if it has values that no release has.
    """
    try:
        yield
    except RENDERING_FAULTS as error:
        raise IntegrityError(
            f"the manifest of {manifest.name} has values that no release has "
            f"({type(error).__name__}: {error}); {ADVICE}"
        ) from error


def card_body(manifest: Manifest) -> str:
    """The card without its front matter, for display.

    Raises:
        IntegrityError: if the manifest has values that no release has.
    """
    with rendering(manifest):
        return render_card(manifest).split("\n---\n", 1)[1].lstrip()


def task_table(manifest: Manifest) -> list[dict[str, Any]]:
    """A line for each task, those of the paper first if there is any; images without task last.

    Each has its images by tier, all its images and captions, and the published number of images of
    v0. Empty unless the release is a benchmark of tasks.
    """
    counted = {one.task: one for one in manifest.statistics.tasks}
    if not counted:
        return []
    nothing = TaskStatistics(task=None, images=0, captions=0, tiers=())
    published = RECOS_TASKS.keys() if RECOS_TASKS.keys() & counted.keys() else ()
    lines = []
    for task in in_order({*counted, *published}):
        found = counted.get(task, nothing)
        images = {one.tier: one.images for one in found.tiers}
        tiers = tiers_within(manifest.tier) if manifest.tier else ()
        lines.append(
            {
                "name": task.value if task else "not known",
                "tiers": [images.get(tier, 0) for tier in tiers],
                "images": found.images,
                "captions": found.captions,
                "published": RECOS_TASKS.get(task, 0) if task else 0,
            }
        )
    return lines


def version_table(manifest: Manifest) -> list[dict[str, Any]]:
    """The three versions with all their tiers: v1 includes v0, v2 includes both.

    A version that is missing in this release has only its published figures. Empty unless the
    release is one of them.
    """
    if manifest.tier is None:
        return []
    parts = list(chain.from_iterable(task.tiers for task in manifest.statistics.tasks))
    lines = []
    for tier in TIERS:
        included = tiers_within(tier)
        held = [one for one in parts if one.tier in included]
        is_there = tier in tiers_within(manifest.tier)
        lines.append(
            {
                "tier": tier,
                "images": sum(one.images for one in held) if is_there else None,
                "captions": sum(one.captions for one in held) if is_there else None,
                "published": RECOS[tier],
            }
        )
    return lines


# The figure of the card, and all documents.

_WIDTH, _HEIGHT, _TOP = 720, 320, 72
_LEAST_WORDS = 100
_LEAST_WORDS_OF_SCENES = 40


def word_figure(manifest: Manifest) -> str:
    """The histogram of words per caption, with the mean lengths of published datasets.

    The published datasets describe persons, so benchmarks of tasks or contrasts are shown without
    them.
    """
    counts: Counter[int] = Counter()
    for one in manifest.statistics.granularities:
        counts.update(dict(one.histogram))
    of_persons = is_of_persons(manifest)
    least = _LEAST_WORDS if of_persons else _LEAST_WORDS_OF_SCENES
    longest = max(max(counts, default=0) + HISTOGRAM_STEP, least)
    size, step = (_WIDTH, _HEIGHT, _TOP), HISTOGRAM_STEP
    chart = histogram("", sorted(counts.items()), step, end=longest, size=size)
    means = [("this release", manifest.statistics.words.mean)]
    if of_persons:
        means += [(one.title, one.mean_words or 0) for one in (*COMPARED, UFINE6926)]
    across = (chart.right - chart.left) / longest
    marks = [
        {
            "x": round(chart.left + words * across, 2),
            "y": 14 + 13 * (row % 4),
            "title": f"{title} {words:.1f}",
            "colour": "#3b6ea5" if title == "this release" else "#b3541e",
        }
        for row, (title, words) in enumerate(sorted(means, key=lambda one: one[1]))
    ]
    template = card_environment().get_template("words.svg.j2")
    return template.render(chart=chart, marks=marks, width=_WIDTH, height=_HEIGHT)


def _as_yaml(values: dict[str, Any]) -> str:
    return str(yaml.safe_dump(values, allow_unicode=True, sort_keys=False, width=math.inf))


OF_MANIFEST: Final[dict[str, Callable[[Manifest], str]]] = {
    CARD: render_card,
    CITATION: lambda manifest: _as_yaml(citation(manifest)),
    FIGURE: word_figure,
}
"""The documents that depend only on the manifest, with their renderers."""


def documents_of(manifest: Manifest, scratch: Scratch) -> dict[str, Callable[[], bytes]]:
    """Renderers of all documents but `croissant.json`, by path.

    `scratch` has the credits of the images.
    """
    documents: dict[str, Callable[[], bytes]] = {
        path: partial(_encoded, made, manifest) for path, made in OF_MANIFEST.items()
    }
    if manifest.leaks is not None or manifest.contamination:
        documents[LEAKS] = partial(certificate_text, manifest.leaks, manifest.contamination)
    if manifest.statistics.licences:
        documents[ATTRIBUTION] = lambda: b"".join(
            attribution_text(manifest.name, scratch.credits())
        )
    return documents


def _encoded(made: Callable[[Manifest], str], manifest: Manifest) -> bytes:
    return made(manifest).encode()


def write_documents(folder: Path, draft: Manifest, scratch: Scratch) -> None:
    """Write the documents into `folder` and list them in `scratch` with the other files.

    `croissant.json` comes last: it lists the digests of all files but its own and that of the
    manifest, which in turn lists the digest of `croissant.json`.
    """
    for path, made in documents_of(draft, scratch).items():
        scratch.add_listed(write_file(folder, path, made()))
    croissant = croissant_text(draft, scratch.listed())
    scratch.add_listed(write_file(folder, CROISSANT, croissant.encode()))
