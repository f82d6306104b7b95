"""The built-in folder search: ranking, ties, licences and addresses of images."""

import numpy as np
import pytest

from loupe.models.search.folder import FolderImageSearch, path_in_folder
from loupe.schemas.errors import ConfigurationError
from loupe.schemas.image_search import FolderSearch, SearchAnswer
from tests.models.image_searches import ColourWords, folder, folder_image

SPEC = FolderSearch(folder="anywhere")


def names(search: FolderImageSearch, query: str, count: int) -> list[str]:
    outcome = search.search(query, count)
    assert isinstance(outcome, SearchAnswer)
    return [hit.title for hit in outcome.hits]


def test_the_most_similar_images_come_first() -> None:
    assert names(folder(6), "something green", 2) == ["green 1", "green 4"]
    assert names(folder(6), "red red blue", 6) == [
        *("red 0", "red 3", "blue 2", "blue 5", "green 1", "green 4")
    ]


def test_ties_keep_the_order_of_the_list() -> None:
    assert names(folder(9), "nothing of these", 9) == names(folder(9), "nor of these", 9)
    many = [int(name.split()[1]) for name in names(folder(300), "red", 300)]
    assert many == sorted(many, key=lambda place: place % 3 != 0)
    assert many[100:] == sorted(many[100:])
    assert names(folder(4), "nothing of these", 4) == ["red 0", "green 1", "blue 2", "red 3"]


def test_licence_creator_and_page_come_from_the_list() -> None:
    source = "https://example.org/page"
    images = [
        folder_image("red", "by-nc 2.0", creator="A. Painter", source_url=source),
        folder_image("red & more", "all rights reserved"),
    ]
    vectors = np.eye(3, dtype=np.float32)[[0, 0]]
    outcome = FolderImageSearch(SPEC, images, vectors, ColourWords()).search("red", 2)
    assert isinstance(outcome, SearchAnswer)
    first, second = outcome.hits
    assert (first.licence, first.creator, first.page_url) == ("CC-BY-NC-2.0", "A. Painter", source)
    assert (second.licence, second.page_url) == (None, "folder:stills/red%20%26%20more.png")
    assert path_in_folder(second.image_url) == "stills/red & more.png"
    assert outcome.requests == 0


def test_parameters_depend_only_on_images_and_licences() -> None:
    def parameters(*images: object) -> object:
        vectors = np.eye(3, dtype=np.float32)[: len(images)]
        listed = list(images)
        return FolderImageSearch(SPEC, listed, vectors, ColourWords()).parameters  # type: ignore[arg-type]

    same = parameters(folder_image("red"))
    assert parameters(folder_image("red")) == same
    assert parameters(folder_image("blue")) != same
    assert parameters(folder_image("red", "CC0")) != same
    elsewhere = FolderSearch(folder="elsewhere", licence_file="other.csv")
    assert elsewhere.parameters == SPEC.parameters


def test_an_image_without_a_vector_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="1 images wants as many vectors; got 2"):
        FolderImageSearch(
            SPEC, [folder_image("red")], np.eye(2, 3, dtype=np.float32), ColourWords()
        )
