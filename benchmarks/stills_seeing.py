"""How well drawn stills are seen, on seeds that nothing was learnt from; `--fit` learns again.

python -m benchmarks.stills_seeing [--fit] [--stills 300]
"""

import argparse
import io
import time
from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from models.builtin.drawing.people_and_signs import Figure
from models.builtin.drawing.vocabulary import COLOURS, HAIR, KINDS, SKIN, Action, Place, Style
from models.builtin.stills.seeing import (
    NAMES,
    NOTHING,
    Cut,
    Knowledge,
    Seen,
    background,
    colour_map,
    cut_things,
    fit,
    letter_features,
    letters_of,
    place_features,
    prepare,
    save_knowledge,
    see_still,
    shape_features,
)
from schemas.retrieval_task import RetrievalTask
from sources.demonstration.people import Chance
from sources.demonstration.stills.composing import (
    FIGURE,
    SIGN,
    WORDS,
    Group,
    Placed,
    Scene,
    Size,
    render_still,
)
from sources.demonstration.stills.writing import StillTruth, draw_still, jpeg_of, plan_stills

LEARNING_SEED, HELD_OUT_SEED = 40_000, 977
_STYLES = {Style.FLAT: 4, Style.SKETCH: 1, Style.POSTER: 1, Style.MOSAIC: 1}


def practice_scene(chance: Chance, number: int) -> Scene:
    """A scene made to learn from: many kinds, all colours, all styles."""
    kinds = chance.shuffled(tuple(KINDS))[: chance.whole(2, 4)]
    sizes = (Size.SMALL, Size.MEDIUM, Size.MEDIUM, Size.LARGE)
    groups = tuple(
        Group(kind=kind, colour=chance.pick(KINDS[kind].colours), size=chance.pick(sizes))
        for kind in kinds
    )
    figure = None
    if number % 5 > 1:
        shirt, trousers, hat = (chance.pick(tuple(COLOURS)) for _ in range(3))
        figure = Figure(
            action=tuple(Action)[number % len(Action)],
            shirt=shirt,
            trousers=trousers,
            hat=hat if chance.happens(0.5) else None,
            hair=chance.pick(tuple(HAIR)),
            skin=chance.pick(tuple(SKIN)),
        )
    return Scene(
        task=RetrievalTask.OBJECT,
        place=chance.pick(tuple(Place)),
        style=chance.weigh(_STYLES),
        groups=groups[:2] if figure else groups,
        figure=figure,
        sign=chance.pick(WORDS) if number % 5 == 0 else None,
    )


def learn(count: int) -> Knowledge:
    """What practice scenes teach, and scribbles that are nothing."""
    shapes: list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]] = []
    labels: list[str] = []
    letters, places = [], []
    letter_labels: list[str] = []
    place_labels: list[str] = []
    parts: dict[str, list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]]] = defaultdict(list)
    for number in range(count):
        scene = practice_scene(Chance("practice", LEARNING_SEED, number), number)
        rendered = render_still(scene, LEARNING_SEED + number)
        picture = prepare(stored(rendered.picture))
        cuts = list(cut_things(picture))
        places.append(place_features(picture.pixels, background(picture, cuts)))
        place_labels.append(scene.place.value)
        for cut in cuts:
            box = matching(cut, rendered.placed)
            label = label_of(scene, box)
            shapes.append(shape_features(cut))
            labels.append(label)
            for part, colour in parts_of(scene, box, label):
                parts[part].append(colour_map(cut)[..., NAMES.index(colour)])
            if label == "sign" and scene.sign:
                masks = letters_of(cut)
                if len(masks) == len(scene.sign):
                    letters += [letter_features(mask) for mask in masks]
                    letter_labels += scene.sign
    for cut in scribbles(250):
        shapes.append(shape_features(cut))
        labels.append(NOTHING)
    print(len(labels), Counter(labels).most_common())
    mean = {part: np.mean(maps, axis=0) for part, maps in parts.items()}
    ordinary = {
        part: np.maximum(found - 0.25 * found.max(), 0).astype(np.float32)
        for part, found in mean.items()
    }
    looks = np.array(places)
    usual = [
        looks[[label == place for label in place_labels]].mean(axis=0)
        for place in sorted(set(place_labels))
    ]
    distances = np.linalg.norm(looks[:, None] - np.array(usual), axis=2).min(axis=1)
    print("distance of places from their mean: at most", distances.max())
    return Knowledge(
        fit(np.array(shapes), labels),
        fit(np.array(letters), letter_labels),
        fit(looks, place_labels),
        np.array(usual, np.float32),
        ordinary,
    )


def stored(picture: Image.Image) -> Image.Image:
    """The picture as it comes back from its file."""
    with Image.open(io.BytesIO(jpeg_of(picture))) as found:
        return found.convert("RGB")


def matching(cut: Cut, placed: list[Placed]) -> Placed | None:
    """The drawn thing whose box a cut has, if there is one."""
    for box in placed:
        left, top = max(cut.left, box.left), max(cut.top, box.top)
        right = min(cut.left + cut.width, box.left + box.width)
        bottom = min(cut.top + cut.height, box.top + box.height)
        both = max(0.0, right - left) * max(0.0, bottom - top)
        if both > 0.55 * max(cut.width * cut.height, box.width * box.height):
            return box
    return None


