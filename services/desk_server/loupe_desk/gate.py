"""What somebody may do in a workspace that is not theirs to run: label, and nothing else.

The owner of an organisation (its service account, or the installation's own account) may do what
Label Studio allows. Everybody else in it gets through to the pages and requests that labelling
needs, and only with numbers of things that lie in that organisation. What is not listed is refused,
so that a new version of Label Studio opens no door by itself: where the community edition takes for
granted that there is one organisation only, it checks neither roles nor, in places, whose a number
is.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from django.http import HttpRequest, HttpResponse, JsonResponse


class Pass(NamedTuple):
    """How a route may be used; `kind` is what the number in its path stands for."""

    methods: tuple[str, ...] = ("GET",)
    kind: str | None = None


_READ_WRITE = ("GET", "POST", "PATCH", "DELETE")
PASSES: Mapping[str, Pass] = {
    # pages, and what they are made of
    "main": Pass(),
    "projects:project-index": Pass(),
    "data_manager:project-data": Pass(kind="project"),
    "user-login": Pass(("GET", "POST")),
    "logout": Pass(("GET", "POST")),
    "user-account": Pass(),
    "user-account-anything": Pass(),
    "version": Pass(),
    "api-version": Pass(),
    "health": Pass(),
    "heidi_tips": Pass(),
    "core.utils.static_serve.serve": Pass(),
    "core.views.serve_file": Pass(),
    # one's own account
    "current-user-whoami": Pass(),
    "current-user-hotkeys": Pass(("GET", "PATCH")),
    "product-tour": Pass(("GET", "PATCH")),
    "jwt_auth:token_manage": Pass(("GET", "POST")),
    "jwt_auth:token_refresh": Pass(("POST",)),
    "jwt_auth:token_blacklist": Pass(("POST",)),
    # what there is to label
    "user-list": Pass(),
    "projects:api:project-list": Pass(),
    "projects:api:project-counts-list": Pass(),
    "projects:api:project-detail": Pass(kind="project"),
    "projects:api:project-next": Pass(kind="project"),
    "projects:api:label-stream-history": Pass(kind="project"),
    "data_manager:dm-columns": Pass(),
    "data_manager:dm-project": Pass(),
    "data_manager:dm-actions": Pass(("GET", "POST")),
    "data_manager:api:view-list": Pass(("GET", "POST")),
    "data_manager:api:view-detail": Pass(("GET", "PATCH", "PUT"), "view"),
    "labels_manager:api-labels:label_link-list": Pass(),
    "ml:api:ml-list": Pass(),
    "tasks:api:task-list": Pass(),
    "tasks:api:task-detail": Pass(kind="task"),
    # answers, and drafts of them
    "tasks:api:task-annotations": Pass(("GET", "POST"), "task"),
    "tasks:api:task-drafts": Pass(("GET", "POST"), "task"),
    "tasks:api:task-annotations-drafts": Pass(("GET", "POST"), "task"),
    "tasks:api-annotations:annotation-detail": Pass(_READ_WRITE, "annotation"),
    "tasks:api-annotations:annotation-convert-to-draft": Pass(("POST",), "annotation"),
    "tasks:api-drafts:draft-detail": Pass(_READ_WRITE, "draft"),
}
_FORMS = ("user-login", "logout")
_ACTIONS = ("next_task",)
# What a number is called in paths, queries and bodies, and what it stands for.
_NUMBERS = {
    "project": "project",
    "task": "task",
    "view": "view",
    "annotation": "annotation",
    "annotation_id": "annotation",
    "parent_annotation": "annotation",
    "draft_id": "draft",
}


class WorkspaceGate:
    """Django middleware that refuses, with status 403, what has no pass."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """The answer; what is to be decided is decided once the route is known."""
        return self._get_response(request)

    def process_view(
        self, request: HttpRequest, _view: object, _arguments: object, numbers: dict[str, Any]
    ) -> HttpResponse | None:
        """A refusal, or None to go on; called when Label Studio knows who asks and for what."""
        if not only_labels(request.user) or _is_allowed(request, numbers):
            return None
        return JsonResponse(
            {"detail": "This is not part of labelling in your workspace."}, status=403
        )


def only_labels(user: Any) -> bool:
    """Whether somebody works in a workspace that is not theirs to run."""
    return bool(user.is_authenticated and not user.is_superuser and not _owns_workspace(user))


def _is_allowed(request: HttpRequest, path_numbers: Mapping[str, Any]) -> bool:
    route = request.resolver_match.view_name
    given = PASSES.get(route)
    if given is None or request.method not in (*given.methods, "HEAD", "OPTIONS"):
        return False
    if route in _FORMS:
        return True
    acts = route == "data_manager:dm-actions" and request.method == "POST"
    if acts and request.GET.get("id") not in _ACTIONS:
        return False
    try:
        body = _json_body(request)
    except ValueError:
        return False
    mentioned = [
        (kind, source[name])
        for source in (path_numbers, request.GET.dict(), body)
        for name, kind in _NUMBERS.items()
        if source.get(name)  # the page says 0 for none
    ]
    if given.kind:
        mentioned.append((given.kind, path_numbers["pk"]))
    return all(_is_at_home(request.user, kind, number) for kind, number in mentioned)


def _json_body(request: HttpRequest) -> dict[str, Any]:
    """The fields of the body.

    Raises:
        ValueError: it is no JSON object, so that what Label Studio would read in it is not known.
    """
    if not request.body:
        return {}
    body = json.loads(request.body)
    if request.content_type != "application/json" or not isinstance(body, dict):
        raise ValueError("the body must be a JSON object")
    return body


def _owns_workspace(user: Any) -> bool:
    organization = user.own_organization
    return organization is not None and organization.pk == user.active_organization_id


def _is_at_home(user: Any, kind: str, number: Any) -> bool:
    """Whether the thing with that number lies in the organisation that the user works in."""
    from data_manager.models import View
    from projects.models import Project
    from tasks.models import Annotation, AnnotationDraft, Task

    organization = user.active_organization_id
    try:
        key = int(number)
    except (TypeError, ValueError):
        return False
    match kind:
        case "project":
            found = Project.objects.filter(pk=key, organization=organization)
        case "task":
            found = Task.objects.filter(pk=key, project__organization=organization)
        case "view":
            found = View.objects.filter(pk=key, project__organization=organization)
        case "annotation":
            found = Annotation.objects.filter(pk=key, project__organization=organization)
        case _:
            found = AnnotationDraft.objects.filter(
                pk=key, task__project__organization=organization, user=user
            )
    return bool(found.exists())
