"""Draws scenes that are about a task, and variants of them that differ in a detail or two."""

from collections.abc import Callable, Iterator
from itertools import cycle

from models.builtin.drawing.figures import Figure
from models.builtin.drawing.vocabulary import COLOURS, HAIR, KINDS, SKIN, Action, Place, Style
from schemas.retrieval_task import RetrievalTask
from sources.demonstration.chance import Chance
from sources.demonstration.stills.scene import Group, Scene
from sources.demonstration.stills.vocabulary import WORDS, Relation, Size

TASKS = (
    RetrievalTask.COLOR,
    RetrievalTask.COUNT,
    RetrievalTask.LOCATION,
    RetrievalTask.FIGURE,
    RetrievalTask.OBJECT,
    RetrievalTask.ACTION,
    RetrievalTask.SCENE,
    RetrievalTask.OCR,
)
"""The tasks that stills are drawn for."""

_STYLES = {Style.FLAT: 0.79, Style.SKETCH: 0.07, Style.POSTER: 0.07, Style.MOSAIC: 0.07}
_SUPPORTS = ("box", "chair", "car", "book", "house")
_FAMILY = {2: 0.6, 3: 0.4}
_STANDING = tuple(kind for kind in KINDS if not KINDS[kind].flies)


def families(seed: int) -> Iterator[list[tuple[Scene, str | None]]]:
    """Families without end, no scene twice: (scene, what differs from the first of its family).

    What differs is None for the first. The tasks take turns.
    """
    seen: set[str] = set()
    for number, task in enumerate(cycle(TASKS)):
        chance = Chance(seed, "family", number)
        first = _fresh(chance, task, seen)
        family: list[tuple[Scene, str | None]] = [(first, None)]
        for _ in range(chance.weigh(_FAMILY) - 1):
            while True:
                scene, change = vary(chance, first)
                if scene.key() not in seen:
                    break
            seen.add(scene.key())
            family.append((scene, change))
        yield family


def _fresh(chance: Chance, task: RetrievalTask, seen: set[str]) -> Scene:
    while True:
        scene = compose(chance, task)
        if scene.key() not in seen:
            seen.add(scene.key())
            return scene


def compose(chance: Chance, task: RetrievalTask) -> Scene:
    """A scene that is about `task`."""
    style = chance.weigh(_STYLES)
    if task in (RetrievalTask.OCR, RetrievalTask.LOCATION) and style is Style.MOSAIC:
        style = Style.FLAT
    scene = Scene(task=task, place=chance.pick(tuple(Place)), style=style)
    return scene.model_copy(update=_CONTENTS[task](chance))


def _coloured(chance: Chance) -> dict[str, object]:
    return {"groups": _groups(chance, chance.pick((2, 2, 3)))}


def _counted(chance: Chance) -> dict[str, object]:
    first = _groups(chance, chance.pick((1, 2)))
    highest = 6 if len(first) == 1 else 4
    counted = tuple(
        group.model_copy(update={"count": chance.whole(2 if not place else 1, highest)})
        for place, group in enumerate(first)
    )
    return {"groups": counted}


def _located(chance: Chance) -> dict[str, object]:
    relation = chance.pick(tuple(Relation))
    one, two = _groups(chance, 2, kinds=_STANDING)
    if relation is Relation.ON:
        two = two.model_copy(update={"kind": chance.pick(_SUPPORTS)})
        two = two.model_copy(update={"colour": chance.pick(KINDS[two.kind].colours)})
        if one.kind == two.kind:
            one = _group(chance, "cat")
    if relation is Relation.ABOVE:
        one = _group(chance, chance.pick(("bird", "kite", "ball", "clock", "umbrella")))
        if one.kind == two.kind:
            two = _group(chance, "dog")
    return {"groups": (one, two), "relation": relation}


def _with_figure(chance: Chance, action: Action, things: int) -> dict[str, object]:
    return {"figure": _figure(chance, action), "groups": _groups(chance, things)}


def _seen_figure(chance: Chance) -> dict[str, object]:
    return _with_figure(chance, Action.STANDING, chance.pick((0, 1)))


def _acting(chance: Chance) -> dict[str, object]:
    actions = [action for action in Action if action is not Action.STANDING]
    return _with_figure(chance, chance.pick(actions), 1)


def _of_objects(chance: Chance) -> dict[str, object]:
    groups = _groups(chance, chance.pick((2, 3)))
    sized = (
        group.model_copy(update={"size": chance.pick((Size.SMALL, Size.MEDIUM, Size.LARGE))})
        for group in groups
    )
    return {"groups": tuple(sized)}


def _of_a_place(chance: Chance) -> dict[str, object]:
    return {"groups": _groups(chance, 1)}


def _signed(chance: Chance) -> dict[str, object]:
    return {"sign": chance.pick(WORDS), "groups": _groups(chance, 1)}


_CONTENTS: dict[RetrievalTask, Callable[[Chance], dict[str, object]]] = {
    RetrievalTask.COLOR: _coloured,
    RetrievalTask.COUNT: _counted,
    RetrievalTask.LOCATION: _located,
    RetrievalTask.FIGURE: _seen_figure,
    RetrievalTask.OBJECT: _of_objects,
    RetrievalTask.ACTION: _acting,
    RetrievalTask.SCENE: _of_a_place,
    RetrievalTask.OCR: _signed,
}


