"""`croissant.json`: a machine-readable description of a release in Croissant 1.1 (JSON-LD).

Plain JSON in a fixed order, so that the same release gives the same bytes. Paths are relative to
the folder. Images are described as a set of files, whose digests are in the rows and in the
manifest.
"""

import json
from collections.abc import Iterable, Iterator
from importlib.resources import files
from typing import Any, Final

from loupe.release.card.facts import (
    bibtex,
    citation,
    cited_sources,
    keywords,
    languages,
    responsible_facts,
    stated_licences,
)
from loupe.release.format.rows import Column, columns_of, form_of
from loupe.schemas.licences import licence_of, spdx_page
from loupe.schemas.release import Creator, Manifest, ReleaseAbout, ReleasedFile

_ROWS: Final = "rows"
_SPLITS: Final = "splits"
_SOURCES: Final = "sources"

_URLS = {"train": "cr:TrainingSplit", "val": "cr:ValidationSplit", "test": "cr:TestSplit"}
_KEY = "file_path"
_IMAGE = "image"
_REFERENCES = {"split": f"{_SPLITS}/name", "source": f"{_SOURCES}/name"}


def _rows(manifest: Manifest) -> dict[str, Any]:
    return {
        "@type": "cr:RecordSet",
        "@id": _ROWS,
        "name": _ROWS,
        "description": "A row for each image, with its captions and where all of it comes from.",
        "key": {"@id": f"{_ROWS}/{_KEY}"},
        "field": [_column(one) for one in columns_of(form_of(manifest))],
    }


def _column(column: Column) -> dict[str, Any]:
    name = column.name
    field = _named(name, column.meaning)
    if name == _IMAGE:
        field["source"] = _extract(name) | {"transform": {"jsonPath": "bytes"}}
        field["dataType"] = "sc:ImageObject"
    elif column.parts:
        field |= _LIST if column.is_list else {}
        field["subField"] = [
            _named(f"{name}.{part.name}", part.meaning)
            | {"source": _extract(name) | {"transform": {"jsonPath": part.name}}}
            | _typed(part)
            for part in column.parts
        ]
    else:
        field |= {"source": _extract(name)} | _typed(column)
    if name in _REFERENCES:
        field["references"] = {"field": {"@id": _REFERENCES[name]}}
    return field


def _named(path: str, meaning: str) -> dict[str, Any]:
    return {
        "@type": "cr:Field",
        "@id": f"{_ROWS}/{path.replace('.', '/')}",
        "name": path.rpartition(".")[2],
        "description": meaning,
    }


def _extract(column: str) -> dict[str, Any]:
    return {"fileSet": {"@id": "row-files"}, "extract": {"column": column}}


_LIST: Final = {"isArray": True, "arrayShape": "-1"}
_TYPES: Final = {
    "string": "sc:Text",
    "int32": "sc:Integer",
    "int64": "sc:Integer",
    "float64": "sc:Float",
    "bool": "sc:Boolean",
}


def _typed(column: Column) -> dict[str, Any]:
    return {"dataType": _TYPES[column.type or "string"]} | (_LIST if column.is_list else {})


def _splits(manifest: Manifest) -> dict[str, Any]:
    splits = [one.split for one in manifest.statistics.splits]
    return _inline(
        _SPLITS,
        "The splits.",
        [{"name": one, "url": _URLS[one].replace("cr:", _CR)} for one in splits],
        ("cr:Split",),
    )


_CR: Final = "http://mlcommons.org/croissant/"


def _sources(manifest: Manifest) -> dict[str, Any]:
    described: dict[str, dict[str, str]] = {}
    for one in manifest.sources:
        details = one.model_dump(include={"name", "licence", "citation"})
        described.setdefault(one.name, {**details, "homepage": one.homepage or ""})
    return _inline(_SOURCES, "The collections that images come from.", list(described.values()))


def _inline(
    name: str, meaning: str, records: list[dict[str, str]], kinds: tuple[str, ...] = ()
) -> dict[str, Any]:
    """A record set with inline records, whose key is `name`."""
    columns = list(records[0]) if records else ["name"]
    fields: list[dict[str, Any]] = [
        {
            "@type": "cr:Field",
            "@id": f"{name}/{column}",
            "name": column,
            "dataType": "sc:URL" if column == "url" else "sc:Text",
        }
        for column in columns
    ]
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "description": meaning,
        **({"dataType": list(kinds)} if kinds else {}),
        "key": {"@id": f"{name}/name"},
        "field": fields,
        "data": [{f"{name}/{column}": one[column] for column in columns} for one in records],
    }


_CONFORMS_TO: Final = (
    "http://mlcommons.org/croissant/1.1",
    "http://mlcommons.org/croissant/RAI/1.0",
)
CONTEXT: Final[dict[str, Any]] = json.loads(
    files("loupe.release.card").joinpath("croissant_context.json").read_text("utf-8")
)
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


def croissant_text(manifest: Manifest, listed: Iterable[ReleasedFile]) -> str:
    """The `croissant.json` of a release; `listed` has all files but itself and the manifest."""
    return json.dumps(croissant(manifest, listed), ensure_ascii=False, indent=1) + "\n"


def croissant(manifest: Manifest, listed: Iterable[ReleasedFile]) -> dict[str, Any]:
    """The contents of a release as JSON-LD."""
    about = manifest.about or ReleaseAbout()
    cited = citation(manifest)
    details: dict[str, Any] = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "name": manifest.dataset,
        "alternateName": about.title,
        "description": _description_of(manifest),
        "conformsTo": list(_CONFORMS_TO),
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
        "distribution": list(_distribution(listed)),
        "recordSet": [_splits(manifest), _sources(manifest), _rows(manifest)],
    }
    return {name: value for name, value in details.items() if value}


def _description_of(manifest: Manifest) -> str:
    """The curators' description of the release, or one sentence generated from its statistics."""
    if manifest.about and manifest.about.description:
        return manifest.about.description
    counted, names = manifest.statistics, ", ".join(one.name for one in manifest.sources)
    kind = "A demonstration, not to measure models with: " if manifest.demonstration else ""
    return (
        f"{kind}{counted.images:,} images with {counted.captions:,} captions for fine-grained "
        f"image–text retrieval, from {names}."
    )


def _licences(manifest: Manifest) -> list[Any]:
    """Each licence: its SPDX page if it has one, else its text.

    A separate licence of the texts comes last, with a note on its scope.
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


def _distribution(listed: Iterable[ReleasedFile]) -> Iterator[dict[str, Any]]:
    """Each file but images, the Parquet files as a set, and images as one set per format."""
    pictures = dict.fromkeys(_PICTURES, 0)
    objects, shards = [], []
    for file in listed:
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
                "description": f"The images again, as files: {count:,}. Their digests are in the "
                "column sha256 and in manifest.json.",
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
