"""Label Studio as a review server: projects, tasks and annotations of one workspace."""

import json
import math
import ssl
import warnings
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from itertools import count
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel, BeforeValidator, Field, SecretStr, ValidationError
from pydantic.warnings import PydanticDeprecatedSince20
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from loupe.db.entities import pages
from loupe.schemas.errors import ServiceError

if TYPE_CHECKING:
    from label_studio_sdk.base_client import LabelStudioBase

MARKER = "loupe-queue:"
"""Prefix of the line in a project's description that names its queue and purpose."""

UNOPENED_HEADER = "Loupe-Unopened"
"""The header of a request to delete only unopened tasks (`loupe_desk/taking.py`)."""

OPENED_WITH = "draft_id"
"""The name in a task's data of the id of the draft on its page."""


class DeskUnavailableError(ServiceError):
    """The server did not answer, or returned an error; it may or may not have done the request."""


class DeskFaultError(DeskUnavailableError):
    """The server failed on this request, or its response is invalid; a retry does not help."""


class ProjectSpec(NamedTuple):
    """The required state of a project on the server, identified by its `marker`.

    `note` is shown to its annotator on the project's card. Projects with a higher `priority` come
    first on the annotator's page.
    """

    marker: str
    title: str
    config: str
    instructions: str
    note: str = ""
    priority: int = 0


class NewTask(NamedTuple):
    """A task to send. `data` has our key under `"key"`."""

    key: str
    data: dict[str, Any]
    predictions: list[dict[str, Any]]


def _seconds(lead_time: Any) -> float | None:
    """Return the time that an answer took, if the value is valid."""
    if isinstance(lead_time, bool) or not isinstance(lead_time, int | float):
        return None
    return float(lead_time) if math.isfinite(lead_time) and lead_time >= 0 else None


class RemoteAnnotation(BaseModel, frozen=True, populate_by_name=True):
    """An annotation on the server, without the e-mail address of its author.

    `completed_by` is the named author, `updated_by` the last editor; `cancelled` means that the
    task was skipped, `held` that its author can still take it back. `result` is the unvalidated
    content from the server; if it could not be parsed, `fault` says why and `result` is the raw
    text.
    """

    id: int
    completed_by: int | None = None
    updated_by: int | None = None
    result: Annotated[Any, BeforeValidator(lambda result: [] if result is None else result)] = []
    cancelled: bool | None = Field(default=False, alias="was_cancelled")
    created_at: datetime | None = None
    updated_at: datetime
    lead_time_seconds: Annotated[float | None, BeforeValidator(_seconds)] = Field(
        default=None, alias="lead_time"
    )
    fault: str = ""
    held: bool = False

    @property
    def user_id(self) -> int:
        """The last editor."""
        return self.updated_by or self.completed_by or 0


_OurText = Annotated[str, BeforeValidator(lambda text: text if isinstance(text, str) else "")]


class TaskData(BaseModel, frozen=True):
    """The part of a task's data that we read back: our key, and the id of the draft on its page."""

    key: _OurText = ""
    draft_id: _OurText = ""


class RemoteTask(BaseModel, frozen=True):
    """A task on the server.

    The key of its data is empty for foreign tasks; `updated_at` changes whenever an annotation is
    created, changed or deleted; `draft_exists` means that there are unsubmitted answers.
    """

    id: int
    data: TaskData
    updated_at: datetime
    annotations: tuple[RemoteAnnotation, ...] = ()
    draft_exists: bool = False

    @property
    def key(self) -> str:
        """Our key."""
        return self.data.key

    @property
    def touched(self) -> bool:
        """Whether it has annotations or drafts."""
        return bool(self.annotations or self.draft_exists)


class ProjectCounts(NamedTuple):
    """The size of a project: a cheap check of whether it has to be read.

    `annotations` includes those of skipped tasks.
    """

    tasks: int
    annotations: int


# The workspace of one account, by Label Studio's SDK. It takes a second to import, and its
# extensions ten times as long, so the generated client is used, and only where it is needed.

