"""Restrict what is possible without a login, and what annotators can do in their workspace.

Without a session or a token, only the login page, its resources and the health check are available.
Everything else that Label Studio would answer (its metrics, version and documentation) is refused.

The owner of an organization (its service account, or the installation's own account) may do what
Label Studio allows. All other members can use only the pages and requests that labeling needs, and
only with ids of objects in that organization. Anything that is not listed is refused, so that a new
version of Label Studio does not allow more. The community edition assumes a single organization: it
does not check roles and, in places, the owner of an object.

For everybody, requests that change something must come from Label Studio's own pages or from a
program, and failed logins slow down the next ones.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect

from loupe_desk.body import (
    BodyRefusedError,
    check_filter,
    media_type,
    read_body,
    read_query,
    written,
)
from loupe_desk.logins import LoginBrake
from loupe_desk.origin import READING, is_foreign
from loupe_desk.secure import address_of


class Pass(NamedTuple):
    """How a route may be used.

    `kind` is the kind of object that the id in its path refers to; `fields` are those that a body
    may contain.
    """

    methods: tuple[str, ...] = ("GET",)
    kind: str | None = None
    fields: tuple[str, ...] = ()


_READ_WRITE = ("GET", "POST", "PATCH", "DELETE")
_WRITING = ("POST", "PATCH", "PUT")
# Fields that Label Studio's page sends. The author of an answer and its task are not among them.
_ANSWER = (
    *("result", "lead_time", "started_at", "was_cancelled", "ground_truth", "comment", "id"),
    *("draft_id", "parent_annotation", "parent_prediction", "unique_id"),
)
_DRAFT = (*_ANSWER, "was_postponed", "annotation")
_TAB = ("id", "project", "data")
# Added by the page to every body; passed on if a route needs it.
_WITH_EVERYTHING = ("project",)
PASSES: Mapping[str, Pass] = {
    # pages and their resources
    "main": Pass(),
    "projects:project-index": Pass(),
    "data_manager:project-data": Pass(kind="project"),
    "user-login": Pass(("GET", "POST")),
    "logout": Pass(("GET", "POST")),
    "loupe-invitation": Pass(("GET", "POST")),
    "oidc_authentication_init": Pass(),
    "oidc_authentication_callback": Pass(),
    "user-account": Pass(),
    "user-account-anything": Pass(),
    "version": Pass(),
    "api-version": Pass(),
    "health": Pass(),
    "heidi_tips": Pass(),
    "core.utils.static_serve.serve": Pass(),
    "core.views.serve_file": Pass(),
    # the user's own account
    "current-user-whoami": Pass(),
    "current-user-hotkeys": Pass(("GET", "PATCH"), fields=("custom_hotkeys",)),
    "product-tour": Pass(("GET", "PATCH"), fields=("name", "state", "interaction_data")),
    "jwt_auth:token_manage": Pass(("GET", "POST")),
    "jwt_auth:token_refresh": Pass(("POST",), fields=("refresh",)),
    "jwt_auth:token_blacklist": Pass(("POST",), fields=("refresh",)),
    # tasks to label
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
    # questions to the lead
    "loupe-inbox": Pass(),
    "loupe-thread": Pass(("GET", "POST"), "task", ("text",)),
    # answers and drafts
    "tasks:api:task-annotations": Pass(("GET", "POST"), "task", _ANSWER),
    "tasks:api:task-drafts": Pass(("GET", "POST"), "task", _DRAFT),
    "tasks:api:task-annotations-drafts": Pass(("GET", "POST"), "task", _DRAFT),
    "tasks:api-annotations:annotation-detail": Pass(_READ_WRITE, "annotation", _ANSWER),
    "tasks:api-annotations:annotation-convert-to-draft": Pass(("POST",), "annotation"),
    "tasks:api-drafts:draft-detail": Pass(_READ_WRITE, "draft", _DRAFT),
}
WITHOUT_LOGIN: Mapping[str, Pass] = {
    "user-login": Pass(("GET", "POST")),
    "loupe-invitation": Pass(("GET", "POST")),
    "oidc_authentication_init": Pass(),
    "oidc_authentication_callback": Pass(),
    "jwt_auth:token_refresh": Pass(("POST",)),
    "health": Pass(),
    "core.utils.static_serve.serve": Pass(),
    "core.views.serve_file": Pass(),
    "django.views.generic.base.RedirectView": Pass(),  # the icon of the page
}
_LOGIN = "user-login"
_FORMS = (_LOGIN, "logout", "loupe-invitation")
_FIRST_DRAFT = "tasks:api:task-drafts"
_ACTIONS = ("next_task",)
# Headers that have no effect here, and must not have one in a newer version.
_REFUSED_HEADERS = ("HTTP_CONTENT_ENCODING", "HTTP_X_HTTP_METHOD_OVERRIDE")
# Names of ids in paths, queries and bodies, with the kind of object they refer to.
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
    """Django middleware that refuses requests without a pass: status 403, or 401 without a login.

    A page requested without a login is redirected to the login page, and one that is not the
    annotator's, such as that of a finished queue, to the annotator's work. A login after many
    failures gets the status 429.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response
        self._brake = LoginBrake()

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Return the response; most checks need the route, and follow in `process_view`."""
        answer = self._get_response(request)
        if _is_login(request) and request.user.is_authenticated:
            self._brake.succeed(request.user.email, address_of(request))
        return answer

    def process_view(
        self, request: HttpRequest, _view: object, _arguments: object, numbers: dict[str, Any]
    ) -> HttpResponse | None:
        """Return a refusal, or None to continue; called when the user and the route are known."""
        if request.method not in READING and _is_foreign(request):
            return _refusal("This request does not come from a page of this Label Studio.")
        if _is_login(request):
            account, address = request.POST.get("email", ""), address_of(request)
            if wait := self._brake.begin(account, address):
                return _too_many_logins(wait)
        if not request.user.is_authenticated:
            return None if _has_pass(request, WITHOUT_LOGIN) else _refuse_stranger(request)
        if not only_labels(request.user):
            return None
        try:
            allowed = _is_allowed(request, numbers)
        except BodyRefusedError as error:
            return _refusal(f"This request is refused: {error}.")
        if not allowed and _is_about_lost_task(request, numbers):
            return JsonResponse({"detail": "This task went to somebody else."}, status=410)
        if not allowed and _is_page(request):
            return redirect("/")
        if not allowed:
            return _refusal("This is not part of labelling in your workspace.")
        if _is_draft_of_answered(request, numbers):
            return JsonResponse({"detail": "You have answered this task."}, status=409)
        return None


def _refusal(detail: str) -> HttpResponse:
    return JsonResponse({"detail": detail}, status=403)


def _is_login(request: HttpRequest) -> bool:
    is_form = request.resolver_match is not None and request.resolver_match.view_name == _LOGIN
    return is_form and request.method == "POST"


def _too_many_logins(wait_seconds: float) -> HttpResponse:
    seconds = math.ceil(wait_seconds)
    said = f"Too many failed logins of this account: try again in {seconds} s."
    headers = {"Retry-After": str(seconds)}
    return HttpResponse(said, "text/plain; charset=utf-8", 429, headers=headers)


def _is_foreign(request: HttpRequest) -> bool:
    own = {f"{request.scheme}://{request.get_host()}", *settings.CSRF_TRUSTED_ORIGINS}
    return is_foreign(request.headers, own, logged_in=request.user.is_authenticated)


def only_labels(user: Any) -> bool:
    """Tell whether the user is in a workspace that they do not manage."""
    return bool(user.is_authenticated and not user.is_superuser and not _owns_workspace(user))


def leads(user: Any) -> bool:
    """Tell whether the user leads the team: they log in with the account of the installation."""
    return bool(user.is_authenticated and user.is_staff and not only_labels(user))


def _has_pass(request: HttpRequest, passes: Mapping[str, Pass]) -> bool:
    given = passes.get(request.resolver_match.view_name)
    return given is not None and request.method in (*given.methods, "HEAD", "OPTIONS")


def _refuse_stranger(request: HttpRequest) -> HttpResponse:
    if _is_page(request):
        return redirect_to_login(request.get_full_path(), "user-login")
    detail = (
        "You are not logged in. Log in again in another tab, then go on here; if you cannot, your "
        "account may be closed: ask the lead of your team."
    )
    return JsonResponse({"detail": detail}, status=401)


def _is_page(request: HttpRequest) -> bool:
    return request.method == "GET" and "text/html" in request.headers.get("Accept", "")


def _is_allowed(request: HttpRequest, path_numbers: Mapping[str, Any]) -> bool:
    if not _has_pass(request, PASSES):
        return False
    route = request.resolver_match.view_name
    given = PASSES[route]
    if route in _FORMS:
        return True
    acts = route == "data_manager:dm-actions" and request.method == "POST"
    if acts and any(action not in _ACTIONS for action in request.GET.getlist("id") or [None]):
        return False
    if any(header in request.META for header in _REFUSED_HEADERS):
        return False
    media_type(request.META.get("CONTENT_TYPE", ""))  # its charset also applies to the query
    fields = given.fields if request.method in _WRITING else ()
    body = read_body(
        request.META.get("CONTENT_TYPE", ""), request.body, (*fields, *_WITH_EVERYTHING)
    )
    _hand_on(request, {name: value for name, value in body.items() if name in fields})
    _hand_on_query(request)
    sources = [path_numbers.items(), body.items()]
    sources += [[(name, one) for one in found] for name, found in request.GET.lists()]
    mentioned = [
        (_NUMBERS[name], number)
        for source in sources
        for name, number in source
        if name in _NUMBERS and number not in (None, 0, "", "0")  # the page sends 0 for none
    ]
    shown = [number for kind, number in mentioned if kind == "view"]
    if given.kind:
        mentioned.append((given.kind, path_numbers["pk"]))
    if not all(_is_at_home(request.user, kind, number) for kind, number in mentioned):
        return False
    _check_saved_filters(shown)
    return True


def _is_draft_of_answered(request: HttpRequest, path_numbers: Mapping[str, Any]) -> bool:
    """Tell whether it is a first draft of a task that its author has answered in another tab."""
    from tasks.models import Annotation

    if request.resolver_match.view_name != _FIRST_DRAFT or request.method != "POST":
        return False
    given = Annotation.objects.filter(task_id=path_numbers["pk"], completed_by=request.user)
    return bool(given.filter(was_cancelled=False).exists())


def _is_about_lost_task(request: HttpRequest, path_numbers: Mapping[str, Any]) -> bool:
    """Tell whether it is an answer to, or a draft of, a task that was taken back."""
    from tasks.models import Task

    given = PASSES.get(request.resolver_match.view_name)
    is_about_task = given is not None and given.kind == "task"
    return is_about_task and not Task.objects.filter(pk=path_numbers["pk"]).exists()


def _hand_on(request: HttpRequest, body: Mapping[str, Any]) -> None:
    """Replace the received data with what was read, so that Label Studio sees nothing else."""
    if not request.body:
        return
    request._body = written(body)
    request.META["CONTENT_LENGTH"] = str(len(request._body))
    request.META["CONTENT_TYPE"] = "application/json"


def _hand_on_query(request: HttpRequest) -> None:
    """Replace the query for tasks with what was read."""
    given = request.GET.getlist("query")
    if not given:
        return
    if len(given) > 1:
        raise BodyRefusedError("an address must have one query")
    read = request.GET.copy()
    read["query"] = read_query(given[0])
    request.GET = read
    request.META["QUERY_STRING"] = read.urlencode()


def _check_saved_filters(views: list[Any]) -> None:
    """Check the filters of tabs that were saved by others, or before they were checked."""
    from data_manager.models import Filter

    for one in Filter.objects.filter(filter_groups__view__in=[int(view) for view in views]):
        check_filter(one.column, one.operator)


def _owns_workspace(user: Any) -> bool:
    organization = user.own_organization
    return organization is not None and organization.pk == user.active_organization_id


def _is_at_home(user: Any, kind: str, number: Any) -> bool:
    """Tell whether the object with that id belongs to the organization the user works in."""
    from data_manager.models import View
    from projects.models import Project
    from tasks.models import Annotation, AnnotationDraft, Task

    organization = user.active_organization_id
    try:
        key = int(number)
    except (TypeError, ValueError):
        return False
    of_project = {"project__organization": organization}
    found = {
        "project": Project.objects.filter(organization=organization),
        "task": Task.objects.filter(**of_project),
        "view": View.objects.filter(**of_project),
        "annotation": Annotation.objects.filter(**of_project),
        "draft": AnnotationDraft.objects.filter(
            task__project__organization=organization, user=user
        ),
    }[kind]
    return bool(found.filter(pk=key).exists())
