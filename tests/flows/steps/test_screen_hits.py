"""What nobody may use is turned down before anything of it is downloaded."""

from typing import Any

import pytest

from flows.ccd.downloading import FOLDER, screen_hits
from schemas.image_search import GoogleSearch, SearchHit
from schemas.records import Rejection


def hit(rank: int = 1, **fields: Any) -> SearchHit:
    known = {
        "image_url": "https://example.org/a.jpg",
        "page_url": "https://example.org/a",
        "licence": "CC-BY-2.0",
    }
    return SearchHit(rank=rank, **{**known, **fields})


def test_a_hit_is_turned_down_with_its_reason(subtests: pytest.Subtests) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"licence": None}, "licence_not_permitted"),
        ({"licence": "CC-BY-ND-4.0"}, "licence_not_permitted"),
        ({"licence": "CC-BY-NC-ND-2.0"}, "licence_not_permitted"),
        ({"licence": "something"}, "licence_not_permitted"),
        ({"page_url": None}, "page_missing"),
        ({"image_url": "x-raw-image:///aa11"}, "not_an_address"),
        ({"image_url": "file:///etc/passwd"}, "not_an_address"),
        ({"image_url": "folder:../../etc/passwd"}, "not_an_address"),
        ({"image_url": "data:image/png;base64,AA"}, "not_an_address"),
    ]
    for fields, reason in cases:
        with subtests.test(fields=fields, reason=reason):
            [found] = screen_hits("a cat", [hit(**fields)])
            assert isinstance(found, Rejection)
            assert (found.stage, found.reason) == ("search", reason)
            assert found.context["query"] == "a cat"
            assert found.context["hit"]["rank"] == 1


def test_there_is_one_for_each_in_order() -> None:
    hits = [
        hit(1),
        hit(2, licence=None),
        hit(3, licence="CC0-1.0"),
        hit(4, image_url="HTTP://a.org/b"),
    ]
    found = screen_hits("a cat", hits)
    assert [found[0], *found[2:]] == [hits[0], *hits[2:]]
    assert isinstance(found[1], Rejection)


def test_the_search_of_a_folder_names_nothing_but_what_lies_there() -> None:
    lies, elsewhere = screen_hits("a cat", [hit(image_url="folder:a.jpg"), hit()], FOLDER)
    assert isinstance(lies, SearchHit)
    assert isinstance(elsewhere, Rejection)
    assert elsewhere.reason == "not_an_address"


def test_what_googles_filter_lets_pass_may_be_used() -> None:
    licence = GoogleSearch(provider="google").licence
    [found] = screen_hits("a cat", [hit(licence=licence, licence_basis="filter")])
    assert isinstance(found, SearchHit)
