"""Hold answers that one key submitted for a few seconds, in which they can be taken back.

Loupe would decide on an answer at once, and a decision stays. A held answer is there for everybody,
but marked, so that Loupe reads it later.
"""

import json
import threading
import time
from collections.abc import Callable, Iterable

from django.http import HttpRequest, HttpResponse, JsonResponse

from loupe_desk.gate import only_labels

HELD_SECONDS = 15.0
"""Longer than the page offers to take an answer back, as requests take time."""
_MARK = "HTTP_LOUPE_ONE_KEY"
_ANSWERS = "tasks:api:task-annotations"
_TAKE_BACK = "tasks:api-annotations:annotation-convert-to-draft"
_TASKS = "tasks:api:task-list"


class HeldAnswers:
    """Remembers the numbers of held answers, in the memory of the only process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._until: dict[int, float] = {}

    def hold(self, answer: int) -> None:
        """Hold an answer from now on."""
        with self._lock:
            self._until[answer] = self._clock() + HELD_SECONDS

    def held(self) -> set[int]:
        """Return the answers that are held now."""
        with self._lock:
            now = self._clock()
            self._until = {one: until for one, until in self._until.items() if until > now}
            return set(self._until)


class AnswerHolding:
    """Django middleware that marks held answers for Loupe, and lets only them be taken back."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response
        self._answers = HeldAnswers()

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Return the response, with `held` at each held answer of a list of tasks."""
        answer = self._get_response(request)
        if is_held(request) and answer.status_code == 201:
            self._answers.hold(json.loads(answer.content)["id"])
        route = request.resolver_match.view_name if request.resolver_match else ""
        is_read = route == _TASKS and answer.status_code == 200 and not only_labels(request.user)
        if is_read and (held := self._answers.held()):
            answer.content = _marked(answer.content, held)
        return answer

    def process_view(
        self, request: HttpRequest, _view: object, _arguments: object, numbers: dict[str, int]
    ) -> HttpResponse | None:
        """Refuse to take back an answer on which Loupe may have decided."""
        if request.resolver_match.view_name != _TAKE_BACK or not only_labels(request.user):
            return None
        if numbers["pk"] in self._answers.held():
            return None
        return JsonResponse({"detail": "This answer counts already."}, status=409)


def is_held(request: HttpRequest) -> bool:
    """Tell whether the request stores an answer that can be taken back."""
    route = request.resolver_match.view_name if request.resolver_match else ""
    return request.method == "POST" and route == _ANSWERS and _MARK in request.META


def _marked(content: bytes, held: Iterable[int]) -> bytes:
    found = json.loads(content)
    for task in found.get("tasks", ()):
        for one in task.get("annotations") or ():
            if one.get("id") in held:
                one["held"] = True
    return json.dumps(found).encode()
