"""Take tasks back only from those who have not opened them.

Loupe gives tasks that nobody has opened to people who have nothing left. Only this server knows
which tasks are on a screen, and only here can it be decided at once, before an answer arrives:
either the task stays, or its answer is refused with the reason.
"""

import json
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse

from loupe_desk.body import written
from loupe_desk.gate import only_labels
from loupe_desk.open_tasks import OpenTasks

UNOPENED = "Loupe-Unopened"
"""The header of a request to delete tasks only if nobody has opened them."""
_ACTIONS = "data_manager:dm-actions"
_ANSWERS = (
    "tasks:api:task-annotations",
    "tasks:api:task-drafts",
    "tasks:api:task-annotations-drafts",
)
_SHOWN = "tasks:api:task-detail"


class TaskTaking:
    """Django middleware that knows which tasks are open, and spares them when tasks are taken."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response
        self._open = OpenTasks()

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Return the response, and note which task it shows."""
        try:
            answer = self._get_response(request)
        finally:
            self._open.release(getattr(request, "loupe_taken", ()))
        is_next = answer.status_code == 200 and _is_action(request, "next_task")
        if is_next and only_labels(request.user):
            self._note_next(request, json.loads(answer.content)["id"])
        return answer

    def process_view(
        self, request: HttpRequest, _view: object, _arguments: object, numbers: dict[str, Any]
    ) -> HttpResponse | None:
        """Reduce a request to delete unopened tasks; refuse answers to tasks that are taken.

        A page without a further task asks again and again: an empty answer is not a fault, which
        Label Studio would log each time.
        """
        route = request.resolver_match.view_name
        if _is_action(request, "delete_tasks") and UNOPENED in request.headers:
            return self._spare_open_tasks(request)
        if not only_labels(request.user):
            return None
        if _is_action(request, "next_task") and not _has_next(request):
            return HttpResponse(status=204)
        if route in _ANSWERS and request.method == "POST" and not self._open.begin(numbers["pk"]):
            return taken_back()
        if route == _SHOWN and request.method == "GET":
            self._open.open(numbers["pk"])
        return None

    def _spare_open_tasks(self, request: HttpRequest) -> HttpResponse | None:
        body = json.loads(request.body)
        taken = self._open.take(body["selectedItems"]["included"], _begun)
        if not taken:  # no ids would mean all tasks
            return JsonResponse({"processed_items": 0, "detail": "Deleted 0 tasks"})
        request.loupe_taken = taken
        body["selectedItems"]["included"] = taken
        request._body = written(body)
        request.META["CONTENT_LENGTH"] = str(len(request._body))
        return None

    def _note_next(self, request: HttpRequest, task: int) -> None:
        current = _excluded(request)
        if not current:
            self._open.open(task)
            return
        self._open.load_ahead(task)
        for one in current:
            self._open.still_open(one)


def taken_back() -> HttpResponse:
    """Return the answer to a request about a task that somebody else has now."""
    detail = "This task went to somebody else, as nobody had worked on it for an hour."
    return JsonResponse({"detail": detail}, status=410)


def _excluded(request: HttpRequest) -> list[int]:
    """Return the tasks that are on the page that asks for the next one."""
    chosen = json.loads(request.body or b"{}").get("selectedItems") or {}
    return [int(one) for one in chosen.get("excluded") or []]


def _has_next(request: HttpRequest) -> bool:
    """Tell whether the project has another task without enough answers."""
    from tasks.models import Task

    waiting = Task.objects.filter(project=request.GET.get("project"), is_labeled=False)
    return bool(waiting.exclude(pk__in=_excluded(request)).exists())


def _is_action(request: HttpRequest, action: str) -> bool:
    route = request.resolver_match.view_name if request.resolver_match else ""
    is_post = request.method == "POST" and route == _ACTIONS
    return is_post and request.GET.getlist("id") == [action]


def _begun(tasks: set[int]) -> set[int]:
    """Return which of the tasks have an answer or a draft."""
    from tasks.models import Annotation, AnnotationDraft

    found: set[int] = set()
    for kind in (Annotation, AnnotationDraft):
        begun = kind.objects.filter(task_id__in=tasks).values_list("task_id", flat=True)
        found |= {number for number in begun if number is not None}
    return found
