"""Elapsed time, memory peaks, and measurements in a process of their own."""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any


def elapsed(work: Callable[[], object]) -> float:
    """Seconds that `work` takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def peak_mib() -> float:
    """Memory peak of this process, which begins with that of its parent."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run_apart(module: str, *options: object, variables: Mapping[str, str] | None = None) -> Any:
    """Run a benchmark in a separate process; returns what it prints last, which is JSON."""
    command = [sys.executable, "-m", f"benchmarks.{module}", *map(str, options)]
    environment = os.environ | dict(variables or {})
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])
