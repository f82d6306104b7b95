"""One contract, kept by every image search: services on loopback, and the folder."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from models.image_search import ImageSearch
from schemas.base import canonical_json
from schemas.image_search import SearchAnswer, SearchFailure
from schemas.licences import licence_name, permits_use
from tests.models.image_searches import folder, google, openverse, set_keys
from tests.servers.search_server import API_KEY, NOTHING, SearchServer, search_server

QUERY = "a red cat on a green bench"
BUILDERS: dict[str, Callable[[SearchServer], ImageSearch]] = {
    "google": google,
    "openverse": openverse,
    "folder": lambda _: folder(),
}
REFUSED = ("", " \t\n", "a\0cat", "half \ud83d a face", "bell \x07")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[SearchServer]:
    set_keys(monkeypatch)
    with search_server() as started:
        yield started


@pytest.fixture(params=BUILDERS)
def search(request: pytest.FixtureRequest, server: SearchServer) -> ImageSearch:
    return BUILDERS[request.param](server)


def answer(search: ImageSearch, query: str = QUERY, *arguments: Any) -> SearchAnswer:
    outcome = search.search(query, *(arguments or (5,)))
    assert isinstance(outcome, SearchAnswer), outcome
    return outcome


def test_it_is_a_search_that_says_who_it_is(search: ImageSearch) -> None:
    assert isinstance(search, ImageSearch)
    assert search.ref.name
    assert search.ref.revision
    assert API_KEY not in canonical_json(search.parameters)


def test_hits_are_in_order_of_rank_and_not_too_many(search: ImageSearch) -> None:
    for count in (1, 3, 5, 10):
        assert [hit.rank for hit in answer(search, QUERY, count).hits] == [*range(1, count + 1)]


def test_the_next_page_goes_on_where_the_last_ended(search: ImageSearch) -> None:
    both = [*answer(search, QUERY, 3, 1).hits, *answer(search, QUERY, 3, 2).hits]
    assert both == list(answer(search, QUERY, 6, 1).hits)


def test_beyond_what_a_service_gives_there_is_nothing(search: ImageSearch) -> None:
    assert answer(search, QUERY, 10, 40).hits == ()


def test_more_than_a_page_holds_gives_a_page(search: ImageSearch) -> None:
    ranks = [hit.rank for hit in answer(search, QUERY, 500).hits]
    assert ranks == [*range(1, len(ranks) + 1)]
    assert len(ranks) >= 10


def test_a_hit_says_what_has_to_be_named_with_it(search: ImageSearch) -> None:
    for hit in answer(search).hits:
        assert hit.image_url
        assert hit.page_url
        assert hit.title
        assert permits_use(hit.licence)
        assert hit.licence is not None
        assert licence_name(hit.licence) == hit.licence
        assert (hit.width_px or 0) > 1
        assert hit.media_type in ("image/jpeg", "image/png")


def test_the_raw_answer_is_kept(search: ImageSearch) -> None:
    assert len(answer(search).raw) > 100


def test_the_same_query_has_the_same_hits(search: ImageSearch) -> None:
    assert answer(search).hits == answer(search).hits


def test_what_is_no_text_is_refused_and_not_asked(
    subtests: pytest.Subtests, search: ImageSearch, server: SearchServer
) -> None:
    for query in REFUSED:
        with subtests.test(query=query):
            outcome = search.search(query, 5)
            assert isinstance(outcome, SearchFailure)
            assert (outcome.reason, outcome.retriable, outcome.requests) == (
                "refused_query",
                False,
                0,
            )
            assert server.seen == []


@pytest.mark.parametrize(
    "query",
    ["猫とベンチ", "un chat « gris » & l'été", "100% of a+b=c?", "👩‍🦰 " * 80, "x" * 3000],
    ids=["other script", "accents", "signs", "joined characters", "very long"],
)
def test_any_words_can_be_searched(search: ImageSearch, server: SearchServer, query: str) -> None:
    answer(search, query)
    for asked in server.queries:
        assert " ".join(query.split()).startswith(asked)
        assert asked


def test_an_empty_result_is_an_answer(server: SearchServer) -> None:
    for build in (google, openverse):
        assert answer(build(server), NOTHING).hits == ()
    assert answer(folder(images=0)).hits == ()
