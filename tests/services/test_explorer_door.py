"""The door of the explorer, in front of a LightlyStudio that would answer everybody."""

from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from loupe.schemas.errors import IntegrityError
from loupe.services.explorer.door import LOGIN, Keys, create_door

PORT = 8095
HOME = f"http://127.0.0.1:{PORT}"
STUDIO_KEY = "of the studio"
PAGE = {"Accept": "text/html"}
FROM_PAGE = {"Origin": HOME}


class Stub:
    """What Loupe answers, and what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def image(self, id_: str) -> tuple[bytes, str]:
        if id_ != "a" * 32:
            raise IntegrityError("there is no such image")
        return b"pixels", "image/jpeg"

    def lineage(self, id_: str) -> str:
        return f"<script>{id_}</script>"

    def decide(self, request: dict[str, Any]) -> tuple[bool, str]:
        self.asked.append(request["action"])
        return True, "done"

    def embed(self, request: dict[str, Any]) -> list[list[float]]:
        return [[1.0]]

    def refresh(self) -> None:
        self.asked.append("refresh")

    def keep_tags(self) -> None:
        self.asked.append("keep tags")


async def studio(request: Request) -> Response:
    if request.method != "GET":
        return JSONResponse({"path": request.url.path, "seen": sorted(request.headers)})
    headers = {"access-control-allow-origin": "*"}
    return HTMLResponse("<html><head></head><body>studio</body></html>", headers=headers)


@pytest.fixture
def stub() -> Stub:
    return Stub()


@pytest.fixture
def keys() -> Keys:
    return Keys(PORT, STUDIO_KEY)


@pytest.fixture
def stranger(stub: Stub, keys: Keys) -> TestClient:
    """A browser that was not let in."""
    routes = [Route("/{path:path}", studio, methods=["GET", "POST", "PUT"])]
    transport = httpx.ASGITransport(Starlette(routes=routes))
    door = create_door(stub, keys, transport, PORT)
    return TestClient(door, base_url=HOME, follow_redirects=False)


@pytest.fixture
def user(stranger: TestClient, keys: Keys) -> TestClient:
    """A browser that was let in by a ticket."""
    assert stranger.get(f"{LOGIN}?ticket={keys.ticket()}").status_code == 303
    return stranger


def test_a_stranger_gets_nothing_but_the_login_page(stranger: TestClient, stub: Stub) -> None:
    assert stranger.get("/", headers=PAGE).headers["location"] == LOGIN
    assert "key" in stranger.get(LOGIN).text
    for path in ("/", "/api/collections", "/images/sample/" + "a" * 32, "/loupe/lineage/a"):
        assert stranger.get(path).status_code == 401, path
    for path in ("/loupe/decide", "/loupe/embed", "/loupe/load", "/api/tags"):
        assert stranger.post(path, json={"action": "reject"}).status_code == 401, path
    wrong = {"Authorization": "Bearer guessed"}
    assert stranger.post("/loupe/decide", json={}, headers=wrong).status_code == 401
    assert stub.asked == []


def test_a_ticket_counts_once_and_the_key_always(stranger: TestClient, keys: Keys) -> None:
    ticket = keys.ticket()
    assert stranger.get(f"{LOGIN}?ticket={ticket}").status_code == 303
    cookie = stranger.cookies.get(keys.cookie)
    assert stranger.get("/", headers=PAGE).status_code == 200
    stranger.cookies.clear()
    assert stranger.get(f"{LOGIN}?ticket={ticket}").status_code == 401
    assert stranger.post(LOGIN, data={"key": "wrong"}).status_code == 401
    for _ in range(2):
        answer = stranger.post(LOGIN, data={"key": keys.key}, headers=FROM_PAGE)
        assert answer.status_code == 303
        assert "HttpOnly" in answer.headers["set-cookie"]
    assert cookie not in ("", None, keys.key)


def test_pages_are_refreshed_and_may_load_nothing_from_elsewhere(
    user: TestClient, stub: Stub
) -> None:
    answer = user.get("/", headers=PAGE)
    assert stub.asked == ["refresh"]
    assert "/loupe/page.js" in answer.text
    policy = answer.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "http" not in policy
    assert "access-control-allow-origin" not in answer.headers


def test_only_the_page_changes_something(user: TestClient, stub: Stub) -> None:
    path = "/api/collections/1/tags"
    for origin in ({}, {"Origin": "http://127.0.0.1:9999"}, {"Origin": "null"}):
        assert user.post(path, json={}, headers=origin).status_code == 403, origin
    assert stub.asked == []
    answer = user.post(path, json={}, headers=FROM_PAGE)
    assert answer.json()["path"] == path
    assert not {"cookie", "origin"} & set(answer.json()["seen"])
    assert stub.asked == ["keep tags"]


def test_decisions_and_vectors_are_for_the_studio_alone(user: TestClient, stub: Stub) -> None:
    asked = {"action": "reject"}
    assert user.post("/loupe/decide", json=asked, headers=FROM_PAGE).status_code == 403
    assert user.post("/loupe/embed", json={}, headers=FROM_PAGE).status_code == 403
    key = {"Authorization": f"Bearer {STUDIO_KEY}"}
    user.cookies.clear()
    assert user.post("/loupe/decide", json=asked, headers=key).json()["message"] == "done"
    assert stub.asked == ["reject"]
    assert user.post("/loupe/load", json={}, headers=FROM_PAGE | key).status_code == 404


def test_images_come_from_loupe_and_texts_are_escaped(user: TestClient) -> None:
    answer = user.get("/images/sample/aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa")
    assert (answer.content, answer.headers["content-type"]) == (b"pixels", "image/jpeg")
    assert "sandbox" in answer.headers["content-security-policy"]
    assert user.get("/images/sample/" + "b" * 32).status_code == 404
    assert "<script>a" not in user.get("/loupe/lineage/a").text


def test_another_name_of_this_machine_is_refused(user: TestClient) -> None:
    assert user.get("/", headers={"Host": "evil.example"}).status_code == 400
