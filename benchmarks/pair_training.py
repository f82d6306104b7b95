"""Effect of training on contrastive pairs: FG-CDA by difference type on held-out groups.

Run from the repository root: `python -m benchmarks.pair_training` (about 15 minutes, two cores).
For each seed, a small CLIP is trained from scratch with InfoNCE on drawn stills. From there it is
trained for about as many steps with InfoNCE on ordinary batches, with in-group hard negatives
alone, and with the contrast loss, on the same groups. Stills are drawn without the strip that
encodes their scene. Every second contrastive image is drawn in another layout, as if it had been
found; the others are edits of the anchor.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image
from rich.console import Console
from rich.table import Table

from benchmarks.cfam_training import INFO_NCE, Silent, export_clip
from flows.ccd.edit_measures import change_between
from flows.evaluation.training import load_training
from models.builtin.stills.contraster import StillsContraster
from models.builtin.stills.drawing import draw_still
from models.builtin.stills.editor import changed_scene, read_change
from models.builtin.stills.scene import STRIP_BOX, WIDTH_PX, Scene
from models.builtin.stills.text import content_of, details_of, write
from retrieval.cfam.training_data import TrainingImage, TrainingSplits, hold_out_identities
from retrieval.contrastive import ContrastiveSamples, contrast_accuracy, groups_by_difference
from retrieval.logistic import guess_methods
from schemas.cfam import CfamTraining
from schemas.chat import ChatImage, ChatRequest
from schemas.profile import BuiltinContraster, EditCheckSettings
from schemas.requests import (
    INSTRUCTION_FIELD,
    STRATEGIES_FIELD,
    STRATEGY_PURPOSE,
    TYPE_FIELD,
    StrategyBrief,
)
from schemas.taxonomy import DifferenceType
from sources.demonstration.people import Chance
from sources.demonstration.stills import StillTruth, jpeg_of, lay_out, plan_stills

FIRST_STILLS, GROUPS = 400, 72
HELD_OUT = 1 / 3
ARMS = {"InfoNCE": 0.0, "in-group negatives": 1e-6, "contrast": 1.0}
SIZE_PX = (56, 40)
SMALL_CLIP = {
    "embed_dim": 64,
    "quick_gelu": False,
    "vision_cfg": {"image_size": 40, "layers": 2, "width": 64, "head_width": 32, "patch_size": 8},
    "text_cfg": {"context_length": 40, "vocab_size": 49408, "width": 64, "heads": 2, "layers": 2},
}


class Still(NamedTuple):
    """An image with how it was obtained, and the share of the anchor that an edit changed."""

    image: TrainingImage
    method: str | None = None
    area: float | None = None


def picture_of(scene: Scene) -> Image.Image:
    """The still without its strip."""
    return draw_still(scene).crop((0, 0, WIDTH_PX, int(STRIP_BOX[1])))


def still_of(
    folder: Path, name: str, group: str, scene: Scene, kind: DifferenceType | None = None
) -> TrainingImage:
    """A still at the network's size, with complete captions in several forms."""
    path = folder / f"{name}.png"
    picture_of(scene).resize(SIZE_PX, Image.Resampling.BICUBIC).save(path)
    content = content_of(scene)
    return TrainingImage(path, group, tuple(write(content, details_of(content))[:5]), kind)


def group_of(folder: Path, truth: StillTruth) -> Iterator[Still]:
    """An anchor and what the built-in strategist proposes, edited or drawn in another layout."""
    group, anchor = f"group-{truth.image_id}", picture_of(truth.scene)
    yield Still(still_of(folder, group, group, truth.scene))
    request = ChatRequest(
        purpose=STRATEGY_PURPOSE,
        prompt="",
        prompt_digest="",
        subject=StrategyBrief(caption=truth.captions[0]).text(),
        images=(ChatImage(media_type="image/jpeg", data=jpeg_of(draw_still(truth.scene))),),
    )
    answer = json.loads(StillsContraster(BuiltinContraster()).text_for(request))
    for number, strategy in enumerate(answer[STRATEGIES_FIELD]):
        change = read_change(strategy[INSTRUCTION_FIELD])
        if change is not None:
            name, kind = f"{group}-{number}", DifferenceType(strategy[TYPE_FIELD])
            scene = changed_scene(truth.scene, change)
            if (truth.image_id + number) % 2 or kind is DifferenceType.ENTITY_RELATION:
                settings = EditCheckSettings(side_px=128)
                area = change_between(anchor, picture_of(scene), settings).mask.mean()
                yield Still(still_of(folder, name, group, scene, kind), "edit", float(area))
            else:
                content = content_of(scene)._replace(relations=())
                scene = lay_out(content, Chance("found", name))
                yield Still(still_of(folder, name, group, scene, kind), "search")


