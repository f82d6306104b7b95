"""The Google search: filters, quotas, secrecy of keys, and the end of the service."""

import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from loupe.models.search.google import GoogleImageSearch
from loupe.schemas.errors import ConfigurationError
from loupe.schemas.image_search import SearchAnswer, SearchFailure, SearchOutcome
from loupe.schemas.licences import permits_release
from loupe.services.process import free_port
from tests.models.image_searches import google, google_spec, set_keys
from tests.servers.search_server import (
    API_KEY,
    ENGINE,
    Reply,
    SearchServer,
    google_error,
    search_server,
)

DAY = google_error(
    429,
    "Quota exceeded for quota metric 'Queries' and limit 'Queries per day' of service "
    "'customsearch.googleapis.com' for consumer 'project_number:451270028559'.",
    "rateLimitExceeded",
    "RESOURCE_EXHAUSTED",
)
MINUTE = google_error(
    429,
    "Quota exceeded for quota metric 'Queries' and limit 'Queries per minute per user' of service "
    "'customsearch.googleapis.com' for consumer 'project_number:451270028559'.",
    "rateLimitExceeded",
    "RESOURCE_EXHAUSTED",
)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[SearchServer]:
    set_keys(monkeypatch)
    with search_server() as started:
        yield started


def failure(outcome: SearchOutcome) -> SearchFailure:
    assert isinstance(outcome, SearchFailure), outcome
    return outcome


def test_requests_have_the_parameters_of_the_paper(server: SearchServer) -> None:
    google(server, image_size="LARGE").search("a cat", 5)
    [seen] = server.seen
    assert seen.headers["X-Goog-Api-Key"] == API_KEY
    assert seen.parameters == {
        "q": "a cat",
        "cx": ENGINE,
        "searchType": "image",
        "rights": "(cc_publicdomain|cc_attribute|cc_sharealike|cc_noncommercial).-(cc_nonderived)",
        "imgSize": "LARGE",
        "safe": "active",
        "num": "5",
        "start": "1",
    }


def test_the_licence_of_a_hit_comes_from_the_filter(server: SearchServer) -> None:
    outcome = google(server, rights=("cc_publicdomain", "cc_attribute")).search("a cat", 3)
    assert isinstance(outcome, SearchAnswer)
    for hit in outcome.hits:
        assert hit.licence_basis == "filter"
        assert hit.licence == "one of CC0-1.0, CC-PDM-1.0, LicenseRef-Public-Domain, CC-BY"
        assert permits_release(hit.licence)
        assert (hit.creator, hit.licence_url) == (None, None)


def test_an_exhausted_daily_quota_is_not_retried(server: SearchServer) -> None:
    refusals = [
        DAY,
        google_error(403, "Daily Limit Exceeded", "dailyLimitExceeded"),
        google_error(403, "Quota exceeded", "quotaExceeded"),
    ]
    for asked, refusal in enumerate(refusals, start=1):
        server.faults = [refusal]
        failed = failure(google(server).search("a cat", 5))
        found = (failed.reason, failed.retriable, failed.requests)
        assert found == ("quota_exhausted", True, 0), refusal
        assert len(server.seen) == asked, refusal


def test_rate_limited_requests_wait_and_are_retried(server: SearchServer) -> None:
    for refusal in (MINUTE, google_error(403, "Rate Limit Exceeded", "userRateLimitExceeded")):
        server.faults = [refusal, refusal]
        outcome = google(server).search("a cat", 5)
        assert isinstance(outcome, SearchAnswer), refusal
        assert outcome.requests == 1, "refused requests do not count"
        server.faults = [refusal] * 3
        assert failure(google(server).search("a cat", 5)).reason == "rate_limited", refusal


def test_a_long_retry_after_is_not_awaited(server: SearchServer) -> None:
    server.faults = [Reply(429, MINUTE.body, {"Retry-After": "3600"})]
    assert failure(google(server).search("a cat", 5)).reason == "rate_limited"
    assert len(server.seen) == 1


def test_a_wrong_key_is_misconfigured_and_a_wrong_query_is_refused(
    server: SearchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_SEARCH_API_KEY", "wrong")
    assert failure(google(server).search("a cat", 5)).reason == "misconfigured"
    set_keys(monkeypatch)
    server.faults = [google_error(400, "Request contains an invalid argument.", "badRequest")]
    refused = failure(google(server).search("a cat", 5))
    assert (refused.reason, refused.retriable) == ("refused_query", False)


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": {}}},
        {"error": 5},
        {"error": {"message": "x", "errors": "y"}},
        [],
        "no JSON",
        "[" * 100_000,
    ],
    ids=lambda body: str(body)[:30],
)
def test_an_error_in_an_odd_form_is_classified_by_its_status(
    server: SearchServer, body: Any
) -> None:
    server.faults = [Reply(400, body)]
    assert failure(google(server).search("a cat", 5)).reason == "refused_query"
    server.faults = [Reply(503, body)] * 2
    assert isinstance(google(server).search("a cat", 5), SearchAnswer)


