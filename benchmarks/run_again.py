"""Processor time of running a finished build again.

    python -m benchmarks.run_again [--captions 10000] [--profile FILE]

Builds and releases a UFine3C-style dataset with a built-in model, and runs the build again in a
separate process. Reported is the processor time of the second run; `--profile` writes a profile
for `pstats`.
"""

import argparse
import cProfile
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from loupe.annotate.backend import Desks
from loupe.flows.engine.context import open_context
from loupe.flows.engine.pipeline import run_pipeline
from loupe.flows.ufine3c.pipeline import ufine3c_pipeline
from loupe.models.profiles.loader import load_profile
from loupe.models.profiles.settings import close_home, load_settings
from loupe.schemas.build import SourceSpec, UFine3CBuild
from loupe.schemas.records import Granularity
from tests.flows.worlds import write_people

WANTED_MICROSECONDS = 50.0
"""Per caption: 2 s for 40,000 captions."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--captions", type=int, default=10_000)
    parser.add_argument("--profile", type=Path)
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.home:
        again(arguments.home, arguments.captions, arguments.profile)
        return
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        write_people(
            home / "people",
            Granularity.FINE,
            identities=arguments.captions // 4,
            images=2,
            captions=2,
        )
        build(home, arguments.captions)
        print(f"built in {time.process_time():.0f} s of processor time", flush=True)
        options = ["--home", folder, "--captions", str(arguments.captions)]
        if arguments.profile:
            options += ["--profile", str(arguments.profile)]
        command = [sys.executable, "-m", "benchmarks.run_again", *options]
        # A build has its processes import nothing from the working folder.
        importing = {"PYTHONPATH": str(Path(__file__).parents[1])}
        subprocess.run(command, check=True, env=os.environ | importing)


def again(home: Path, captions: int, profile: Path | None) -> None:
    """Run the build again and print its processor time."""
    profiler = cProfile.Profile()
    started = time.process_time()
    if profile:
        profiler.runcall(build, home, captions)
        profiler.dump_stats(profile)
    else:
        build(home, captions)
    seconds = time.process_time() - started
    print(f"{captions:,} captions again: {seconds:.2f} s of processor time")
    each = 1e6 * seconds / captions
    print(f"  per caption  {each:.0f} µs  (wanted: {WANTED_MICROSECONDS:g})")


def build(home: Path, captions: int) -> None:
    """Run the whole pipeline with one built-in rewriter."""
    source = SourceSpec(
        name="people",
        format="cuhk-pedes",
        annotations=home / "people" / "annotations.json",
        images=home / "people",
        licence="CC0-1.0",
    )
    build = UFine3CBuild(identities_per_source=captions, sources=(source,))
    profile = load_profile("builtin")
    one = profile.rewrite.model_copy(update={"models": profile.rewrite.models[:1]})
    context = open_context(load_settings(home=home / "home"))
    with_one = profile.model_copy(update={"rewrite": one})
    run_pipeline(context, ufine3c_pipeline(), build, with_one, no_desks)
    close_home(home / "home")  # as at the end of every command


def no_desks() -> Desks:
    raise AssertionError("no queue is opened")


if __name__ == "__main__":
    main()