def trained(
    settings: CfamTraining, splits: TrainingSplits, held_out: list[Still], home: Path
) -> dict[str, float]:
    """Trains, and scores the last checkpoint on the groups that are held out."""
    import torch

    from retrieval.cfam.network.checkpoints import load_model
    from retrieval.cfam.network.training import contrast_scores, embed_pairs, train

    train(settings, splits, home, Silent())
    images = [one.image for one in held_out]
    found = embed_pairs(load_model(home / "last"), images, settings, torch.device("cpu"))
    anchors = {one.identity: at for at, one in enumerate(images) if one.difference is None}
    samples = ContrastiveSamples(
        tuple(one.path.name for one in images),
        np.array([anchors[one.identity] for one in images]),
        tuple(one.difference for one in images),
        np.array([len(one.captions) for one in images]),
        tuple(one.method for one in held_out),
        tuple(one.area for one in held_out),
    )
    scores = contrast_scores(found, images)
    by_group: dict[str, list[float]] = {}
    for direction, accuracy in contrast_accuracy(found.images, found.texts, samples).items():
        for one in groups_by_difference(direction, accuracy, samples):
            if one.dimension in ("method", "area"):
                values = by_group.setdefault(f"FG-CDA {one.group}", [])
                values.append(one.scores["FG-CDA"].value)
    guess = guess_methods(found.images, samples)
    if guess is not None:
        scores |= {"edited or found": guess.accuracy, "… by its anchor": guess.of_anchors}
        scores["… always the more frequent"] = guess.most_frequent
    return scores | {name: sum(values) / len(values) for name, values in by_group.items()}


def drawn(folder: Path) -> tuple[list[TrainingImage], list[Still]]:
    """The stills that the first training sees, and the groups."""
    firsts = [
        still_of(folder, f"first-{one.image_id}", str(one.image_id), one.scene)
        for one in plan_stills(1, FIRST_STILLS)
    ]
    anchors = (one for one in plan_stills(0, 4 * GROUPS) if one.change is None)
    return firsts, [one for truth in islice(anchors, GROUPS) for one in group_of(folder, truth)]


def plain_training(seed: int, epochs: int, home: Path) -> CfamTraining:
    """The training of a small CLIP with InfoNCE; its architecture is written to `home`."""
    home.mkdir()
    (home / "clip.json").write_text(json.dumps(SMALL_CLIP), encoding="utf-8")
    demo = load_training("demo")
    backbone = {
        "architecture_file": home / "clip.json",
        "image_height_px": SIZE_PX[1],
        "image_width_px": SIZE_PX[0],
        "text_tokens": 40,
    }
    schedule = {"epochs": epochs, "learning_rate": 2e-3}
    return demo.model_copy(
        update={
            "seed": seed,
            "workers": 0,
            "losses": INFO_NCE,
            "backbone": demo.backbone.model_copy(update=backbone),
            "augmentation": load_training("pairs").augmentation,
            "schedule": demo.schedule.model_copy(update=schedule),
        }
    )


def compare(
    firsts: list[TrainingImage],
    groups: list[Still],
    seed: int,
    epochs: tuple[int, int],
    home: Path,
) -> dict[str, dict[str, float]]:
    """The scores of the small CLIP before, and after each kind of training."""
    plain = plain_training(seed, epochs[0], home)
    splits = hold_out_identities([one.image for one in groups], HELD_OUT, seed)
    held_out = [one for one in groups if one.image in splits.validation]
    start = TrainingSplits(tuple(firsts), ())
    results = {"before": trained(plain, start, held_out, home / "start")}
    export_clip(home / "start" / "last", home / "clip.safetensors")
    contrasts = sum(len(one.captions) for one in splits.training if one.difference)
    longer = 2 * contrasts / sum(len(one.captions) for one in splits.training)
    for name, weight in ARMS.items():
        schedule = {"epochs": epochs[1] if weight else round(epochs[1] * longer)}
        settings = plain.model_copy(
            update={
                "losses": INFO_NCE.model_copy(update={"contrast": weight}),
                "backbone": plain.backbone.model_copy(
                    update={"checkpoint": home / "clip.safetensors"}
                ),
                "schedule": plain.schedule.model_copy(update=schedule),
            }
        )
        alone = splits._replace(validation=())
        results[name] = trained(settings, alone, held_out, home / name)
    return results


def main() -> None:
    """Prints the table: the mean over seeds, and the lowest and the highest."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, nargs=2, default=(3, 2), help="first, then")
    given = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        worlds = drawn(Path(scratch))
        for seed in range(given.seeds):
            home = Path(scratch) / str(seed)
            found.append(compare(*worlds, seed, tuple(given.epochs), home))
            print(json.dumps(found[-1]), flush=True)
    table = Table("held-out groups", *found[0])
    left_out = ("R@5", "R@10", "mAP", "mSD", "mINP", "median_rank")
    for score in (one for one in found[0]["before"] if one not in left_out):
        values = [[one[arm][score] for one in found if score in one[arm]] for arm in found[0]]
        table.add_row(
            score, *(f"{np.mean(one):.1f} ({min(one):.1f} … {max(one):.1f})" for one in values)
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