T = TypeVar("T")
ModelT = TypeVar("ModelT", bound=BaseModel)
_ONCE: Final = {"max_retries": 0}
"""The SDK would repeat any request that failed, imports included."""
BATCH = 1000
"""Number of tasks per request: more are not faster, and a lost response costs more."""
_UNAUTHORIZED = 401
_SERVER_ERROR = 500
_TITLE_CHARACTERS = 50
_FIRST_PIN = datetime(2000, 1, 1, tzinfo=UTC)
_DATETIME = "%Y-%m-%dT%H:%M:%S.%fZ"
# All other fields are left out (predictions above all), which makes a page five times as fast. The
# field `drafts` would contain those of our own account only; `draft_exists` includes those of all
# accounts. Annotations are limited to the same list of names.
_TASK_FIELDS = "id,data,updated_at,draft_exists,annotations,completed_by,updated_by,was_cancelled"
# Fields whose content may be invalid.
_ANSWER_FIELDS = "created_at,result,lead_time"


def parse_config(config: str) -> Any:
    """Parse a labelling configuration as the SDK's `LabelInterface`, which validates data."""
    with warnings.catch_warnings(action="ignore", category=PydanticDeprecatedSince20):
        from label_studio_sdk.label_interface.interface import LabelInterface

        interface: Any = LabelInterface(config)
    interface.validate()
    return interface


def _refusal(url: str, what: str, why: str) -> str:
    return f"Label Studio at {url} did not {what}: {why}"


def _content(url: str, answer: httpx.Response, what: str) -> bytes:
    """Return the content of a successful response."""
    if answer.is_success:
        return answer.content
    raise _refused(url, what, answer.status_code, answer.text)


def _refused(url: str, what: str, status: int, said: str) -> ServiceError:
    kind = ServiceError if status < _SERVER_ERROR else DeskUnavailableError
    if status == _SERVER_ERROR:
        kind = DeskFaultError
    return kind(_refusal(url, what, f"status {status}, it said {said[:300]}"))


def _unreached(url: str, what: str, error: httpx.HTTPError) -> DeskUnavailableError:
    return DeskUnavailableError(_refusal(url, what, f"{type(error).__name__}, {error}"))


def _unexpected(url: str, what: str, error: Exception) -> str:
    """Return the message about a response that is not what was asked for."""
    problem = str(error)[:300]
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        problem = f"{first['msg']} at {first['loc']}"
    return f"Label Studio at {url}, asked to {what}, returned an unexpected response: {problem}"


def _text(body: Any) -> str:
    return body if isinstance(body, str) else json.dumps(body, default=str)


_patiently = Retrying(
    retry=retry_if_exception_type(DeskUnavailableError),
    stop=stop_after_attempt(3),
    wait=wait_exponential(multiplier=0.2, max=2),
    reraise=True,
)


