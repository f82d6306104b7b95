"""Published figures of datasets, to compare with what was built."""

import tomllib
from importlib.resources import files
from typing import get_args

from schemas.base import Record
from schemas.release import Manifest
from schemas.taxonomy import RetrievalTask, Tier


class PublishedSplit(Record):
    """The figures of one split as stated by the authors."""

    split: str
    identities: int
    images: int
    captions: int


class PublishedFigures(Record):
    """The totals stated by the authors of a dataset; None if they state none.

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
    """A dataset that UFineBench is compared with (table 1, section 2 and figure 6).

    `centre_words` is the value around which its word counts are said to be centred.
    """

    title: str
    identities: int
    images: int
    captions: int
    mean_words: float
    centre_words: int


class _PublishedContrasts(Record):
    """A dataset in CCD's table 1; cosines are means over the five nearest other samples."""

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
"""The number of images in v0 by task."""
RECOS: dict[Tier, PublishedFigures] = {tier: _FIGURES[tier] for tier in get_args(Tier)}
"""The three versions of ReCoS (table 1). A release without a version is compared with v1."""
CCD_TABLE = tuple(_PublishedContrasts(**one) for one in _DATA["contrasts"])
"""CCD's table 1."""


def contrastive_dataset(manifest: Manifest) -> str | None:
    """The published contrastive benchmark that a release is compared with."""
    if manifest.statistics.contrasts is None:
        return None
    names = (f"{source.name} {source.format}".casefold() for source in manifest.sources)
    is_flickr = any("flickr30k" in name for name in (manifest.dataset.casefold(), *names))
    return "Flickr30k-CCD" if is_flickr else "MSCOCO-CCD"


def published_beside(manifest: Manifest) -> PublishedFigures | None:
    """The published dataset that a release is compared with, if there is one."""
    if like := contrastive_dataset(manifest):
        return _FIGURES[like]
    if manifest.statistics.tasks:
        return RECOS[manifest.tier or "v1"]
    if manifest.videos:
        return UFINE6926
    return _FIGURES["ufine3c"] if manifest.dataset == "ufine3c" else None
