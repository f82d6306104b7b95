import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from loupe.schemas.limited import (
    LimitExceededError,
    end_workers,
    iterate_limited,
    memory_limit,
    run_limited,
)
from tests.schemas.limited_calls import (
    RefusalError,
    arrays,
    burn,
    die,
    process_id,
    refuse,
    take,
    three_then_burn,
)

LIMITS: Any = {"seconds": 20, "memory": 1 << 28}


def test_a_worker_is_reused_and_is_another_process() -> None:
    first = run_limited(process_id, **LIMITS)
    assert first == run_limited(process_id, **LIMITS) != os.getpid()


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_workers_that_decode_get_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = {
        name: f"secret of {name}"
        for name in ("OPENAI_API_KEY", "LOUPE_DATABASE_URL", "AWS_SECRET_ACCESS_KEY", "HTTPS_PROXY")
    }
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    end_workers()
    for inherits in (False, True):  # a step of the user may need them
        pid = run_limited(process_id, **LIMITS, inherits=inherits)
        variables = Path(f"/proc/{pid}/environ").read_bytes().decode()
        assert [value in variables for value in secrets.values()] == [inherits] * len(secrets)
        assert f"PATH={os.environ['PATH']}" in variables
    end_workers()


def test_a_call_that_takes_too_long_is_ended_and_the_next_works() -> None:
    began = time.monotonic()
    with pytest.raises(LimitExceededError, match=r"took more than 0\.2 s of CPU time") as caught:
        run_limited(burn, seconds=0.2, memory=1 << 28)
    assert caught.value.reason == "too_slow"
    assert time.monotonic() - began < 30
    assert run_limited(take, 5, **LIMITS) == 5


def test_a_sleeping_call_is_ended_by_wall_time() -> None:
    run_limited(take, 5, **LIMITS)  # the first call of a worker has additional time for its start
    with pytest.raises(LimitExceededError, match=r"took more than 0\.5 s of time"):
        run_limited(time.sleep, 600, seconds=0.05, memory=1 << 28)


def test_a_call_that_needs_too_much_memory_is_ended() -> None:
    assert run_limited(take, 1 << 27, **LIMITS) == 1 << 27
    with pytest.raises(LimitExceededError, match="needs more than 268,435,456 bytes") as caught:
        run_limited(take, 1 << 30, **LIMITS)
    assert caught.value.reason == "too_much_memory"


def test_a_crash_fails_only_one_call(subtests: pytest.Subtests) -> None:
    cases: list[int] = [
        signal.SIGSEGV,
        signal.SIGABRT,
    ]
    for number in cases:
        with subtests.test(number=number):
            with pytest.raises(
                LimitExceededError, match="ended the process that read it"
            ) as caught:
                run_limited(die, number, **LIMITS)
            assert caught.value.reason == "decoder_crashed"
            assert run_limited(take, 5, **LIMITS) == 5


def test_errors_are_raised_with_their_attributes() -> None:
    with pytest.raises(RefusalError, match="is odd") as caught:
        run_limited(refuse, **LIMITS)
    assert caught.value.reason == "odd"


def test_items_are_returned_one_by_one_until_one_takes_too_long() -> None:
    found = [array[0, 0] for array in iterate_limited(arrays, 30, **LIMITS)]
    assert found == list(range(30))
    items = iterate_limited(three_then_burn, seconds=0.2, memory=1 << 28)
    assert [next(items) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(LimitExceededError, match="CPU time"):
        next(items)


def test_each_thread_gets_another_worker() -> None:
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda n=n: found.append(run_limited(take, n, **LIMITS)))
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [0, 1, 2, 3]


def test_no_worker_outlives_its_caller() -> None:
    killed = "import os; from loupe.schemas.limited import run_limited; from tests.schemas import "
    killed += "limited_calls as own; print(run_limited(own.family, seconds=9), flush=True); "
    killed += "os.kill(os.getpid(), 9)"
    done = subprocess.run([sys.executable, "-c", killed], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    for one in map(int, done.stdout.split()):
        with suppress(psutil.NoSuchProcess):
            psutil.Process(one).wait(30)


def test_a_script_without_a_guard_runs_once(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os\n"
        "from loupe.schemas.limited import run_limited\n"
        "print(os.getpid() != run_limited(os.getpid, seconds=9))\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("True\n", "")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux enforces it")
def test_memory_is_limited_in_this_process_and_free_afterwards() -> None:
    with memory_limit(1 << 27), pytest.raises(MemoryError):
        take(1 << 29)
    assert take(1 << 29) == 1 << 29
