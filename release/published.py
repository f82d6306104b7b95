"""What the published datasets hold, to be read beside what was built."""

import tomllib
from importlib.resources import files
from typing import get_args

from schemas.base import Record
from schemas.release import Manifest
from schemas.retrieval_task import RetrievalTask, Tier


class PublishedSplit(Record):
    """What the authors state of one split."""

    split: str
    identities: int
    images: int
    captions: int


class PublishedFigures(Record):
    """The totals that the authors of a dataset state; None where they state none.

    `method` says in a sentence how the dataset was made.
    """

    title: str
    images: int
    captions: int
    identities: int | None = None
    sources: int | None = None
    mean_words: float | None = None
    longest_words: int | None = None
    vocabulary: int | None = None
    annotators: int | None = None
    splits: tuple[PublishedSplit, ...] = ()
    method: str
    citation: str


class _ComparedDataset(Record):
    """A dataset that UFineBench compares its own with: table 1, section 2 and figure 6.

    `centre_words` is what its word counts are said to be centred around.
    """

    title: str
    identities: int
    images: int
    captions: int
    mean_words: float
    centre_words: int


class _PublishedContrasts(Record):
    """A dataset in CCD's table 1: cosines are means with the five nearest other samples."""

    title: str
    images: int
    tokens: float
    image_similarity: float
    text_similarity: float


_DATA = tomllib.loads(files("release").joinpath("published.toml").read_text("utf-8"))
_FIGURES = {name: PublishedFigures(**one) for name, one in _DATA["figures"].items()}
UFINE6926 = _FIGURES["ufine6926"]
COMPARED = tuple(_ComparedDataset(**one) for one in _DATA["compared"])
RECOS_TASKS = {RetrievalTask(task): images for task, images in _DATA["recos_tasks"].items()}
"""How many images of v0 are for each task."""
RECOS: dict[Tier, PublishedFigures] = {tier: _FIGURES[tier] for tier in get_args(Tier)}
"""The three versions of ReCoS: its table 1. What is in no version is compared with v1."""
CCD_TABLE = tuple(_PublishedContrasts(**one) for one in _DATA["contrasts"])
"""CCD's table 1."""


def contrastive_dataset(manifest: Manifest) -> str | None:
    """The published contrastive benchmark that a release is like: Flickr30k's or MSCOCO's."""
    if manifest.statistics.contrasts is None:
        return None
    names = (f"{source.name} {source.format}".casefold() for source in manifest.sources)
    is_flickr = any("flickr30k" in name for name in (manifest.dataset.casefold(), *names))
    return "Flickr30k-CCD" if is_flickr else "MSCOCO-CCD"


def published_beside(manifest: Manifest) -> PublishedFigures | None:
    """The published dataset that a release is built in the manner of, if any is."""
    if like := contrastive_dataset(manifest):
        return _FIGURES[like]
    if manifest.statistics.tasks:
        return RECOS[manifest.tier or "v1"]
    if manifest.videos:
        return UFINE6926
    return _FIGURES["ufine3c"] if manifest.dataset == "ufine3c" else None
