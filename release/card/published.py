"""Published figures of datasets, to compare with what was built."""

import tomllib
from importlib.resources import files
from typing import get_args

from loupe.schemas.base import Record
from loupe.schemas.release import Manifest
from loupe.schemas.taxonomy import RetrievalTask, Tier


class PublishedSplit(Record):
    """The figures of one split as stated by the authors."""

    split: str
    identities: int
    images: int
    captions: int


class PublishedFigures(Record):
    """The figures stated by the authors of a dataset; None if they state none.

    Attributes:
        centre_words: the value around which its word counts are said to be centred.
        image_similarity: the mean cosine of an image with its five nearest others (CCD, table 1).
        text_similarity: the same for captions.
        method: how the dataset was made, as a sentence.
    """

    title: str
    images: int
    captions: int | None = None
    identities: int | None = None
    sources: int | None = None
    mean_words: float | None = None
    centre_words: int | None = None
    longest_words: int | None = None
    vocabulary: int | None = None
    annotators: int | None = None
    tokens: float | None = None
    image_similarity: float | None = None
    text_similarity: float | None = None
    splits: tuple[PublishedSplit, ...] = ()
    method: str = ""
    citation: str = ""


_DATA = tomllib.loads(files("loupe.release.card").joinpath("published.toml").read_text("utf-8"))
_FIGURES = {name: PublishedFigures(**one) for name, one in _DATA["figures"].items()}
UFINE6926 = _FIGURES["ufine6926"]
COMPARED = tuple(PublishedFigures(**one) for one in _DATA["compared"])
"""Datasets that UFineBench is compared with (table 1, section 2 and figure 6)."""
RECOS_TASKS = {RetrievalTask(task): images for task, images in _DATA["recos_tasks"].items()}
"""The number of images in v0 by task."""
RECOS: dict[Tier, PublishedFigures] = {tier: _FIGURES[tier] for tier in get_args(Tier)}
"""The three versions of ReCoS (table 1). A release without a version is compared with v1."""
CCD_TABLE = tuple(PublishedFigures(**one) for one in _DATA["contrasts"])
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
    if manifest.form is not None:  # a dataset of one's own, whatever steps it was made with
        return None
    if like := contrastive_dataset(manifest):
        return _FIGURES[like]
    if manifest.statistics.tasks:
        return RECOS[manifest.tier or "v1"]
    if manifest.videos:
        return UFINE6926
    return _FIGURES["ufine3c"] if manifest.dataset == "ufine3c" else None
