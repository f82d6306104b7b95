"""Processor seconds and memory of Loupe and of peers at the same work, and their ratio.

    python -m benchmarks.beside_peers [--images 2000] [--calls 500] [--environments FOLDER]

- *import*: each image is decoded, checked and digested, and stored with its caption. Loupe also
  copies it, without metadata, into the blob store and records provenance; the others keep its
  path and facts. The database server of pixeltable does not count.
- *calls*: chat requests to a loopback server, of which 5 % fail once; 32 are in flight. Loupe
  stores each answer as it returns; distilabel keeps all at the end, asyncio nothing.

Each peer runs in an environment of its own, created with `uv` in FOLDER (by default a temporary
one); one that cannot be installed is left out. All processes count, with their start, also workers
that a process leaves behind (Linux only). The best of two rounds, one after the other in each.
"""

import argparse
import asyncio
import ctypes
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.peers import Peer, installed
from benchmarks.planted_duplicates import originals

ROUNDS = 2
SCRIPTS = Path(__file__).parent / "peers"
FAILING = 20  # one request of so many is answered with 503 at first
SECONDS_AN_ANSWER = 0.05
_ADOPT = 36  # Linux: orphans below a process become its children


IMPORTS = (
    Peer("datasets", ("datasets==5.2.0", "pillow"), "datasets_import.py"),
    Peer("datachain", ("datachain==0.62.0", "pillow"), "datachain_import.py"),
    Peer("pixeltable", ("pixeltable==0.7.21",), "pixeltable_import.py"),
)
CALLS = (
    Peer("asyncio", ("httpx==0.28.1",), "asyncio_calls.py"),
    Peer("distilabel", ("distilabel[openai]==1.5.3", "requests"), "distilabel_calls.py"),
)


class Spent(NamedTuple):
    """Processor seconds of a process with all its children, and the peak of the largest in MiB."""

    seconds: float
    mib: float


def spent(command: list[str], folder: Path) -> Spent:
    """Run a command in a folder."""
    home = {"LOUPE_HOME": str(folder / "home"), "PYTHONPATH": os.getcwd()}  # noqa: PTH109
    with subprocess.Popen(
        command,
        cwd=folder,
        env=os.environ | home,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        process_group=0,
    ) as process:
        seconds = mib = 0.0
        with suppress(ChildProcessError):
            while True:  # those that its children leave become ours
                pid, status, usage = os.wait4(-process.pid, 0)
                seconds += usage.ru_utime + usage.ru_stime
                mib = max(mib, usage.ru_maxrss / 1024)
                if pid == process.pid:
                    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return Spent(seconds, mib)


def best(commands: dict[str, Callable[[Path], list[str]]]) -> dict[str, Spent]:
    """Run commands in turn, each in a new folder."""
    found: dict[str, Spent] = {}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            with tempfile.TemporaryDirectory() as folder:
                once = spent(command(Path(folder)), Path(folder))
            found[name] = min(found.get(name, once), once)
    return found


def compare_imports(count: int, environments: Path) -> dict[str, Spent]:
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "rows.jsonl"
        lines: list[str] = []
        for number, data in enumerate(originals(count)):
            (Path(name) / f"{number}.jpg").write_bytes(data)
            caption = f"Picture number {number} shows shapes of several colours."
            lines.append(json.dumps({"file_name": f"{number}.jpg", "captions": [caption]}))
        file.write_text("\n".join(lines) + "\n")
        loupe = [str(Path(sys.executable).with_name("loupe")), "import", "json-lines", str(file)]
        commands: dict[str, Callable[[Path], list[str]]] = {
            "Loupe": lambda _: [*loupe, "--name", "peers", "--licence", "CC0-1.0"]
        }
        for peer, python in installed(environments, IMPORTS):
            script = str(SCRIPTS / peer.script)
            commands[peer.name] = lambda folder, python=python, script=script: [  # type: ignore[misc]
                *(str(python), script, str(file), str(folder))
            ]
        return best(commands)


def compare_calls(count: int, environments: Path) -> dict[str, Spent]:
    with serving() as url:
        own = [sys.executable, "-m", "benchmarks.beside_peers", "--ask", url, "--calls", str(count)]
        commands: dict[str, Callable[[Path], list[str]]] = {"Loupe": lambda _: own}
        for peer, python in installed(environments, CALLS):
            command = [str(python), str(SCRIPTS / peer.script), url, str(count)]
            commands[peer.name] = lambda _, command=command: command  # type: ignore[misc]
        return best(commands)


def ask(url: str, count: int) -> None:
    """Send requests as a stage does."""
    from loupe.flows.engine.context import open_context
    from loupe.flows.engine.model_step import DatasetModel
    from loupe.models.profiles.settings import load_settings
    from loupe.schemas.chat import ChatAnswer, ChatRequest
    from loupe.schemas.profile import OpenAIChat

    context = open_context(load_settings())
    spec = OpenAIChat(
        provider="openai", name="m", revision="1", base_url=url, max_in_flight=32, max_retries=5
    )
    model = DatasetModel(context, "peers", spec).model
    requests = (
        ChatRequest(
            purpose="rewrite",
            prompt=f"Rewrite caption number {number}. " * 40,
            prompt_digest="0" * 64,
        )
        for number in range(count)
    )
    outcomes = [outcome for _, outcome in model.answer(requests)]
    if not all(isinstance(one, ChatAnswer) for one in outcomes) or len(outcomes) != count:
        raise SystemExit("not all requests were answered")


# A server that answers after a while, in a process of its own.


@contextmanager
def serving() -> Iterator[str]:
    command = [sys.executable, "-m", "benchmarks.beside_peers", "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None  # noqa: S101 - a pipe
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        finally:
            server.kill()


async def serve() -> None:
    number = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal number
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().casefold()
                size = int(head.partition("content-length:")[2].split("\r\n")[0] or 0)
                await reader.readexactly(size)
                await asyncio.sleep(SECONDS_AN_ANSWER)
                number += 1
                writer.write(_response(fails=number % FAILING == 0, number=number))
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def _response(*, fails: bool, number: int) -> bytes:
    if fails:
        return b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"
    message = {"role": "assistant", "content": f"A person walks along street {number}."}
    body = json.dumps(
        {
            "id": str(number),
            "object": "chat.completion",
            "model": "m",
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": 300, "completion_tokens": 12, "total_tokens": 312},
        }
    ).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--environments", type=Path)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--ask", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(serve())
        return
    if arguments.ask:
        ask(arguments.ask, arguments.calls)
        return
    ctypes.CDLL(None).prctl(_ADOPT, 1, 0, 0, 0)
    table = Table("work", "by", "processor s", "MiB", "Loupe / peer")
    with tempfile.TemporaryDirectory() as name:
        environments = arguments.environments or Path(name)
        works = {
            f"import of {arguments.images:,} images": compare_imports(
                arguments.images, environments
            ),
            f"{arguments.calls:,} chat calls": compare_calls(arguments.calls, environments),
        }
    for work, found in works.items():
        ours = found["Loupe"].seconds
        for by, one in found.items():
            ratio = f"{ours / one.seconds:.2f}"
            table.add_row(work, by, f"{one.seconds:.1f}", f"{one.mib:.0f}", ratio)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
