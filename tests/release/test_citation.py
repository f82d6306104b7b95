"""`CITATION.cff` follows the rules of the Citation File Format."""

import re
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import DatasetCard

from loupe.release.card.croissant import croissant
from loupe.release.card.documents import OF_MANIFEST, hub_licences, render_card
from loupe.release.card.facts import bibtex, citation
from loupe.release.format.files import CARD, CITATION
from loupe.schemas.release import LicenceTerms, ReleaseAbout, ReleaseTerms
from tests.release.kinds import ABOUT, Built

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
"""Fields of a reference that Loupe writes; the first three are required."""


def read(folder: Path) -> dict[str, Any]:
    # BaseLoader keeps dates as strings, as the schema requires, and creates no other types
    text = (folder / CITATION).read_text("utf-8")
    return dict(yaml.load(text, yaml.BaseLoader))  # noqa: S506


def check(details: dict[str, Any]) -> None:
    """Check the rules of the format for the fields that Loupe writes."""
    assert set(details) >= REQUIRED
    assert set(details) <= FIELDS
    assert details["cff-version"] == "1.2.0"
    assert details["type"] in ("dataset", "software")
    assert details["authors"]
    for author in details["authors"]:
        assert set(author) <= (ENTITY if "name" in author else PERSON)
        assert author.get("name") or author.get("family-names") or author.get("given-names")
        assert re.fullmatch(
            r"https://orcid\.org/\d{4}-\d{4}-\d{4}-\d{3}[0-9X]",
            author.get("orcid", "https://orcid.org/0000-0000-0000-0000"),
        )
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", details.get("date-released", "2000-01-01"))
    assert re.fullmatch(
        r"10\.\d{4,9}(\.\d+)?/[A-Za-z0-9:/_;\-.()\[\]\\]+", details.get("doi", "10.1000/1")
    )
    assert len(set(details.get("keywords", ()))) == len(details.get("keywords", ()))
    for reference in details.get("references", ()):
        assert {"type", "title", "authors"} <= set(reference) <= REFERENCE
        assert all(set(one) == {"name"} for one in reference["authors"])


def test_the_citation_follows_the_rules_of_the_format(every_kind: dict[str, Built]) -> None:
    for release in every_kind.values():
        details = read(release.folder)
        check(details)
        assert details == citation(release.manifest)
        assert details["version"] == release.manifest.version
        assert [one["title"] for one in details["references"]] == [
            one.name for one in release.manifest.sources
        ]


def test_the_citation_contains_the_statements_of_the_curators(every_kind: dict[str, Built]) -> None:
    for release in every_kind.values():
        details = read(release.folder)
        assert details["title"] == ABOUT.title
        assert details["abstract"] == ABOUT.description
        assert details["date-released"] == "2026-11-22"
        assert details["doi"] == ABOUT.doi
        assert details["authors"][0] == {
            "family-names": "Lovelace",
            "given-names": "Ada",
            "affiliation": "Analytical Society",
            "orcid": "https://orcid.org/0000-0002-1825-0097",
        }
        assert details["authors"][1] == {
            "name": "Example Laboratory",
            "website": "https://example.org/lab",
        }


def test_without_statements_only_defaults_are_cited(sound: Path) -> None:
    details = read(sound)
    check(details)
    assert details["title"] == "ufine3c"
    assert details["authors"] == [{"name": "The curators of ufine3c"}]
    assert details["license"] == "CC-BY-NC-SA-4.0"
    assert not {"date-released", "doi", "url", "abstract"} & set(details)


def test_only_a_single_licence_or_a_choice_is_cited(every_kind: dict[str, Built]) -> None:
    cases: list[tuple[list[str], object]] = [
        (["MIT OR CC-BY-4.0"], ["MIT", "CC-BY-4.0"]),
        (["CC-BY-4.0 AND ODbL-1.0"], None),
        (["CC-BY-4.0", "CC-BY-SA-4.0"], None),
        (["public domain"], None),
    ]
    for licences, details in cases:
        for release in every_kind.values():
            lines = tuple(
                LicenceTerms(licence=one, expression=one, images=1, own=0, conditions=())
                for one in licences
            )
            terms = ReleaseTerms(expression="x", conditions=(), licences=lines)
            stated = release.manifest.model_copy(update={"terms": terms, "about": None})
            assert citation(stated).get("license") == details, (licences, details)


def test_the_licence_of_the_texts_is_in_all_documents(every_kind: dict[str, Built]) -> None:
    cases: list[tuple[str, object, str]] = [
        ("CC0-1.0", "CC0-1.0", "licensed under CC0-1.0; conditions: none."),
        ("CC-BY-4.0", None, "licensed under CC-BY-4.0; conditions: attribution."),
    ]
    for of_texts, details, sentence in cases:
        for release in every_kind.values():
            free = LicenceTerms(licence="CC0", expression="CC0-1.0", images=1, own=0, conditions=())
            terms = ReleaseTerms(expression="CC0-1.0", conditions=(), licences=(free,))
            about = ReleaseAbout(licence=of_texts)
            manifest = release.manifest.model_copy(update={"terms": terms, "about": about})
            cited = citation(manifest)
            assert cited.get("license") == details, (of_texts, details, sentence)
            assert sentence in cited["message"], (of_texts, details, sentence)
            words = ["cc0-1.0"] if details else ["cc-by-4.0", "cc0-1.0"]
            assert hub_licences(manifest) == words, (of_texts, details, sentence)
            pages = croissant(manifest, [])["license"]
            first = "https://spdx.org/licenses/CC0-1.0"
            assert [one if isinstance(one, str) else one["name"] for one in pages] == (
                [first] if details else [first, "CC-BY-4.0"]
            ), (of_texts, details, sentence)
            whole = "No image licence sets conditions. The texts made for this release are"
            assert f"{whole} {sentence}" in render_card(manifest), (of_texts, details, sentence)


def test_any_title_is_preserved_in_yaml(every_kind: dict[str, Built]) -> None:
    cases = (
        *("plain", "a: b # c", "'\"\\", "two\nlines", "two\n---\nlines", "\x85\u2028\ufeff\x01"),
        *("😀", "yes", "1.0", "- a", "2026-11-22"),
    )
    manifest = next(iter(every_kind.values())).manifest
    for text in cases:
        about = ReleaseAbout(title=text, description=text)
        stated = manifest.model_copy(update={"about": about})
        cited = yaml.safe_load(OF_MANIFEST[CITATION](stated))
        assert cited == citation(stated), text
        card = DatasetCard(OF_MANIFEST[CARD](stated), ignore_metadata_errors=False)
        assert card.data["pretty_name"] == about.title, text


def test_bibtex_lists_people_and_organisations(every_kind: dict[str, Built]) -> None:
    for release in every_kind.values():
        text = bibtex(citation(release.manifest))
        assert text.startswith(f"@misc{{Streetsfine100and-{release.manifest.version},")
        assert "author = {Lovelace, Ada and {Example Laboratory}}" in text
        assert "year = {2026}" in text
