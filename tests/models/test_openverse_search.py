"""The Openverse search: licences of hits, throttling, tokens, and the length of queries."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from loupe.models.search.openverse import OpenverseImageSearch
from loupe.schemas.errors import ConfigurationError
from loupe.schemas.image_search import OpenverseSearch, SearchAnswer, SearchFailure, SearchOutcome
from loupe.services.process import free_port
from tests.models.image_searches import openverse
from tests.servers.search_server import (
    CLIENT_ID,
    CLIENT_SECRET,
    OPENVERSE_PATH,
    TOKEN,
    TOKEN_PATH,
    Reply,
    SearchServer,
    search_server,
)

APPLICATION: dict[str, Any] = {
    "client_id_variable": "OPENVERSE_ID",
    "client_secret_variable": "OPENVERSE_SECRET",
}
BURST = Reply(
    429,
    {"detail": "Request was throttled. Expected available in 3 seconds."},
    {"Retry-After": "3", "X-RateLimit-Available-anon_burst": "0"},
)
DAY = Reply(
    429,
    {"detail": "Request was throttled. Expected available in 43201 seconds."},
    {"X-RateLimit-Limit-anon_sustained": "200/day", "X-RateLimit-Available-anon_sustained": "0"},
)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[SearchServer]:
    monkeypatch.setenv("OPENVERSE_ID", CLIENT_ID)
    monkeypatch.setenv("OPENVERSE_SECRET", CLIENT_SECRET)
    monkeypatch.setenv("OPENVERSE_TOKEN", TOKEN)
    with search_server() as started:
        yield started


def answered(outcome: SearchOutcome) -> SearchAnswer:
    assert isinstance(outcome, SearchAnswer), outcome
    return outcome


def failed(outcome: SearchOutcome) -> SearchFailure:
    assert isinstance(outcome, SearchFailure), outcome
    return outcome


def test_only_licences_that_permit_derivatives_are_requested(server: SearchServer) -> None:
    openverse(server).search("a cat", 5)
    [seen] = server.seen
    assert seen.parameters == {
        "q": "a cat",
        "license": "by,by-nc,by-nc-sa,by-sa,cc0,pdm",
        "mature": "false",
        "page_size": "5",
        "page": "1",
    }
    with pytest.raises(ValidationError, match="by-nd"):
        OpenverseSearch(provider="openverse", licences=("by-nd",))


def test_each_hit_has_its_licence_and_creator(server: SearchServer) -> None:
    hits = answered(openverse(server).search("a cat", 6)).hits
    assert [hit.licence for hit in hits] == [
        "CC-BY-2.0",
        "CC-BY-SA-4.0",
        "CC0-1.0",
        "CC-PDM-1.0",
        "CC-BY-NC-2.0",
        "CC-BY-NC-SA-2.0",
    ]
    assert {hit.licence_basis for hit in hits} == {"stated"}
    assert [hit.creator for hit in hits[:2]] == ["Example Person", "Żaneta Przykład"]
    assert hits[4].creator is None
    assert hits[0].licence_url == "https://creativecommons.org/licenses/by/2.0/"


def test_incomplete_results_are_hits_or_left_out(server: SearchServer) -> None:
    whole = server.openverse["results"][0]
    results: list[Any] = [
        {**whole, "license": None, "license_url": None},
        {**whole, "license": "sampling+", "license_url": None},
        {**whole, "license_url": "https://creativecommons.org/licenses/by-nd/2.0/"},
        {**whole, "foreign_landing_url": None, "title": None, "width": None, "filetype": None},
        {**whole, "url": None},
        None,
        {"url": "https://example.org/a.jpg"},
    ]
    server.faults = [Reply(body={"results": results})]
    hits = answered(openverse(server).search("a cat", 20)).hits
    assert [hit.rank for hit in hits] == [1, 2, 3, 4, 7]
    assert [hit.licence for hit in hits] == [None, None, None, "CC-BY-2.0", None]
    assert (hits[3].page_url, hits[3].title, hits[3].width_px) == (None, "", None)


def test_what_the_service_flags_is_known_unless_the_profile_permits_it(
    server: SearchServer,
) -> None:
    whole = server.openverse["results"][0]
    flagged = {**whole, "mature": True, "unstable__sensitivity": ["user_reported_sensitivity"]}
    for permitted, flags in ((False, ("mature", "user_reported_sensitivity")), (True, ())):
        server.faults = [Reply(body={"results": [whole, flagged]})]
        spec = OpenverseSearch(
            provider="openverse", base_url=server.base_url, include_mature=permitted
        )
        hits = answered(OpenverseImageSearch(spec).search(f"a cat {permitted}", 2)).hits
        assert [hit.flags for hit in hits] == [(), flags]
    assert "flags" not in hits[0].model_dump()


def test_a_long_query_is_cut_between_words(server: SearchServer) -> None:
    openverse(server).search("cat " * 100, 5)
    openverse(server).search("x" * 300, 5)
    assert server.queries == [("cat " * 50).strip(), "x" * 200]


def test_a_short_throttle_is_awaited_as_long_as_stated(server: SearchServer) -> None:
    waited: list[float] = []
    spec = OpenverseSearch(provider="openverse", base_url=server.base_url)
    server.faults = [BURST, Reply(429, {"detail": "Expected available in 7 seconds."})]
    outcome = answered(OpenverseImageSearch(spec, sleep=waited.append).search("a cat", 5))
    assert waited == [3.0, 7.0]
    assert outcome.requests == 1, "throttled requests do not count"


def test_an_exhausted_daily_quota_is_not_retried(server: SearchServer) -> None:
    for asked, refusal in enumerate((DAY, Reply(429, {}, {"Retry-After": "4000"})), start=1):
        server.faults = [refusal]
        failure = failed(openverse(server).search("a cat", 5))
        found = (failure.reason, failure.retriable, failure.requests)
        assert found == ("quota_exhausted", True, 0), refusal
        assert len(server.seen) == asked, refusal


def test_invalid_optional_fields_are_ignored(server: SearchServer) -> None:
    cases: list[dict[str, Any]] = [
        {"width": 640.5, "height": "x"},
        {"width": 1e999, "height": -(10**400)},
        {"title": 7, "creator": ["A"], "filetype": {}},
        {"foreign_landing_url": 3},
        {"license_version": 2.0},
    ]
    whole = server.openverse["results"][0]
    server.faults = [Reply(body={"results": [{**whole, **odd} for odd in cases]})]
    for odd, hit in zip(cases, answered(openverse(server).search("a cat", 5)).hits, strict=True):
        assert (hit.image_url, hit.licence) == (whole["url"], "CC-BY-2.0"), odd


def test_invalid_licences_are_unknown(server: SearchServer) -> None:
    whole = server.openverse["results"][0]
    cases: list[dict[str, Any]] = [{"license": 4}, {"license_version": []}, {"license_url": {}}]
    server.faults = [Reply(body={"results": [{**whole, **odd} for odd in cases]})]
    hits = answered(openverse(server).search("a cat", 5)).hits
    assert [hit.licence for hit in hits] == [None] * len(cases)


def test_a_configured_token_is_sent_and_proxies_in_the_environment_are_not_used(
    server: SearchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    answered(openverse(server, token_variable="OPENVERSE_TOKEN").search("a cat", 50))
    assert [seen.path for seen in server.seen] == [OPENVERSE_PATH]


def test_a_refused_query_and_a_forbidden_request_are_not_retried(server: SearchServer) -> None:
    server.faults = [Reply(400, {"error": "InputError"}), Reply(403, "<html>no</html>")]
    refused = failed(openverse(server).search("a cat", 5))
    assert (refused.reason, refused.retriable) == ("refused_query", False)
    closed = failed(openverse(server).search("a cat", 5))
    assert (closed.reason, closed.requests) == ("misconfigured", 0)
    assert len(server.seen) == 2


def test_a_rejected_token_is_renewed(server: SearchServer) -> None:
    search = openverse(server, **APPLICATION)
    answered(search.search("a cat", 5))
    server.faults = [Reply(401, {"detail": "Authentication credentials were not provided."})]
    answered(search.search("a cat", 5))
    assert [seen.path for seen in server.seen].count(TOKEN_PATH) == 2


def test_a_token_is_renewed_before_it_expires(server: SearchServer) -> None:
    now = [0.0]
    spec = OpenverseSearch(provider="openverse", base_url=server.base_url, **APPLICATION)
    search = OpenverseImageSearch(spec, monotonic=lambda: now[0])
    for moment in (0.0, 35_900.0, 35_950.0, 40_000.0):
        now[0] = moment
        answered(search.search("a cat", 5))
    asked = [seen for seen in server.seen if seen.path != TOKEN_PATH]
    assert [seen.headers["Authorization"] for seen in asked] == [f"Bearer {TOKEN}"] * 4
    assert len(server.seen) - len(asked) == 2


def test_wrong_credentials_are_misconfigured(
    server: SearchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENVERSE_SECRET", "wrong")
    monkeypatch.setenv("OPENVERSE_TOKEN", "wrong")
    for fields in (APPLICATION, {"token_variable": "OPENVERSE_TOKEN"}):
        failure = failed(openverse(server, **fields).search("a cat", 5))
        assert (failure.reason, failure.requests) == ("misconfigured", 0)
    assert len(server.seen) == 2


def test_incomplete_credentials_are_refused(server: SearchServer) -> None:
    for name, variable in APPLICATION.items():
        with pytest.raises(ConfigurationError, match="or neither"):
            openverse(server, **{name: variable})
    with pytest.raises(ConfigurationError, match="OPENVERSE_NOT_SET"):
        openverse(server, token_variable="OPENVERSE_NOT_SET")


def test_secrets_are_neither_in_logs_nor_in_failures(
    server: SearchServer, caplog: pytest.LogCaptureFixture
) -> None:
    search = openverse(server, **APPLICATION)
    outcomes: list[SearchOutcome] = []
    with caplog.at_level(logging.DEBUG):
        server.faults = [Reply(400, f"not you: {CLIENT_SECRET}")]
        outcomes.append(search.search("a cat", 5))
        outcomes.append(search.search("a cat", 5))
        server.faults = [Reply(403, f"not this: {TOKEN}")]
        outcomes.append(search.search("a cat", 5))
    message = caplog.text + json.dumps([outcome.model_dump(mode="json") for outcome in outcomes])
    assert "/v1/images/" in message
    assert TOKEN not in message
    assert CLIENT_SECRET not in message
