"""Tell the queue watcher about answers, and about people without tasks.

Label Studio's own webhooks reach no loopback address.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from threading import Thread

from django.http import HttpRequest, HttpResponse

from loupe_desk.gate import only_labels
from loupe_desk.holding import HELD_SECONDS, is_held
from loupe_desk.view import NO_TASKS
from loupe_desk.watcher import WatcherDownError, post

_ROUTES = ("tasks:api:task-annotations", "tasks:api-annotations:annotation-detail")
_NEXT = "data_manager:dm-actions"
_TIMEOUT_SECONDS = 2.0


class AnswerWebhook:
    """Django middleware that posts to the queue watcher.

    It does so when an answer was stored or changed, and when somebody asks for a task and there is
    none, or opens the front page without any.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Return the response at once; the watcher polls too, so a lost message does no harm."""
        answer = self._get_response(request)
        route = request.resolver_match.view_name if request.resolver_match else ""
        if route in _ROUTES and request.method != "GET" and answer.status_code < 300:
            Thread(target=_post, args=(None, is_held(request)), daemon=True).start()
        if only_labels(request.user) and _is_without_tasks(request, route, answer):
            Thread(target=_post, args=(request.user.pk,), daemon=True).start()
        return answer


def _is_without_tasks(request: HttpRequest, route: str, answer: HttpResponse) -> bool:
    """Tell whether the request asked for a task in vain."""
    if route == _NEXT:
        return request.method == "POST" and answer.status_code == 404
    return request.path == "/" and answer.get("Location") == NO_TASKS


def _post(asking: int | None = None, is_held: bool = False) -> None:
    """Post to the watcher if one runs; about a held answer when it is not held any more."""
    if is_held:
        time.sleep(HELD_SECONDS)
    with suppress(WatcherDownError):
        post("/answered", {"asking": asking}, _TIMEOUT_SECONDS)