class _AccessToken(httpx.Auth):
    """Signs requests; a request with an expired token is sent again with a new one."""

    requires_response_body = True

    def __init__(self, url: str, token: SecretStr) -> None:
        self._url = url
        self._token = token
        self._access = ""

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Yield the request, preceded by those for an access token."""
        refresh = {"refresh": self._token.get_secret_value()}
        was_known = True
        while was_known:
            was_known = bool(self._access)
            if not was_known:
                path = f"{self._url}/api/token/refresh/"
                self._access = self._read((yield httpx.Request("POST", path, json=refresh)))
            request.headers["Authorization"] = f"Bearer {self._access}"
            answer = yield request
            if answer.status_code != _UNAUTHORIZED:
                return
            self._access = ""

    def _read(self, answer: httpx.Response) -> str:
        step = "accept its token"
        try:
            return str(json.loads(_content(self._url, answer, step))["access"])
        except (ValueError, KeyError, TypeError) as error:
            why = _refusal(self._url, step, "its answer has no token")
            raise DeskUnavailableError(why) from error


class _TaskPage(BaseModel):
    """One page of a list of tasks; `total` counts the tasks of all pages."""

    tasks: list[RemoteTask]
    total: int


class _Imported(BaseModel):
    task_ids: list[int] = []

    @classmethod
    def of(cls, found: Any) -> list[int]:
        """Return the numbers of imported tasks."""
        return cls(task_ids=found.task_ids or []).task_ids


class _Numbered(BaseModel):
    id: int

    @classmethod
    def of(cls, found: Any) -> int:
        """Return the number of an object."""
        return cls(id=found.id).id


class _Project(BaseModel, extra="allow"):
    """A project in the list of projects; the other settings are in `model_extra`."""

    id: int
    description: str | None = None


class _ProjectPage(BaseModel):
    count: int
    results: list[_Project]

    @classmethod
    def of(cls, pager: Any) -> "_ProjectPage":
        """Return one page; the pager itself would take any refusal for the end."""
        page = pager.response
        return cls(count=page.count, results=[_Project(**dict(one)) for one in page.results])


class _Counts(BaseModel):
    task_number: int
    total_annotations_number: int
    skipped_annotations_number: int

    @classmethod
    def of(cls, found: Any) -> "_Counts":
        """Return the counts of a project."""
        return cls(**{name: getattr(found, name) for name in cls.model_fields})


class LabelStudioDesk:
    """A workspace in which people answer review tasks, separate from all others.

    It is that of an account on Label Studio, by its current `url` and a personal access token.
    Together with the `server_name` (by default the URL), a number identifies a user, project or
    task.

    Every method raises `ServiceError` if the server refuses, and `DeskUnavailableError` if it may
    or may not have done the request: the caller checks the state before a retry. Read-only calls
    are retried here. The error is one sentence that says what was not done.
    """

    def __init__(
        self, url: str, token: SecretStr, timeout_seconds: float = 60.0, server_name: str = ""
    ) -> None:
        self.url = url.rstrip("/")
        self.server_name = server_name or self.url
        parts = urlsplit(url)
        is_local = parts.hostname in ("127.0.0.1", "localhost")
        self._client = httpx.Client(
            auth=_AccessToken(self.url, token),
            timeout=timeout_seconds,
            follow_redirects=True,
            trust_env=not is_local,
            # without certificates, which take long to load and are not used here
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            if is_local and parts.scheme == "http"
            else True,
            limits=httpx.Limits(max_keepalive_connections=0),  # needs no closing
        )

    @cached_property
    def _sdk(self) -> "LabelStudioBase":
        """The SDK's client. Our own signs its requests, and replaces its key.

        The SDK takes a token for valid by the clock of this machine, and does not renew one that
        was refused.
        """
        with warnings.catch_warnings(action="ignore", category=PydanticDeprecatedSince20):
            from label_studio_sdk.base_client import LabelStudioBase

        return LabelStudioBase(base_url=self.url, api_key="none", httpx_client=self._client)

    def account_number(self) -> int:
        """Return the number of the account."""
        return self._read("show its account", _Numbered.of, self._sdk.users.whoami)

    def find_project(self, marker: str, known: int | None = None) -> int | None:
        """Return the number of the oldest project with that marker, or None.

        If no project has the marker, because its description was edited, the result is `known` (the
        number in the store), unless that project does not exist or has another marker.
        """
        project = self._find_project(marker, ("description",), known)
        return None if project is None else project.id

    def ensure_project(self, spec: ProjectSpec, known: int | None = None) -> int:
        """Return the number of the project, found as by `find_project`, created or updated.

        Raises:
            ServiceError: Label Studio refuses the interface, for instance because existing
                annotations do not fit it.
        """
        settings = _project_settings(spec)
        project = self._find_project(spec.marker, settings, known)
        if project is None:
            return self._create_project(spec, settings)
        changed = {
            name: value for name, value in settings.items() if _differs(project, name, value)
        }
        if changed:
            what = f"bring project {project.id} up to date"
            self._ask(what, _Numbered.of, self._sdk.projects.update, project.id, **changed)
        return project.id

    def import_tasks(self, project_id: int, tasks: Sequence[NewTask]) -> list[int]:
        """Add tasks and return their numbers, in order. Existing tasks are not searched for.

        A batch of at most 1,000 is added completely or not at all.
        """
        numbers: list[int] = []
        for batch in pages(tasks, BATCH):
            body = [{"data": task.data, "predictions": task.predictions} for task in batch]
            what = f"import {len(batch)} tasks"
            send = partial(self._sdk.projects.import_tasks, project_id, return_task_ids=True)
            found = self._ask(what, _Imported.of, send, request=body)
            if len(found) != len(batch):
                raise DeskUnavailableError(
                    f"Label Studio at {self.url} returned {len(found)} numbers for {len(batch)} "
                    "tasks"
                )
            numbers += found
        return numbers

    def count(self, project_id: int) -> ProjectCounts:
        """Return the size of the project."""
        what = f"count the tasks of project {project_id}"
        fields = {"include": ",".join(_Counts.model_fields)}
        options = {**_ONCE, "additional_query_parameters": fields}
        get = self._sdk.projects.get
        counts = self._read(what, _Counts.of, get, project_id, request_options=options)
        annotations = counts.total_annotations_number + counts.skipped_annotations_number
        return ProjectCounts(counts.task_number, annotations)

    def list_tasks(
        self, project_id: int, since: datetime | None = None, after: int = 0
    ) -> Iterator[RemoteTask]:
        """Return the tasks of a project in the order of their numbers.

        Pages start after the last number instead of at an offset, so that tasks deleted meanwhile
        do not hide others, and each page is checked against its total. A page that cannot be parsed
        is read in smaller pages, down to a single task, whose annotations are then read one by one.

        Args:
            project_id: the number of the project.
            since: only tasks with an `updated_at` of then or later.
            after: only tasks with a number above this one.
        """
        size = BATCH
        while True:
            try:
                page = self._page_of_tasks(project_id, after, since, size, _ANSWER_FIELDS)
            except DeskFaultError:
                if size > 1:
                    size //= 10
                    continue
                page = self._page_of_tasks(project_id, after, since, size)
                page.tasks = [
                    task.model_copy(
                        update={"annotations": tuple(map(self._alone, task.annotations))}
                    )
                    for task in page.tasks
                ]
            yield from page.tasks
            size = min(BATCH, size * 10)
            if len(page.tasks) == page.total:
                return
            if not page.tasks or page.tasks[-1].id <= after:
                raise DeskUnavailableError(
                    f"Label Studio at {self.url} lists no tasks after {after} in project "
                    f"{project_id}, but says that there are {page.total}"
                )
            after = page.tasks[-1].id

    def delete_tasks(
        self, project_id: int, task_ids: Iterable[int], *, unopened: bool = False
    ) -> None:
        """Delete tasks of the project; missing ones are ignored.

        If they must be `unopened`, our own Label Studio keeps those that are open in a browser.
        """
        delete = partial(self._sdk.actions.create, id="delete_tasks", project=project_id)
        headers = {UNOPENED_HEADER: "1"} if unopened else {}
        options = {**_ONCE, "additional_headers": headers}
        for batch in pages(task_ids, BATCH):  # an empty list selects all tasks
            what = f"delete {len(batch)} tasks of project {project_id}"
            selected = {"all": False, "included": batch}
            self._ask(what, bool, delete, selected_items=selected, request_options=options)

    def take_back(self, project_id: int, task_ids: Collection[int]) -> set[int]:
        """Delete those of the tasks that nobody has opened or begun; return which are gone.

        Our own Label Studio knows which tasks are open in a browser, and decides at once, so that
        no answer can arrive in between. Another one knows only of answers and drafts.
        """
        wanted, after = set(task_ids), min(task_ids) - 1
        there = [task for task in self.list_tasks(project_id, after=after) if task.id in wanted]
        untouched = [task.id for task in there if not task.touched]
        self.delete_tasks(project_id, untouched, unopened=True)
        return wanted - {task.id for task in self.list_tasks(project_id, after=after)}

    def _find_project(
        self, marker: str, fields: Iterable[str], known: int | None = None
    ) -> _Project | None:
        """Return the project or None; the oldest if concurrent pushes created several."""
        found: list[_Project] = []
        unmarked: list[_Project] = []
        seen = 0
        for page_number in count(1):
            query = {"page": page_number, "page_size": 100, "include": ",".join(["id", *fields])}
            listed = self._sdk.projects.list
            page = self._read("list its projects", _ProjectPage.of, listed, **query)
            seen += len(page.results)
            for project in page.results:
                lines = (project.description or "").splitlines()
                if marker in lines:
                    found.append(project)
                elif project.id == known and not any(line.startswith(MARKER) for line in lines):
                    unmarked.append(project)
            if not page.results or seen >= page.count:
                break
        return min(found or unmarked, key=lambda project: project.id, default=None)

    def _create_project(self, spec: ProjectSpec, settings: dict[str, Any]) -> int:
        what = f"create the project {spec.title!r}"
        try:
            return self._ask(what, _Numbered.of, self._sdk.projects.create, **settings)
        except DeskUnavailableError:
            project = self._find_project(spec.marker, ("description",))  # created nevertheless?
            if project is None:
                raise
            return project.id

    def _alone(self, annotation: RemoteAnnotation) -> RemoteAnnotation:
        what = f"show annotation {annotation.id}"
        text = ""
        try:
            answer = self._get(f"api/annotations/{annotation.id}/", {}, what)
            text = answer.decode("utf-8", "backslashreplace")
            return self._parsed(RemoteAnnotation, answer, what)
        except ServiceError as error:
            if isinstance(error, DeskUnavailableError) and not isinstance(error, DeskFaultError):
                raise  # not about this annotation
            return annotation.model_copy(update={"result": text, "fault": str(error)})

    def _page_of_tasks(
        self, project_id: int, after: int, since: datetime | None, size: int, *more_fields: str
    ) -> _TaskPage:
        conditions = [_condition("id", "greater", "Number", after)]
        if since is not None:
            moment = since.astimezone(UTC).strftime(_DATETIME)
            conditions.append(_condition("updated_at", "greater_or_equal", "Datetime", moment))
        query = {
            "filters": {"conjunction": "and", "items": conditions},
            "ordering": ["tasks:id"],
        }
        parameters = {
            "project": project_id,
            "query": json.dumps(query),
            "page": 1,
            "page_size": size,
            "fields": "all",
            "include": ",".join((_TASK_FIELDS, *more_fields)),
            "resolve_uri": "false",
        }
        what = f"list the tasks of project {project_id}"
        return self._parsed(_TaskPage, self._get("api/tasks/", parameters, what), what)

    def _read(self, what: str, read: Callable[[Any], T], *call: Any, **options: Any) -> T:
        """Return what `_ask` does; asked again if the server is unavailable."""
        found: T = _patiently(self._ask, what, read, *call, **options)
        return found

    def _ask(
        self,
        what: str,
        read: Callable[[Any], T],
        call: Callable[..., Any],
        *args: Any,
        **options: Any,
    ) -> T:
        """Return what `read` finds in the result of a call of the SDK, which is made once."""
        from label_studio_sdk.core.api_error import ApiError

        try:
            return read(call(*args, **{"request_options": _ONCE, **options}))
        except ApiError as error:
            status = error.status_code or _SERVER_ERROR
            if httpx.codes.is_success(status):  # but it is no JSON
                raise DeskFaultError(_unexpected(self.url, what, error)) from error
            raise _refused(self.url, what, status, _text(error.body)) from error
        except httpx.HTTPError as error:
            raise _unreached(self.url, what, error) from error
        except (ValueError, TypeError, AttributeError) as error:  # the SDK checks no response
            raise DeskFaultError(_unexpected(self.url, what, error)) from error

    # The two requests below are not made by the SDK: it takes a hundred times as long to read a
    # page of tasks (0.7 ms of CPU time a task), and returns no text of an answer that it cannot
    # read.

    def _parsed(self, kind: type[ModelT], body: bytes, what: str) -> ModelT:
        try:
            return kind.model_validate_json(body)
        except ValidationError as error:
            raise DeskFaultError(_unexpected(self.url, what, error)) from error

    def _get(self, path: str, parameters: Mapping[str, Any], what: str) -> bytes:
        return _patiently(self._get_once, path, parameters, what)

    def _get_once(self, path: str, parameters: Mapping[str, Any], what: str) -> bytes:
        try:
            answer = self._client.get(f"{self.url}/{path}", params=parameters)
        except httpx.HTTPError as error:
            raise _unreached(self.url, what, error) from error
        return _content(self.url, answer, what)


def _condition(field: str, operator: str, kind: str, value: Any) -> dict[str, Any]:
    return {"filter": f"filter:tasks:{field}", "operator": operator, "type": kind, "value": value}


def _project_settings(spec: ProjectSpec) -> dict[str, Any]:
    return {
        "title": spec.title[:_TITLE_CHARACTERS],
        "description": f"{spec.note}\n{spec.marker}",
        "label_config": spec.config,
        "expert_instruction": spec.instructions,
        "show_instruction": True,
        "show_skip_button": True,
        "show_collab_predictions": True,
        "enable_empty_annotation": False,
        "maximum_annotations": 1,
        "sampling": "Sequential sampling",
        # Pinned projects are listed first, the last pinned one at the top.
        "pinned_at": _FIRST_PIN + timedelta(days=spec.priority) if spec.priority else None,
    }


def _differs(project: _Project, name: str, value: Any) -> bool:
    """Return whether texts differ, other than in white space that Label Studio trims."""
    there = (project.model_extra or {}).get(name, getattr(project, name, None))
    if isinstance(there, str):
        return there.strip() != str(value).strip()
    return bool(there != value)


Desks = Callable[[str], LabelStudioDesk]
"""Returns the workspace of an assignee, by pseudonym; `SHARED` is the installation itself."""
