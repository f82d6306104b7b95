"""Run one short program in isolation within limits, and return its outcome.

A program runs in its own process group, in an empty folder that is removed afterwards, with an
empty environment and empty standard input. Kernel limits restrict its memory, processor time and
files (it can write none). A clock and a counter here restrict its time and output. If the kernel
permits (`isolated_by_namespaces`), it also has its own network and process namespaces: it has no
network, and its child processes end with it. It can still *read* what its user can read, so this is
for programs of known origin and does not confine hostile ones.
"""

import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from functools import cache
from typing import NamedTuple

from pydantic import Field

from schemas.base import Record
from schemas.records import Rejection

Which = Callable[[str], str | None]

_MIB = 1024 * 1024


class Language(NamedTuple):
    """How a program of one language is run.

    Attributes:
        name: its name in `run_program` and in truths; also its lexer in Pygments.
        title: its name for people.
        suffix: suffix of its files.
        command: name of the interpreter on the search path.
        flags: arguments before the text of the program.
        memory_bytes: address space that the interpreter reserves in addition to the program's
            limit.
        starts_threads: whether the interpreter needs threads or processes.
    """

    name: str
    title: str
    suffix: str
    command: str
    flags: tuple[str, ...]
    memory_bytes: int = 0
    starts_threads: bool = False


# Node reserves its memory at start, but does not use most of it.
LANGUAGES = {
    language.name: language
    for language in (
        Language("python", "Python", ".py", "python3", ("-I", "-S", "-B", "-c")),
        Language("javascript", "JavaScript", ".js", "node", ("--max-old-space-size=64", "-e"),
                 2048 * _MIB, starts_threads=True),
        Language("perl", "Perl", ".pl", "perl", ("-e",)),
        Language("ruby", "Ruby", ".rb", "ruby", ("--disable-all", "-e"),
                 512 * _MIB, starts_threads=True),
        Language("bash", "Bash", ".sh", "bash", ("--noprofile", "--norc", "-c")),
    )
}  # fmt: skip


def _interpreter_of(language: Language, which: Which = shutil.which) -> str | None:
    """Return the interpreter's path, or None if missing. Python is the current interpreter."""
    return sys.executable if language.name == "python" else which(language.command)


def available_languages(which: Which = shutil.which) -> tuple[str, ...]:
    """Return the names of the languages with an interpreter, which always include Python."""
    return tuple(name for name, one in LANGUAGES.items() if _interpreter_of(one, which) is not None)


# The sandbox.

STAGE = "run_program"

_NAMESPACES = ("unshare", "--user", "--map-root-user", "--net", "--pid", "--fork", "--kill-child")
_ERROR_BYTES = 4096
_MAX_PROGRAM_BYTES = 64 * 1024
# A separate process sets the limits, because code between fork and exec is not safe with threads.
# It waits for the program, so that the program is not the first process of its namespace, which
# ignores most signals.
_LAUNCHER = """
import json, os, resource, sys
limits, argv = json.loads(sys.argv[1]), sys.argv[2:]
program = os.fork()
if not program:
    for name, value in limits.items():
        kind = getattr(resource, name, None)
        if kind is not None:
            resource.setrlimit(kind, (value, value))
    os.execve(argv[0], argv, {})
code = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
os._exit(code if code >= 0 else 128 - code)
"""
_STOPPED_BY_KERNEL = (128 + signal.SIGXCPU, 128 + signal.SIGKILL)
_OUT_OF_MEMORY = ("MemoryError", "Out of memory", "out of memory", "cannot allocate")


class Limits(Record):
    """Limits of a program. `memory_bytes` is address space, including the interpreter's."""

    seconds: float = Field(default=10.0, gt=0)
    cpu_seconds: int = Field(default=2, ge=1)
    memory_bytes: int = Field(default=256 * 1024 * 1024, gt=0)
    output_bytes: int = Field(default=4096, gt=0)


class Outcome(StrEnum):
    """How a program ended."""

    DONE = "done"
    FAILED = "failed"
    NO_INTERPRETER = "no_interpreter"
    NO_PROGRAM = "no_program"
    OUT_OF_MEMORY = "out_of_memory"
    OUT_OF_TIME = "out_of_time"
    TOO_MUCH_OUTPUT = "too_much_output"


class ProgramResult(Record):
    """The outcome of a program: its output if `done`, otherwise a sentence that says why not.

    `output` is what it printed, as UTF-8; for a stopped program, what it printed until then.
    """

    language: str
    outcome: Outcome
    output: str = ""
    detail: str = ""

    def refusal(self) -> Rejection | None:
        """Why the program cannot be used, or None if it can."""
        if self.outcome is Outcome.DONE:
            return None
        context = {"language": self.language, "output": self.output[:200]}
        reason = self.outcome.value
        return Rejection(stage=STAGE, reason=reason, detail=self.detail, context=context)


