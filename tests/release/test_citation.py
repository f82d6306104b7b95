"""`CITATION.cff`: the rules of the format, checked field by field."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from release.card import render_card
from release.card_front import form_of, hub_licences
from release.card_terms import whole_sentence
from release.checks import UNCHECKED
from release.citation import CITATION, bibtex, citation, citation_text
from release.croissant import croissant
from release.croissant_facts import collection_sentence
from release.yaml_text import as_yaml, yaml_lines
from schemas.release import LicenceTerms, ReleaseAbout, ReleaseTerms
from tests.release.kinds import ABOUT, KINDS, Built, built

FIELDS = frozenset((
    "abstract", "authors", "cff-version", "commit", "contact", "date-released", "doi",
    "identifiers", "keywords", "license", "license-url", "message", "preferred-citation",
    "references", "repository", "repository-artifact", "repository-code", "title", "type", "url",
    "version",
))  # fmt: skip
"""All fields of the format at its root (schema guide 1.2.0)."""
REQUIRED = {"authors", "cff-version", "message", "title"}
PERSON = frozenset((
    "address", "affiliation", "alias", "city", "country", "email", "family-names", "fax",
    "given-names", "name-particle", "name-suffix", "orcid", "post-code", "region", "tel", "website",
))  # fmt: skip
ENTITY = frozenset((
    "address", "alias", "city", "country", "date-end", "date-start", "email", "fax", "location",
    "name", "orcid", "post-code", "region", "tel", "website",
))  # fmt: skip
REFERENCE = {"type", "title", "authors", "notes", "url"}
"""Those of a reference that we use; the first three are required."""


@pytest.fixture(scope="module", params=KINDS)
def release(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Built]:
    with built(request.param, tmp_path_factory.mktemp(request.param)) as made:
        yield made


def read(made: Built) -> dict[str, Any]:
    # dates stay texts, as the format's schema wants them; it makes texts, lists and mappings only
    text = (made.folder / CITATION).read_text("utf-8")
    return dict(yaml.load(text, yaml.BaseLoader))  # noqa: S506


def check(told: dict[str, Any]) -> None:
    """The rules of the format for what we use of it."""
    assert set(told) >= REQUIRED
    assert set(told) <= FIELDS
    assert told["cff-version"] == "1.2.0"
    assert told["type"] in ("dataset", "software")
    assert told["authors"]
    for author in told["authors"]:
        assert set(author) <= (ENTITY if "name" in author else PERSON)
        assert author.get("name") or author.get("family-names") or author.get("given-names")
        assert re.fullmatch(
            r"https://orcid\.org/\d{4}-\d{4}-\d{4}-\d{3}[0-9X]",
            author.get("orcid", "https://orcid.org/0000-0000-0000-0000"),
        )
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", told.get("date-released", "2000-01-01"))
    assert re.fullmatch(
        r"10\.\d{4,9}(\.\d+)?/[A-Za-z0-9:/_;\-.()\[\]\\]+", told.get("doi", "10.1000/1")
    )
    assert len(set(told.get("keywords", ()))) == len(told.get("keywords", ()))
    for reference in told.get("references", ()):
        assert {"type", "title", "authors"} <= set(reference) <= REFERENCE
        assert all(set(one) == {"name"} for one in reference["authors"])


def test_it_keeps_to_the_rules_of_the_format(release: Built) -> None:
    told = read(release)
    check(told)
    assert told == citation(release.manifest)
    assert told["version"] == release.manifest.version
    assert [one["title"] for one in told["references"]] == [
        one.name for one in release.manifest.sources
    ]


def test_what_the_curators_state_stands_there(release: Built) -> None:
    told = read(release)
    assert told["title"] == ABOUT.title
    assert told["abstract"] == ABOUT.description
    assert told["date-released"] == "2026-11-22"
    assert told["doi"] == ABOUT.doi
    assert told["authors"][0] == {
        "family-names": "Lovelace",
        "given-names": "Ada",
        "affiliation": "Analytical Society",
        "orcid": "https://orcid.org/0000-0002-1825-0097",
    }
    assert told["authors"][1] == {
        "name": "Example Laboratory",
        "website": "https://example.org/lab",
    }


def test_nothing_stated_is_nothing_invented(tmp_path: Path) -> None:
    with built("plain", tmp_path, UNCHECKED) as made:
        told = read(made)
    check(told)
    assert told["title"] == "ufine3c"
    assert told["authors"] == [{"name": "The curators of ufine3c"}]
    assert told["license"] == "CC-BY-NC-SA-4.0"
    assert not {"date-released", "doi", "url", "abstract"} & set(told)


@pytest.mark.parametrize(
    ("licences", "told"),
    [
        (["MIT OR CC-BY-4.0"], ["MIT", "CC-BY-4.0"]),
        (["CC-BY-4.0 AND ODbL-1.0"], None),
        (["CC-BY-4.0", "CC-BY-SA-4.0"], None),
        (["public domain"], None),
    ],
)
def test_only_a_licence_or_a_choice_is_told(
    release: Built, licences: list[str], told: object
) -> None:
    lines = tuple(
        LicenceTerms(licence=one, expression=one, images=1, own=0, conditions=())
        for one in licences
    )
    terms = ReleaseTerms(expression="x", conditions=(), licences=lines)
    stated = release.manifest.model_copy(update={"terms": terms, "about": None})
    assert citation(stated).get("license") == told


@pytest.mark.parametrize(
    ("of_texts", "told", "sentence"),
    [
        ("CC0-1.0", "CC0-1.0", "given under CC0-1.0, which asks for nothing."),
        ("CC-BY-4.0", None, "given under CC-BY-4.0, which asks for attribution."),
    ],
)
def test_the_licence_of_the_texts_is_told_everywhere(
    release: Built, of_texts: str, told: object, sentence: str
) -> None:
    free = LicenceTerms(licence="CC0", expression="CC0-1.0", images=1, own=0, conditions=())
    terms = ReleaseTerms(expression="CC0-1.0", conditions=(), licences=(free,))
    about = ReleaseAbout(licence=of_texts)
    manifest = release.manifest.model_copy(update={"terms": terms, "about": about})
    cited = citation(manifest)
    assert cited.get("license") == told
    assert sentence in cited["message"]
    words = ["cc0-1.0"] if told else ["cc-by-4.0", "cc0-1.0"]
    assert hub_licences(manifest) == words
    pages = croissant(manifest, form_of(manifest), [])["license"]
    first = "https://spdx.org/licenses/CC0-1.0"
    assert [one if isinstance(one, str) else one["name"] for one in pages] == (
        [first] if told else [first, "CC-BY-4.0"]
    )
    whole = "No licence of an image asks for anything. The texts that were made here are"
    assert f"{whole} {sentence}" in render_card(manifest)


def test_what_the_texts_ask_for_is_asked_of_the_whole(release: Built) -> None:
    one = LicenceTerms(
        licence="CC BY 4.0", expression="CC-BY-4.0", images=1, own=0, conditions=("attribution",)
    )
    terms = ReleaseTerms(expression="CC-BY-4.0", conditions=("attribution",), licences=(one,))
    about = ReleaseAbout(licence="CC-BY-SA-4.0")
    told = whole_sentence(release.manifest.model_copy(update={"terms": terms, "about": about}))
    assert told.endswith(
        "must name creators, sources and licences; and release what is made of share-alike works "
        "under the same licence."
    )


def test_a_source_without_a_citation_is_no_author(release: Built) -> None:
    searched = release.manifest.sources[0].model_copy(update={"name": "a-search", "citation": ""})
    sources = (*release.manifest.sources, searched)
    manifest = release.manifest.model_copy(update={"sources": sources})
    assert "a-search" not in citation_text(manifest)
    assert "a-search" not in collection_sentence(manifest)
    card = render_card(manifest)
    assert "- a-search: no citation; " in card
    assert "- a-search: \n" not in card


@pytest.mark.parametrize(
    "text",
    ["plain", "a: b # c", "'\"\\", "two\nlines", "\x85\u2028\ufeff\x01", "😀", "yes", "1.0", ""],
)
def test_any_text_survives_yaml(text: str) -> None:
    assert yaml.safe_load(as_yaml(text)) == text
    lines = "\n".join(yaml_lines({"a": [{"b": text, "c": [text]}], "d": {"e": text}}))
    assert yaml.safe_load(lines) == {"a": [{"b": text, "c": [text]}], "d": {"e": text}}


def test_bibtex_names_people_and_bodies(release: Built) -> None:
    text = bibtex(citation(release.manifest))
    assert text.startswith(f"@misc{{Streetsfine100and-{release.manifest.version},")
    assert "author = {Lovelace, Ada and {Example Laboratory}}" in text
    assert "year = {2026}" in text
