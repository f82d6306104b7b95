"""The dataset card: what a person who downloads a release must know, in Markdown."""

import re
from functools import cache
from itertools import dropwhile

from jinja2 import Environment, PackageLoader, StrictUndefined

from release.card.contrasts import (
    choice_table,
    left_out_lines,
    repeat_lines,
    size_table,
    type_table,
)
from release.card.front import front_matter
from release.card.leaks import kept_apart, leak_in_words
from release.card.tasks import empty_tasks, task_table, version_table
from release.card.terms import apart_sentences, terms_table, texts_sentence, whole_sentence
from release.citation import bibtex, citation
from release.data_statement import data_statement
from release.embedder_use import embedder_table
from release.markdown import as_link, as_text
from release.published import CCD_TABLE, COMPARED, published_beside
from release.reviewed import review_shares
from release.sources import cited_sources, uncited_names
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
        _environment()
        .get_template("card.md.j2")
        .render(
            release=manifest,
            front=front_matter(manifest),
            about=about,
            creators=[one.full_name for one in about.creators],
            contact=about.contact,
            bibtex=bibtex(citation(manifest)),
            statement=data_statement(manifest),
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
            share=percentage,
            parameters=_parameters,
        )
    )


@cache
def _environment() -> Environment:
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


def percentage(part: int, whole: int) -> str:
    """A share in per cent, rounded down so that only all is 100 %."""
    return f"{part * 100 // whole} %" if whole else "0 %"


def _parameters(model: ModelUse) -> str:
    return ", ".join(f"{name} {value}" for name, value in sorted(model.parameters.items()))


def card_body(manifest: Manifest) -> str:
    """The card without its front matter, to be shown rather than published."""
    return render_card(manifest).split("\n---\n", 1)[1].lstrip()