def run_program(
    language: str, text: str, limits: Limits | None = None, which: Which = shutil.which
) -> ProgramResult:
    """Run `text` and wait for its end, which is at most shortly after `limits.seconds`.

    Args:
        language: a name of `LANGUAGES`.
        text: the whole program, at most 64 KiB.
        limits: limits of the program.
        which: finds interpreters; for Python, the current one is used.
    """
    limits = limits or Limits()
    known = LANGUAGES.get(language)
    interpreter = known and _interpreter_of(known, which)
    if not known or not interpreter:
        detail = f"no interpreter for {language!r} was found on this machine"
        return ProgramResult(language=language, outcome=Outcome.NO_INTERPRETER, detail=detail)
    if not _is_program(text):
        wanted = f"at most {_MAX_PROGRAM_BYTES:,} bytes of UTF-8 and no NUL"
        detail = f"the text cannot be handed to an interpreter: wanted {wanted}"
        return ProgramResult(language=language, outcome=Outcome.NO_PROGRAM, detail=detail)
    with tempfile.TemporaryDirectory(prefix="loupe-program-") as folder:
        return _run(known, [interpreter, *known.flags, text], limits, folder)


def _is_program(text: str) -> bool:
    try:
        return "\0" not in text and len(text.encode("utf-8")) <= _MAX_PROGRAM_BYTES
    except UnicodeEncodeError:
        return False


@cache
def isolated_by_namespaces() -> bool:
    """Return whether programs get their own network and process namespaces on this machine."""
    if shutil.which(_NAMESPACES[0]) is None:
        return False
    probe = subprocess.run([*_NAMESPACES, "true"], capture_output=True, check=False, timeout=30)
    return probe.returncode == 0


def _run(language: Language, command: list[str], limits: Limits, folder: str) -> ProgramResult:
    kernel = {
        "RLIMIT_AS": limits.memory_bytes + language.memory_bytes,
        "RLIMIT_CPU": limits.cpu_seconds,
        "RLIMIT_FSIZE": 0,
        "RLIMIT_CORE": 0,
    }
    if not language.starts_threads:
        kernel["RLIMIT_NPROC"] = 1  # the program itself; processes of the superuser are not counted
    apart = _NAMESPACES if isolated_by_namespaces() else ()
    launcher = [*apart, sys.executable, "-I", "-S", "-c", _LAUNCHER, json.dumps(kernel)]
    process = subprocess.Popen(
        [*launcher, *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        start_new_session=True,
    )
    printed, errors = bytearray(), bytearray()
    with process:
        outcome = _listen(process, printed, errors, limits)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # including remaining processes of its group
        code = process.wait()
    complaint = errors.decode("utf-8", "replace").strip()
    if outcome is None and code and any(sign in complaint for sign in _OUT_OF_MEMORY):
        outcome = Outcome.OUT_OF_MEMORY
    if outcome is None and code in _STOPPED_BY_KERNEL:
        outcome = Outcome.OUT_OF_TIME
    try:
        output = printed.decode("utf-8")
    except UnicodeDecodeError:
        output, outcome = printed.decode("utf-8", "replace"), outcome or Outcome.FAILED
        complaint = complaint or "it printed bytes that are not UTF-8"
    if outcome is None:
        outcome = Outcome.FAILED if code else Outcome.DONE
    complaint = complaint or f"exit code {code}"
    said = {
        Outcome.FAILED: f"failed: {complaint.splitlines()[-1][:200]}",
        Outcome.OUT_OF_MEMORY: f"wanted more than {limits.memory_bytes:,} bytes of memory",
        Outcome.OUT_OF_TIME: (
            f"did not end within {limits.seconds:g} s, or {limits.cpu_seconds} s of the processor"
        ),
        Outcome.TOO_MUCH_OUTPUT: f"printed more than {limits.output_bytes:,} bytes",
    }
    detail = f"the {language.title} program {said[outcome]}" if outcome in said else ""
    return ProgramResult(language=language.name, outcome=outcome, output=output, detail=detail)


def _listen(
    process: subprocess.Popen[bytes], printed: bytearray, errors: bytearray, limits: Limits
) -> Outcome | None:
    """Read a program's output until it closes both pipes and ends; return why to stop it.

    The output is appended to `printed` and `errors`.
    """
    deadline = time.monotonic() + limits.seconds
    with selectors.DefaultSelector() as selector:
        for pipe, heard in ((process.stdout, printed), (process.stderr, errors)):
            if pipe is not None:
                selector.register(pipe, selectors.EVENT_READ, heard)
        while selector.get_map():
            for key, _ in selector.select(max(0.0, deadline - time.monotonic())):
                data = os.read(key.fd, 65536)
                key.data.extend(data)
                if not data:
                    selector.unregister(key.fileobj)
            del errors[:-_ERROR_BYTES]
            if len(printed) > limits.output_bytes:
                del printed[limits.output_bytes :]
                return Outcome.TOO_MUCH_OUTPUT
            if time.monotonic() >= deadline:
                return Outcome.OUT_OF_TIME
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:  # it closed its output but still runs
        return Outcome.OUT_OF_TIME
    return None
