"""`CITATION.cff`: how to cite a release, in the Citation File Format 1.2.0.

The format is YAML. Every value is written as JSON, which is valid YAML.
"""

from collections.abc import Mapping
from typing import Any

from release.facts import cited_sources
from release.markup import yaml_lines
from release.terms import stated_licences, texts_sentence
from schemas.licences import licence_of
from schemas.release import Creator, Manifest, ReleaseAbout, ReleasedSource

_CFF_VERSION = "1.2.0"
_MESSAGE = "If you use this dataset, please cite it as below, and its sources with it."


def citation(manifest: Manifest) -> dict[str, Any]:
    """The citation of a release, by the field names of the format."""
    about = manifest.about or ReleaseAbout()
    details: dict[str, Any] = {
        "cff-version": _CFF_VERSION,
        "message": " ".join(filter(None, (_MESSAGE, texts_sentence(manifest)))),
        "type": "dataset",
        "title": about.title or manifest.dataset,
        "version": manifest.version,
        "authors": [_agent(one) for one in about.named(manifest.dataset)],
        "abstract": about.description,
        "doi": about.doi,
        "url": about.homepage,
        "date-released": about.date_released.isoformat() if about.date_released else None,
        "license": _licences(manifest),
        "keywords": keywords(manifest),
        "references": [_reference(source) for source in cited_sources(manifest)],
    }
    return {name: value for name, value in details.items() if value}


def citation_text(manifest: Manifest) -> str:
    """The `CITATION.cff` of a release."""
    return "".join(f"{line}\n" for line in yaml_lines(citation(manifest)))


def bibtex(cited: Mapping[str, Any]) -> str:
    """A citation in BibTeX."""
    names = [
        one.get("name")
        or ", ".join(filter(None, (one.get("family-names"), one.get("given-names"))))
        for one in cited["authors"]
    ]
    fields = {
        "title": f"{cited['title']} ({cited['version']})",
        "author": " and ".join(f"{{{name}}}" if "," not in name else name for name in names),
        "version": cited["version"],
        "year": str(cited.get("date-released", ""))[:4],
        "doi": cited.get("doi"),
        "url": cited.get("url"),
    }
    details = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items() if value)
    letters = (one for one in cited["title"] if one.isascii() and one.isalnum())
    name = "".join(letters) or "dataset"
    return f"@misc{{{name}-{cited['version']},\n{details}\n}}"


def keywords(manifest: Manifest) -> list[str]:
    """Keywords of the release."""
    of_persons = not (manifest.statistics.tasks or manifest.statistics.contrasts)
    words = ["image-text retrieval"]
    words += ["text-based person retrieval"] if of_persons else []
    words += ["contrastive images"] if manifest.statistics.contrasts else []
    words += ["demonstration"] if manifest.demonstration else []
    return words


def _agent(creator: Creator) -> dict[str, str]:
    details = {
        "family-names": creator.family_names,
        "given-names": creator.given_names,
        "name": creator.name,
        # entities have no affiliation in this format
        "affiliation": creator.affiliation if creator.is_person else None,
        "orcid": creator.orcid,
        "website": creator.website,
    }
    return {name: value for name, value in details.items() if value}


def _licences(manifest: Manifest) -> str | list[str] | None:
    """SPDX identifiers; several mean a choice between them.

    The format cannot express several licences that all apply, nor texts under another licence than
    the images. In these cases there is no identifier, and the message says it instead.
    """
    stated = stated_licences(manifest)
    if len(stated) != 1 or not manifest.terms.is_read:
        return None
    known = licence_of(stated[0])
    names = [next(iter(one)) for one in known.choices if len(one) == 1] if known else []
    if not names or not known or len(names) < len(known.choices):
        return None
    if any(name.startswith("LicenseRef-") for name in names):
        return None
    return names[0] if len(names) == 1 else names


def _reference(source: ReleasedSource) -> dict[str, Any]:
    """A source; its own citation becomes a note, because it is not parsed."""
    home = source.homepage or ""
    details = {
        "type": "dataset",
        "title": source.name,
        "authors": [{"name": f"The authors of {source.name}"}],
        "notes": source.citation.strip(),
        "url": source.homepage if home.startswith(("https://", "http://")) else None,
    }
    return {name: value for name, value in details.items() if value}
