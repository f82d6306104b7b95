"""A hub on loopback that implements the Hugging Face Hub protocol for uploads and downloads.

It follows the endpoints of huggingface_hub and the Git LFS batch API. It stores objects by digest
and repositories as commits, and records its requests.
"""

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from loupe.services.process import LOOPBACK, free_port

TOKEN = "a-token-that-may-write"
_NONE = "0" * 40


@dataclass
class Repository:
    """A repository: its commits, each with the digests of its files, and its tags."""

    private: bool
    commits: dict[str, dict[str, str]] = field(default_factory=lambda: {_NONE: {}})
    head: str = _NONE
    tags: dict[str, str] = field(default_factory=dict)


@dataclass
class LoopbackHub:
    """The hub; `refused` and `tags_refused`, if set, are the status for commits and tags."""

    repositories: dict[str, Repository] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    sent: list[str] = field(default_factory=list)
    requests: int = 0
    refused: int | None = None
    tags_refused: int | None = None
    hold_after: int | None = None
    held: threading.Event = field(default_factory=threading.Event)
    url: str = ""

    def files(self, name: str, revision: str = "main") -> dict[str, bytes]:
        """Contents of the files of a repository at a revision."""
        repository = self.repositories[name]
        found = repository.commits[self._commit(repository, revision)]
        return {path: self.objects[sha256] for path, sha256 in found.items()}

    def commit_foreign_file(self, name: str, path: str, data: bytes = b"theirs") -> None:
        """Commit an additional file, like another user."""
        repository = self.repositories[name]
        self.objects[sha256 := hashlib.sha256(data).hexdigest()] = data
        number = f"{len(repository.commits):040x}"
        repository.commits[number] = repository.commits[repository.head] | {path: sha256}
        repository.head = number

    def _commit(self, repository: Repository, revision: str) -> str:
        if revision == "main":
            return repository.head
        return repository.tags.get(revision, revision)

    def routes(self) -> list[Route]:
        name = "{owner}/{name}"
        api = f"/api/datasets/{name}"
        return [
            Route("/api/repos/create", self._answered(self.create), methods=["POST"]),
            Route("/api/validate-yaml", self._answered(self.validate), methods=["POST"]),
            Route(f"{api}/refs", self._answered(self.refs)),
            Route(f"{api}/tree/{{revision}}", self._answered(self.tree)),
            Route(f"{api}/revision/{{revision}}", self._answered(self.info)),
            Route(api, self._answered(self.info)),
            Route(
                f"{api}/preupload/{{revision}}", self._answered(self.preupload), methods=["POST"]
            ),
            Route(f"{api}/commit/{{revision}}", self._answered(self.commit), methods=["POST"]),
            Route(f"{api}/tag/{{revision}}", self._answered(self.tag), methods=["POST"]),
            Route(
                f"/datasets/{name}.git/info/lfs/objects/batch",
                self._answered(self.batch),
                methods=["POST"],
            ),
            Route("/objects/{sha256}", self._answered(self.put), methods=["PUT"]),
            Route(
                f"/datasets/{name}/resolve/{{revision}}/{{path:path}}",
                self._answered(self.resolve),
                methods=["GET", "HEAD"],
            ),
        ]

    def _answered(self, answer: Any) -> Any:
        async def endpoint(request: Request) -> Response:
            self.requests += 1
            if request.headers.get("authorization") not in (f"Bearer {TOKEN}", None):
                return JSONResponse({"error": "Invalid token"}, 401)
            reply = await answer(request)
            return reply if isinstance(reply, Response) else JSONResponse(reply)

        return endpoint

    def _repository(self, request: Request) -> Repository:
        return self.repositories["{owner}/{name}".format(**request.path_params)]

    async def create(self, request: Request) -> Any:
        asked = await request.json()
        name = f"{asked['organization']}/{asked['name']}"
        url = f"{self.url}/datasets/{name}"
        if name in self.repositories:
            return JSONResponse({"error": "exists", "url": url}, 409)
        self.repositories[name] = Repository(asked["visibility"] == "private")
        return {"url": url, "name": name, "id": name}

    async def validate(self, _: Request) -> Any:
        return {"errors": [], "warnings": []}

    async def refs(self, request: Request) -> Any:
        repository = self._repository(request)
        tags = [
            {"name": name, "ref": f"refs/tags/{name}", "targetCommit": commit}
            for name, commit in repository.tags.items()
        ]
        main = {"name": "main", "ref": "refs/heads/main", "targetCommit": repository.head}
        return {"branches": [main], "converts": [], "tags": tags}

    async def tree(self, request: Request) -> Any:
        held = self.files(request.path_params["owner"] + "/" + request.path_params["name"])
        return [
            {"type": "file", "path": path, "size": len(data), "oid": "0" * 40}
            for path, data in sorted(held.items())
        ]

    async def info(self, request: Request) -> Any:
        repository = self._repository(request)
        commit = self._commit(repository, request.path_params.get("revision", "main"))
        return {
            "id": "{owner}/{name}".format(**request.path_params),
            "sha": commit,
            "private": repository.private,
            "siblings": [{"rfilename": path} for path in sorted(repository.commits[commit])],
        }

    async def preupload(self, request: Request) -> Any:
        text = (".md", ".json", ".cff", ".svg", ".jsonl")
        return {
            "files": [
                {
                    "path": one["path"],
                    "uploadMode": "regular" if one["path"].endswith(text) else "lfs",
                    "shouldIgnore": False,
                    "oid": None,
                }
                for one in (await request.json())["files"]
            ]
        }

    async def batch(self, request: Request) -> Any:
        wanted = (await request.json())["objects"]
        for one in wanted:
            if one["oid"] not in self.objects:
                one["actions"] = {"upload": {"href": f"{self.url}/objects/{one['oid']}"}}
        return {"transfer": "basic", "objects": wanted}

    async def put(self, request: Request) -> Any:
        data = await request.body()
        sha256 = hashlib.sha256(data).hexdigest()
        assert sha256 == request.path_params["sha256"]
        self.objects[sha256] = data
        self.sent.append(sha256)
        if self.hold_after is not None and len(self.sent) >= self.hold_after:
            self.held.set()
        return Response(status_code=200)

    async def commit(self, request: Request) -> Any:
        if self.refused is not None:
            message = f"no room is left for {request.headers['authorization']}"
            return JSONResponse({"error": message}, self.refused)
        repository = self._repository(request)
        files = dict(repository.commits[repository.head])
        for line in (await request.body()).splitlines():
            entry = json.loads(line)
            value = entry["value"]
            if entry["key"] == "header" and value.get("parentCommit") != repository.head:
                return JSONResponse({"error": "A commit has happened since"}, 412)
            if entry["key"] == "lfsFile":
                assert value["oid"] in self.objects
                files[value["path"]] = value["oid"]
            elif entry["key"] == "file":
                data = base64.b64decode(value["content"])
                files[value["path"]] = hashlib.sha256(data).hexdigest()
                self.objects[files[value["path"]]] = data
            elif entry["key"] == "deletedFile":
                del files[value["path"]]
        number = f"{len(repository.commits):040x}"
        repository.commits[number], repository.head = files, number
        url = "{}/datasets/{owner}/{name}/commit/{}".format(self.url, number, **request.path_params)
        return {"commitOid": number, "commitUrl": url, "success": True}

    async def tag(self, request: Request) -> Any:
        if self.tags_refused is not None:
            return JSONResponse({"error": "no tags today"}, self.tags_refused)
        self._repository(request).tags[(await request.json())["tag"]] = request.path_params[
            "revision"
        ]
        return Response(status_code=200)

    async def resolve(self, request: Request) -> Any:
        repository = self._repository(request)
        commit = self._commit(repository, request.path_params["revision"])
        sha256 = repository.commits[commit].get(request.path_params["path"])
        if sha256 is None:
            return JSONResponse({}, 404, headers={"X-Error-Code": "EntryNotFound"})
        headers = {"ETag": f'"{sha256}"', "X-Repo-Commit": commit}
        return Response(self.objects[sha256], headers=headers)


@contextmanager
def running_hub() -> Iterator[LoopbackHub]:
    """Run a hub until the end of the `with` block."""
    hub, port = LoopbackHub(), free_port()
    hub.url = f"http://{LOOPBACK}:{port}"
    app = Starlette(routes=hub.routes())
    config = uvicorn.Config(app, LOOPBACK, port, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        thread.join(0.01)
    try:
        yield hub
    finally:
        server.should_exit = True
        thread.join(10)
