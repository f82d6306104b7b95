"""Write the report on a release and open it in Chromium.

python -m benchmarks.release_report [--rows 2000 20000] [--side 320]

The release is synthetic: noisy images, six captions per row with common and rare words, and their
lineage. The report is compared with its unavoidable part in the same threads: reading the rows, and
decoding, shrinking and encoding their images with Pillow. Each size is written in a separate
process, so that memory peaks are independent. Times in the browser are medians over rounds.
"""

import argparse
import io
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from benchmarks.measuring import elapsed, peak_mib, run_apart
from release.files import ReleasedFile
from release.lineage import (
    ACTIVITIES,
    AGENTS,
    CALLS,
    DECISIONS,
    DERIVATIONS,
    ENTITIES,
    LineageTable,
    write_table,
)
from release.manifest import MANIFEST, named, unnamed, write_listing
from release.row_files import ParquetRows
from release.rows import ReleasedCaption, ReleasedTerms, ReleaseRow, RowForm
from release.statistics import StatisticsCounter
from release.terms import LicensedItem, terms_of
from schemas.records import Granularity
from schemas.taxonomy import RetrievalTask

FORM = RowForm(tasks=True, terms=True)
TASKS = tuple(RetrievalTask)
ROUNDS = 5


def identifier(*parts: object) -> str:
    return sha256(repr(parts).encode()).hexdigest()[:32]


def vocabulary() -> list[str]:
    """Words of a synthetic language; the first are used in most captions, the last in few."""
    letters = random.Random(1)
    return [
        "".join(letters.choices("abdegilmnorstu", k=letters.randint(2, 9))) for _ in range(8000)
    ]


def pictures(side: int) -> list[bytes]:
    from PIL import Image

    made = []
    for number in range(40):
        chance = random.Random(number)
        coarse = Image.frombytes("RGB", (24, 18), chance.randbytes(24 * 18 * 3))
        buffer = io.BytesIO()
        size = (side, side * 3 // 4)
        coarse.resize(size, Image.Resampling.BICUBIC).save(buffer, "JPEG", quality=90)
        made.append(buffer.getvalue())
    return made


def rows(count: int, images: list[bytes]) -> Iterator[tuple[ReleaseRow, bytes]]:
    words = vocabulary()
    for number in range(1, count + 1):
        chance = random.Random(number)
        texts = [
            " ".join(words[int(len(words) * chance.random() ** 3)] for _ in range(18))
            for _ in range(6)
        ]
        captions = tuple(
            ReleasedCaption(
                text,
                identifier(number, place),
                "source" if place < 2 else f"model-{place}@1",
                "source" if place < 2 else "rewrite",
                reviewed=chance.random() < 0.3,
            )
            for place, text in enumerate(texts)
        )
        image = images[number % len(images)]
        row = ReleaseRow(
            number=number,
            id=number,
            source=f"source-{number % 5}",
            identity=str(number),
            split="train" if number <= count * 7 // 10 else "test",
            file_path=f"images/{number}.jpg",
            source_file_path=f"folder/{number}.jpg",
            captions=captions,
            image_entity_id=identifier(number),
            sha256=sha256(image).hexdigest(),
            media_type="image/jpeg",
            width_px=320,
            height_px=240,
            task=TASKS[chance.randrange(len(TASKS))],
            tier="v0",
            terms=ReleasedTerms(f"CC-BY-{number % 4 + 1}.0", "somebody", None, own=True),
        )
        yield row, image


def make_release(folder: Path, count: int, side: int) -> None:
    """Write a release without image files; the report reads images from the Parquet files."""
    folder.mkdir()
    counter = StatisticsCounter()
    with ParquetRows(folder, FORM) as parquet:
        for row, image in rows(count, pictures(side)):
            parquet.write(row.columns(FORM), image)
            counter.add(row)
        listed = parquet.finish()
    listed += lineage(folder, count)
    draft = unnamed(
        dataset="made-up",
        version="1.0.0",
        demonstration=True,
        unreviewed=False,
        entities_sha256="0" * 64,
        sources=(),
        prompts=(),
        models=(),
        statistics=counter.result({f"source-{one}": Granularity.FINE for one in range(5)}),
        terms=terms_of([LicensedItem("CC0-1.0", "source-0", own=False, images=count)], {}),
    )
    listed.sort(key=lambda file: file.path)
    write_listing(folder / MANIFEST, named(draft, listed), listed)


def lineage(folder: Path, count: int) -> list[ReleasedFile]:
    source, activity, agent = identifier("source"), identifier("activity"), identifier("agent")
    payload = json.dumps({"text": "a text of some words that tells what is seen in the image"})
    entities: list[tuple[object, ...]] = [
        (source, "made-up", "source", "proposed", "{}", [], activity, None)
    ]
    derivations = []
    for number in range(1, count + 1):
        image = identifier(number)
        entities.append((image, "made-up", "image", "proposed", payload, [], activity, None))
        derivations.append((image, "imported_from", source))
        for place in range(6):
            text, parent = identifier(number, place), identifier(number, place - 2)
            kind = "caption" if place < 2 else "rewrite"
            entities.append((text, "made-up", kind, "accepted", payload, [], activity, None))
            is_given = place < 2
            role = "describes" if is_given else "rewrite_of"
            derivations.append((text, role, image if is_given else parent))
    tables: dict[LineageTable, list[tuple[object, ...]]] = {
        ENTITIES: sorted(entities),
        DERIVATIONS: sorted(derivations),
        DECISIONS: [],
        CALLS: [],
        ACTIVITIES: [(activity, "import_source", "1", "{}", [agent])],
        AGENTS: [(agent, "software", "loupe", "0.1.0")],
    }
    return [write_table(folder, table, values)[0] for table, values in tables.items()]


def measure(home: Path, what: str) -> None:
    """Print seconds and memory peak in MiB as JSON."""
    from release.export.formats import ReleaseSource
    from release.report.charts import PictureFolder
    from release.report.writing import write_report
    from schemas.processes import ordered_map

    def only_pictures() -> None:
        source = ReleaseSource(home / "release")
        folder = PictureFolder(home / "pictures", source.manifest.statistics.images, previews=False)
        add = lambda row: folder.add(row.number, bytes(row.image))  # noqa: E731
        for _ in ordered_map(add, source.images()):
            pass

    def report() -> None:
        write_report(home / "release", home / "report", verify=False)

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

    word = vocabulary()[2000]
    filters = [
        "split=test",
        "task=color&split=train",
        "origin=rewrite&reviewed=some",
        "words=18-18",
    ]
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
                ("search", f"#/rows?q={word[: 6 - turn % 3]}"),
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
    parser.add_argument("--side", type=int, default=320)
    parser.add_argument("--home", type=Path, help="folder that keeps the release and the report")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        home, what = arguments.measure
        measure(Path(home), what)
        return
    if arguments.make:
        make_release(arguments.make / "release", arguments.rows[0], arguments.side)
        return
    for count in arguments.rows:
        with tempfile.TemporaryDirectory() as folder:
            home = (arguments.home or Path(folder)) / str(count)
            home.mkdir(parents=True)
            # in a separate process, because a process inherits the memory peak of its parent
            command = [sys.executable, "-m", "benchmarks.release_report", "--make", str(home)]
            sizes = ["--rows", str(count), "--side", str(arguments.side)]
            subprocess.run([*command, *sizes], check=True)
            compare(home, count)


if __name__ == "__main__":
    main()
