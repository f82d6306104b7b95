"""The origins of contrastive images: prompts, calls and models of their strategies."""

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


def origins(sample: Benchmark, home: Path, *images: str) -> dict[str, StrategyOrigin]:
    world = store_world(home, sample.world.contents())
    try:
        with snapshot(world.store) as connection:
            return strategy_origins(connection, images)
    finally:
        world.store.close()


def test_a_strategy_leads_to_its_prompt_and_call(tmp_path: Path) -> None:
    sample = benchmark(2)
    world, anchor = sample.world, sample.groups[0].anchor
    first = proposed_strategy(world, anchor, world.prompt, "first call", "a blue bus")
    other = proposed_strategy(world, anchor, world.prompt, "other call", "a green bus")
    images = [
        contrast(world, anchor, 70, place, method="edit", editor=f"an/editor@{place}", strategy=one)
        for place, one in enumerate((first, other))
    ]
    found = origins(sample, tmp_path, *images, *sample.groups[1].contrasts)
    prompts, models = frozenset([world.prompt]), frozenset([str(LLAMA)])
    assert found == {
        images[0]: StrategyOrigin(prompts, frozenset(["first call"]), models),
        images[1]: StrategyOrigin(prompts, frozenset(["other call"]), models),
    }


def test_a_strategy_edited_by_people_leads_to_the_original_prompt_and_call(tmp_path: Path) -> None:
    sample = benchmark(1)
    world, anchor = sample.world, sample.groups[0].anchor
    strategy = proposed_strategy(world, anchor, world.prompt, "a call", "a blue bus")
    for word in ("bright", "dark"):
        edited = strategy_of(f"a {word} blue bus", "a person")
        strategy = world.add(new_entity(edited, CCD, parents=[(Role.EDITED_FROM, strategy)]))
    image = contrast(world, anchor, 70, 0, method="edit", editor="an/editor@1", strategy=strategy)
    found = origins(sample, tmp_path, image)[image]
    assert found == StrategyOrigin(
        frozenset([world.prompt]), frozenset(["a call"]), frozenset([str(LLAMA)])
    )


def test_a_strategy_written_by_a_person_has_no_prompt_or_call(tmp_path: Path) -> None:
    sample = benchmark(1)
    world, anchor = sample.world, sample.groups[0].anchor
    strategy = world.add(new_entity(strategy_of("a blue bus", "a person"), CCD))
    image = contrast(world, anchor, 70, 0, method="edit", editor="an/editor@1", strategy=strategy)
    assert origins(sample, tmp_path, image) == {image: StrategyOrigin()}
