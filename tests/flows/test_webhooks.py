from http import HTTPStatus
from typing import Any

import httpx
import pytest

from loupe.flows.engine.desks import Webhooks, webhook_server
from loupe.schemas.errors import ServiceError

KEY = "k" * 64
OURS = {"Authorization": f"Bearer {KEY}"}


def test_several_posts_are_one_hint_with_any_body() -> None:
    hints = Webhooks()
    with webhook_server(hints, KEY) as address, httpx.Client(trust_env=False) as client:
        assert not hints.wait(0)
        for body in (b"{}", b"not json", b"{}"):
            assert client.post(address, content=body, headers=OURS).status_code == 204
        assert client.get(address).status_code == 404
        assert client.get(f"{address.removesuffix('/answered')}/health").status_code == 204
        assert hints.wait(0)
        assert not hints.wait(0)
    with httpx.Client(trust_env=False) as client, pytest.raises(httpx.ConnectError):
        client.post(address)


def test_only_the_desk_can_cause_a_pull() -> None:
    hints = Webhooks()
    with webhook_server(hints, KEY) as address, httpx.Client(trust_env=False) as client:
        assert client.post(address).status_code == 401
        for guess in ("Bearer guessed", "Bearer ü", KEY):
            headers = {b"Authorization": guess.encode()}
            assert client.post(address, headers=headers).status_code == 401, guess
        assert client.post(f"{address}/other", headers=OURS).status_code == 404
        assert not hints.wait(0)


def test_only_the_desk_gets_answers_of_the_lead() -> None:
    def lead(asked: dict[str, Any]) -> tuple[HTTPStatus, dict[str, Any]]:
        return HTTPStatus.CONFLICT, {"problem": asked["ask"]}

    with (
        webhook_server(Webhooks(), KEY, lead=lead) as address,
        httpx.Client(trust_env=False) as client,
    ):
        place = address.replace("/answered", "/lead")
        assert client.post(place, json={"ask": "page"}).status_code == 401
        answer = client.post(place, json={"ask": "page"}, headers=OURS)
        assert (answer.status_code, answer.json()) == (409, {"problem": "page"})


def test_a_port_in_use_is_a_one_line_error() -> None:
    with webhook_server(Webhooks(), KEY) as address:
        port = int(address.split(":")[2].split("/")[0])
        with (
            pytest.raises(ServiceError, match="could not listen"),
            webhook_server(Webhooks(), KEY, port),
        ):
            pass
