"""Planted false negatives: an image that fits the caption of another must not confuse it."""

from pathlib import Path

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from loupe.db.entities import fetch, parents_of
from loupe.db.store import Store
from loupe.demo.embedder import StillsLexiconEmbedder
from loupe.demo.worlds.stills import (
    load_stills_truth,
    write_stills_world,
)
from loupe.flows.engine.pipeline import run_pipeline
from loupe.flows.recos.pipeline import recos_pipeline
from loupe.flows.recos.run import images_of_tier
from loupe.schemas.build import RecosBuild, TaskSpec
from loupe.schemas.embedding import BuiltinStillsEmbedder
from loupe.schemas.provenance import Role
from loupe.schemas.records import Image
from tests.flows.recos_world import DATASET, SHOWN, no_desks, small_profile, stills_source
from tests.flows.runs import context_of


def test_an_image_that_fits_the_caption_is_not_chosen_as_similar(
    sqlite_store: Store, tmp_path: Path
) -> None:
    """The other image of a pair is nearer than most, and yet not chosen."""
    stills = write_stills_world(tmp_path / "stills", seed=11, count=60, same_caption_pairs=30)
    truths = load_stills_truth(stills.folder)
    by_id = {one.image_id: one for one in truths}
    pairs = [one for one in truths if one.same_caption_as is not None]
    partner = {by_id[one.same_caption_as or 0].file_name: one.file_name for one in pairs}
    tasks = []
    for task in SHOWN:
        names = tmp_path / f"{task}.txt"
        named = [one.file_name for one in truths if one.task is task and one.file_name in partner]
        names.write_text("\n".join(named), encoding="utf-8")
        tasks.append(TaskSpec(task=task, images=len(named), source="stills", names=names))
    source = stills_source(stills)
    build = RecosBuild(
        dataset=DATASET, seed=3, last="v1", sources=(source,), tasks=tuple(tasks), neighbours=4
    )
    run = context_of(sqlite_store, tmp_path / "home")
    run_pipeline(run, recos_pipeline(), build, small_profile(), no_desks)

    found = images_of_tier(run.store, DATASET, "v1")
    partners = parents_of(run.store, [one.id for one in found], Role.SIMILAR_TO)
    images = fetch(run.store, {one[0] for one in partners.values()})
    chosen = {
        images[partners[one.id][0]].record(Image).file_path: one.record(Image).file_path
        for one in found
    }
    v0_paths = {one.record(Image).file_path for one in images_of_tier(run.store, DATASET, "v0")}
    assert len(v0_paths) >= 7
    assert v0_paths <= partner.keys()
    assert chosen, "other images are similar and may be chosen"
    assert not [name for name, similar in chosen.items() if partner[name] == similar]
    nearer = count_nearer_partners(stills.image_root, chosen, partner)
    assert nearer > 0, "by similarity alone, some would have been chosen"


def count_nearer_partners(root: Path, chosen: dict[str, str], partner: dict[str, str]) -> int:
    """Count images whose partner is nearer than the similar image that was chosen."""
    embedder = StillsLexiconEmbedder(BuiltinStillsEmbedder())

    def row(name: str) -> NDArray[np.float32]:
        with PIL.Image.open(root / name) as picture:
            return np.asarray(embedder.embed_images([picture.convert("RGB")])[0])

    return sum(
        bool(row(name) @ row(partner[name]) > row(name) @ row(similar))
        for name, similar in chosen.items()
    )
