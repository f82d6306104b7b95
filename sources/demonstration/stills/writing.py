"""Writes a world of stills to disk: images, COCO captions, and the truth."""

import io
import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from PIL import Image

from schemas.base import Record
from schemas.errors import ConfigurationError
from sources.demonstration.stills.captions import captions_of, facts_of
from sources.demonstration.stills.composing import families
from sources.demonstration.stills.placing import FIGURE, SIGN, Placed
from sources.demonstration.stills.rendering import render_still
from sources.demonstration.stills.scene import Scene
from sources.demonstration.stills.truth import (
    CAPTIONS_FILE,
    IMAGE_ROOT,
    TRUTH_FILE,
    StillsWorld,
    StillTruth,
    TrueThing,
)


class PlannedStill(Record):
    """A still before it is drawn: its scene, what it is to others, and where things will be."""

    image_id: int
    scene: Scene
    layout_seed: int
    family: int
    change: str | None = None
    same_caption_as: int | None = None


def write_stills_world(
    folder: Path,
    seed: int = 7,
    count: int = 400,
    *,
    same_caption_pairs: int = 0,
    captions: bool = True,
) -> StillsWorld:
    """Draws and describes `count` stills, and writes them under `folder`.

    The same arguments give the same bytes (with the same Pillow and NumPy). The first stills of a
    world do not depend on how many there are.

    Args:
        folder: made if missing; what is in the way is overwritten.
        seed: another seed gives other scenes.
        count: how many images; no two show the same scene.
        same_caption_pairs: for so many of them another image is added that shows the same scene
            laid out otherwise, so that captions of the one are true of the other.
        captions: whether the annotation file holds the true captions, which `coco-captions` needs,
            or images only.

    Raises:
        ConfigurationError: more pairs than images are asked for.
    """
    root = folder / IMAGE_ROOT
    root.mkdir(parents=True, exist_ok=True)
    truths = []
    for still in plan_stills(seed, count, same_caption_pairs=same_caption_pairs):
        picture, truth = draw_still(still, seed)
        (root / truth.file_name).write_bytes(jpeg_of(picture))
        truths.append(truth)
    _write(folder / TRUTH_FILE, "".join(truth.model_dump_json() + "\n" for truth in truths))
    _write(folder / CAPTIONS_FILE, json.dumps(_coco(truths, captions=captions), indent=1) + "\n")
    return StillsWorld(
        folder=folder,
        seed=seed,
        annotation_file=folder / CAPTIONS_FILE,
        image_root=root,
        truth_file=folder / TRUTH_FILE,
    )


def plan_stills(seed: int, count: int, *, same_caption_pairs: int = 0) -> Iterator[PlannedStill]:
    """The stills of a world, in order.

    Raises:
        ConfigurationError: more pairs than images are asked for.
    """
    if same_caption_pairs > count:
        raise ConfigurationError(
            f"same_caption_pairs must be at most count; got {same_caption_pairs} of {count}"
        )
    stills = []
    members = chain.from_iterable(
        ((number, scene, change) for scene, change in family)
        for number, family in enumerate(families(seed))
    )
    for image_id, (family, scene, change) in zip(range(1, count + 1), members, strict=False):
        still = PlannedStill(
            image_id=image_id,
            scene=scene,
            layout_seed=seed * 1_000_000 + image_id,
            family=family,
            change=change,
        )
        stills.append(still)
        yield still
    for place in range(same_caption_pairs):
        original = stills[place * count // same_caption_pairs]
        image_id = count + 1 + place
        update = {
            "image_id": image_id,
            "layout_seed": seed * 1_000_000 + image_id,
            "change": "layout",
            "same_caption_as": original.image_id,
        }
        yield original.model_copy(update=update)


def draw_still(still: PlannedStill, seed: int) -> tuple[Image.Image, StillTruth]:
    """The picture (RGB) of a still, and what is true of it."""
    scene = still.scene
    picture, placed = render_still(scene, still.layout_seed)
    truth = StillTruth(
        image_id=still.image_id,
        file_name=f"{still.image_id:06d}.jpg",
        task=scene.task,
        scene=scene,
        things=tuple(_thing(scene, box) for box in placed),
        family=still.family,
        change=still.change,
        same_caption_as=still.same_caption_as,
        facts=facts_of(scene),
        captions=captions_of(scene, seed),
    )
    return picture, truth


def jpeg_of(picture: Image.Image) -> bytes:
    """The picture as it is written, with full colour resolution."""
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=92, subsampling=0)
    return buffer.getvalue()


def _thing(scene: Scene, box: Placed) -> TrueThing:
    kind, colour = {FIGURE: ("person", None), SIGN: ("sign", None)}.get(box.group, ("", None))
    if box.group >= 0:
        kind, colour = scene.groups[box.group].kind, scene.groups[box.group].colour
    return TrueThing(
        kind=kind,
        colour=colour,
        left=round(box.left, 1),
        top=round(box.top, 1),
        right=round(box.left + box.width, 1),
        bottom=round(box.top + box.height, 1),
    )


def _coco(truths: list[StillTruth], *, captions: bool) -> dict[str, list[dict[str, Any]]]:
    images: list[dict[str, Any]] = [
        {"id": truth.image_id, "file_name": truth.file_name} for truth in truths
    ]
    texts = [(truth.image_id, text) for truth in truths for text in truth.captions if captions]
    annotations: list[dict[str, Any]] = [
        {"id": place, "image_id": image, "caption": text}
        for place, (image, text) in enumerate(texts, start=1)
    ]
    return {"images": images, "annotations": annotations}


def _write(target: Path, text: str) -> None:
    target.write_text(text, encoding="utf-8")
