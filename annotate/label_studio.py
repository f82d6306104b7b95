"""Label Studio as a review desk: a thin layer over its SDK that says what went wrong."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import count
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel, SecretStr, ValidationError
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from annotate.desk import DeskUnavailableError, NewTask, RemoteAnnotation, RemoteTask
from annotate.interfaces.interface import Interface
from annotate.queues import Queue
from annotate.sdk import new_client
from schemas.errors import ServiceError

T = TypeVar("T")
IMPORT_BATCH = 1000
_PAGE = 500
_TITLE_CHARACTERS = 50
_SERVER_ERROR = 500
# The SDK would repeat a POST whose answer was lost, and so import tasks twice.
_ONCE: Any = {"max_retries": 0}


class _Annotation(BaseModel):
    """The fields of Label Studio's annotation that we use; the e-mail address is none of them."""

    id: int
    completed_by: int | None
    updated_by: int | None = None
    result: list[dict[str, Any]] | None
    was_cancelled: bool | None
    updated_at: datetime
    lead_time: float | None


class _Task(BaseModel):
    """The fields of Label Studio's task that we use."""

    id: int
    data: dict[str, Any]
    annotations: list[_Annotation] = []
    drafts: list[Any] = []

    def remote(self) -> RemoteTask:
        """The task in our own words."""
        key = self.data.get("key")
        return RemoteTask(
            id=self.id,
            key=key if isinstance(key, str) else "",
            annotations=tuple(map(_remote, self.annotations)),
            drafts=len(self.drafts),
        )


class _TaskPage(BaseModel):
    """One page of a list of tasks; `total` counts those of all pages."""

    tasks: list[_Task]
    total: int


class LabelStudioDesk:
    """A Label Studio, by its URL and a personal access token."""

    def __init__(self, url: str, token: SecretStr, timeout_seconds: float = 60.0) -> None:
        self._url = url.rstrip("/")
        local = urlsplit(url).hostname in ("127.0.0.1", "localhost")
        client = httpx.Client(
            timeout=timeout_seconds,
            follow_redirects=True,
            trust_env=not local,
            limits=httpx.Limits(max_keepalive_connections=0),  # a desk needs no closing
        )
        with self._explained("accept its token"):
            self._sdk = new_client(self._url, token, client)

    @property
    def url(self) -> str:
        """Where this Label Studio is."""
        return self._url

    def find_project(self, queue: Queue) -> int | None:
        """The oldest project that carries the queue's marker, or None."""
        project = self._find_project(queue)
        return None if project is None else int(project.id)

    def ensure_project(self, queue: Queue, interface: Interface) -> int:
        """The queue's project, made or brought up to date.

        Raises:
            ServiceError: Label Studio refuses the interface, for instance because annotations that
                are there do not fit it.
        """
        settings = _project_settings(queue, interface)
        project = self._find_project(queue)
        if project is None:
            return self._create_project(queue, settings)
        changed = {
            name: value for name, value in settings.items() if _differs(project, name, value)
        }
        if changed:
            with self._explained(f"bring project {project.id} up to date"):
                self._sdk.projects.update(project.id, **changed, request_options=_ONCE)
        return int(project.id)

    def import_tasks(self, project_id: int, tasks: Sequence[NewTask]) -> None:
        """Adds tasks in batches of at most 1,000; a batch is added as a whole or not at all."""
        for start in range(0, len(tasks), IMPORT_BATCH):
            batch: list[Any] = [
                {"data": task.data, "predictions": task.predictions}
                for task in tasks[start : start + IMPORT_BATCH]
            ]
            with self._explained(f"import {len(batch)} tasks"):
                answer = self._sdk.projects.import_tasks(
                    project_id, request=batch, request_options=_ONCE
                )
            if answer.task_count != len(batch):
                raise DeskUnavailableError(
                    f"Label Studio at {self._url} took {answer.task_count} of {len(batch)} tasks"
                )

    def list_tasks(self, project_id: int) -> Iterator[RemoteTask]:
        """All tasks of a project, by number.

        Pages start after the last number seen rather than at an offset, so that tasks deleted
        meanwhile do not hide others, and each is checked against the total that it states.
        """
        after = 0
        while True:
            page = self._page_of_tasks(project_id, after)
            yield from (task.remote() for task in page.tasks)
            if len(page.tasks) == page.total:
                return
            if not page.tasks or page.tasks[-1].id <= after:
                raise DeskUnavailableError(
                    f"Label Studio at {self._url} lists no tasks after {after} in project "
                    f"{project_id}, but says that there are {page.total}"
                )
            after = page.tasks[-1].id

    def delete_tasks(self, task_ids: Iterable[int]) -> None:
        """Removes tasks; those that are gone already are no error."""
        from label_studio_sdk.core.api_error import ApiError

        for task_id in task_ids:
            with self._explained(f"delete task {task_id}"):
                try:
                    self._sdk.tasks.delete(str(task_id), request_options=_ONCE)
                except ApiError as error:
                    if error.status_code != httpx.codes.NOT_FOUND:
                        raise

    def _find_project(self, queue: Queue) -> Any:
        """The project, or None; of several (made by two pushes at once) the oldest."""
        marker = _marker(queue)
        found: list[Any] = []
        seen = 0
        for page_number in count(1):
            items, total = self._page_of_projects(page_number)
            seen += len(items)
            found += [item for item in items if marker in (item.description or "").splitlines()]
            if not items or seen >= total:
                break
        return min(found, key=lambda project: project.id, default=None)

    def _create_project(self, queue: Queue, settings: dict[str, Any]) -> int:
        try:
            with self._explained(f"create the project of queue {queue.name}"):
                return int(self._sdk.projects.create(**settings, request_options=_ONCE).id or 0)
        except DeskUnavailableError:
            project = self._find_project(queue)  # it may have been made all the same
            if project is None:
                raise
            return int(project.id)

    def _page_of_projects(self, page_number: int) -> tuple[list[Any], int]:
        def ask() -> tuple[list[Any], int]:
            with self._explained("list its projects"):
                page = self._sdk.projects.list(
                    page=page_number, page_size=100, request_options=_ONCE
                )
                return page.items or [], page.response.count

        return _patiently(ask)

    def _page_of_tasks(self, project_id: int, after: int) -> _TaskPage:
        """One page, read with our own models: the SDK's take longer than Label Studio itself."""
        newer = {"filter": "filter:tasks:id", "operator": "greater", "type": "Number"}
        query = {
            "filters": {"conjunction": "and", "items": [{**newer, "value": after}]},
            "ordering": ["tasks:id"],
        }
        parameters = {
            "project": project_id,
            "query": json.dumps(query),
            "page": 1,
            "page_size": _PAGE,
            "fields": "all",
        }
        what = f"list the tasks of project {project_id}"
        body = _patiently(lambda: self._get("api/tasks/", parameters, what))
        try:
            return _TaskPage.model_validate_json(body)
        except ValidationError as error:
            problem = error.errors()[0]
            raise ServiceError(
                f"Label Studio at {self._url} lists the tasks of project {project_id} in a form "
                f"that is not known: {problem['msg']} at {problem['loc']}"
            ) from error

    def _get(self, path: str, parameters: dict[str, Any], what: str) -> bytes:
        from label_studio_sdk.core.api_error import ApiError

        with self._explained(what):
            answer = self._sdk._client_wrapper.httpx_client.request(
                path, method="GET", params=parameters, request_options=_ONCE
            )
            if not answer.is_success:
                raise ApiError(status_code=answer.status_code, body=answer.text)
        return bytes(answer.content)

    @contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        """Turns every error of the SDK into one sentence that says what was not done."""
        from label_studio_sdk.core.api_error import ApiError

        sentence = f"Label Studio at {self._url} did not {what}"
        try:
            yield
        except ApiError as error:
            status = error.status_code or 0
            kind = DeskUnavailableError if status >= _SERVER_ERROR else ServiceError
            raise kind(f"{sentence}: status {status}, {_said(error.body)}") from error
        except httpx.HTTPError as error:
            raise DeskUnavailableError(f"{sentence}: {type(error).__name__}, {error}") from error
        except json.JSONDecodeError as error:
            raise DeskUnavailableError(f"{sentence}: its answer is no JSON") from error


