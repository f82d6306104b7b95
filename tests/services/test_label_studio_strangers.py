"""Responses of Label Studio to clients without a session or token."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from loupe.services.environments import environment_python
from loupe.services.label_studio import label_studio_variables
from tests.services.fixtures import LabelStudioServer

pytestmark = pytest.mark.label_studio

OPEN = {
    "/dm/1",
    "/favicon.ico",
    "/health/",
    "/label-studio-frontend/1",
    "/react-app/1",
    "/static/1",
    "/static/fonts/roboto/roboto.css",
    "/sw-fallback.js",
    "/sw.js",
    "/user/login/",
    "/welcome/1/1/",
}
"""The login page with its resources, the page of invitations, and the health check."""
OPEN_TO_TOKENS = ("POST", "/api/token/refresh/")
"""Exchanges a refresh token; other values are rejected as invalid."""
REFUSALS = (401, 403)
"""403 is the response to forms without a CSRF token."""
SHADOWED = 10
"""Number of routes that Label Studio itself hides behind other routes."""

ROUTES = r"""
import json, re, sys
from pathlib import Path
import django, label_studio
sys.path.insert(0, str(Path(label_studio.__file__).parent))
django.setup()
from django.contrib.admindocs.views import simplify_regex
from django.test import Client
from django.urls import Resolver404, get_resolver, resolve

def declared(patterns, before=""):
    for one in patterns:
        if hasattr(one, "url_patterns"):
            yield from declared(one.url_patterns, before + str(one.pattern))
        else:
            yield before + str(one.pattern), one.callback

def paths(pattern, callback):
    for value in ("1", "json", ".json", "users"):
        path = re.sub("<[^>]*>", value, simplify_regex(pattern).replace("\\.", "."))
        try:
            found = resolve(path)
        except Resolver404:
            continue
        if found.func is callback:
            return path
    return None

routes = [paths(*route) for route in declared(get_resolver().url_patterns)]
stranger = Client(enforce_csrf_checks=True, raise_request_exception=False, SERVER_NAME="127.0.0.1")
answers = [
    (method, path, stranger.generic(method, path).status_code)
    for path in sorted(set(filter(None, routes)))
    for method in ("GET", "POST", "DELETE")
]
json.dump({"routes": routes, "answers": answers}, sys.stdout)
"""


def routes_and_answers(label_studio: LabelStudioServer, environment: Path) -> dict[str, Any]:
    """Return a path for every route of the server's own resolver, and the responses to a stranger.

    This runs in the process that lists the routes; over a socket it would take four times as long.
    """
    variables = label_studio_variables(label_studio.home, label_studio.database_url)
    done = subprocess.run(
        [environment_python(environment), "-c", ROUTES],
        env=variables,
        cwd=variables["LABEL_STUDIO_BASE_DATA_DIR"],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout[done.stdout.index('{"routes"') :])
    return found


@pytest.fixture
def stranger(label_studio: LabelStudioServer) -> Iterator[httpx.Client]:
    """A client that is not logged in."""
    with httpx.Client(base_url=label_studio.url, trust_env=False, timeout=120) as client:
        yield client


def test_without_a_login_only_the_login_page_is_served(
    label_studio: LabelStudioServer, label_studio_environment: Path
) -> None:
    found = routes_and_answers(label_studio, label_studio_environment)
    assert len({path for _, path, _ in found["answers"]}) > 250
    assert found["routes"].count(None) <= SHADOWED
    answered = {
        (method, path) for method, path, status in found["answers"] if status not in REFUSALS
    }
    assert {path for method, path in answered if method == "GET"} == OPEN
    assert {one for one in answered if one[0] != "GET"} == {OPEN_TO_TOKENS}


def test_without_a_login_pages_redirect_to_the_login_page(
    stranger: httpx.Client,
) -> None:
    for path in ("/", "/projects/1/data?tab=1", "/metrics", "/version/", "/docs/api/"):
        answer = stranger.get(path, headers={"Accept": "text/html"})
        assert answer.status_code == httpx.codes.FOUND, path
        assert re.match(r"/user/login/\?next=/", answer.headers["Location"]), path


def test_a_refused_request_begins_no_session(stranger: httpx.Client) -> None:
    for session in ({}, {"Cookie": "sessionid=ended"}):
        answer = stranger.patch("/api/drafts/1", headers=session)
        assert answer.status_code == httpx.codes.UNAUTHORIZED
        assert not answer.cookies, "a late refusal would end the session of a login in another tab"


def test_an_invalid_token_is_refused(stranger: httpx.Client) -> None:
    for headers in ({"Authorization": "Token 0" * 20}, {"Authorization": "Bearer a.b.c"}):
        for path in ("/metrics", "/api/projects", "/api/users/", "/docs/api/schema/json/"):
            assert stranger.get(path, headers=headers).status_code == 401, path
