"""A small contrastive benchmark in a real store: anchors and their contrastive images."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from loupe.db.entities import NewDecision, new_entity
from loupe.schemas.base import Split, sha256_of
from loupe.schemas.proposals import Candidate, EditedImage, Strategy
from loupe.schemas.provenance import Role
from loupe.schemas.records import (
    Attribution,
    Caption,
    Contrast,
    Granularity,
    Image,
    Picture,
    Source,
)
from loupe.schemas.taxonomy import DifferenceType
from tests.release.worlds import GATE, LLAMA, QWEN, Composer, model_call, picture, source

CCD = "coco-ccd"
COCO = source("coco", Granularity.COARSE, format="karpathy-coco", licence="CC BY 4.0")
OPENVERSE = source("openverse", None, format="image-search", licence="Each image under its own")
CAPTIONS = 5
KINDS = tuple(DifferenceType)
FOUND = Attribution(
    licence="CC-BY-SA-4.0", creator="Ada [Lovelace]", source_url="https://example.org/a_b/1"
)


class Group(NamedTuple):
    """Entity ids of an anchor and its contrastive images."""

    anchor: str
    contrasts: tuple[str, ...]


class Benchmark(NamedTuple):
    """A composed dataset and its groups."""

    world: Composer
    groups: tuple[Group, ...]


def benchmark(
    groups: int = 6, size: int = 2, *, coarse: bool = True, split: Split = "test"
) -> Benchmark:
    """Compose groups of an anchor and `size` contrastive images of all types.

    The contrastive images are alternately searched and edited.
    """
    world = Composer(CCD)
    made = []
    for number in range(groups):
        anchor = world.image(COCO, str(100 - number), f"val/COCO_{100 - number}.jpg", split=split)
        if coarse:
            for position in range(CAPTIONS):
                coarse_caption(world, anchor, f"A street {number}, said {position}.", position)
        refine(world, anchor, COCO, f"the anchor {number}")
        contrasts = []
        for place in range(size):
            kind = KINDS[(number * size + place) % len(KINDS)]
            method: Literal["search", "edit"] = "edit" if (number + place) % 2 else "search"
            image = contrast(
                world, anchor, number, place, difference=kind, method=method, split=split
            )
            refine(
                world, image, OPENVERSE if method == "search" else COCO, f"{kind} {number} {place}"
            )
            contrasts.append(image)
        made.append(Group(anchor, tuple(contrasts)))
    return Benchmark(world, tuple(made))


def contrast(
    world: Composer,
    anchor: str,
    number: int,
    place: int,
    *,
    difference: DifferenceType = DifferenceType.ENTITY_TYPE,
    method: Literal["search", "edit"] = "search",
    editor: str | None = None,
    strategy: str | None = None,
    **changes: Any,
) -> str:
    """Add a contrastive image: searched, with its own licence terms, or edited."""
    of = OPENVERSE if method == "search" else COCO
    origin = world.add(new_entity(of, of.name))
    data = picture(1000 + 10 * number + place)
    world.pictures.append(data)
    values: dict[str, Any] = {
        "source": of.name,
        "identity": str(100 - number),
        "split": "test",
        "file_path": f"val/COCO_{100 - number}-{place}",
        "sha256": sha256_of(data),
        "source_sha256": sha256_of(data),
        "media_type": "image/jpeg",
        "width_px": 12,
        "height_px": 24,
        "attribution": FOUND if method == "search" else None,
        "contrast": Contrast(
            anchor_id=anchor,
            difference=difference,
            detail="a red bus",
            plan="a blue bus",
            method=method,
        ),
    }
    record = Image(**(values | changes))
    parents = [(Role.CONTRAST_OF, anchor), (Role.IMPORTED_FROM, origin)]
    if editor is not None:
        made_for = [(Role.MADE_FOR, strategy)] if strategy else []
        candidate = new_entity(_edited(data, editor), CCD, parents=made_for)
        parents.append((Role.ACCEPTED_FROM, world.add(candidate)))
    return world.add(new_entity(record, world.dataset, parents=parents, group=anchor))


def _edited(data: bytes, editor: str) -> Candidate:
    shown = Picture(sha256=sha256_of(data), media_type="image/jpeg", width_px=12, height_px=24)
    return Candidate(
        source=COCO.name,
        anchor=shown,
        caption="A red bus.",
        detail="a red bus",
        difference=DifferenceType.ENTITY_TYPE,
        plan="a blue bus",
        contrastive_caption="A blue bus.",
        image=shown,
        origin=EditedImage(model=editor, instruction="Make it blue.", seed=0, steps=28),
    )


def proposed_strategy(world: Composer, anchor: str, prompt: str, call: str, plan: str) -> str:
    """Add a strategy for an anchor that a model proposed in a call."""
    world.calls[call] = model_call(call, LLAMA)
    parents = [(Role.ANCHOR, anchor), (Role.PROMPTED_BY, prompt)]
    strategy = strategy_of(plan, str(LLAMA))
    return world.add(new_entity(strategy, CCD, parents=parents, model_call=call))


def strategy_of(plan: str, author: str) -> Strategy:
    """A strategy for an arbitrary anchor."""
    shown = Picture(sha256="a" * 64, media_type="image/jpeg", width_px=12, height_px=24)
    return Strategy(
        source=COCO.name,
        anchor=shown,
        caption="A red bus.",
        detail="a red bus",
        difference=DifferenceType.ENTITY_TYPE,
        plan=plan,
        contrastive_caption="A blue bus.",
        editing_instruction="Make it blue.",
        author=author,
    )


def coarse_caption(world: Composer, image: str, text: str, position: int) -> str:
    """Add a coarse caption from the source of an anchor."""
    record = Caption(source=COCO.name, text=text, position=position, granularity=Granularity.COARSE)
    return world.add(
        new_entity(record, world.dataset, parents=[(Role.DESCRIBES, image)], group=image)
    )


def refine(world: Composer, image: str, of: Source, what: str) -> Sequence[str]:
    """Add captions written by a model and accepted by annotators."""
    return [
        drafted(world, image, of, f"A picture of {what}, in detail {place}.", place)
        for place in range(CAPTIONS)
    ]


def drafted(
    world: Composer, image: str, of: Source, text: str, position: int, language: str | None = None
) -> str:
    """Add a caption written by a model and accepted by annotators."""
    record = Caption(
        source=of.name, text=text, position=position, author=str(QWEN), language=language
    )
    key = sha256_of(f"{image}{text}".encode())[:32]
    world.calls[key] = model_call(key, QWEN)
    parents = [(Role.DESCRIBES, image), (Role.PROMPTED_BY, world.prompt)]
    caption = world.add(
        new_entity(record, world.dataset, parents=parents, group=image, model_call=key)
    )
    world.decisions.append(NewDecision(caption, "accept", GATE))
    return caption
