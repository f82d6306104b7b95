"""The dataset card: what a person who downloads a release must know, in Markdown."""

import re
from functools import cache
from itertools import dropwhile
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from release.card.front import front_matter, languages
from release.card.leaks import kept_apart, leak_in_words
from release.card.tasks import (
    choice_table,
    empty_tasks,
    left_out_lines,
    repeat_lines,
    size_table,
    task_table,
    type_table,
    version_table,
)
from release.citation import bibtex, citation
from release.facts import (
    cited_sources,
    collection_sentence,
    is_of_persons,
    review_shares,
    uncited_names,
)
from release.markup import as_link, as_text
from release.model_use import embedder_table
from release.published import CCD_TABLE, COMPARED, published_beside
from release.terms import apart_sentences, terms_table, texts_sentence, whole_sentence
from schemas.records import Split
from schemas.release import (
    AgreementStatistics,
    Distribution,
    Manifest,
    ModelUse,
    ReleaseAbout,
    SplitStatistics,
)

CARD = "README.md"

_BAR_WIDTH = 40
_SHOWN_VIDEOS = 50
_SHOWN_AUTHORS = 30


def render_card(manifest: Manifest) -> str:
    """The `README.md` of a release."""
    about = manifest.about or ReleaseAbout()
    return (
        card_environment()
        .get_template("card.md.j2")
        .render(
            release=manifest,
            front=front_matter(manifest),
            about=about,
            creators=[one.full_name for one in about.creators],
            contact=about.contact,
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
            empty_tasks=empty_tasks(manifest),
            versions=version_table(manifest),
            contrasts=manifest.statistics.contrasts,
            sizes=size_table(manifest),
            size_titles=[one.title for one in CCD_TABLE],
            types=type_table(manifest.statistics.contrasts),
            left_out=left_out_lines(manifest.statistics.contrasts),
            repeats=repeat_lines(manifest.statistics.contrasts),
            choices=choice_table(manifest),
            of_persons=not (manifest.statistics.tasks or manifest.statistics.contrasts),
            rewritten=_is_rewritten(manifest),
            imported=_is_imported(manifest),
            embedders=embedder_table(manifest),
            cited=cited_sources(manifest),
            uncited=uncited_names(manifest),
            shown_videos=_SHOWN_VIDEOS,
            shown_authors=_SHOWN_AUTHORS,
            alone=dict(manifest.statistics.styles_per_image).get(1, 0),
            leak=leak_in_words,
            held=kept_apart(manifest),
            share=_percentage,
            parameters=_parameters,
        )
    )


@cache
def card_environment() -> Environment:
    """Where templates are compiled, each once."""
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
        bar=text_bars,
        row=_distribution_cells,
    )
    return environment


def _by_split(manifest: Manifest) -> dict[Split, SplitStatistics]:
    """The numbers of every split; of one that there is not, nothing but zeros."""
    counted = {one.split: one for one in manifest.statistics.splits}
    splits: tuple[Split, ...] = ("train", "val", "test")
    return {
        split: counted.get(split, SplitStatistics(split=split, identities=0, images=0, captions=0))
        for split in splits
    }


def _is_rewritten(manifest: Manifest) -> bool:
    """Whether anything is said of rewrites: of descriptions that were made here there are none."""
    statistics = manifest.statistics
    rewrites = statistics.rewrites
    proposed = rewrites.released + rewrites.rejected + rewrites.pending
    of_persons = not (statistics.tasks or statistics.contrasts)
    return proposed > 0 or (statistics.descriptions is None and of_persons)


def _is_imported(manifest: Manifest) -> bool:
    """Whether any caption is as a source gave it."""
    made = manifest.statistics.descriptions
    here = made.written + made.edited + made.drafted if made else 0
    originals = sum(source.originals for source in manifest.statistics.sources)
    return originals > here


def _alpha(one: AgreementStatistics) -> str:
    """The coefficient with its interval, where there is any."""
    if one.coefficient is None:
        return "–"
    if one.low is None or one.high is None:
        return f"{one.coefficient:.3f}"
    return f"{one.coefficient:.3f} ({one.low:.3f} to {one.high:.3f})"


def as_code_block(value: str, language: str = "text") -> str:
    """`value` word for word as a fenced block, whatever fences it holds itself."""
    longest = max((len(run) for run in re.findall(r"`+", value)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{value.strip(chr(10))}\n{fence}"


def text_bars(histogram: tuple[tuple[int, int], ...]) -> str:
    """A histogram of words as lines of text from the first that is not empty.

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


def _percentage(part: int, whole: int) -> str:
    """A share in per cent, rounded down so that only all is 100 %."""
    return f"{part * 100 // whole} %" if whole else "0 %"


def _parameters(model: ModelUse) -> str:
    return ", ".join(f"{name} {value}" for name, value in sorted(model.parameters.items()))


def card_body(manifest: Manifest) -> str:
    """The card without its front matter, to be shown rather than published."""
    return render_card(manifest).split("\n---\n", 1)[1].lstrip()


_NOT_ASKED = "age, gender, first language and training were not asked for"


class _Statement(NamedTuple):
    """A heading of the data statement, and what is known."""

    heading: str
    text: str


def _data_statement(manifest: Manifest) -> list[_Statement]:
    """The statement, heading by heading."""
    details = [
        _Statement("Curation rationale", f"{collection_sentence(manifest)} {_rationale(manifest)}"),
        _Statement("Language variety", _variety(manifest)),
        _Statement("Authors of the texts", _authors(manifest)),
        _Statement("Annotators", _annotators(manifest)),
        _Statement(
            "Situation",
            "Generated; no situation applies."
            if manifest.demonstration
            else "Written, not spoken: what an image shows, for readers who search for that image.",
        ),
        _Statement("Text characteristics", _characteristics(manifest)),
        _Statement("Images", _images(manifest)),
    ]
    return [one for one in details if one.text]


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
