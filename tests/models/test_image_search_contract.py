"""Contract tests of image searches: services on loopback, and the folder search."""

import json
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest

from loupe.models.image_search import ImageSearch
from loupe.schemas.base import canonical_json
from loupe.schemas.image_search import SearchAnswer, SearchFailure, SearchOutcome
from loupe.schemas.licences import licence_name, permits_release
from loupe.services.process import free_port
from tests.models.image_searches import folder, google, openverse, set_keys
from tests.servers.search_server import API_KEY, NOTHING, Reply, SearchServer, search_server

QUERY = "a red cat on a green bench"
Search = Callable[..., ImageSearch]
ON_THE_WEB: tuple[Search, ...] = (google, openverse)
REFUSED = ("", " \t\n", "a\0cat", "half \ud83d a face", "bell \x07")
UNUSUAL = ("猫とベンチ", "un chat « gris » & l'été", "100% of a+b=c?", "👩‍🦰 " * 80, "x" * 3000)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[SearchServer]:
    set_keys(monkeypatch)
    with search_server() as started:
        yield started


@pytest.fixture
def searches(server: SearchServer) -> list[ImageSearch]:
    """One search of each kind."""
    return [*(build(server) for build in ON_THE_WEB), folder()]


def answer(search: ImageSearch, query: str = QUERY, *arguments: Any) -> SearchAnswer:
    outcome = search.search(query, *(arguments or (5,)))
    assert isinstance(outcome, SearchAnswer), (search.ref, outcome)
    return outcome


def failure(outcome: SearchOutcome) -> SearchFailure:
    assert isinstance(outcome, SearchFailure), outcome
    return outcome


def test_a_search_has_a_reference_and_parameters_without_keys(searches: list[ImageSearch]) -> None:
    for search in searches:
        assert isinstance(search, ImageSearch)
        assert search.ref.name
        assert search.ref.revision
        assert API_KEY not in canonical_json(search.parameters)


def test_hits_are_ordered_by_rank_and_limited_to_the_count(searches: list[ImageSearch]) -> None:
    for search in searches:
        for count in (1, 3, 5, 10):
            hits = answer(search, QUERY, count).hits
            assert [hit.rank for hit in hits] == [*range(1, count + 1)], search.ref
        assert answer(search).hits == answer(search).hits, "the same query has the same hits"
        assert len(answer(search).raw) > 100


def test_a_hit_has_address_page_title_licence_and_size(searches: list[ImageSearch]) -> None:
    for hit in (hit for search in searches for hit in answer(search).hits):
        assert hit.image_url
        assert hit.page_url
        assert hit.title
        assert permits_release(hit.licence)
        assert hit.licence is not None
        assert licence_name(hit.licence) == hit.licence
        assert (hit.width_px or 0) > 1
        assert hit.media_type in ("image/jpeg", "image/png")


def test_an_invalid_query_is_refused_without_a_request(
    searches: list[ImageSearch], server: SearchServer
) -> None:
    for search, query in product(searches, REFUSED):
        failed = failure(search.search(query, 5))
        found = (failed.reason, failed.retriable, failed.requests)
        assert found == ("refused_query", False, 0), (search.ref, query)
    assert server.seen == []


def test_queries_in_any_language_and_length_are_searched(
    searches: list[ImageSearch], server: SearchServer
) -> None:
    for search, query in product(searches, UNUSUAL):
        server.seen.clear()
        answer(search, query)
        for asked in server.queries:
            assert " ".join(query.split()).startswith(asked), (search.ref, query)
            assert asked


def test_an_empty_result_is_an_answer(server: SearchServer) -> None:
    for build in ON_THE_WEB:
        assert answer(build(server), NOTHING).hits == ()
    assert answer(folder(images=0)).hits == ()


def test_a_transient_fault_is_retried_and_counted(server: SearchServer) -> None:
    faults = [
        (Reply(500, {"error": {"code": 500, "message": "Internal"}}), "server_error"),
        (Reply(503, "<html>busy</html>"), "server_error"),
        (Reply(200, '{"results": [{"url": "ht'), "server_error"),
        (Reply(200, "<html>Please log in</html>"), "server_error"),
        (Reply(200, {"error": {"message": "overloaded"}}), "server_error"),
        (Reply(reset=True), "unreachable"),
        (Reply(hang_up=True), "unreachable"),
    ]
    for build, (fault, reason) in product(ON_THE_WEB, faults):
        server.seen.clear()
        search = build(server)
        server.faults = [fault]
        assert answer(search).requests == len(server.seen) == 2, (search.ref, fault)
        server.faults = [fault] * 3
        failed = failure(search.search(QUERY, 5))
        found = (failed.reason, failed.retriable, failed.requests)
        assert found == (reason, True, 3), (search.ref, fault)
        assert len(server.seen) == 5, "no uncounted retries"


def test_unexpected_json_is_kept_and_not_retried(server: SearchServer) -> None:
    bodies: list[tuple[Search, Any]] = [
        *product([google], ([], {"items": {"0": 1}}, {"items": 5})),
        *product([openverse], ([], {"results": None}, {"detail": "moved"})),
    ]
    for build, body in bodies:
        server.seen.clear()
        server.faults = [Reply(200, body)]
        failed = failure(build(server).search(QUERY, 5))
        found = (failed.reason, failed.retriable, failed.requests)
        assert found == ("unreadable_answer", False, 1), body
        assert json.loads(failed.raw) == body
        assert len(server.seen) == 1


def test_a_missing_answer_is_a_timeout(server: SearchServer) -> None:
    for build in ON_THE_WEB:
        server.faults = [Reply(seconds=1)]
        failed = failure(build(server, timeout_seconds=0.2, max_retries=0).search(QUERY, 5))
        assert (failed.reason, failed.requests) == ("timeout", 1)


def test_an_unreachable_service_counts_no_request(server: SearchServer) -> None:
    for build in ON_THE_WEB:
        base_url = f"http://127.0.0.1:{free_port()}"
        failed = failure(build(server, base_url=base_url, max_retries=1).search(QUERY, 5))
        assert (failed.reason, failed.requests) == ("unreachable", 0)


def test_the_caller_can_prevent_a_retry_after_the_pause(
    server: SearchServer,
) -> None:
    for build in ON_THE_WEB:
        server.faults, pauses = [Reply(500, {})] * 3, list[float]()
        search = build(server, sleep=pauses.append)
        failed = failure(search.search(QUERY, 5, may_retry=lambda: False))
        assert failed.requests == 1
        assert len(pauses) == 1
        server.faults.clear()
    assert len(server.seen) == len(ON_THE_WEB)
