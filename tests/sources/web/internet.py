"""A small internet in a separate network namespace, with a lying name service.

Run by `test_internet.py` as a program inside `unshare`; prints one JSON document with the result
of the downloader for each URL and the number of connections to each internal server.
"""

import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from loupe.schemas.image_search import DownloadSettings
from loupe.sources.web.downloading import ImageDownloader
from tests.sources.pictures import encoded
from tests.sources.web.adversary import answer, redirect, serving

PUBLIC = "93.184.216.34"
PUBLIC_6 = "2606:2800:220:1::1"
INSIDE = ("10.0.0.5", "169.254.169.254", "192.168.7.7", "fd00::5")
NAT64 = "64:ff9b::a00:5"  # 10.0.0.5
MAPPED = "::ffff:10.0.0.5"

# Addresses of a name at its first, second ... lookup, by record type; the last list is repeated.
NAMES: dict[str, dict[int, list[list[str]]]] = {
    "public.test": {1: [[PUBLIC]]},
    "public6.test": {28: [[PUBLIC_6]]},
    "rebinding.test": {1: [[PUBLIC], ["10.0.0.5"]]},
    "rebinding-for-robots.test": {1: [["10.0.0.5"], [PUBLIC]]},
    "both.test": {1: [[PUBLIC, "10.0.0.5"]]},
    "both-families.test": {1: [[PUBLIC]], 28: [["fd00::5"]]},
    "inside.test": {1: [["192.168.7.7"]]},
    "metadata.test": {1: [["169.254.169.254"]]},
    "mapped.test": {28: [[MAPPED]]},
    "nat64.test": {28: [[NAT64]]},
    "zero.test": {1: [["0.0.0.0"]]},  # noqa: S104 - Linux treats it as loopback
}
SILENT = [f"silent{number}.test" for number in range((os.cpu_count() or 1) + 10)]
"""Names whose servers never answer: more than the default number of lookup threads of Python."""
REDIRECTS = {
    "/to-metadata": "http://169.254.169.254/latest/meta-data",
    "/to-decimal": "http://167772165/a.jpg",
    "/to-mapped": f"http://[{MAPPED}]/a.jpg",
    "/to-nat64": f"http://[{NAT64}]/a.jpg",
    "/to-name": "http://inside.test/a.jpg",
    "/to-rebinding": "http://rebinding.test/a.jpg",
    "/to-zone": "http://[fe80::1%25lo]/a.jpg",
    "/to-file": "file:///etc/passwd",
    "/to-itself": "/to-itself",
}
URLS = [
    *(f"http://{name}/a.jpg" for name in SILENT),
    "http://public.test/a.jpg",
    "http://public6.test/a.jpg",
    f"http://{PUBLIC}/a.jpg",
    "http://rebinding.test/a.jpg",
    "http://rebinding-for-robots.test/a.jpg",
    *(f"http://{name}/a.jpg" for name in NAMES if not name.startswith(("public", "rebinding"))),
    *(f"http://public.test{path}" for path in REDIRECTS),
]


def serve_names() -> None:
    """Start a name service on 127.0.0.1:53 whose answers have a lifetime of 0 s."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 53))
    asked: Counter[tuple[str, int]] = Counter()

    def live() -> None:
        while True:
            query, client = server.recvfrom(4096)
            if b"silent" not in query:
                server.sendto(_answer(query, asked), client)

    threading.Thread(target=live, daemon=True).start()


def _answer(query: bytes, asked: Counter[tuple[str, int]]) -> bytes:
    labels, at = [], 12
    while length := query[at]:
        labels.append(query[at + 1 : at + 1 + length].decode())
        at += 1 + length
    name, (kind,) = ".".join(labels), struct.unpack(">H", query[at + 1 : at + 3])
    turns = NAMES.get(name, {}).get(kind, [[]])
    addresses = turns[min(asked[name, kind], len(turns) - 1)]
    asked[name, kind] += 1
    family = socket.AF_INET if kind == 1 else socket.AF_INET6
    records = b"".join(
        b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 0, len(packed)) + packed
        for packed in (socket.inet_pton(family, address) for address in addresses)
    )
    head = query[:2] + struct.pack(">HHHHH", 0x8580, 1, len(addresses), 0, 0)
    return head + query[12 : at + 5] + records


def set_up(folder: Path) -> None:
    """Add addresses to the loopback interface and configure the name service of this namespace."""
    addresses = [*INSIDE, PUBLIC, PUBLIC_6, NAT64]
    lengths = {text: 128 if ":" in text else 32 for text in addresses}
    commands = ["ip link set lo up"]
    commands += [f"ip addr add {text}/{length} dev lo" for text, length in lengths.items()]
    for command in commands:
        subprocess.run(command.split(), check=True)
    configuration = folder / "resolv.conf"
    configuration.write_text("nameserver 127.0.0.1\noptions timeout:3 attempts:1\n")
    subprocess.run(["mount", "--bind", str(configuration), "/etc/resolv.conf"], check=True)


def main(folder: Path) -> None:
    """Download all `URLS` with the default rules of users."""
    set_up(folder)
    serve_names()
    picture = answer(encoded(size=(120, 90)), Connection="close")
    pages: dict[str, bytes] = {"/a.jpg": picture, "/latest/meta-data": picture}
    pages |= {path: redirect(target) for path, target in REDIRECTS.items()}
    with ExitStack() as running:
        everywhere = (PUBLIC, PUBLIC_6, *INSIDE, "127.0.0.1", NAT64)
        servers = {address: running.enter_context(serving(address, 80)) for address in everywhere}
        for server in servers.values():
            server.replies |= pages
        settings = DownloadSettings(
            requests_per_second=1000, timeout_seconds=60, connect_timeout_seconds=2, attempts=1
        )
        with ImageDownloader(settings) as downloader:
            found = {
                URLS[place]: getattr(result, "reason", "image")
                for place, result in downloader.download(URLS)
            }
        entered = {address: servers[address].connections for address in everywhere[2:]}
    sys.stdout.write(json.dumps({"found": found, "entered": entered}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
