"""The dataset card: what a person who downloads a release must know, in Markdown."""

import json
import re
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from release.card_tasks import task_table, version_table
from release.published import COMPARED, published_beside
from schemas.leaks import Comparison
from schemas.records import Split
from schemas.release import Distribution, Manifest, ModelUse, SplitStatistics

CARD = "README.md"

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&$!^])")
_BLOCK_START = re.compile(r"^([0-9]+(?=[.)](?:\s|$))|(?=[-+=]))")
_WEB_ADDRESS = re.compile(r"https?://[^\s<>|`]+")
_BAR_WIDTH = 40
_SHOWN_VIDEOS = 50
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


def render_card(manifest: Manifest) -> str:
    """The `README.md` of a release."""
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
        yaml=as_yaml,
        number=lambda value: f"{value:,}",
        bar=text_bars,
        row=_distribution_cells,
    )
    return environment.get_template("card.md.j2").render(
        release=manifest,
        statistics=manifest.statistics,
        published=published_beside(manifest),
        compared=COMPARED,
        splits=_by_split(manifest),
        tasks=task_table(manifest),
        versions=version_table(manifest),
        rewritten=_is_rewritten(manifest),
        imported=_is_imported(manifest),
        shown_videos=_SHOWN_VIDEOS,
        alone=dict(manifest.statistics.styles_per_image).get(1, 0),
        leak=_leak,
        nearest=_nearest,
        size_category=size_category(manifest.statistics.images),
        share=percentage,
        parameters=_parameters,
    )


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
    return proposed > 0 or (statistics.descriptions is None and not statistics.tasks)


def _is_imported(manifest: Manifest) -> bool:
    """Whether any caption is as a source gave it."""
    made = manifest.statistics.descriptions
    here = made.written + made.edited + made.drafted if made else 0
    originals = sum(source.originals for source in manifest.statistics.sources)
    return originals > here


def _leak(comparison: Comparison) -> str:
    """Which pairs are leaks."""
    return {
        "perceptual_hash": f"up to {comparison.threshold:g} bits differ",
        "embedding": f"cosine distance up to {comparison.threshold:g}",
    }.get(comparison.measure, "equal")


def _nearest(comparison: Comparison) -> str:
    """The nearest pair and how near it is."""
    pair = comparison.nearest
    if pair is None:
        return "none is equal"
    unit = " bits" if comparison.measure == "perceptual_hash" else ""
    return f"{pair.distance:g}{unit}: `{pair.first}`, `{pair.second}`"


def as_text(value: object) -> str:
    """`value` as plain text within a line of Markdown: nothing in it is markup."""
    line = _SPECIAL.sub(r"\\\1", " ".join(str(value).split()))
    return _BLOCK_START.sub(r"\1\\", line)


def as_link(value: str) -> str:
    """`value` as a link where it is a web address, else as plain text."""
    return f"<{value}>" if _WEB_ADDRESS.fullmatch(value) else as_text(value)


def as_code_block(value: str) -> str:
    """`value` word for word as a fenced block, whatever fences it holds itself."""
    longest = max((len(run) for run in re.findall(r"`+", value)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{value.strip(chr(10))}\n{fence}"


def as_yaml(value: Any) -> str:
    """`value` as YAML, in the part of it that is JSON too."""
    return json.dumps(value, ensure_ascii=True)


def text_bars(histogram: tuple[tuple[int, int], ...]) -> str:
    """A histogram of words as lines of text, the longest bar of fixed width."""
    most = max(count for _, count in histogram)
    places = len(f"{most:,}")
    lines = []
    for start, count in histogram:
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


def size_category(rows: int) -> str:
    """The Hugging Face word for a number of rows."""
    return next((name for limit, name in _SIZES if rows < limit), "n>1M")


def _parameters(model: ModelUse) -> str:
    return ", ".join(f"{name} {value}" for name, value in sorted(model.parameters.items()))


def card_body(manifest: Manifest) -> str:
    """The card without its front matter, to be shown rather than published."""
    return render_card(manifest).split("\n---\n", 1)[1].lstrip()
