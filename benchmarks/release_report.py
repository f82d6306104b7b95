"""Write the report on a release and open it in Chromium.

python -m benchmarks.release_report [--rows 1000 10000] [--kilobytes 20]

The release is synthetic: noisy images with six captions each, and their lineage. The report is
compared with its unavoidable part in the same threads: reading the rows, and decoding, shrinking
and encoding their images with Pillow. Each size is written in a separate process, so that memory
peaks are independent. Times in the browser are medians over rounds.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measuring import elapsed, peak_mib, run_apart
from benchmarks.release_verify import built

ROUNDS = 5


def measure(home: Path, what: str) -> None:
    """Print seconds and memory peak in MiB as JSON."""
    from loupe.release.export.content import ReleaseSource
    from loupe.release.report.charts import PictureFolder
    from loupe.release.report.writing import write_report
    from loupe.schemas.processes import ordered_map

    def only_pictures() -> None:
        source = ReleaseSource(home / "out")
        folder = PictureFolder(home / "pictures", source.manifest.statistics.images, previews=False)
        add = lambda row: folder.add(row.number, bytes(row.image))  # noqa: E731
        for _ in ordered_map(add, source.images()):
            pass

    def report() -> None:
        write_report(home / "out", home / "report", verify=False)

    seconds = elapsed(only_pictures if what == "pictures" else report)
    print(json.dumps({"seconds": seconds, "peak": peak_mib()}))


CHANGE = """async (address) => {
  const tiles = document.querySelector('#tiles');
  const before = tiles.firstChild;
  const start = performance.now();
  location.hash = address;
  while (tiles.firstChild === before && performance.now() < start + 20000) {
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  return performance.now() - start;
}"""
ROW = """async (number) => {
  const start = performance.now();
  location.hash = `#/row/${number}`;
  const isShown = () => document.title.startsWith(`Row ${number} `);
  while (!isShown() && performance.now() < start + 20000) {
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  return performance.now() - start;
}"""


def in_browser(page_url: str, count: int) -> dict[str, float]:
    """Median milliseconds of actions in the browser."""
    import shutil

    from playwright.sync_api import sync_playwright

    filters = ["split=test", "split=train", "origin=rewrite", "words=14-14"]
    found: dict[str, list[float]] = {}
    with sync_playwright() as playwright:
        program = shutil.which("chromium-headless-shell") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for turn in range(ROUNDS):
            page = browser.new_page(viewport={"width": 1360, "height": 900})
            start = time.perf_counter()
            page.goto(page_url)
            page.wait_for_selector("html[data-ready]")
            usable = 1000 * (time.perf_counter() - start)
            page.wait_for_function(
                "[...document.images].slice(0, 12).every((one) => one.naturalWidth > 0)"
            )
            seen = 1000 * (time.perf_counter() - start)
            found.setdefault("usable", []).append(usable)
            found.setdefault("pictures seen", []).append(seen)
            for name, address in (
                ("filter", f"#/rows?{filters[turn % len(filters)]}"),
                ("page", f"#/rows?{filters[turn % len(filters)]}&page=2"),
                ("search", f"#/rows?q={turn + 1}"),
                ("last page", f"#/rows?page={-(-count // 60) - turn}"),
            ):
                found.setdefault(name, []).append(page.evaluate(CHANGE, address))
            found.setdefault("row", []).append(
                page.evaluate(ROW, (count // 2 + 997 * turn) % count + 1)
            )
            page.close()
        browser.close()
    return {name: statistics.median(values) for name, values in found.items()}


def size_of(folder: Path) -> tuple[int, int]:
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return len(sizes), sum(sizes)


def compare(home: Path, count: int) -> None:
    pictures_alone, report = (
        run_apart("release_report", "--measure", home, what) for what in ("pictures", "report")
    )
    files, size = size_of(home / "report")
    _, thumbs = size_of(home / "report" / "thumbs")
    print(
        f"{count:,} rows: written at {count / report['seconds']:,.0f} rows/s, memory peak "
        f"{report['peak']:,.0f} MiB; thumbnails alone take "
        f"{pictures_alone['seconds'] / report['seconds']:.2f} of the time\n"
        f"  {files:,} files, {size / 1e6:,.0f} MB, of which thumbnails {thumbs / 1e6:,.0f} MB",
        flush=True,
    )
    opened = in_browser((home / "report" / "index.html").as_uri(), count)
    line = ", ".join(f"{name} {value:,.0f} ms" for name, value in opened.items())
    print(f"  {line}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--kilobytes", type=int, default=20)
    parser.add_argument("--home", type=Path, help="folder that keeps the release and the report")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        home, what = arguments.measure
        measure(Path(home), what)
        return
    if arguments.make:
        built(arguments.make, arguments.rows[0], arguments.kilobytes, rewrites=2)
        return
    for count in arguments.rows:
        with tempfile.TemporaryDirectory() as folder:
            home = (arguments.home or Path(folder)) / str(count)
            home.mkdir(parents=True)
            # in a separate process, because a process inherits the memory peak of its parent
            command = [sys.executable, "-m", "benchmarks.release_report", "--make", str(home)]
            sizes = ["--rows", str(count), "--kilobytes", str(arguments.kilobytes)]
            subprocess.run([*command, *sizes], check=True)
            compare(home, count)


if __name__ == "__main__":
    main()
