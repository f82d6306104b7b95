"""Export a release in every format, compared with other writers and a copy of the same bytes.

python -m benchmarks.release_export [--images 1000 10000] [--kilobytes 20]

Each export runs in a separate process, so that memory peaks are independent. Exports are timed with
(`checked`) and without verification of the release. The peers receive the rows of the release from
pyarrow and write the content of the export: `datasets` writes Parquet with embedded images,
`ShardWriter` of webdataset writes image, JSON and text. They compute no digests and do not flush to
disk. The copy is `shutil.copytree` of the finished export, flushed to disk; a second copy also
computes digests, as an export does for every file.
"""

import argparse
import hashlib
import importlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.measuring import elapsed, peak_mib, run_apart

FORMATS = ("webdataset", "hf", "coco", "parquet", "published")
PEERS = {"webdataset": "ShardWriter", "hf": "to_parquet"}
MODULES = {"ShardWriter": "webdataset", "to_parquet": "datasets"}


def build(home: Path, images: int, kilobytes: int) -> None:
    from benchmarks.release_build import fill
    from loupe.db.blobs import BlobStore
    from loupe.db.store import Store
    from loupe.release.build import build_release
    from tests.release.worlds import DATASET

    fill(home, images, kilobytes)
    store = Store.open(f"sqlite:///{home / 'loupe.db'}")
    build_release(store, BlobStore(str(home / "blobs")), DATASET, "1.0.0", home / "release")
    store.close()


def rows_of(release: Path) -> Iterator[dict[str, Any]]:
    import pyarrow.parquet as pq

    for shard in sorted((release / "data").glob("*.parquet")):
        with pq.ParquetFile(shard, memory_map=False, pre_buffer=False) as file:
            for batch in file.iter_batches(32, use_threads=False):
                yield from batch.to_pylist()


def export(release: Path, name: str, out: Path, verify: bool) -> None:
    from loupe.release.export import export_release
    from loupe.release.export.formats import format_called

    export_release(release, format_called(name), out, verify=verify)


def write_with_webdataset(release: Path, out: Path) -> None:
    from webdataset import ShardWriter

    out.mkdir()
    with ShardWriter(str(out / "test-%06d.tar"), maxcount=10**9, maxsize=5e8, verbose=0) as writer:
        for row in rows_of(release):
            image, key = row.pop("image")["bytes"], Path(row["file_path"]).stem
            writer.write({"__key__": key, "jpg": image, "json": row, "txt": row["captions"][0]})


def write_with_datasets(release: Path, out: Path) -> None:
    import datasets

    datasets.disable_progress_bars()
    out.mkdir()
    cache = str(out.parent / "cache")
    loaded = datasets.load_dataset(str(release), cache_dir=cache, streaming=True)
    rows = loaded["test"].cast_column("image", datasets.Image(decode=False))
    rows.to_parquet(str(out / "test.parquet"))


WRITERS: dict[str, Callable[[Path, Path], None]] = {
    "ShardWriter": write_with_webdataset,
    "to_parquet": write_with_datasets,
}


def measure(release: Path, what: str, out: Path) -> None:
    """Perform one task; print its seconds and memory peak in MiB as JSON."""
    for module in (MODULES.get(what, "loupe.release.export"), "loupe.release.export.formats"):
        importlib.import_module(module)  # imports are not timed
    name, _, checked = what.partition("+")
    if what in WRITERS:
        seconds = elapsed(lambda: WRITERS[what](release, out))
    else:
        seconds = elapsed(lambda: export(release, name, out, verify=bool(checked)))
    print(json.dumps({"seconds": seconds, "peak": peak_mib()}))


def set_aside(home: Path, folder: Path) -> None:
    """Truncate files and keep them until the end of the benchmark.

    ext4 does not reuse recently deleted inodes and scans all of them for each new file, which would
    slow down the next writes several times.
    """
    for file in folder.rglob("*"):
        if file.is_file():
            os.truncate(file, 0)
    folder.rename(Path(tempfile.mkdtemp(dir=home)) / folder.name)


def measured(home: Path, what: str, *, keep: bool = False) -> dict[str, float]:
    """Run one task in a separate process; its output is kept if `keep`."""
    out = home / "out"
    options = ("--measure", home / "release", what, out)
    found: dict[str, float] = run_apart("release_export", *options)
    if not keep:
        set_aside(home, out)
    return found


def copied(home: Path, *, digested: bool) -> float:
    """Seconds for copying `out` and flushing the copy to disk as exports do.

    If `digested`, copies are read again to compute the SHA-256 that exports state.
    """
    from loupe.release.format.files import flush

    def copy_digested(source: str, target: str) -> str:
        shutil.copyfile(source, target)
        with Path(target).open("rb") as file:
            hashlib.file_digest(file, "sha256")
        return target

    start = time.perf_counter()
    copy = copy_digested if digested else shutil.copyfile
    shutil.copytree(home / "out", home / "copy", copy_function=copy)
    flush(home)
    seconds = time.perf_counter() - start
    set_aside(home, home / "copy")
    return seconds


def compare(home: Path, name: str, rounds: int) -> None:
    """Print a line of medians over rounds that measure everything alternately."""
    found: dict[str, list[float]] = {}
    peaks = []
    for _ in range(rounds):
        plain = measured(home, name, keep=True)
        megabytes = sum(one.stat().st_size for one in (home / "out").rglob("*")) / 1e6
        for key, digested in (("copy", False), ("digested", True)):
            seconds = copied(home, digested=digested)
            found.setdefault(key, []).append(seconds / plain["seconds"])
        set_aside(home, home / "out")
        checked = measured(home, f"{name}+checked")
        found.setdefault("checked", []).append(checked["seconds"] / plain["seconds"])
        found.setdefault("speed", []).append(megabytes / plain["seconds"])
        if peer := PEERS.get(name):
            theirs = measured(home, peer)["seconds"] / plain["seconds"]
            found.setdefault("peer", []).append(theirs)
        peaks.append(max(plain["peak"], checked["peak"]))
    middle = {key: statistics.median(values) for key, values in found.items()}
    peer = f"{middle['peer']:6.2f} x {PEERS[name]}" if name in PEERS else ""
    print(
        f"  {name:<11}{middle['speed']:7,.0f} MB/s{max(peaks):7,.0f} MiB"
        f"{middle['copy']:7.2f} x copy{middle['digested']:7.2f} x copy and sha256"
        f"{middle['checked']:7.2f} x the time when checked{peer}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--kilobytes", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--format", choices=FORMATS, action="append")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--build", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.build:
        build(arguments.build, arguments.images[0], arguments.kilobytes)
        return
    if arguments.measure:
        release, what, out = arguments.measure
        measure(Path(release), what, Path(out))
        return
    for images in arguments.images:
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            # in a separate process, because a process inherits the memory peak of its parent
            command = [sys.executable, "-m", "benchmarks.release_export", "--build", folder]
            sizes = ["--images", str(images), "--kilobytes", str(arguments.kilobytes)]
            subprocess.run([*command, *sizes], check=True)
            print(f"{images:,} images of {arguments.kilobytes} kB")
            for name in arguments.format or FORMATS:
                compare(home, name, arguments.rounds)


if __name__ == "__main__":
    main()
