"""`croissant.json`: what a release holds, for machines, in Croissant 1.1 (JSON-LD).

Written as plain JSON, in one order, so that the same release gives the same bytes; paths count from
the folder. Images are a set of files: their digests are in the rows and in the manifest.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from release.card.front import languages
from release.card.terms import stated_licences
from release.citation import bibtex, citation, keywords
from release.croissant.facts import responsible_facts
from release.croissant.fields import rows_of
from release.row_form import RowForm
from release.sources import cited_sources
from schemas.licences import licence_of, spdx_page
from schemas.release import Creator, Manifest, ReleaseAbout, ReleasedFile

CROISSANT: Final = "croissant.json"
CONFORMS_TO: Final = (
    "http://mlcommons.org/croissant/1.1",
    "http://mlcommons.org/croissant/RAI/1.0",
)
CONTEXT: Final[dict[str, Any]] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "arrayShape": "cr:arrayShape",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "containedIn": "cr:containedIn",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "description": {"@container": "@language"},
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isArray": "cr:isArray",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "name": {"@container": "@language"},
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
"""The context of the specification (1.1, appendix)."""

_FORMATS = {
    "json": "application/json",
    "jsonl": "application/jsonlines",
    "md": "text/markdown",
    "parquet": "application/x-parquet",
    "svg": "image/svg+xml",
    "cff": "application/yaml",
    "html": "text/html",
    "txt": "text/plain",
}
_PICTURES = {
    "jpg": "image/jpeg",
    "png": "image/png",
    "webp": "image/webp",
    "bmp": "image/bmp",
    "gif": "image/gif",
}
_IMAGES = "images/"


def croissant_text(manifest: Manifest, form: RowForm, files: Iterable[ReleasedFile]) -> str:
    """The `croissant.json` of a release; `files` are all of its files but that and the manifest."""
    return json.dumps(croissant(manifest, form, files), ensure_ascii=False, indent=1) + "\n"


def croissant(manifest: Manifest, form: RowForm, files: Iterable[ReleasedFile]) -> dict[str, Any]:
    """What a release holds, as JSON-LD."""
    about = manifest.about or ReleaseAbout()
    cited = citation(manifest)
    details: dict[str, Any] = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "name": manifest.dataset,
        "alternateName": about.title,
        "description": description_of(manifest),
        "conformsTo": list(CONFORMS_TO),
        "version": manifest.version,
        "license": _licences(manifest),
        "usageInfo": "README.md#licences-and-citations",
        "creator": [_creator(one) for one in about.named(manifest.dataset)],
        "datePublished": about.date_released.isoformat() if about.date_released else None,
        "url": about.homepage,
        "identifier": f"https://doi.org/{about.doi}" if about.doi else None,
        "citeAs": bibtex(cited),
        "citation": [source.citation for source in cited_sources(manifest)],
        "isBasedOn": [source.homepage for source in manifest.sources if source.homepage],
        "keywords": keywords(manifest),
        "inLanguage": languages(manifest),
        **{f"rai:{name}": fact for name, fact in responsible_facts(manifest).items()},
        "distribution": list(_distribution(files)),
        "recordSet": rows_of(manifest, form),
    }
    return {name: value for name, value in details.items() if value}


def description_of(manifest: Manifest) -> str:
    """What the release is: as its curators say, or in one sentence."""
    if manifest.about and manifest.about.description:
        return manifest.about.description
    counted, names = manifest.statistics, ", ".join(one.name for one in manifest.sources)
    kind = "A demonstration, not to measure models with: " if manifest.demonstration else ""
    return (
        f"{kind}{counted.images:,} images with {counted.captions:,} captions for fine-grained "
        f"image–text retrieval, from {names}."
    )


def _licences(manifest: Manifest) -> list[Any]:
    """Each licence: its page at SPDX where it is one of theirs, else its words.

    That of the texts stands last, with what it is of, where they are under another one.
    """
    of_images = [one.licence for one in manifest.terms.licences]
    details = [_licence(one) for one in dict.fromkeys(of_images)]
    return details + [_texts_licence(one) for one in stated_licences(manifest)[len(of_images) :]]


def _texts_licence(expression: str) -> dict[str, str]:
    page = _licence(expression)
    details = {
        "@type": "sc:CreativeWork",
        "name": expression,
        "description": f"{expression}, of the texts that were made here",
        "url": page if isinstance(page, str) else None,
    }
    return {name: value for name, value in details.items() if value}


def _licence(stated: str) -> Any:
    if (page := spdx_page(stated)) is not None:
        return page
    known = licence_of(stated)
    details = known.expression if known else stated
    return {"@type": "sc:CreativeWork", "name": stated, "description": details}


def _creator(one: Creator) -> dict[str, str]:
    kind = "sc:Person" if one.is_person else "sc:Organization"
    details = {"@type": kind, "name": one.full_name, "url": one.website or one.orcid}
    return {name: value for name, value in details.items() if value}


def _distribution(files: Iterable[ReleasedFile]) -> Iterator[dict[str, Any]]:
    """Each file but images, the Parquet files as a set, and images as a set for each format."""
    pictures = dict.fromkeys(_PICTURES, 0)
    objects, shards = [], []
    for file in files:
        ending = file.path.rpartition(".")[2]
        if file.path.startswith(_IMAGES) and ending in pictures:
            pictures[ending] += 1
            continue
        if file.path.startswith("data/"):
            shards.append(file)
        objects.append(_file_object(file, ending))
    yield {
        "@type": "cr:FileSet",
        "@id": "row-files",
        "name": "row-files",
        "description": f"The rows, with their images: {len(shards):,} Parquet files.",
        "encodingFormat": _FORMATS["parquet"],
        "includes": "data/*.parquet",
    }
    for ending, count in pictures.items():
        if count:
            yield {
                "@type": "cr:FileSet",
                "@id": f"{ending}-images",
                "name": f"{ending}-images",
                "description": f"The images again, as files: {count:,}. The column sha256 of the "
                "rows, and manifest.json, tell their digests.",
                "encodingFormat": _PICTURES[ending],
                "includes": f"{_IMAGES}*.{ending}",
            }
    yield from objects


def _file_object(file: ReleasedFile, ending: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": file.path,
        "name": file.path,
        "contentUrl": file.path,
        "contentSize": f"{file.size_bytes} B",
        "encodingFormat": _FORMATS.get(ending, "application/octet-stream"),
        "sha256": file.sha256,
    }
