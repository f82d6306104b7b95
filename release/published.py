"""What the published datasets hold, to be read beside what was built."""

from schemas.base import Record


class PublishedFigures(Record):
    """The totals that the authors of a dataset state."""

    title: str
    images: int
    captions: int
    identities: int
    sources: int
    citation: str


PUBLISHED = {
    "ufine3c": PublishedFigures(
        title="UFine3C",
        images=7446,
        captions=37939,
        identities=2250,
        sources=3,
        citation=(
            "Zuo et al., UFineBench: Towards Text-based Person Retrieval with Ultra-fine "
            "Granularity, CVPR 2024, arXiv:2312.03441"
        ),
    ),
}
