"""Programs that run forever, exceed a limit or fail are refused and never hang the caller."""

import errno
import time
from pathlib import Path

import pytest

from schemas.records import Rejection
from sources.rendered.sandbox import (
    Limits,
    available_languages,
    isolated_by_namespaces,
    run_program,
)
from tests.requirements import unavailable

_SHORT = Limits(seconds=1.0, cpu_seconds=5)


def _printed(text: str) -> str:
    output = run_program("python", text)
    assert isinstance(output, str), output
    return output


def test_the_output_of_a_program_is_returned() -> None:
    assert run_program("python", "print('één', 1 + 1)") == "één 2\n"


def test_output_on_standard_error_is_no_failure() -> None:
    text = "import sys\nprint(1)\nprint('MemoryError', file=sys.stderr)"
    assert run_program("python", text) == "1\n"


def test_failing_and_excessive_programs_are_refused(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str]] = [
        ("import time\ntime.sleep(60)", "out_of_time"),
        ("import os, time\nos.close(1)\nos.close(2)\ntime.sleep(60)", "out_of_time"),
        ("data = [0] * 10**9", "out_of_memory"),
        ("while True:\n    print('x' * 100)", "too_much_output"),
        ("1 / 0", "failed"),
        ("raise SystemExit(3)", "failed"),
        ("def f(n):\n    return f(n + 1)\nf(0)", "failed"),
        ("this is no Python", "failed"),
        ("import sys\nsys.stdout.buffer.write(b'\\xff')", "failed"),
        ("import numpy", "failed"),
        ("\0", "no_program"),
        ("\ud800", "no_program"),
        ("#" * 100_000, "no_program"),
    ]
    for text, reason in cases:
        with subtests.test(text=text, reason=reason):
            start = time.monotonic()
            result = run_program("python", text, _SHORT)
            assert isinstance(result, Rejection)
            assert result.reason == reason, result
            assert time.monotonic() - start < 20  # usually far less, but the machine may be busy
            assert result.detail.startswith("the ")


_ENDLESS = {
    "python": "while True:\n    pass",
    "javascript": "while (true) {}",
    "perl": "while (1) {}",
    "ruby": "loop {}",
    "bash": "while true; do :; done",
}


def test_endless_programs_hit_the_processor_time_limit(subtests: pytest.Subtests) -> None:
    for language in {"python", available_languages()[-1]}:
        with subtests.test(language=language):
            result = run_program(language, _ENDLESS[language], Limits(seconds=60, cpu_seconds=1))
            assert isinstance(result, Rejection)
            assert result.reason == "out_of_time"


def test_a_language_without_an_interpreter_is_refused() -> None:
    for language in ("perl", "cobol"):
        result = run_program(language, "x", which=lambda _: None)
        assert isinstance(result, Rejection)
        assert result.reason == "no_interpreter"
        assert repr(language) in result.detail


def test_a_program_sees_an_empty_folder_and_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOUPE_TEST_SECRET", "hidden")
    text = (
        "import os, sys\n"
        "secret = 'LOUPE_TEST_SECRET' in os.environ\n"
        "print(os.listdir(), secret, sys.stdin.read() == '', os.getcwd())"
    )
    listed, secret, no_input, folder = _printed(text).split()
    assert (listed, secret, no_input) == ("[]", "False", "True")
    assert not Path(folder).exists()


def test_a_program_cannot_write_to_files(tmp_path: Path) -> None:
    target = tmp_path / "written"
    text = (
        "import os\n"
        f"f = os.open({str(target)!r}, os.O_CREAT | os.O_WRONLY)\n"
        "try:\n    os.write(f, b'x' * 10)\nexcept OSError:\n    print('refused')"
    )
    assert _printed(text) == "refused\n"
    assert target.stat().st_size == 0


def test_a_program_has_no_network() -> None:
    if not isolated_by_namespaces():
        unavailable("this machine gives no network namespaces to its users")
    text = (
        "import socket\n"
        "s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)\ns.settimeout(5)\n"
        "try:\n    s.connect(('192.0.2.1', 80))\nexcept OSError as fault:\n    print(fault.errno)"
    )
    assert _printed(text).strip() == str(errno.ENETUNREACH)


def test_child_processes_of_a_program_are_killed() -> None:
    text = (
        "import os, sys, time  # loupe-left-behind\n"
        "try:\n    child = os.fork()\nexcept OSError:\n    child = -1\n"
        "if child == 0:\n    time.sleep(60)\n"
        "print(os.getpid())"
    )
    start = time.monotonic()
    result = run_program("python", text, _SHORT)
    assert time.monotonic() - start < 20
    # the child holds the pipe open
    assert isinstance(result, str) or result.reason == "out_of_time"
    assert not [
        pid for pid in Path("/proc").glob("[0-9]*") if "loupe-left-behind" in _command_line(pid)
    ]


def _command_line(process: Path) -> str:
    try:
        return (process / "cmdline").read_text(errors="replace")
    except OSError:
        return ""
