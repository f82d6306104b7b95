"""Download speed from a loopback server into a tar file, compared with img2dataset.

    python -m benchmarks.image_download [--images 1500] [--rounds 2] [--peer PYTHON]

Both write a tar of images with a JSON of facts for each: unchanged, and scaled to a longer side of
256 pixels. img2dataset runs with two processes of 32 threads in a separate environment (created
with `uv` unless `--peer` is given); the start of its processes is not counted. It decodes images
only to scale them. Loupe is measured like that (`decode_all = false`) and with its default, which
decodes each image to check that it is complete. The server uses the same processors. The best
round counts, in elapsed time (affected by other work on the machine) and processor time of the
client.
"""

import argparse
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.peers import Peer, python_of
from benchmarks.planted_duplicates import originals
from loupe.schemas.image_search import DownloadedImage, DownloadSettings
from loupe.sources.web.downloading import ImageDownloader

PEER = Peer("img2dataset", ("img2dataset==1.47.0",), "img2dataset_download.py")
DISTINCT = 300
LONGEST_PX = 256
PROCESSES, THREADS = "2", "32"


class Rates(NamedTuple):
    """Images per second and images per processor second."""

    per_second: float
    per_processor_second: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--peer", type=Path, help="Python with img2dataset installed")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        compare(Path(name), arguments.images, arguments.rounds, arguments.peer)


def compare(root: Path, images: int, rounds: int, peer: Path | None) -> None:
    folder = root / "images"
    folder.mkdir()
    for place, data in enumerate(originals(DISTINCT)):
        (folder / f"{place}.jpg").write_bytes(data)
    python = peer or python_of(PEER, root)
    console = Console(width=110)
    columns = [f"{name} {by}" for name in ("Loupe", "peer", "ratio") for by in ("/s", "/cpu s")]
    table = Table("", *columns, title=f"{images:,} images; the peer is img2dataset")
    with serving(folder) as port:
        urls = [f"http://127.0.0.1:{port}/{n % DISTINCT}.jpg?{n}" for n in range(images)]
        measures: dict[str, Callable[[], Rates]] = {
            "sent": lambda: loupe_rate(urls, port, decode_all=False),
            "sent, peer": lambda: peer_rate(python, urls),
            "proven": lambda: loupe_rate(urls, port),
            "scaled, peer": lambda: peer_rate(python, urls, str(LONGEST_PX)),
            "scaled": lambda: loupe_rate(urls, port, resize_longest_px=LONGEST_PX),
        }
        best = dict.fromkeys(measures, Rates(0, 0))
        for _ in range(rounds):
            for name, measure in measures.items():
                best[name] = Rates(*map(max, best[name], measure()))
    for title, ours, theirs in (
        ("unchanged, not decoded", "sent", "sent, peer"),
        ("unchanged, decoded to check", "proven", "sent, peer"),
        (f"longer side of {LONGEST_PX} pixels", "scaled", "scaled, peer"),
    ):
        shown = [f"{rate:,.0f}" for rate in (*best[ours], *best[theirs])]
        ratios = [our / their for our, their in zip(best[ours], best[theirs], strict=True)]
        table.add_row(title, *shown, *(f"{ratio:.2f}" for ratio in ratios))
    console.print(table)
    console.print("wanted: ratio of at least 1 in the first and last row")


@contextmanager
def serving(folder: Path) -> Iterator[int]:
    command = [sys.executable, "-m", "benchmarks.image_server", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            yield int(server.stdout.readline() if server.stdout else "")
        finally:
            server.terminate()


def loupe_rate(urls: list[str], port: int, **changes: Any) -> Rates:
    settings = DownloadSettings(
        ports=frozenset({port}),
        requests_per_second=1e6,
        connections_per_host=32,
        **changes,
    )
    loopback = ip_address("127.0.0.1")
    with (
        tempfile.TemporaryFile() as file,
        tarfile.open(fileobj=file, mode="w") as archive,
        ImageDownloader(settings, allow=lambda address: address == loopback) as downloader,
    ):
        started, processor = time.perf_counter(), time.process_time()
        for place, image in downloader.download(urls):
            if not isinstance(image, DownloadedImage):
                raise SystemExit(image.detail)
            facts = image.model_dump_json(exclude={"data"}).encode()
            for ending, data in (("jpg", image.data), ("json", facts)):
                entry = tarfile.TarInfo(f"{place:08}.{ending}")
                entry.size = len(data)
                archive.addfile(entry, BytesIO(data))
        seconds, processor = time.perf_counter() - started, time.process_time() - processor
        return Rates(len(urls) / seconds, len(urls) / processor)


def peer_rate(python: Path, urls: list[str], *longest: str) -> Rates:
    script = Path(__file__).parent / "peers" / PEER.script
    with tempfile.TemporaryDirectory() as name:
        listed = Path(name) / "urls.txt"
        listed.write_text("\n".join(urls))
        command = [str(python), str(script), str(listed), f"{name}/images"]
        command += [PROCESSES, THREADS, *longest]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    successes, seconds, processor = done.stdout.strip().splitlines()[-1].split()
    if int(successes) != len(urls):
        raise SystemExit(f"img2dataset downloaded {successes} of {len(urls)} images")
    return Rates(len(urls) / float(seconds), len(urls) / float(processor))


if __name__ == "__main__":
    main()