@pytest.mark.parametrize("fault", [Reply(reset=True), Reply(hang_up=True)])
def test_no_request_is_repeated_unnoticed(server: SearchServer, fault: Reply) -> None:
    server.faults = [fault] * 9
    failed = failure(google(server).search("a cat", 5))
    assert failed.requests == len(server.seen) == 3


def test_a_redirect_does_not_get_the_key(server: SearchServer) -> None:
    server.faults = [Reply(302, "", {"Location": f"{server.base_url}elsewhere"})]
    assert failure(google(server).search("a cat", 5)).reason == "misconfigured"
    assert [seen.path for seen in server.seen] == ["/customsearch/v1"]


def test_incomplete_items_are_hits_or_unreadable(server: SearchServer) -> None:
    items = [
        {"link": "http://images.example.org/a.jpg"},
        {"title": "no link"},
        "no item",
        {"link": "x-raw-image:///aa11", "image": {"width": 0, "height": -3}, "mime": ""},
        {"link": "http://images.example.org/b.jpg", "title": "\ud83d\0", "image": {"width": "x"}},
        {"link": "http://images.example.org/c.jpg", "title": 7, "image": None, "mime": []},
    ]
    server.faults = [Reply(body={"items": items})]
    outcome = google(server).search("a cat", 10)
    assert isinstance(outcome, SearchAnswer)
    assert [hit.rank for hit in outcome.hits] == [1, 4, 5, 6]
    assert {hit.page_url for hit in outcome.hits} == {None}
    assert [(one.rank, one.reason) for one in outcome.unreadable] == [
        (2, "no_address"),
        (3, "no_object"),
    ]
    outcome.model_dump_json().encode()


def test_the_key_is_neither_in_logs_nor_in_failures(
    server: SearchServer, caplog: pytest.LogCaptureFixture
) -> None:
    outcomes: list[Any] = []
    with caplog.at_level(logging.DEBUG):
        server.faults = [google_error(403, f"the key {API_KEY} is not for this", "forbidden")]
        outcomes.append(google(server).search("a cat", 5))
        server.faults = [Reply(500, f"?key={API_KEY}"), Reply(200, {"url": {"key": API_KEY}})]
        outcomes.append(google(server).search("a cat", 5))
        server.faults = [Reply(reset=True)] * 3
        outcomes.append(google(server).search("a cat", 5))
        outcomes.append(google(server).search("x" * 3000, 5))
    assert "customsearch/v1" in caplog.text
    assert all(seen.headers["X-Goog-Api-Key"] == API_KEY for seen in server.seen)
    assert server.seen[-1].headers["x-http-method-override"] == "GET"
    for words in ("AIza", "eyes"):
        assert words not in caplog.text + json.dumps([s.model_dump(mode="json") for s in outcomes])


def test_the_environment_does_not_change_requests(
    server: SearchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, nowhere)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere.json")
    monkeypatch.setenv("GOOGLE_CLOUD_UNIVERSE_DOMAIN", "example.org")
    monkeypatch.setenv("GOOGLE_API_USE_CLIENT_CERTIFICATE", "true")
    assert isinstance(google(server).search("a cat", 5), SearchAnswer)
    assert "Authorization" not in server.seen[0].headers


def test_missing_variables_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("GOOGLE_SEARCH_ENGINE_ID", "GOOGLE_SEARCH_API_KEY"):
        set_keys(monkeypatch)
        monkeypatch.setenv(variable, " ")
        with pytest.raises(ConfigurationError, match=variable):
            GoogleImageSearch(google_spec("http://127.0.0.1:1"))


def test_a_different_engine_has_different_parameters(
    server: SearchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = google(server).parameters
    monkeypatch.setenv("GOOGLE_SEARCH_ENGINE_ID", "another")
    assert google(server).parameters != before


def test_the_service_is_not_called_after_its_end(server: SearchServer) -> None:
    def search_at(moment: datetime) -> SearchOutcome:
        return GoogleImageSearch(google_spec(server.base_url), clock=lambda: moment).search("a", 1)

    assert isinstance(search_at(datetime(2026, 12, 31, 23, 59, tzinfo=UTC)), SearchAnswer)
    ended = failure(search_at(datetime(2027, 1, 1, tzinfo=UTC)))
    assert (ended.reason, ended.requests) == ("service_ended", 0)
    assert "ended on 2027-01-01" in ended.detail
    assert "openverse" in ended.detail
    assert len(server.seen) == 1
