"""What the published datasets hold, to be read beside what was built."""

from schemas.base import Record
from schemas.release import Manifest
from schemas.retrieval_task import RetrievalTask, Tier

_UFINEBENCH = (
    "Zuo et al., UFineBench: Towards Text-based Person Retrieval with Ultra-fine Granularity, "
    "CVPR 2024, arXiv:2312.03441"
)


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


_UFINE3C = PublishedFigures(
    title="UFine3C",
    images=7446,
    captions=37939,
    identities=2250,
    sources=3,
    method=(
        "identities of the test splits of several sources, whose descriptions differ in detail, "
        "each description also rewritten by language models, so that domain, granularity and "
        "style vary"
    ),
    citation=_UFINEBENCH,
)

UFINE6926 = PublishedFigures(
    title="UFine6926",
    images=26206,
    captions=52412,
    identities=6926,
    mean_words=80.8,
    longest_words=218,
    vocabulary=8475,
    annotators=58,
    splits=(
        PublishedSplit(split="train", identities=4926, images=18577, captions=37154),
        PublishedSplit(split="test", identities=2000, images=7629, captions=15258),
    ),
    method=(
        "people were followed through street videos, unusable crops were filtered out, people "
        "selected images and merged what shows one person, and each image was described twice, "
        "in as much detail as can be seen"
    ),
    citation=_UFINEBENCH,
)

COMPARED = (
    _ComparedDataset(
        title="CUHK-PEDES",
        identities=13003,
        images=40206,
        captions=80412,
        mean_words=23.5,
        centre_words=25,
    ),
    _ComparedDataset(
        title="ICFG-PEDES",
        identities=4102,
        images=54522,
        captions=54522,
        mean_words=37.2,
        centre_words=30,
    ),
    _ComparedDataset(
        title="RSTPReid",
        identities=4101,
        images=20505,
        captions=51010,
        mean_words=26.5,
        centre_words=25,
    ),
)


RECOS_TASKS: dict[RetrievalTask, int] = {
    **dict.fromkeys(
        (
            RetrievalTask.COLOR,
            RetrievalTask.COUNT,
            RetrievalTask.LOCATION,
            RetrievalTask.FIGURE,
            RetrievalTask.OBJECT,
            RetrievalTask.ACTION,
            RetrievalTask.SCENE,
        ),
        50,
    ),
    **dict.fromkeys(
        (
            RetrievalTask.OCR,
            RetrievalTask.CELEBRITY,
            RetrievalTask.CALCULATION,
            RetrievalTask.CODE,
            RetrievalTask.TRANSLATION,
        ),
        30,
    ),
}
"""How many images of v0 are for each task: ReCoS, figure 3 and section 3.1."""

_RECOS_METHOD = {
    "v0": "images for twelve tasks, each with five captions that were neither over- nor "
    "under-detailed",
    "v1": "images for twelve tasks, to each of them a similar one, and five captions for each that "
    "are easily confused",
    "v2": "images for twelve tasks, similar ones with captions that are easily confused, and for "
    "each of them twenty similar ones without captions, duplicates removed",
}
_RECOS_SIZES: tuple[tuple[Tier, int, int], ...] = (
    ("v0", 500, 2500),
    ("v1", 1000, 5000),
    ("v2", 15982, 5000),
)
RECOS: dict[Tier, PublishedFigures] = {
    tier: PublishedFigures(
        title=f"ReCoS {tier}",
        images=images,
        captions=captions,
        method=_RECOS_METHOD[tier],
        citation=(
            "ReCoS: A Novel Benchmark for Cross-Modal Image-Text Retrieval in Complex Real-Life "
            "Scenarios"
        ),
    )
    for tier, images, captions in _RECOS_SIZES
}
"""The three versions of ReCoS: its table 1. What is in no version is compared with v1."""


class _PublishedContrasts(Record):
    """A dataset in CCD's table 1: cosines are means with the five nearest other samples."""

    title: str
    images: int
    tokens: float
    image_similarity: float
    text_similarity: float


CCD_TABLE = tuple(
    _PublishedContrasts(
        title=title, images=images, tokens=tokens, image_similarity=near, text_similarity=text
    )
    for title, images, tokens, near, text in (
        ("MSCOCO", 5000, 14.03, 0.449, 0.513),
        ("MSCOCO-CCD", 19590, 30.18, 0.631, 0.568),
        ("Flickr30k", 1000, 11.78, 0.395, 0.356),
        ("Flickr30k-CCD", 3560, 30.53, 0.631, 0.560),
    )
)
"""CCD's table 1. The paper does not name the tokenizer, nor the model that made the vectors."""

_CCD: dict[str, PublishedFigures] = {
    one.title: PublishedFigures(
        title=one.title,
        images=one.images,
        captions=5 * one.images,
        method=(
            "each original image gets other images that differ from it in one detail of a known "
            "type, found by search or edited, and each image of such a group has five captions "
            "that distinguish it from the others"
        ),
        citation=(
            "Benchmarking the Fine-Grained Discriminability in Image-Text Retrieval via "
            "Controlled Contrastive Differences, Findings of ACL 2026"
        ),
    )
    for one in CCD_TABLE
    if one.title.endswith("-CCD")
}


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
        return _CCD[like]
    if manifest.statistics.tasks:
        return RECOS[manifest.tier or "v1"]
    if manifest.videos:
        return UFINE6926
    return _UFINE3C if manifest.dataset == "ufine3c" else None
