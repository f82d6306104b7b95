"""What somebody may do in a workspace that is not theirs to run: label, and nothing else.

The owner of an organisation (its service account, or the installation's own account) may do what
Label Studio allows. Everybody else in it gets through to the pages and requests that labelling
needs, and only with numbers of things that lie in that organisation. What is not listed is refused,
so that a new version of Label Studio opens no door by itself: where the community edition takes for
granted that there is one organisation only, it checks neither roles nor, in places, whose a number
is.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from django.http import HttpRequest, HttpResponse, JsonResponse

from loupe_desk.body import BodyRefusedError, media_type, read_body, written


class Pass(NamedTuple):
    """How a route may be used.

    `kind` is what the number in its path stands for, `fields` are those that a body may hold.
    """

    methods: tuple[str, ...] = ("GET",)
    kind: str | None = None
    fields: tuple[str, ...] = ()


_READ_WRITE = ("GET", "POST", "PATCH", "DELETE")
_WRITING = ("POST", "PATCH", "PUT")
# What Label Studio's page sends. Whose an answer is, and on which task, is none of it.
_ANSWER = (
    *("result", "lead_time", "started_at", "was_cancelled", "ground_truth", "comment", "id"),
    *("draft_id", "parent_annotation", "parent_prediction", "unique_id"),
)
_DRAFT = (*_ANSWER, "was_postponed", "annotation")
_TAB = ("id", "project", "data")
# What the page adds to every body; it is handed on where a route needs it.
_WITH_EVERYTHING = ("project",)
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
    "current-user-hotkeys": Pass(("GET", "PATCH"), fields=("custom_hotkeys",)),
    "product-tour": Pass(("GET", "PATCH"), fields=("name", "state", "interaction_data")),
    "jwt_auth:token_manage": Pass(("GET", "POST")),
    "jwt_auth:token_refresh": Pass(("POST",), fields=("refresh",)),
    "jwt_auth:token_blacklist": Pass(("POST",), fields=("refresh",)),
    # what there is to label
    "user-list": Pass(),
    "projects:api:project-list": Pass(),
    "projects:api:project-counts-list": Pass(),
    "projects:api:project-detail": Pass(kind="project"),
    "projects:api:project-next": Pass(kind="project"),
    "projects:api:label-stream-history": Pass(kind="project"),
    "data_manager:dm-columns": Pass(),
    "data_manager:dm-project": Pass(),
    "data_manager:dm-actions": Pass(
        ("GET", "POST"), fields=("project", "filters", "ordering", "selectedItems")
    ),
    "data_manager:api:view-list": Pass(("GET", "POST"), fields=_TAB),
    "data_manager:api:view-detail": Pass(("GET", "PATCH", "PUT"), "view", _TAB),
    "labels_manager:api-labels:label_link-list": Pass(),
    "ml:api:ml-list": Pass(),
    "tasks:api:task-list": Pass(),
    "tasks:api:task-detail": Pass(kind="task"),
    # answers, and drafts of them
    "tasks:api:task-annotations": Pass(("GET", "POST"), "task", _ANSWER),
    "tasks:api:task-drafts": Pass(("GET", "POST"), "task", _DRAFT),
    "tasks:api:task-annotations-drafts": Pass(("GET", "POST"), "task", _DRAFT),
    "tasks:api-annotations:annotation-detail": Pass(_READ_WRITE, "annotation", _ANSWER),
    "tasks:api-annotations:annotation-convert-to-draft": Pass(("POST",), "annotation"),
    "tasks:api-drafts:draft-detail": Pass(_READ_WRITE, "draft", _DRAFT),
}
_FORMS = ("user-login", "logout")
_ACTIONS = ("next_task",)
# Nothing here takes them for more than they are, and nothing newer shall.
_REFUSED_HEADERS = ("HTTP_CONTENT_ENCODING", "HTTP_X_HTTP_METHOD_OVERRIDE")
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
        if not only_labels(request.user):
            return None
        try:
            allowed = _is_allowed(request, numbers)
        except BodyRefusedError as error:
            return _refusal(f"This request is refused: {error}.")
        return None if allowed else _refusal("This is not part of labelling in your workspace.")


def _refusal(detail: str) -> HttpResponse:
    return JsonResponse({"detail": detail}, status=403)


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
    if acts and any(action not in _ACTIONS for action in request.GET.getlist("id") or [None]):
        return False
    if any(header in request.META for header in _REFUSED_HEADERS):
        return False
    media_type(request.META.get("CONTENT_TYPE", ""))  # its charset is also that of the query
    fields = given.fields if request.method in _WRITING else ()
    body = read_body(
        request.META.get("CONTENT_TYPE", ""), request.body, (*fields, *_WITH_EVERYTHING)
    )
    _hand_on(request, {name: value for name, value in body.items() if name in fields})
    sources = [path_numbers.items(), body.items()]
    sources += [[(name, one) for one in found] for name, found in request.GET.lists()]
    mentioned = [
        (_NUMBERS[name], number)
        for source in sources
        for name, number in source
        if name in _NUMBERS and number not in (None, 0, "", "0")  # the page says 0 for none
    ]
    if given.kind:
        mentioned.append((given.kind, path_numbers["pk"]))
    return all(_is_at_home(request.user, kind, number) for kind, number in mentioned)


def _hand_on(request: HttpRequest, body: Mapping[str, Any]) -> None:
    """Puts what was read in the place of what came: Label Studio reads that and nothing else."""
    if not request.body:
        return
    request._body = written(body)
    request.META["CONTENT_LENGTH"] = str(len(request._body))
    request.META["CONTENT_TYPE"] = "application/json"


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
