"""What is made of a manifest for people and tools: the last files of a release but the manifest."""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from release.card import CARD, render_card
from release.citation import CITATION, citation_text
from release.croissant import CROISSANT, croissant_text
from release.files import write_file
from release.leaks import LEAKS, certificate_text
from release.published import COMPARED, UFINE6926
from release.rows import RowForm
from release.scratch import Scratch
from release.statistics import HISTOGRAM_STEP
from release.terms import ATTRIBUTION, attribution_text
from schemas.release import Manifest

FIGURE = "words.svg"

_WIDTH, _HEIGHT = 720, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 24, 72, 52
_LEAST_WORDS = 100
_LEAST_WORDS_OF_SCENES = 40
_BAR, _LINE, _TEXT, _FAINT = "#3b6ea5", "#b3541e", "#333", "#ddd"
_TICKS = 4


def word_figure(manifest: Manifest) -> str:
    """The histogram of words per caption, with the mean lengths of published datasets.

    These describe persons; benchmarks of tasks or of contrasts are shown without them.
    """
    counts: Counter[int] = Counter()
    for one in manifest.statistics.granularities:
        counts.update(dict(one.histogram))
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'font-family="sans-serif" font-size="12" fill="{_TEXT}">'
    )
    background = f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>'
    of_persons = not (manifest.statistics.tasks or manifest.statistics.contrasts)
    drawn = _drawn(counts, manifest.statistics.words.mean, of_persons=of_persons)
    return "\n".join([opening, background, *drawn, "</svg>\n"])


def _drawn(counts: Counter[int], mean: float, *, of_persons: bool) -> Iterator[str]:
    least = _LEAST_WORDS if of_persons else _LEAST_WORDS_OF_SCENES
    longest = max(max(counts, default=0) + HISTOGRAM_STEP, least)
    most = _round_up(max(counts.values(), default=1))
    across = (_WIDTH - _LEFT - _RIGHT) / longest
    up = (_HEIGHT - _TOP - _BOTTOM) / most
    floor = _HEIGHT - _BOTTOM
    for tick in range(_TICKS + 1):
        height = floor - most * tick / _TICKS * up
        yield _line(_LEFT, height, _WIDTH - _RIGHT, height, _FAINT)
        yield _text(_LEFT - 8, height + 4, f"{most * tick // _TICKS:,}", "end")
    for start, count in sorted(counts.items()):
        yield (
            f'<rect x="{_LEFT + start * across + 1:.1f}" y="{floor - count * up:.1f}" '
            f'width="{HISTOGRAM_STEP * across - 2:.1f}" height="{count * up:.1f}" fill="{_BAR}"/>'
        )
    step = HISTOGRAM_STEP * max(1, -(-longest // (12 * HISTOGRAM_STEP)))
    for words in range(0, longest + 1, step):
        yield _text(_LEFT + words * across, floor + 18, str(words))
    yield _text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 10, "words per caption")
    yield _text(_LEFT, 18, "captions", "middle")
    marks = [("this release", mean)]
    if of_persons:
        marks += [(one.title, one.mean_words) for one in COMPARED]
        marks.append(("UFine6926", UFINE6926.mean_words or 0))
    for row, (title, mean_words) in enumerate(sorted(marks, key=lambda mark: mark[1])):
        x = _LEFT + mean_words * across
        yield from _mark(title, mean_words, x, 14 + 13 * (row % 4), floor)


def _mark(title: str, words: float, x: float, y: float, floor: float) -> Iterator[str]:
    colour = _BAR if title == "this release" else _LINE
    yield _line(x, y + 3, x, floor, colour, dashes="4 3")
    yield f'<text x="{x + 4:.1f}" y="{y:.1f}" fill="{colour}">{title} {words:.1f}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, dashes: str = "none") -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
        f'stroke-dasharray="{dashes}"/>'
    )


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


def _round_up(count: int) -> int:
    """A number to end the axis with: `count` or a little more, in quarters without a rest."""
    step = max(1, int(10 ** (len(str(count)) - 1)) // 2)
    step = -(-step // _TICKS) * _TICKS
    return max(_TICKS, -(-count // step) * step)


OF_MANIFEST: Final[dict[str, Callable[[Manifest], str]]] = {
    CARD: render_card,
    CITATION: citation_text,
    FIGURE: word_figure,
}
"""The documents that a manifest alone makes, and how."""


def documents_of(manifest: Manifest, scratch: Scratch) -> dict[str, Callable[[], bytes]]:
    """How each document of a release is made but `croissant.json`, by its path.

    `scratch` has the credits of the images.
    """
    documents: dict[str, Callable[[], bytes]] = {
        path: partial(_encoded, made, manifest) for path, made in OF_MANIFEST.items()
    }
    if manifest.leaks is not None or manifest.contamination:
        documents[LEAKS] = partial(certificate_text, manifest.leaks, manifest.contamination)
    if manifest.statistics.licences:
        name = f"{manifest.dataset} {manifest.version}"
        documents[ATTRIBUTION] = lambda: b"".join(attribution_text(name, scratch.credits()))
    return documents


def _encoded(made: Callable[[Manifest], str], manifest: Manifest) -> bytes:
    return made(manifest).encode()


def write_documents(folder: Path, draft: Manifest, form: RowForm, scratch: Scratch) -> None:
    """Writes them into `folder` and remembers them in `scratch`, where the other files stand.

    `croissant.json` comes last: it tells the digests of all files but its own and the manifest's,
    which in turn tells that of `croissant.json`.
    """
    for path, made in documents_of(draft, scratch).items():
        scratch.add_listed(write_file(folder, path, made()))
    croissant = croissant_text(draft, form, scratch.listed())
    scratch.add_listed(write_file(folder, CROISSANT, croissant.encode()))
