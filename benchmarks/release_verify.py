"""Verify releases, compared with `sha256sum` of the same files, and measure the memory peak.

python -m benchmarks.release_verify [--rows 4000] [--kilobytes 20 100] [--runs 7]
python -m benchmarks.release_verify --memory 1000 10000 100000

Speed: both alternately read the same files from a warm cache; `sha256sum` runs in one process.
Reported are the medians, their ratio, and the lowest and highest ratio of adjacent runs.
Memory: every size runs in a separate process, with images of about 3 kB.
"""

import argparse
import json
import statistics
import subprocess
import tempfile
from pathlib import Path

from benchmarks.measuring import elapsed, run_apart
from benchmarks.release_build import fill
from loupe.db.blobs import BlobStore
from loupe.db.store import Store
from loupe.release.build import build_release
from loupe.release.verify import verify_release
from tests.release.worlds import DATASET

_SMALL_KILOBYTES = 3


def built(home: Path, rows: int, kilobytes: int, rewrites: int) -> Path:
    """Build a release of `rows` rows in `home`."""
    fill(home, rows, kilobytes, rewrites=rewrites)
    store = Store.open(f"sqlite:///{home / 'loupe.db'}")
    blobs = BlobStore(str(home / "blobs"))
    return build_release(store, blobs, DATASET, "1.0.0", home / "out").folder


def verified(folder: Path, *, decode: bool = False) -> None:
    """Verify a release that must be valid."""
    if problems := verify_release(folder, decode=decode).problems:
        raise SystemExit(f"the release is not sound: {problems[:3]}")


def compare(rows: int, kilobytes: int, runs: int) -> None:
    """Print the speeds of verification and of `sha256sum`."""
    with tempfile.TemporaryDirectory() as home:
        folder = built(Path(home), rows, kilobytes, rewrites=2)
        files = [path for path in folder.rglob("*") if path.is_file()]
        megabytes = sum(path.stat().st_size for path in files) / 1e6
        listing = "\0".join(map(str, files)).encode()

        def sums() -> None:
            command = ["xargs", "-0", "sha256sum"]
            subprocess.run(command, input=listing, stdout=subprocess.DEVNULL, check=True)

        for work in (sums, lambda: verified(folder)):  # warm
            work()
        pairs = [(elapsed(sums), elapsed(lambda: verified(folder))) for _ in range(runs)]
        decoding = elapsed(lambda: verified(folder, decode=True))
    theirs, ours = (statistics.median(side) for side in zip(*pairs, strict=True))
    ratios = [one / other for one, other in pairs]
    print(
        f"{rows:,} rows of {kilobytes} kB, {len(files):,} files, {megabytes:,.0f} MB\n"
        f"  sha256sum        {theirs:6.3f} s  {megabytes / theirs:6,.0f} MB/s\n"
        f"  verify           {ours:6.3f} s  {megabytes / ours:6,.0f} MB/s  "
        f"{rows / ours:8,.0f} rows/s  ratio {theirs / ours:.2f} "
        f"({min(ratios):.2f} to {max(ratios):.2f} in {runs} pairs)\n"
        f"  verify --decode  {decoding:6.3f} s  {megabytes / decoding:6,.0f} MB/s",
        flush=True,
    )


def measure(folder: Path) -> None:
    """Print the seconds of one verification and the memory peaks in MiB as one line of JSON."""
    before = peak_mebibytes()
    seconds = elapsed(lambda: verified(folder))
    print(json.dumps({"seconds": seconds, "before": before, "peak": peak_mebibytes()}))


def peak_mebibytes() -> int:
    """Memory peak of this process only; `getrusage` includes that of its parent."""
    status = Path("/proc/self/status").read_text("utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


def remember(rows: int) -> None:
    """Print the memory peak of a verification in a separate process."""
    with tempfile.TemporaryDirectory() as home:
        folder = built(Path(home), rows, _SMALL_KILOBYTES, rewrites=0)
        found = run_apart("release_verify", "--measure", folder)
    print(
        f"{rows:>7,} rows of {_SMALL_KILOBYTES} kB: {found['seconds']:.2f} s, memory peak "
        f"{found['peak']:,} MiB, of which {found['before']:,} before the start",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--kilobytes", type=int, nargs="+", default=[20, 100])
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument(
        "--memory", type=int, nargs="+", help="Only measure memory, for these numbers of rows."
    )
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.measure)
    elif arguments.memory:
        for rows in arguments.memory:
            remember(rows)
    else:
        for kilobytes in arguments.kilobytes:
            compare(arguments.rows, kilobytes, arguments.runs)


if __name__ == "__main__":
    main()
