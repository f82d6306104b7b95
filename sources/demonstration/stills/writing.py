"""Writes stills and their captions to a folder, with their truth."""

import io
import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from PIL import Image
from pydantic import Field

from models.builtin.drawing.people_and_signs import Figure
from models.builtin.drawing.vocabulary import KINDS, Place
from schemas.base import Record
from schemas.errors import ConfigurationError
from schemas.retrieval_task import RetrievalTask
from sources.demonstration.people import Chance
from sources.demonstration.stills.composing import (
    FIGURE,
    PLACE_PHRASES,
    SIGN,
    Group,
    Placed,
    Relation,
    Scene,
    Size,
    families,
    render_still,
)

# What is known of a world of stills, image by image.

LICENCE = "CC0-1.0"
CITATION = "Loupe demonstration stills: synthetic scenes drawn and described by a seeded program."
TRUTH_FILE = "truth.jsonl"
CAPTIONS_FILE = "captions_test.json"
IMAGE_ROOT = "images"


class TrueThing(Record):
    """One drawn thing: what it is and its box without the ink, in pixels of the image.

    `kind` is one of the vocabulary, `person` or `sign`; `colour` is None for these two.
    """

    kind: str
    colour: str | None
    left: float
    top: float
    right: float
    bottom: float


class StillTruth(Record):
    """Everything that is known of one still.

    Attributes:
        image_id: as in the annotations, from 1.
        file_name: as in the annotations, under the image root.
        task: what the scene is about.
        scene: what was drawn.
        things: where it was drawn, the farthest first.
        family: equal for a scene and its variants, which differ from it in a detail or two.
        change: what a variant differs in; None for the first of its family.
        same_caption_as: the `image_id` of an image that shows the same scene elsewhere laid out, so
            that every caption of the one is true of the other; None for all but planted pairs.
        facts: short true statements, the most important first.
        captions: five true captions.
    """

    image_id: int
    file_name: str
    task: RetrievalTask
    scene: Scene
    things: tuple[TrueThing, ...]
    family: int
    change: str | None = None
    same_caption_as: int | None = None
    facts: tuple[str, ...] = Field(min_length=3)
    captions: tuple[str, ...] = Field(min_length=5, max_length=5)


class StillsWorld(Record):
    """Where a world of stills lies.

    `annotation_file` is in the format of COCO captions; `file_name`s in it are under `image_root`.
    """

    folder: Path
    seed: int
    annotation_file: Path
    image_root: Path
    truth_file: Path
    licence: str = LICENCE
    citation: str = CITATION


def load_stills_truth(folder: Path) -> tuple[StillTruth, ...]:
    """The truth about the stills that were written to `folder`, in the order of their ids."""
    lines = (folder / TRUTH_FILE).read_text("utf-8").splitlines()
    return tuple(StillTruth.model_validate_json(line) for line in lines)


# What can truly be said of a scene: short facts, and five captions of it.

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six")
_PLACE_FACTS = {
    Place.BEACH: "The place is a beach.",
    Place.PARK: "The place is a park.",
    Place.STREET: "The place is a street.",
    Place.KITCHEN: "The place is a kitchen.",
    Place.DESERT: "The place is a desert.",
    Place.SNOW: "The place is a snowy landscape.",
    Place.HARBOUR: "The place is a harbour.",
    Place.NIGHT_CITY: "The place is a city at night.",
}


def facts_of(scene: Scene) -> tuple[str, ...]:
    """Short true statements, the most important for the scene's task first."""
    facts = [*_relation_facts(scene), *_sign_facts(scene), *_figure_facts(scene)]
    facts += [
        f"There {'is' if group.count == 1 else 'are'} {counted(group)}." for group in scene.groups
    ]
    place = _PLACE_FACTS[scene.place]
    if scene.task == "scene":
        facts.insert(0, place)
    else:
        facts.append(place)
    total = sum(group.count for group in scene.groups)
    facts.append(f"The picture is a {scene.style.value}.")
    if total and scene.figure is None:
        things = "thing" if total == 1 else "things"
        facts.append(
            f"The picture shows {_NUMBERS[min(total, 6)] if total < 7 else total} {things}."
        )
    return tuple(facts)


