"""Small collections, build files and profiles on disk, and Loupe's programs run on them."""

import io
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from flows.cli.main import main
from schemas.records import Granularity
from sources.demonstration.descriptions import describe
from sources.demonstration.figure import View, draw_pose
from sources.demonstration.people import Chance, draw_person_attributes
from tests.servers.processes import FORKED, REPOSITORY

_SIZE_PX = (24, 48)


def write_people(
    folder: Path, granularity: Granularity, *, identities: int, images: int, captions: int
) -> Path:
    """An annotation file in the CUHK-PEDES form, with `images` tiny pictures an identity beside it.

    The descriptions are those of the demonstration world; the pictures are plain colours, no two
    the same, because what is drawn here takes a thousandth of the time.
    """
    folder.mkdir(parents=True)
    rows = []
    for identity in range(1, identities + 1):
        person = draw_person_attributes(Chance(granularity, identity))
        for number in range(images):
            file_path = f"{identity:04d}_{number}.jpg"
            (folder / file_path).write_bytes(_picture(identity, number))
            chance = Chance(granularity, identity, number)
            pose = draw_pose(chance, person, chance.pick(tuple(View)))
            texts = [describe(person, pose, granularity, who, chance) for who in range(captions)]
            rows.append(
                {"id": identity, "split": "test", "file_path": file_path, "captions": texts}
            )
    annotations = folder / "annotations.json"
    annotations.write_text(json.dumps(rows), encoding="utf-8")
    return annotations


def _picture(identity: int, number: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", _SIZE_PX, (identity % 256, identity // 256, 40 * number)).save(buffer, "PNG")
    return buffer.getvalue()


def write_toml(path: Path, values: Mapping[str, Any]) -> Path:
    """`values` as TOML: keys with plain values or lists of these, then (lists of) tables."""
    path.write_text("\n".join(_toml_lines(values, "")) + "\n", encoding="utf-8")
    return path


def _toml_lines(values: Mapping[str, Any], prefix: str) -> list[str]:
    plain, tables = [], []
    for key, value in values.items():
        if isinstance(value, Mapping):
            tables += [f"[{prefix}{key}]", *_toml_lines(value, f"{prefix}{key}.")]
        elif isinstance(value, Sequence) and any(isinstance(one, Mapping) for one in value):
            for one in value:
                tables += [f"[[{prefix}{key}]]", *_toml_lines(one, f"{prefix}{key}.")]
        else:
            plain.append(f"{key} = {json.dumps(str(value) if isinstance(value, Path) else value)}")
    return plain + tables


class RunningProgram:
    """A program of ours in a process group of its own, and what it says while it runs.

    Its process is a fork of one that has imported what commands need, as the imports take longer
    than most runs. What it says goes to `lines` with the seconds since its start; standard error
    and output alike.
    """

    def __init__(
        self,
        program: Callable[[], int | None],
        arguments: Sequence[str | Path],
        environment: Mapping[str, str] = {},
    ) -> None:
        self.started = time.time()
        variables = {**_foreign_variables(), **environment}
        reading, writing = FORKED.Pipe(duplex=False)
        self._process = FORKED.Process(
            target=_run, args=(program, list(map(str, arguments)), variables, writing)
        )
        self._process.start()
        writing.close()
        reading.recv()  # the group is there
        self._said_here = reading
        self.lines: list[tuple[float, str]] = []
        self._said = threading.Condition()
        self._over = False
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def output(self) -> str:
        """All that it said so far."""
        with self._said:
            return "".join(line for _, line in self.lines)

    def wait(self, timeout_seconds: float = 600) -> int:
        """Waits for its end; gives its exit status."""
        if not self.ended_within(timeout_seconds):
            self.kill()
            raise TimeoutError(self.output)
        self._listener.join(timeout=10)
        assert self._process.exitcode is not None
        return self._process.exitcode

    def wait_for(self, count: int, marks: str) -> bool:
        """Waits until `count` lines with `marks` in them were said; False if it ended before."""

        with self._said:
            self._said.wait_for(lambda: self._over or self._count(marks) >= count)
            return not self._over

    def count(self, marks: str) -> int:
        """How many lines with `marks` in them it has said so far."""
        with self._said:
            return self._count(marks)

    def _count(self, marks: str) -> int:
        return sum(marks in line for _, line in self.lines)

    def ended_within(self, seconds: float) -> bool:
        """Whether it comes to its end in so many seconds from now."""
        self._process.join(seconds)
        return self._process.exitcode is not None

    def send(self, number: int) -> None:
        """A signal to the program alone."""
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        """SIGKILL to the whole group: nothing of it can say goodbye."""
        assert self._process.pid is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.join()
        self._listener.join(timeout=10)

    def _listen(self) -> None:
        with os.fdopen(os.dup(self._said_here.fileno()), encoding="utf-8") as stream:
            for line in stream:
                with self._said:
                    self.lines.append((time.time() - self.started, line))
                    self._said.notify_all()
        with self._said:
            self._over = True
            self._said.notify_all()


def loupe(
    home: Path, *arguments: str | Path, variables: Mapping[str, str] | None = None
) -> RunningProgram:
    """`loupe` on an installation of its own."""
    return RunningProgram(main, arguments, {"LOUPE_HOME": str(home), **(variables or {})})


def _run(
    program: Callable[[], int | None],
    arguments: Sequence[str],
    environment: dict[str, str],
    writing: "Connection[Any, Any]",
) -> None:
    """Becomes the program: what is left of the caller is what it has imported."""
    os.setsid()
    writing.send(None)
    for said in (1, 2):
        os.dup2(writing.fileno(), said)
    writing.close()
    os.chdir(REPOSITORY)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["loupe", *arguments]
    sys.exit(program())


def _foreign_variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not _is_ours(name)}


def _is_ours(name: str) -> bool:
    return name.startswith("LOUPE_") and name != "LOUPE_ENVIRONMENTS"


@contextmanager
def own_environment() -> Iterator[None]:
    """Without the `LOUPE_` variables of the caller, for fixtures of a whole module."""
    with pytest.MonkeyPatch.context() as patch:
        for name in filter(_is_ours, list(os.environ)):
            patch.delenv(name)
        yield