def _patiently(ask: Callable[[], T]) -> T:
    """Asks up to three times for what may be asked for again without harm."""
    attempts = Retrying(
        retry=retry_if_exception_type(DeskUnavailableError),
        stop=stop_after_attempt(3),
        wait=wait_exponential(multiplier=0.2, max=2),
        reraise=True,
    )
    return attempts(ask)


def _marker(queue: Queue) -> str:
    return f"loupe-queue: {queue.name}"


def _project_settings(queue: Queue, interface: Interface) -> dict[str, Any]:
    title = f"Loupe · {queue.name}"
    return {
        "title": title[:_TITLE_CHARACTERS],
        "description": f"{_marker(queue)}\nMade by Loupe, which finds it by the line above.",
        "label_config": interface.config,
        "expert_instruction": interface.instructions,
        "show_instruction": True,
        "show_skip_button": True,
        "show_collab_predictions": True,
        "enable_empty_annotation": False,
        "maximum_annotations": 1,
        "sampling": "Sequential sampling",
    }


def _differs(project: Any, name: str, value: Any) -> bool:
    """Label Studio trims texts that it is given."""
    there = getattr(project, name, None)
    if isinstance(there, str):
        return there.strip() != str(value).strip()
    return bool(there != value)


def _remote(annotation: _Annotation) -> RemoteAnnotation:
    return RemoteAnnotation(
        id=annotation.id,
        user_id=annotation.updated_by or annotation.completed_by or 0,
        result=annotation.result or [],
        cancelled=bool(annotation.was_cancelled),
        updated_at=annotation.updated_at,
        lead_time_seconds=annotation.lead_time,
    )


def _said(body: Any) -> str:
    text = body if isinstance(body, str) else json.dumps(body, default=str, ensure_ascii=False)
    return f"it said {text[:300]}"
