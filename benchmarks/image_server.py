"""Serve the files of a folder from memory on a loopback port, which is printed.

python -m benchmarks.image_server FOLDER

It does as little work as possible per request, so that clients are measured and not the server.
"""

import asyncio
import sys
from pathlib import Path
from typing import cast


class Answers(asyncio.Protocol):
    """HTTP/1.1 protocol for one client; requests have no body."""

    def __init__(self, files: dict[bytes, bytes]) -> None:
        self.files = files
        self.heard = b""
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport of the new connection."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer all complete requests."""
        self.heard += data
        while b"\r\n\r\n" in self.heard:
            head, _, self.heard = self.heard.partition(b"\r\n\r\n")
            path = head.split(b" ", 2)[1].partition(b"?")[0]
            body = self.files.get(path)
            status = b"404 Not Found" if body is None else b"200 OK"
            length = b"Content-Length: %d\r\n\r\n" % len(body or b"")
            self.transport.write(b"HTTP/1.1 " + status + b"\r\n" + length + (body or b""))
            if b"connection: close" in head.lower():
                self.transport.close()


async def serve(folder: Path) -> None:
    files = {f"/{path.name}".encode(): path.read_bytes() for path in sorted(folder.iterdir())}
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Answers(files), "127.0.0.1", 0, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
