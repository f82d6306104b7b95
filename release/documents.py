"""The documents that are generated from a manifest: the last files before the manifest itself."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from release.card import card_environment, render_card
from release.citation import citation_text
from release.croissant import croissant_text
from release.facts import is_of_persons
from release.files import ATTRIBUTION, CARD, CITATION, CROISSANT, FIGURE, LEAKS, write_file
from release.leaks import certificate_text
from release.published import COMPARED, UFINE6926
from release.report.charts import histogram
from release.scratch import Scratch
from release.statistics import HISTOGRAM_STEP
from release.terms import attribution_text
from schemas.release import Manifest

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
        means += [(one.title, one.mean_words) for one in COMPARED]
        means.append(("UFine6926", UFINE6926.mean_words or 0))
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


OF_MANIFEST: Final[dict[str, Callable[[Manifest], str]]] = {
    CARD: render_card,
    CITATION: citation_text,
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
        name = f"{manifest.dataset} {manifest.version}"
        documents[ATTRIBUTION] = lambda: b"".join(attribution_text(name, scratch.credits()))
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
