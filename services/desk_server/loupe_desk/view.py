"""Label Studio's pages for annotators: their work first, without buttons that the gate refuses.

The community edition has no roles and shows every button to everyone. Hiding them is only a
convenience that depends on element names, which a new version may change. The gate is what
protects.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from loupe_desk.gate import only_labels

_HIDDEN = (
    "section:has(a[href='/projects']) button[data-align='center']",  # create, invite: front page
    "button[aria-label='Create new project']",
    "button[aria-label='Project options']",
    "button[aria-label='Tasks Actions']",
    "a[href^='/projects/'][href$='/settings']",
    "[data-testid='dm-import-button']",
    "[data-testid='dm-export-button']",
    ".lsf-heidy-tip",  # advertisements of the vendor
)
# Links to a project open its next task instead of the table of its tasks.
_SCRIPT = r"""
document.addEventListener("click", event => {
  const link = event.target.closest?.("a[href]");
  const found = link && /^\/projects\/(\d+)(\/data)?\/?$/.exec(link.getAttribute("href"));
  if (!found || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  location.assign(`/projects/${found[1]}/data?labeling=1`);
}, true);
"""
_HEAD = (
    f"<style>{', '.join(_HIDDEN)} {{ display: none !important }}</style>"
    f"<script>{_SCRIPT}</script></head>"
).encode()
_PROJECT_PAGE = re.compile(r"/projects/(\d+)(/data)?/?")


class LabellingView:
    """Django middleware that leads annotators to their work and hides everything else."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Return the response; annotators' pages are reduced, and start with their work."""
        answer = self._get_response(request)
        is_page = answer.get("Content-Type", "").startswith("text/html") and not answer.streaming
        if not (is_page or _is_project(request, answer)) or not only_labels(request.user):
            return answer
        if not is_page:
            answer.content = _without_instructions(request.user, answer.content)
            return answer
        place = _first_screen(request)
        if place is not None and answer.status_code in (200, 302):
            return redirect(place)
        answer.content = answer.content.replace(b"</head>", _HEAD, 1)
        return answer


def _first_screen(request: HttpRequest) -> str | None:
    """Return where a request for a page is redirected; None if nowhere."""
    if request.method != "GET":
        return None
    if request.path == "/":
        waiting = _waiting_projects(request.user)
        return f"/projects/{waiting[0]}/data?labeling=1" if len(waiting) == 1 else "/projects/"
    if request.GET:
        return None
    found = _PROJECT_PAGE.fullmatch(request.path)
    return None if found is None else f"/projects/{found[1]}/data?labeling=1"


def _waiting_projects(user: Any) -> list[int]:
    """Return the projects of the user's workspace with tasks without an answer."""
    from projects.models import Project

    mine = Project.objects.filter(organization=user.active_organization_id)
    waiting = mine.filter(tasks__isnull=False, tasks__annotations__isnull=True)
    return sorted(set(waiting.values_list("pk", flat=True)))


def _is_project(request: HttpRequest, answer: HttpResponse) -> bool:
    route = request.resolver_match.view_name if request.resolver_match else ""
    is_read = request.method == "GET" and answer.status_code == 200
    return is_read and route == "projects:api:project-detail"


def _without_instructions(user: Any, content: bytes) -> bytes:
    """Return a project whose instructions open by themselves only until the first answer."""
    from tasks.models import Annotation

    project = json.loads(content)
    if Annotation.objects.filter(project=project["id"], completed_by=user).exists():
        project["show_instruction"] = False
    return json.dumps(project).encode()
