"""Small collections, build files and profiles on disk, and Loupe's programs as processes."""

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

from loupe.demo.worlds.descriptions import describe
from loupe.demo.worlds.figure import View, draw_pose
from loupe.demo.worlds.people import draw_person_attributes
from loupe.flows.cli.main import main
from loupe.schemas.records import Granularity
from loupe.sources.chance import Chance
from tests.servers.processes import FORKED, REPOSITORY

_SIZE_PX = (24, 48)


def write_people(
    folder: Path, granularity: Granularity, *, identities: int, images: int, captions: int
) -> Path:
    """Write an annotation file in the CUHK-PEDES format, with `images` tiny images an identity.

    The descriptions are those of the demonstration world. The images are plain colours, all
    different, which takes a thousandth of the time of drawing people.
    """
    folder.mkdir(parents=True)
    rows = []
    for identity in range(1, identities + 1):
        person = draw_person_attributes(Chance(granularity, identity))
        for number in range(images):
            file_path = f"{identity:04d}_{number}.jpg"
            (folder / file_path).write_bytes(_picture(identity, number))
            chance = Chance(granularity, identity, number)
            pose = draw_pose(chance, chance.pick(tuple(View)))
            texts = [
                describe(person, pose, granularity, author, chance) for author in range(captions)
            ]
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


def tiny_build(folder: Path, gate: str = "auto") -> Path:
    """Write a build of two identities of one tiny source, the dataset `tiny`."""
    people = write_people(folder / "people", Granularity.MEDIUM, identities=3, images=1, captions=1)
    source = {
        "name": "people",
        "format": "cuhk-pedes",
        "annotations": people,
        "images": people.parent,
        "granularity": "medium",
        "licence": "ours",
        "permitted_by": "drawn here",
    }
    values = {"dataset": "tiny", "gate": gate, "identities_per_source": 2, "sources": [source]}
    return write_toml(folder / "build.toml", values)


def write_toml(path: Path, values: Mapping[str, Any]) -> Path:
    """Write `values` as TOML: keys with plain values or lists of them, then (lists of) tables."""
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
    """A program of Loupe in its own process group, and its output while it runs.

    The process is a fork of one that has imported what commands need, because the imports take
    longer than most runs. `lines` holds the lines of standard output and standard error, each with
    the seconds since the start.
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
        reading.recv()  # the process group exists
        self._output_pipe = reading
        self.lines: list[tuple[float, str]] = []
        self._new_line = threading.Condition()
        self._is_over = False
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def output(self) -> str:
        """The output so far."""
        with self._new_line:
            return "".join(line for _, line in self.lines)

    def wait(self, timeout_seconds: float = 600) -> int:
        """Wait for the end of the program; return its exit status."""
        if not self.ended_within(timeout_seconds):
            self.kill()
            raise TimeoutError(self.output)
        self._listener.join(timeout=10)
        assert self._process.exitcode is not None
        return self._process.exitcode

    def wait_for(self, count: int, marks: str) -> bool:
        """Wait for `count` output lines that contain `marks`; False if the program ended before."""

        with self._new_line:
            self._new_line.wait_for(lambda: self._is_over or self._count(marks) >= count)
            return not self._is_over

    def count(self, marks: str) -> int:
        """Return the number of output lines so far that contain `marks`."""
        with self._new_line:
            return self._count(marks)

    def _count(self, marks: str) -> int:
        return sum(marks in line for _, line in self.lines)

    def ended_within(self, seconds: float) -> bool:
        """Whether the program ends within this number of seconds from now."""
        self._process.join(seconds)
        return self._process.exitcode is not None

    def send(self, number: int) -> None:
        """Send a signal to the program, not to its process group."""
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        """Send SIGKILL to the whole process group."""
        assert self._process.pid is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.join()
        self._listener.join(timeout=10)

    def _listen(self) -> None:
        with os.fdopen(os.dup(self._output_pipe.fileno()), encoding="utf-8") as stream:
            for line in stream:
                with self._new_line:
                    self.lines.append((time.time() - self.started, line))
                    self._new_line.notify_all()
        with self._new_line:
            self._is_over = True
            self._new_line.notify_all()


def loupe(
    home: Path, *arguments: str | Path, variables: Mapping[str, str] | None = None
) -> RunningProgram:
    """Start `loupe` in a new process on the installation `home`."""
    return RunningProgram(main, arguments, {"LOUPE_HOME": str(home), **(variables or {})})


def _run(
    program: Callable[[], int | None],
    arguments: Sequence[str],
    environment: dict[str, str],
    writing: "Connection[Any, Any]",
) -> None:
    """Replace the environment and output of this process and run the program."""
    os.setsid()
    writing.send(None)
    for descriptor in (1, 2):
        os.dup2(writing.fileno(), descriptor)
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
    """Remove the caller's `LOUPE_` variables, for fixtures of module scope."""
    with pytest.MonkeyPatch.context() as patch:
        for name in filter(_is_ours, list(os.environ)):
            patch.delenv(name)
        yield
