"""The front matter of the dataset card, which the Hugging Face hub and `datasets` read."""

from collections.abc import Iterable
from typing import Any, Final

from release.facts import is_of_persons
from release.markup import yaml_lines
from release.published import published_beside
from release.rows import Column, RowForm, columns_of
from release.terms import stated_licences
from schemas.licences import licence_of
from schemas.release import Manifest

_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_HUB: Final = {
    **{
        name: name.lower()
        for name in (
            *("CC0-1.0", "CC-BY-2.0", "CC-BY-2.5", "CC-BY-3.0", "CC-BY-4.0"),
            *("CC-BY-SA-3.0", "CC-BY-SA-4.0", "CC-BY-NC-2.0", "CC-BY-NC-3.0", "CC-BY-NC-4.0"),
            *("CC-BY-NC-SA-2.0", "CC-BY-NC-SA-3.0", "CC-BY-NC-SA-4.0"),
            *("MIT", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "Unlicense"),
            *("CDLA-Sharing-1.0", "CDLA-Permissive-1.0", "CDLA-Permissive-2.0", "etalab-2.0"),
        )
    },
    "ODbL-1.0": "odbl",
    "ODC-By-1.0": "odc-by",
    "PDDL-1.0": "pddl",
}
"""The hub's identifiers of licences (huggingface.co/docs/hub/repositories-licenses)."""


def front_matter(manifest: Manifest) -> str:
    """The front matter of a card, without the `---` lines around it."""
    return "\n".join(yaml_lines(_front_values(manifest)))


def _front_values(manifest: Manifest) -> dict[str, Any]:
    """The values of the front matter, by the hub's names."""
    statistics, about = manifest.statistics, manifest.about
    published = published_beside(manifest)
    name = f"{published.title}-style {manifest.dataset}" if published else manifest.dataset
    spoken = languages(manifest)
    return {
        "pretty_name": about.title if about and about.title else name,
        **_licence_values(manifest),
        "language": spoken,
        "multilinguality": ["translation" if len(spoken) > 1 else "monolingual"],
        "annotations_creators": _creators_of_captions(manifest),
        "language_creators": _creators_of_captions(manifest),
        "source_datasets": ["original" if manifest.videos else "extended"],
        "task_categories": ["image-to-text"],
        "tags": _tags(manifest),
        "size_categories": [size_category(statistics.images)],
        "configs": [
            {
                "config_name": "default",
                "data_files": [
                    {"split": one.split, "path": f"data/{one.split}-*.parquet"}
                    for one in statistics.splits
                ],
            }
        ],
        "dataset_info": {
            "config_name": "default",
            "features": _features(columns_of(form_of(manifest))),
        },
    }


def languages(manifest: Manifest) -> list[str]:
    """The languages of the captions and of their translations (ISO 639-1)."""
    contrasts = manifest.statistics.contrasts
    translated = [language for language, _ in contrasts.translations] if contrasts else []
    return ["en", *sorted(set(translated) - {"en"})]


def form_of(manifest: Manifest) -> RowForm:
    """The form of a release, which determines the columns of its rows."""
    counted = manifest.statistics
    contrasts = counted.contrasts is not None
    return RowForm(bool(counted.tasks), contrasts, bool(counted.licences) or contrasts)


def _creators_of_captions(manifest: Manifest) -> list[str]:
    """The creators of the captions, by the hub's terms."""
    statistics = manifest.statistics
    made = statistics.descriptions
    here = made.written + made.edited + made.drafted if made else 0
    people = (made.written + made.edited if made else 0) + statistics.rewrites.edited
    kinds = {
        "found": sum(source.originals for source in statistics.sources) > here,
        "expert-generated": people > 0,
        "machine-generated": bool((made and made.drafted) or statistics.rewrites.released),
    }
    return [kind for kind, is_there in kinds.items() if is_there] or ["no-annotation"]


def size_category(rows: int) -> str:
    """The Hugging Face term for a number of rows."""
    return next((name for limit, name in _SIZES if rows < limit), "n>1M")


def hub_licences(manifest: Manifest) -> list[str]:
    """The hub's identifiers for the licences of images and texts; empty if one of them has none."""
    words: list[str | None] = []
    for stated in stated_licences(manifest):
        known = licence_of(stated)
        parts = [name for choice in known.choices for name in sorted(choice)] if known else []
        is_one = known is not None and len(parts) == 1
        words.append(_HUB.get(parts[0]) if is_one else None)
    return sorted({word for word in words if word}) if all(words) else []


def _licence_values(manifest: Manifest) -> dict[str, Any]:
    words = hub_licences(manifest)
    if words:
        return {"license": words[0] if len(words) == 1 else words}
    return {
        "license": "other",
        "license_name": "per-image" if manifest.statistics.licences else "per-source",
        "license_link": "README.md#licences-and-citations",
    }


def _tags(manifest: Manifest) -> list[str]:
    tags = ["image-text-retrieval"]
    tags += ["person-retrieval"] if is_of_persons(manifest) else []
    tags += ["demonstration"] if manifest.demonstration else []
    return tags + (["unreviewed"] if manifest.unreviewed else [])


def _features(columns: Iterable[Column]) -> list[dict[str, Any]]:
    """Columns as `datasets` writes them into front matter."""
    return [{"name": one.name, **_kind(one)} for one in columns]


def _kind(column: Column) -> dict[str, Any]:
    if column.parts and column.type != "image":
        parts = _features(column.parts)
        return {"list": parts} if column.is_list else {"struct": parts}
    return {"list" if column.is_list else "dtype": column.type}