def captions_of(scene: Scene, seed: int) -> tuple[str, ...]:
    """Five different captions, each of them true and complete but for style and size."""
    chance = Chance(seed, "captions", scene.key())
    subject, place = _subject(scene), PLACE_PHRASES[scene.place]
    plain, other = place[0], place[-1]
    where = "a snowy landscape" if scene.place is Place.SNOW else plain.partition(" ")[2]
    are = "are" if _many(scene) else "is"
    frames = [
        f"{_capital(subject)} {plain}.",
        f"There {are} {subject} {other}.",
        f"A {scene.style.value} of {subject} {plain}.",
        f"{_capital(plain)}, there {are} {subject}.",
        f"The picture shows {subject} {other}.",
        f"{_capital(where)} with {subject}.",
    ]
    return tuple(chance.shuffled(frames)[:5])


def counted(group: Group) -> str:
    """The things of a group as a noun phrase: `a red ball`, `three large blue cups`."""
    size = "" if group.size is Size.MEDIUM else f"{group.size.value} "
    words = f"{size}{group.colour} {plural(group.kind, group.count)}"
    return f"{article(words)} {words}" if group.count == 1 else f"{_NUMBERS[group.count]} {words}"


def plural(kind: str, count: int) -> str:
    """The noun for so many things of a kind."""
    return kind if count == 1 else KINDS[kind].plural


def article(words: str) -> str:
    """`a` or `an`, by the first letter."""
    return "an" if words[0] in "aeiou" else "a"


def _subject(scene: Scene) -> str:
    if scene.relation is not None:
        one, two = scene.groups
        return f"{counted(one)} {scene.relation.value} {counted(two)}"
    parts = [*_sign_phrases(scene), *map(counted, scene.groups), *_figure_phrases(scene)]
    return joined(parts)


def joined(parts: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _figure_phrases(scene: Scene) -> Iterator[str]:
    if scene.figure:
        yield f"a person {_clothes(scene.figure)} who is {scene.figure.action.value}"


def _clothes(figure: Figure) -> str:
    worn = [f"{article(figure.shirt)} {figure.shirt} shirt", f"{figure.trousers} trousers"]
    if figure.hat:
        worn.append(f"{article(figure.hat)} {figure.hat} hat")
    return f"in {joined(worn)}"


def _sign_phrases(scene: Scene) -> Iterator[str]:
    if scene.sign:
        yield f'a sign that says "{scene.sign}"'


def _relation_facts(scene: Scene) -> Iterator[str]:
    if scene.relation is None:
        return
    one, two = scene.groups
    yield (f"The {one.colour} {one.kind} is {scene.relation.value} the {two.colour} {two.kind}.")
    opposite = {Relation.LEFT: Relation.RIGHT, Relation.RIGHT: Relation.LEFT}
    if scene.relation in opposite:
        yield (
            f"The {two.colour} {two.kind} is {opposite[scene.relation].value} "
            f"the {one.colour} {one.kind}."
        )


def _sign_facts(scene: Scene) -> Iterator[str]:
    if scene.sign:
        yield f'The sign says "{scene.sign}".'


def _figure_facts(scene: Scene) -> Iterator[str]:
    if scene.figure is None:
        return
    yield f"A person is {scene.figure.action.value}."
    yield f"The person wears {article(scene.figure.shirt)} {scene.figure.shirt} shirt."
    yield f"The person wears {scene.figure.trousers} trousers."
    if scene.figure.hat:
        yield f"The person wears {article(scene.figure.hat)} {scene.figure.hat} hat."


def _many(scene: Scene) -> bool:
    """Whether a sentence with «there» starts with more than one thing."""
    starts_with_things = scene.sign is None and bool(scene.groups)
    return starts_with_things and scene.groups[0].count > 1


def _capital(words: str) -> str:
    return words[0].upper() + words[1:]


# Writes a world of stills to disk: images, COCO captions, and the truth.


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
