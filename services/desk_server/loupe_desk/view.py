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
# While somebody works on a task, the next one and its images are fetched, and again every minute.
# Label Studio asks for the next task once the answer is stored, and gets the fetched one if it is
# the one after the task that was answered.
_LOOK_AHEAD = r"""
(() => {
  const NEXT = /\/api\/dm\/actions\/?\?.*\bid=next_task\b/;
  const ANSWER = /\/api\/tasks\/(\d+)\/annotations\b(?!\/\d+)(?!.*drafts)/;
  const IMAGE = /https?:\/\/[^"\\\s<>/]+\/blobs\/[0-9a-f]{64}(\?others=[\d.,;]+)?/g;
  const PAUSE_MS = 300, FRESH_MS = 60000;
  const send = window.fetch;
  let ahead = null, answered = null, images = [], timer = 0;

  // Label Studio reads the images of its own tags with requests; those in HTML are elements. Texts
  // may name any address: only that of this host is asked.
  const loadImages = data => {
    images = [];
    for (const value of Object.values(data)) {
      for (const [address] of JSON.stringify(value).matchAll(IMAGE)) {
        if (new URL(address).hostname !== location.hostname) continue;
        if (value === address) send(address).catch(() => {});
        else images.push(Object.assign(new Image(), { src: address }));
      }
    }
  };
  const lookAhead = async (url, options, current) => {
    const body = JSON.parse(options.body ?? "{}"), chosen = body.selectedItems;
    if (chosen && (chosen.all || chosen.included?.length)) return null;
    body.selectedItems = { all: true, excluded: [current] };
    const said = await send(url, { ...options, body: JSON.stringify(body) });
    if (!said.ok) return null;
    const text = await said.text();
    loadImages(JSON.parse(text).data);
    return text;
  };

  const look = (url, options, current) => {
    const text = lookAhead(url, options, current).catch(() => null);
    ahead = { after: current, at: Date.now(), text };
    timer = setTimeout(look, FRESH_MS, url, options, current);
  };

  window.fetch = async (address, options = {}) => {
    const url = String(address?.url ?? address), posts = options.method === "POST";
    if (!posts || !NEXT.test(url)) {
      const said = await send(address, options), task = posts && ANSWER.exec(url)?.[1];
      if (task && said.ok) answered = Number(task);
      return said;
    }
    clearTimeout(timer);
    const isCurrent = ahead?.after === answered && Date.now() - ahead.at < 2 * FRESH_MS;
    const kept = isCurrent ? await ahead.text : null;
    ahead = null;
    const said = kept
      ? new Response(kept, { headers: { "Content-Type": "application/json" } })
      : await send(address, options);
    if (said.ok) {
      timer = setTimeout(look, PAUSE_MS, url, options, (await said.clone().json()).id);
    }
    return said;
  };
})();
"""
# Cards and the header fit the screen; on narrow ones only what the work needs is in the header.
_FITTING = """
.lsf-projects-page__list {
  grid-template-columns: repeat(auto-fill, minmax(min(290px, 100%), 1fr)) !important }
@media (max-width: 1000px) {
  .lsf-menu-header__hotkeys, .lsf-menu-header__hotkeys + button { display: none !important }
}
@media (max-width: 700px) {
  .lsf-breadcrumbs { display: none !important }
  .lsf-menu-header__trigger {
    width: auto !important; min-width: 0 !important; padding: 0 12px !important; gap: 12px }
  .lsf-projects-page__list { padding: 16px !important }
}
"""
_HEAD = (
    f"<style>{', '.join(_HIDDEN)} {{ display: none !important }}{_FITTING}</style>"
    f"<script>{_SCRIPT}{_LOOK_AHEAD}</script></head>"
).encode()
_MARKER = "loupe-queue:"  # as in `annotate/backend.py`
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
            answer.content = _for_annotators(request.user, answer.content)
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
