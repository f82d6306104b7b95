"""What curators state of a release and what its licences ask for, as the About page tells it."""

from typing import NamedTuple

from release.card.terms import (
    TermsLine,
    apart_sentences,
    terms_table,
    texts_sentence,
    whole_sentence,
)
from release.citation import bibtex, citation
from schemas.release import Creator, Manifest, ReleaseAbout, TermsPermission


class StatedFacts(NamedTuple):
    """The content of the cards "Cite and contact" and "Terms".

    Attributes:
        about: what the curators state; everything may be missing.
        creators: who they are.
        doi_page: where the digital object identifier leads.
        bibtex: how the release is cited.
        terms: a line for each licence of images.
        sentences: what the licences ask for, of the whole and of the texts.
        permissions: why terms in words of their own permit the release.
    """

    about: ReleaseAbout
    creators: tuple[Creator, ...]
    doi_page: str | None
    bibtex: str
    terms: list[TermsLine]
    sentences: list[str]
    permissions: tuple[TermsPermission, ...]


def stated_facts(manifest: Manifest) -> StatedFacts:
    """The facts, in the sentences of the dataset card."""
    about = manifest.about or ReleaseAbout()
    details = (whole_sentence(manifest), texts_sentence(manifest), *apart_sentences(manifest.terms))
    return StatedFacts(
        about=about,
        creators=about.creators,
        doi_page=f"https://doi.org/{about.doi}" if about.doi else None,
        bibtex=bibtex(citation(manifest)),
        terms=terms_table(manifest.terms),
        sentences=[sentence for sentence in details if sentence],
        permissions=manifest.terms.permissions,
    )
