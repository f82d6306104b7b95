"""What a benchmark asked for and has; for benchmarks of tasks see `test_recos_completing`."""

from pathlib import Path

from loupe.db.entities import NewDecision, new_entity
from loupe.flows.ccd.pipeline import contrast_quotas
from loupe.flows.engine.quotas import Missing
from loupe.schemas.provenance import Role
from loupe.schemas.taxonomy import DifferenceType
from tests.db.samples import SOFTWARE
from tests.release.ccd_world import CCD, benchmark, contrast, strategy_of
from tests.release.worlds import store_world


def test_each_accepted_strategy_asks_for_an_image_of_its_type(tmp_path: Path) -> None:
    """One image has no captions, so that it is in no release."""
    made = benchmark(groups=2, size=1)
    world, (first, second) = made.world, made.groups
    contrast(world, second.anchor, 7, 5)  # without captions
    wanted = [
        (first.anchor, DifferenceType.ENTITY_TYPE),
        (second.anchor, DifferenceType.ENTITY_TYPE),
        (second.anchor, DifferenceType.SCENE_TYPE),
    ]
    for number, (anchor, difference) in enumerate(wanted):
        record = strategy_of(f"plan {number}", "model@1").model_copy(
            update={"difference": difference}
        )
        strategy = new_entity(record, CCD, parents=[(Role.ANCHOR, anchor)], group=anchor)
        world.decisions.append(NewDecision(world.add(strategy), "accept", SOFTWARE))
    stored = store_world(tmp_path / "world", world.contents())
    found = {one.what: (one.asked, one.reached) for one in contrast_quotas(stored.store, CCD)}
    stored.store.close()
    assert found.pop("anchors with contrastive images") == (2, 2)
    assert found.pop(f"contrastive images of type {DifferenceType.SCENE_TYPE.value}") == (1, 0)
    ((what, counts),) = found.items()
    assert what == f"contrastive images of type {DifferenceType.ENTITY_TYPE.value}"
    assert counts[0] == 2


def test_what_is_missing_is_said_with_its_reason() -> None:
    missing = Missing("share of identities for testing", 0.289, 0.41, "there is 1 video")
    said = "share of identities for testing: 0.41 of 0.289 (there is 1 video)"
    assert missing.sentence == said
    assert Missing("captions", 2000000, 1994).sentence == "captions: 1,994 of 2,000,000"