def _groups(chance: Chance, count: int, kinds: tuple[str, ...] = tuple(KINDS)) -> tuple[Group, ...]:
    """Single things of different kinds."""
    return tuple(_group(chance, kind) for kind in chance.shuffled(kinds)[:count])


def _group(chance: Chance, kind: str) -> Group:
    return Group(kind=kind, colour=chance.pick(KINDS[kind].colours))


def _figure(chance: Chance, action: Action) -> Figure:
    shirt, trousers, hat = chance.shuffled(tuple(COLOURS))[:3]
    return Figure(
        action=action,
        shirt=shirt,
        trousers=trousers,
        hat=hat if chance.happens(0.4) else None,
        hair=chance.pick(tuple(HAIR)),
        skin=chance.pick(tuple(SKIN)),
    )


def vary(chance: Chance, scene: Scene) -> tuple[Scene, str]:
    """A scene like another but for a detail or two, and which of these it is."""
    change = chance.weigh(_changes(scene))
    return scene.model_copy(update=_CHANGERS[change](chance, scene)), change


def _changes(scene: Scene) -> dict[str, float]:
    """What may change: what the scene's task is about, above all."""
    about = {
        RetrievalTask.COLOR: "colour", RetrievalTask.COUNT: "count",
        RetrievalTask.LOCATION: "relation", RetrievalTask.FIGURE: "clothes",
        RetrievalTask.OBJECT: "kind", RetrievalTask.ACTION: "action",
        RetrievalTask.SCENE: "place", RetrievalTask.OCR: "sign",
    }[scene.task]  # fmt: skip
    changes = {about: 3.0, "place": 0.7}
    if scene.groups:
        changes |= {"colour": max(0.7, changes.get("colour", 0.0))}
    return changes


def _other_colour(chance: Chance, scene: Scene) -> dict[str, object]:
    def change(group: Group) -> Group:
        others = [colour for colour in KINDS[group.kind].colours if colour != group.colour]
        return group.model_copy(update={"colour": chance.pick(others)})

    return {"groups": _one_changed(chance, scene, change)}


def _other_count(chance: Chance, scene: Scene) -> dict[str, object]:
    def change(group: Group) -> Group:
        highest = 6 if len(scene.groups) == 1 else 4
        near = [group.count + step for step in (-2, -1, 1, 2)]
        return group.model_copy(
            update={"count": chance.pick([count for count in near if 1 <= count <= highest])}
        )

    return {"groups": _one_changed(chance, scene, change)}


def _other_kind(chance: Chance, scene: Scene) -> dict[str, object]:
    taken = {group.kind for group in scene.groups}

    def change(group: Group) -> Group:
        fitting = [
            kind for kind in KINDS if kind not in taken and group.colour in KINDS[kind].colours
        ]
        return group.model_copy(update={"kind": chance.pick(fitting)})

    return {"groups": _one_changed(chance, scene, change)}


def _other_relation(chance: Chance, scene: Scene) -> dict[str, object]:
    opposite = {Relation.LEFT: Relation.RIGHT, Relation.RIGHT: Relation.LEFT}
    if scene.relation in opposite:
        return {"relation": opposite[scene.relation]}
    return {"relation": chance.pick((Relation.LEFT, Relation.RIGHT))}


def _other_clothes(chance: Chance, scene: Scene) -> dict[str, object]:
    if scene.figure is None:
        return _other_place(chance, scene)
    part = chance.pick(("shirt", "trousers", "hat"))
    worn = {scene.figure.shirt, scene.figure.trousers, scene.figure.hat}
    colour = chance.pick([colour for colour in COLOURS if colour not in worn])
    return {"figure": scene.figure.model_copy(update={part: colour})}


def _other_action(chance: Chance, scene: Scene) -> dict[str, object]:
    if scene.figure is None:
        return _other_place(chance, scene)
    others = [action for action in Action if action is not scene.figure.action]
    return {"figure": scene.figure.model_copy(update={"action": chance.pick(others)})}


def _other_place(chance: Chance, scene: Scene) -> dict[str, object]:
    return {"place": chance.pick([place for place in Place if place is not scene.place])}


def _other_sign(chance: Chance, scene: Scene) -> dict[str, object]:
    return {"sign": chance.pick([word for word in WORDS if word != scene.sign])}


def _one_changed(
    chance: Chance, scene: Scene, change: Callable[[Group], Group]
) -> tuple[Group, ...]:
    place = chance.whole(0, len(scene.groups) - 1)
    return tuple(
        change(group) if index == place else group for index, group in enumerate(scene.groups)
    )


_CHANGERS: dict[str, Callable[[Chance, Scene], dict[str, object]]] = {
    "colour": _other_colour,
    "count": _other_count,
    "kind": _other_kind,
    "relation": _other_relation,
    "clothes": _other_clothes,
    "action": _other_action,
    "place": _other_place,
    "sign": _other_sign,
}
