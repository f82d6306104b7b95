"""Requests to the queue watcher, which has Loupe and its store."""

import json
import os
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

_RECORD = Path(os.environ["LOUPE_QUEUE_WATCHER"])
_SIGNED = {"Authorization": f"Bearer {os.environ['LOUPE_DESK_KEY']}"}


class WatcherDownError(Exception):
    """No watcher runs, or it does not answer."""


def post(path: str, content: dict[str, Any], timeout_seconds: float) -> tuple[int, dict[str, Any]]:
    """Return the status and the JSON object with which the watcher answers.

    `loupe up` records its URL, which changes.

    Raises:
        WatcherDownError: there is no answer.
    """
    try:
        url = json.loads(_RECORD.read_text(encoding="utf-8"))["url"]
        body = json.dumps(content).encode()
        request = Request(f"{url}{path}", body, _SIGNED, method="POST")  # noqa: S310
        opener = build_opener(ProxyHandler({}))
        try:
            with opener.open(request, timeout=timeout_seconds) as answer:
                return answer.status, _object(answer.read())
        except HTTPError as refused:
            with refused:
                return refused.code, _object(refused.read())
    except (OSError, ValueError, KeyError) as fault:
        raise WatcherDownError(str(fault)) from fault


def _object(body: bytes) -> dict[str, Any]:
    found = json.loads(body) if body else {}
    return found if isinstance(found, dict) else {}
