"""Two images that look alike: the record between `pair_similar` and `confuse`."""

from pydantic import Field

from loupe.api.records import Record


class SimilarPair(Record, kind="similar_pair"):
    """Two similar images, which people can look at on the page `compare`."""

    first: str = Field(description="the id of an image")
    second: str = Field(description="the id of the image that is most similar to it")
    similarity: float = Field(description="the cosine of their embeddings")
