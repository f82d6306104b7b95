"""Search by embedding in the store of this installation."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from loupe.db.store import Store
from loupe.flows.exploring.similar import SimilarImage, similar_images
from loupe.models.profiles.loader import load_profile
from loupe.models.profiles.settings import load_settings
from loupe.schemas.errors import UsageError


def similar(
    query: str | Path, *, datasets: Sequence[str] = (), count: int = 20
) -> list[SimilarImage]:
    """Return the images nearest to a text or an image, by the embeddings in the store.

    Args:
        query: a text, the id of an image of the store, or the path of an image file.
        datasets: only images of these datasets; empty for all, each image once.
        count: how many images.

    Raises:
        UsageError: there is no such dataset or file, or no embedding that the query can be compared
            with.
    """
    if isinstance(datasets, str):
        raise UsageError(f"datasets must be a list: [{datasets!r}]")
    stated: Any = count
    if not isinstance(stated, int) or count < 1:
        raise UsageError(f"count must be a number of at least 1; got {count!r}")
    own = load_settings()
    with closing(Store.open_existing(own.database_url, own.home)) as store:
        return similar_images(store, load_profile(own.profile), query, datasets, count)
