"""Label Studio's pages: tickets for images, and annotators' work without refused buttons.

The community edition has no roles and shows every button to everyone. Hiding them is only a
convenience that depends on element names, which a new version may change. The gate is what
protects.
"""

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from loupe_desk.gate import leads, only_labels
from loupe_desk.tickets import MANAGER, end_of_ticket, ticket, with_tickets

_FOLDER = Path(__file__).parent
_HEAD = b"<style>%b</style><script>%b</script></head>" % tuple(
    b"\n".join((_FOLDER / f"{part}.{kind}").read_bytes() for part in ("annotators", "thread"))
    for kind in ("css", "js")
)
_KEY = os.environ["LOUPE_DESK_KEY"]
_IMAGES = os.environ.get("LOUPE_PUBLIC_IMAGES", "")
_DONE, _OPEN = "Loupe-Done-Today", "Loupe-Open"
_NEXT_QUEUE = "next"
"""The parameter with which a page without a further task asks for another queue."""
_CHOICE = "queues"
"""Makes the list of projects another page than that of somebody without tasks."""
_MARKER = "loupe-queue:"  # as in `annotate/backend.py`
LEAD_PAGE = "/lead/"
# Label Studio's page would take the address for one of its own.
_LINK_TO_LEAD = (
    b'<a href="/lead/" target="_blank" onclick="event.stopPropagation()"'
    b' style="position: fixed; z-index: 20; right: 12px; bottom: 60px;'
    b" padding: 3px 12px; border-radius: 6px; background: #3a4f9e; color: #fff;"
    b" font: 500 14px/1.4 sans-serif\">The lead's page</a></body>"
)
NO_TASKS = "/projects/"
"""Where the front page leads somebody without any task."""
_PROJECT_PAGE = re.compile(r"/projects/(\d+)(/data)?/?")


class LabellingView:
    """Django middleware that leads annotators to their work and hides everything else.

    Everybody who looks at tasks gets tickets for their images.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Return the response; annotators' pages are reduced, and start with their work."""
        answer = self._get_response(request)
        if _is_next_task(request) and only_labels(request.user):
            _add_progress(request, answer)
        if _takes_tickets(request, answer):
            origin = images_origin(request)
            answer.content = with_tickets(answer.content, ticket_of(request.user), origin)
        is_page = answer.get("Content-Type", "").startswith("text/html") and not answer.streaming
        if not (is_page or _is_project(request, answer)) or not only_labels(request.user):
            if is_page and leads(request.user) and request.path != LEAD_PAGE:
                answer.content = answer.content.replace(b"</body>", _LINK_TO_LEAD, 1)
            return answer
        if not is_page:
            answer.content = _for_annotators(request.user, answer.content)
            return answer
        place = _first_screen(request)
        if place is not None and answer.status_code in (200, 302):
            return redirect(place)
        answer.content = answer.content.replace(b"</head>", _HEAD, 1)
        return answer


def _is_next_task(request: HttpRequest) -> bool:
    is_action = request.method == "POST" and request.path.rstrip("/") == "/api/dm/actions"
    return is_action and request.GET.get("id") == "next_task"


def _add_progress(request: HttpRequest, answer: HttpResponse) -> None:
    """State how many tasks of the project the user answered today (UTC), and how many are open."""
    from django.utils.timezone import now
    from tasks.models import Annotation, Task

    project = request.GET.get("project", "")
    if not request.user.is_authenticated or not project.isdecimal():
        return
    today = now().replace(hour=0, minute=0, second=0, microsecond=0)
    mine = Annotation.objects.filter(project=project, completed_by=request.user)
    done = mine.filter(was_cancelled=False, created_at__gte=today)
    answer[_DONE] = str(done.values("task").distinct().count())
    answer[_OPEN] = str(Task.objects.filter(project=project, annotations__isnull=True).count())


def _takes_tickets(request: HttpRequest, answer: HttpResponse) -> bool:
    """Tell whether the answer may have addresses of images for somebody who looks at them.

    Loupe itself, as a manager with a token, reads what people wrote, which must stay unchanged.
    """
    is_json = answer.get("Content-Type", "").startswith("application/json")
    if not is_json or answer.streaming or not request.user.is_authenticated:
        return False
    return only_labels(request.user) or "Authorization" not in request.headers


def images_origin(request: HttpRequest) -> str:
    """Return the public origin of images, or "" for a browser on this machine."""
    return _IMAGES if request.is_secure() else ""


def ticket_of(user: Any) -> str:
    """Return a ticket for the images that the user may see."""
    reader = user.pk if only_labels(user) else MANAGER
    return ticket(_KEY, reader, end_of_ticket(time.time()))


def _first_screen(request: HttpRequest) -> str | None:
    """Return where a request for a page is redirected; None if nowhere."""
    if request.method != "GET":
        return None
    if request.path == "/":
        waiting = _waiting_projects(request.user)
        if waiting and (len(waiting) == 1 or _NEXT_QUEUE in request.GET):
            return f"/projects/{waiting[0]}/data?labeling=1"
        return f"{NO_TASKS}?{_CHOICE}" if waiting else NO_TASKS
    if request.GET:
        return None
    found = _PROJECT_PAGE.fullmatch(request.path)
    return None if found is None else f"/projects/{found[1]}/data?labeling=1"


def _waiting_projects(user: Any) -> list[int]:
    """Return the projects of the user's workspace with tasks without an answer, in their order."""
    from django.db.models import F
    from projects.models import Project

    mine = Project.objects.filter(organization=user.active_organization_id)
    waiting = mine.filter(tasks__isnull=False, tasks__annotations__isnull=True)
    in_order = waiting.order_by(F("pinned_at").desc(nulls_last=True), "pk")
    return list(dict.fromkeys(in_order.values_list("pk", flat=True)))


def _is_project(request: HttpRequest, answer: HttpResponse) -> bool:
    route = request.resolver_match.view_name if request.resolver_match else ""
    is_read = request.method == "GET" and answer.status_code == 200
    return is_read and route in ("projects:api:project-detail", "projects:api:project-list")


def _for_annotators(user: Any, content: bytes) -> bytes:
    """Return a project, or a list of them, without what is not for annotators.

    Descriptions lose the line by which Loupe recognizes a project; a project's instructions open by
    themselves only until the first answer.
    """
    from tasks.models import Annotation

    found = json.loads(content)
    for project in found.get("results", [found]):
        lines = (project.get("description") or "").splitlines()
        project["description"] = "\n".join(one for one in lines if not one.startswith(_MARKER))
    if "id" in found and Annotation.objects.filter(project=found["id"], completed_by=user).exists():
        found["show_instruction"] = False
    return json.dumps(found).encode()
