"""Annotators who follow a script, each with a login of their own at a real Label Studio."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx

from db.annotators import Role, add_annotator
from db.store import Store
from profiles.settings import Settings
from services.credentials import save_workspace
from services.label_studio import add_workspaces, label_studio_name, personal_token
from services.process import PLAIN_HTTP
from tests.services.fixtures import LabelStudioServer

Regions = list[dict[str, Any]]
Script = Callable[[str, dict[str, Any]], Regions]
"""What a person, by name, answers to the data of a task."""


class ScriptedAnnotator(NamedTuple):
    """A person; `token` lets them in."""

    name: str
    pseudonym: str
    url: str
    token: str

    def answer_all(self, title: str, script: Script) -> int:
        """Answers whatever waits for the person in projects of that title; gives how many."""
        answered = 0
        with self._signed_in() as client:
            projects = client.get("/api/projects", params={"page_size": 100}).raise_for_status()
            for project in projects.json()["results"]:
                if title in project["title"]:
                    for task in _open_tasks(client, project["id"]):
                        regions = script(self.name, task["data"])
                        path = f"/api/tasks/{task['id']}/annotations/"
                        client.post(path, json={"result": regions}).raise_for_status()
                        answered += 1
        return answered

    @contextmanager
    def _signed_in(self) -> Iterator[httpx.Client]:
        with httpx.Client(
            base_url=self.url, trust_env=False, timeout=120, verify=PLAIN_HTTP
        ) as client:
            answer = client.post("/api/token/refresh/", json={"refresh": self.token})
            access = answer.raise_for_status().json()["access"]
            client.headers["Authorization"] = f"Bearer {access}"
            yield client


def hire(
    store: Store,
    settings: Settings,
    label_studio: LabelStudioServer,
    *names: str,
    role: Role = "annotator",
) -> list[ScriptedAnnotator]:
    """Adds people to an installation that uses `label_studio`, with workspaces of their own."""
    people = []
    for name, workspace in zip(names, add_workspaces(label_studio.settings, names), strict=True):
        server = label_studio_name(settings)
        added = add_annotator(store, name, server, workspace.user_id, (role,))
        save_workspace(settings.home, added.pseudonym, workspace.credentials)
        email, password = workspace.credentials.email, workspace.credentials.password
        assert email is not None
        assert password is not None
        token = personal_token(label_studio.url, email, password).get_secret_value()
        people.append(ScriptedAnnotator(name, added.pseudonym, label_studio.url, token))
    return people


def chosen(control: str, target: str, *choices: str) -> dict[str, Any]:
    """Choices that somebody made on a page."""
    value = {"choices": list(choices)}
    return {"from_name": control, "to_name": target, "type": "choices", "value": value}


def written(control: str, target: str, text: str) -> dict[str, Any]:
    """What somebody wrote on a page."""
    value = {"text": [text]}
    return {"from_name": control, "to_name": target, "type": "textarea", "value": value}


def _open_tasks(client: httpx.Client, project_id: int) -> list[dict[str, Any]]:
    query = f"project={project_id}&page_size=1000&fields=all"
    tasks = client.get(f"/api/tasks?{query}").raise_for_status().json()["tasks"]
    return [task for task in tasks if not task.get("total_annotations")]
