"""Run one short program in isolation within limits, and return what it printed.

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


def run_program(
    language: str, text: str, limits: Limits | None = None, which: Which = shutil.which
) -> str | Rejection:
    """Run `text` and return what it printed, or why it cannot be used.

    It ends at most shortly after `limits.seconds`. Reasons are `no_interpreter`, `no_program`,
    `failed`, `out_of_memory`, `out_of_time` and `too_much_output`.

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
        return _rejection("no_interpreter", detail, language)
    if not _is_program(text):
        wanted = f"at most {_MAX_PROGRAM_BYTES:,} bytes of UTF-8 and no NUL"
        detail = f"the text cannot be handed to an interpreter: wanted {wanted}"
        return _rejection("no_program", detail, language)
    with tempfile.TemporaryDirectory(prefix="loupe-program-") as folder:
        return _run(known, [interpreter, *known.flags, text], limits, folder)


def _rejection(reason: str, detail: str, language: str, output: str = "") -> Rejection:
    context = {"language": language, "output": output[:200]}
    return Rejection(stage=STAGE, reason=reason, detail=detail, context=context)


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


def _run(language: Language, command: list[str], limits: Limits, folder: str) -> str | Rejection:
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
        reason = _listen(process, printed, errors, limits)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # including remaining processes of its group
        code = process.wait()
    output = printed.decode("utf-8", "replace")
    complaint = errors.decode("utf-8", "replace").strip() or f"exit code {code}"
    if reason is None and code and any(sign in complaint for sign in _OUT_OF_MEMORY):
        reason = "out_of_memory"
    elif reason is None and code in _STOPPED_BY_KERNEL:
        reason = "out_of_time"
    elif reason is None and output.encode() != printed:
        reason, complaint = "failed", "it printed bytes that are not UTF-8"
    elif reason is None and code:
        reason = "failed"
    if reason is None:
        return output
    said = {
        "failed": f"failed: {complaint.splitlines()[-1][:200]}",
        "out_of_memory": f"wanted more than {limits.memory_bytes:,} bytes of memory",
        "out_of_time": (
            f"did not end within {limits.seconds:g} s, or {limits.cpu_seconds} s of the processor"
        ),
        "too_much_output": f"printed more than {limits.output_bytes:,} bytes",
    }
    return _rejection(reason, f"the {language.title} program {said[reason]}", language.name, output)


def _listen(
    process: subprocess.Popen[bytes], printed: bytearray, errors: bytearray, limits: Limits
) -> str | None:
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
                return "too_much_output"
            if time.monotonic() >= deadline:
                return "out_of_time"
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:  # it closed its output but still runs
        return "out_of_time"
    return None