def label_of(scene: Scene, box: Placed | None) -> str:
    """The label that a thing is learnt under."""
    if box is None:
        return NOTHING
    if box.group == SIGN:
        return "sign"
    if box.group == FIGURE and scene.figure:
        return f"person:{scene.figure.action.value}" + (":hat" if scene.figure.hat else "")
    return scene.groups[box.group].kind


def parts_of(scene: Scene, box: Placed | None, label: str) -> Iterator[tuple[str, str]]:
    """The parts of a thing whose colour is known: (name, colour)."""
    if box is None or box.group == SIGN:
        return
    if box.group == FIGURE and scene.figure:
        for garment in ("shirt", "trousers", "hat"):
            if colour := getattr(scene.figure, garment):
                yield f"{label}:{garment}", colour
        return
    yield label, scene.groups[box.group].colour


def scribbles(count: int) -> Iterator[Cut]:
    """Closed lines of ink that are nothing: letters, blots, frames."""
    for number in range(count):
        chance = Chance("scribble", number)
        picture = Image.new("RGB", (320, 240), tuple(chance.whole(120, 255) for _ in range(3)))
        pen = ImageDraw.Draw(picture)
        for left in (10, 115, 220):
            wide, high, top = chance.between(30, 90), chance.between(30, 120), 30
            fill = tuple(chance.whole(70, 255) for _ in range(3))
            form = chance.whole(0, 3)
            if form == 0:
                corners = [
                    (left + wide * chance.between(0, 1), top + high * chance.between(0, 1))
                    for _ in range(chance.whole(3, 9))
                ]
                pen.polygon(corners, fill=fill, outline=(10, 10, 10), width=3)
            elif form == 1:
                glyph = chance.pick("ABDOPQR0689&@%§agö")
                font = ImageFont.load_default(size=chance.whole(60, 120))
                pen.text((left, top), glyph, font=font, fill=(10, 10, 10))
            elif form == 2:
                edges = (left, top, left + wide, top + high)
                pen.rectangle(edges, fill=fill, outline=(10, 10, 10), width=chance.whole(2, 6))
                pen.line(edges, fill=(10, 10, 10), width=3)
            else:
                edges = (left, top, left + wide, top + high)
                pen.ellipse(edges, fill=fill, outline=(10, 10, 10), width=3)
                pen.ellipse((left + 9, top + 9, left + 25, top + 22), fill=(10, 10, 10))
                pen.rectangle((left + 9, top + 30, left + 30, top + 34), fill=(10, 10, 10))
        yield from cut_things(prepare(picture.filter(ImageFilter.GaussianBlur(0.5))))


def measure(count: int) -> dict[str, dict[str, float]]:
    """Shares of what is seen rightly on held-out stills, by style."""
    good: dict[str, Counter[str]] = defaultdict(Counter)
    asked: dict[str, Counter[str]] = defaultdict(Counter)
    for still in plan_stills(HELD_OUT_SEED, count):
        picture, truth = draw_still(still, HELD_OUT_SEED)
        style = truth.scene.style.value
        for name, right in judged(see_still(stored(picture)), truth):
            asked[style][name] += 1
            good[style][name] += right
    return {
        style: {name: good[style][name] / total for name, total in names.items()}
        for style, names in asked.items()
    }


def judged(seen: Seen, truth: StillTruth) -> Iterator[tuple[str, bool]]:
    """What is asked of one still, and whether it was seen rightly."""
    scene = truth.scene
    wanted = Counter({group.kind: group.count for group in scene.groups})
    wanted.update({"person": bool(scene.figure), "sign": bool(scene.sign)})
    wanted += Counter()
    found = Counter(thing.kind for thing in seen.things)
    for kind, number in wanted.items():
        yield "kind", found[kind] > 0
        yield "count", found[kind] == number
    yield "nothing else", not set(found) - set(wanted)
    yield "place", seen.place == scene.place.value
    yield "style", seen.style == scene.style.value
    for group in scene.groups:
        colours = [thing.colour for thing in seen.things if thing.kind == group.kind]
        if colours:
            yield "colour", group.colour in colours
        sizes = [thing.size for thing in seen.things if thing.kind == group.kind]
        if sizes and truth.task is RetrievalTask.OBJECT:
            yield "size", group.size.value in sizes
    people = [thing for thing in seen.things if thing.kind == "person"]
    if scene.figure and people:
        yield "action", people[0].action == scene.figure.action.value
        for garment, colour in people[0].clothes:
            yield garment, colour == getattr(scene.figure, garment)
        yield "hat or none", ("hat" in dict(people[0].clothes)) == bool(scene.figure.hat)
    if scene.sign:
        yield "word", any(thing.word == scene.sign for thing in seen.things)


def main() -> None:
    """Learns, if asked to, and measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fit", action="store_true", help="learn again and write knowledge.npz")
    parser.add_argument("--practice", type=int, default=1400)
    parser.add_argument("--stills", type=int, default=300)
    options = parser.parse_args()
    if options.fit:
        save_knowledge(learn(options.practice))
    started = time.perf_counter()
    for style, names in measure(options.stills).items():
        shares = ", ".join(f"{name} {100 * share:.1f} %" for name, share in names.items())
        print(f"{style}: {shares}")
    each_ms = (time.perf_counter() - started) / options.stills * 1000
    print(f"{each_ms:.0f} ms a still, drawing included")


if __name__ == "__main__":
    main()
