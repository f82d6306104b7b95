"""What stands behind contrastive images: prompts, calls and models of their strategies."""

from pathlib import Path

from db.entities import new_entity
from db.origins import StrategyOrigin, strategy_origins
from db.release_rows import snapshot
from schemas.provenance import Role
from tests.release.ccd_world import (
    CCD,
    Benchmark,
    benchmark,
    contrast,
    proposed_strategy,
    strategy_of,
)
from tests.release.worlds import LLAMA, store_world


def origins(made: Benchmark, home: Path, *images: str) -> dict[str, StrategyOrigin]:
    world = store_world(home, made.world.contents())
    try:
        with snapshot(world.store) as connection:
            return strategy_origins(connection, images)
    finally:
        world.store.close()


def test_a_strategy_leads_to_its_prompt_and_call(tmp_path: Path) -> None:
    made = benchmark(2)
    world, anchor = made.world, made.groups[0].anchor
    first = proposed_strategy(world, anchor, world.prompt, "first call", "a blue bus")
    other = proposed_strategy(world, anchor, world.prompt, "other call", "a green bus")
    images = [
        contrast(world, anchor, 70, place, way="edit", editor=f"an/editor@{place}", strategy=one)
        for place, one in enumerate((first, other))
    ]
    found = origins(made, tmp_path, *images, *made.groups[1].contrasts)
    prompts, models = frozenset([world.prompt]), frozenset([str(LLAMA)])
    assert found == {
        images[0]: StrategyOrigin(prompts, frozenset(["first call"]), models),
        images[1]: StrategyOrigin(prompts, frozenset(["other call"]), models),
    }


def test_what_people_changed_leads_to_what_they_were_shown(tmp_path: Path) -> None:
    made = benchmark(1)
    world, anchor = made.world, made.groups[0].anchor
    strategy = proposed_strategy(world, anchor, world.prompt, "a call", "a blue bus")
    for word in ("bright", "dark"):
        edited = strategy_of(f"a {word} blue bus", "a person")
        strategy = world.add(new_entity(edited, CCD, parents=[(Role.EDITED_FROM, strategy)]))
    image = contrast(world, anchor, 70, 0, way="edit", editor="an/editor@1", strategy=strategy)
    found = origins(made, tmp_path, image)[image]
    assert found == StrategyOrigin(
        frozenset([world.prompt]), frozenset(["a call"]), frozenset([str(LLAMA)])
    )


def test_a_strategy_that_a_person_wrote_leads_to_nothing(tmp_path: Path) -> None:
    made = benchmark(1)
    world, anchor = made.world, made.groups[0].anchor
    strategy = world.add(new_entity(strategy_of("a blue bus", "a person"), CCD))
    image = contrast(world, anchor, 70, 0, way="edit", editor="an/editor@1", strategy=strategy)
    assert origins(made, tmp_path, image) == {image: StrategyOrigin()}
