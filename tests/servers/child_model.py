"""A chat model in a process of another environment, behind the same Protocol.

The child loads the model described by its argument. Parent and child then exchange messages in
turn over a pair of pipes, so that laziness, order and early closing are those of the model itself::

    child                          parent
    ("ready", name, revision)
                                   (function, arguments), to get its result
                                   "answer"
    ("want",)                      a request as a dictionary, None (there are no more), or "fail"
    ("outcome", position, …)       True to continue, False to close
    ("end",)
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter

from loupe.models.chat import ChatModel
from loupe.models.registry import build_chat_model
from loupe.schemas.chat import ChatAnswer, ChatFailure, ChatOutcome, ChatRequest, ModelRef
from loupe.schemas.profile import ChatModelSpec
from tests.servers.processes import REPOSITORY, end_group

T = TypeVar("T")
_SPEC: TypeAdapter[ChatModelSpec] = TypeAdapter(ChatModelSpec)
_START_SECONDS = 600
_SOURCES = f"{REPOSITORY}:{REPOSITORY / 'src'}"  # neither is installed in the other environment


class ChildModel:
    """The parent's side: a `ChatModel`."""

    def __init__(self, link: "Connection[Any, Any]", parameters: dict[str, Any]) -> None:
        if not link.poll(_START_SECONDS):
            raise RuntimeError("the child process did not load its model in time")
        _, name, revision = link.recv()
        self.ref = ModelRef(name=name, revision=revision)
        self.parameters = parameters
        self._link = link

    def call(self, function: Callable[..., T], *arguments: object) -> T:
        """Call a function of a module in the child and return its result."""
        self._link.send((function, arguments))
        return cast("T", self._link.recv())

    def answer(self, requests: Iterable[ChatRequest]) -> Iterator[tuple[int, ChatOutcome]]:
        pending = iter(requests)
        self._link.send("answer")
        while True:
            match self._link.recv():
                case ("want",):
                    self._hand_over(pending)
                case ("outcome", position, answered, fields):
                    outcome = ChatAnswer(**fields) if answered else ChatFailure(**fields)
                    go_on = False
                    try:
                        yield position, outcome
                        go_on = True
                    finally:
                        self._link.send(go_on)
                        if not go_on:
                            self._link.recv()  # the child's ("end",)
                case ("end",):
                    return

    def _hand_over(self, pending: Iterator[ChatRequest]) -> None:
        try:
            request = next(pending, None)
        except Exception:
            self._link.send("fail")
            self._link.recv()  # ("end",): the child's model has let the error through
            raise
        self._link.send(None if request is None else request.model_dump())


@contextmanager
def child_model(
    python: Path, spec: ChatModelSpec, log_file: Path, variables: dict[str, str]
) -> Iterator[ChildModel]:
    """The model of `spec`, loaded in a child process by the interpreter `python`."""
    parent_end, child_end = Pipe()
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [str(python), "-m", __name__, str(child_end.fileno()), spec.model_dump_json()],
            cwd=REPOSITORY,
            env={**os.environ, **variables, "PYTHONPATH": _SOURCES},
            pass_fds=[child_end.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    child_end.close()
    try:
        yield ChildModel(parent_end, spec.parameters)
    except (EOFError, ConnectionError) as error:
        raise RuntimeError(f"the child process ended: {log_file.read_text()[-3000:]}") from error
    finally:
        parent_end.close()
        end_group(process)


class _ParentFailedError(Exception):
    """The iterable of requests raised an error in the parent."""


def main() -> None:
    """The child's side: answer until the parent closes the connection."""
    link: Connection[Any, Any] = Connection(int(sys.argv[1]))
    model = build_chat_model(_SPEC.validate_json(sys.argv[2]))
    link.send(("ready", model.ref.name, model.ref.revision))
    while True:
        try:
            received = link.recv()
        except (EOFError, ConnectionError):
            return
        if received != "answer":
            function, arguments = received
            link.send(function(*arguments))
            continue
        with suppress(_ParentFailedError):
            _answer(model, link)
        link.send(("end",))


def _answer(model: ChatModel, link: "Connection[Any, Any]") -> None:
    def requests() -> Iterator[ChatRequest]:
        while True:
            link.send(("want",))
            match link.recv():
                case None:
                    return
                case "fail":
                    raise _ParentFailedError
                case fields:
                    yield ChatRequest(**fields)

    # Every implementation is a generator; the Protocol requires only an iterator.
    outcomes = cast("Any", model.answer(requests()))
    with closing(outcomes):
        for position, outcome in outcomes:
            answered = isinstance(outcome, ChatAnswer)
            link.send(("outcome", position, answered, outcome.model_dump()))
            if not link.recv():
                return


if __name__ == "__main__":
    main()
