"""From a profile's words to a search of a service on the web."""

from typing import assert_never

from models.image_search import ImageSearch
from schemas.image_search import GoogleSearch, OpenverseSearch


def build_image_search(spec: GoogleSearch | OpenverseSearch) -> ImageSearch:
    """The search that `spec` describes; only its own libraries are imported.

    A folder's search needs its images and their vectors: `flows.ccd.searching` makes it.

    Raises:
        ConfigurationError: something that it needs from the environment is missing.
    """
    match spec:
        case GoogleSearch():
            from models.search.google import GoogleImageSearch

            return GoogleImageSearch(spec)
        case OpenverseSearch():
            from models.search.openverse import OpenverseImageSearch

            return OpenverseImageSearch(spec)
        case _:
            assert_never(spec)
