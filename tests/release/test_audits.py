"""Audit results on the card and in the manifest, equal for every build."""

from pathlib import Path

from loupe.annotate.audits import draw_audit_sample, wanted
from loupe.annotate.queues import shipped
from loupe.annotate.statistics.label_errors import label_errors
from loupe.release.build import build_release
from loupe.release.contamination import Checks
from loupe.release.format.manifest import read_manifest
from loupe.release.verify import verify_release
from tests.db.review_samples import Desk, Verdict
from tests.release.worlds import DATASET, World, small_world, store_world

REWRITES = shipped().queue(DATASET, "rewrites")


def audit_rewrites(world: World, *, wrong: int) -> None:
    """Audit twenty accepted rewrites."""
    draw_audit_sample(world.store, REWRITES, 20, seed=1, by=("split",))
    desk = Desk(world.store, REWRITES.name)
    for number, item in enumerate(wanted(world.store, REWRITES)):
        verdict: Verdict = "reject" if number < wrong else "accept"
        desk.answer(item.entity_id, "reviewer-2", verdict, "audit")


def test_the_card_and_the_manifest_state_the_error_rate(world: World, tmp_path: Path) -> None:
    audit_rewrites(world, wrong=3)
    built = build_release(world.store, world.blobs, DATASET, "1.0.0", tmp_path / "out")
    (audit,) = built.manifest.statistics.audits
    assert (audit.queue, audit.drawn, audit.audited, audit.wrong) == (REWRITES.name, 20, 20, 3)
    card = (tmp_path / "out/README.md").read_text("utf-8")
    assert "## Quality" in card
    assert (
        "- ufine3c-rewrites: audit sample: 3 of 20 wrong, 15.0 % (95 % interval 5.2–36.0 %)" in card
    )
    assert verify_release(tmp_path / "out").problems == []
    assert read_manifest(tmp_path / "out") == built.manifest


def test_equal_audits_give_identical_bytes(world: World, tmp_path: Path) -> None:
    other = store_world(tmp_path / "other", small_world().contents(), shuffle=7, days=3)
    manifests = []
    for number, one in enumerate((world, other)):
        audit_rewrites(one, wrong=2)
        out = tmp_path / f"out-{number}"
        build_release(one.store, one.blobs, DATASET, "1.0.0", out)
        manifests.append((out / "manifest.json").read_bytes())
    other.store.close()
    assert manifests[0] == manifests[1]


def test_the_card_states_the_error_of_the_labels_and_how_it_was_measured(
    world: World, tmp_path: Path
) -> None:
    audit_rewrites(world, wrong=3)
    errors = label_errors(world.store, REWRITES)
    assert errors is not None
    checks = Checks(errors=lambda: (errors.statistics,))
    built = build_release(
        world.store, world.blobs, DATASET, "1.0.0", tmp_path / "out", checks=checks
    )
    (found,) = built.manifest.statistics.errors
    assert (found.queue, found.audited) == (REWRITES.name, 20)
    assert found.lower <= found.error_rate <= found.upper
    card = (tmp_path / "out/README.md").read_text("utf-8")
    assert "the model of Dawid and Skene estimates how often each person overlooks" in card
    assert f"| {REWRITES.name} | all | {found.items} | {found.answered} | 20 |" in card
    assert verify_release(tmp_path / "out").problems == []
