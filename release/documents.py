"""What is made of a manifest for people and tools: the last files of a release but the manifest."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from release.card import CARD, render_card
from release.citation import CITATION, citation_text
from release.croissant import CROISSANT, croissant_text
from release.figure import FIGURE, word_figure
from release.files import write_file
from release.leaks import LEAKS, certificate_text
from release.row_form import RowForm
from release.scratch import Scratch
from release.terms import ATTRIBUTION, attribution_text
from schemas.release import Manifest

OF_MANIFEST: Final[dict[str, Callable[[Manifest], str]]] = {
    CARD: render_card,
    CITATION: citation_text,
    FIGURE: word_figure,
}
"""The documents that a manifest alone makes, and how."""


def write_documents(folder: Path, draft: Manifest, form: RowForm, scratch: Scratch) -> None:
    """Writes them into `folder` and remembers them in `scratch`, where the other files stand.

    `croissant.json` comes last: it tells the digests of all files but its own and the manifest's,
    which in turn tells that of `croissant.json`.
    """
    documents = {path: made(draft).encode() for path, made in OF_MANIFEST.items()}
    if draft.leaks is not None or draft.contamination:
        documents[LEAKS] = certificate_text(draft.leaks, draft.contamination)
    if draft.statistics.licences:
        text = attribution_text(f"{draft.dataset} {draft.version}", scratch.credits())
        documents[ATTRIBUTION] = b"".join(text)
    for path, data in documents.items():
        scratch.add_listed(write_file(folder, path, data))
    croissant = croissant_text(draft, form, scratch.listed())
    scratch.add_listed(write_file(folder, CROISSANT, croissant.encode()))
