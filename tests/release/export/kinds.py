"""Small releases of every kind, and their content read with pyarrow and the file system."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from PIL import Image as Picture

from loupe.release.build import BuiltRelease, build_release
from loupe.schemas.taxonomy import Tier
from tests.release import ccd_world, recos_world, street_world
from tests.release.worlds import QWEN, SOURCES, Composer, small_world, store_world


def plain() -> Composer:
    """Imported images of three sources, in the format of UFine3C."""
    return small_world()


def street() -> Composer:
    """Crops of videos, in two splits."""
    return street_world.street_world()


def tasks() -> Composer:
    """A benchmark of tasks in tiers, with candidates that have no caption."""
    return recos_world.benchmark().world


def contrasts() -> Composer:
    """A contrastive benchmark with images under their own licences and translations."""
    made = ccd_world.benchmark(4)
    for place in range(ccd_world.CAPTIONS):
        text = f"一条“街道”\n{place}"
        ccd_world.drafted(
            made.world, made.groups[0].anchor, ccd_world.COCO, text, place, language="zh"
        )
    return made.world


def mixed() -> Composer:
    """Images of all types and modes, very small ones and very long ones."""
    world = Composer()
    colour = Picture.linear_gradient("L").resize((40, 60)).convert("RGB")
    deep = Picture.fromarray(np.linspace(0, 65535, 2400).astype(np.uint16).reshape(60, 40))
    files: list[tuple[Picture.Image, str]] = [
        (colour, "JPEG"),
        (colour.convert("L"), "JPEG"),
        (colour.convert("CMYK"), "JPEG"),
        (colour, "PNG"),
        (deep, "PNG"),
        (colour.convert("P"), "PNG"),
        (colour.convert("RGBA"), "PNG"),
        (colour.convert("1"), "PNG"),
        (colour, "WEBP"),
        (colour.resize((1, 1)), "PNG"),
        (colour.resize((1, 4000)), "PNG"),
        (colour.resize((4000, 1)), "JPEG"),
        (colour.resize((1, 16000)), "WEBP"),
    ]
    for number, (image, type_) in enumerate(files):
        file = io.BytesIO()
        image.save(file, type_)
        media_type, name = f"image/{type_.lower()}", f"{number}.{type_.lower()}"
        data = file.getvalue()
        of = SOURCES[0]
        id_ = world.image(of, f"{number}", name, data=data, sampled=False, media_type=media_type)
        caption = world.caption(id_, of, f"Picture {number} is grey.", 0)
        world.rewrite(caption, f"The picture {number} is a grey one.", QWEN, call=f"{number:032x}")
    return world


KINDS: dict[str, Callable[[], Composer]] = {
    one.__name__: one for one in (plain, street, tasks, contrasts, mixed)
}


def released(kind: str, home: Path) -> BuiltRelease:
    """Build the release of a kind below `home`."""
    composer = KINDS[kind]()
    world = store_world(home / "world", composer.contents())
    tier: Tier | None = "v2" if kind == "tasks" else None
    version = "2.0.0" if tier else "1.0.0"
    try:
        return build_release(
            world.store,
            world.blobs,
            composer.dataset,
            version,
            home / "release",
            tier=tier,
        )
    finally:
        world.store.close()


def truth(folder: Path) -> list[dict[str, Any]]:
    """All rows of a release in order; `image` holds the bytes of the image file."""
    rows: list[dict[str, Any]] = []
    for split in ("train", "val", "test"):
        for shard in sorted((folder / "data").glob(f"{split}-*.parquet")):
            rows += pq.read_table(shard).to_pylist()
    for row in rows:
        row["image"] = (folder / row["file_path"]).read_bytes()
    return rows


def without_image(row: dict[str, Any]) -> dict[str, Any]:
    """The row without its image."""
    return {name: value for name, value in row.items() if name != "image"}


def content_of(folder: Path) -> dict[str, bytes]:
    """Contents of all files below a folder, by relative path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
