"""Effect of training on contrastive pairs: FG-CDA by difference type on held-out groups.

Run from the repository root: `python -m benchmarks.pair_training`. For each seed, a small CLIP is
trained from scratch with InfoNCE on drawn stills. From there it is trained for equally many steps
with InfoNCE on ordinary batches, with in-group hard negatives alone, and with the contrast loss,
on the same groups. Stills are drawn without the strip that encodes their scene.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.cfam_training import INFO_NCE, Silent, export_clip
from flows.evaluation.training import load_training
from models.builtin.stills.contraster import StillsContraster
from models.builtin.stills.drawing import draw_still
from models.builtin.stills.editor import changed_scene, read_change
from models.builtin.stills.scene import STRIP_BOX, WIDTH_PX, Scene
from models.builtin.stills.text import content_of, details_of, write
from retrieval.cfam.training_data import TrainingImage, TrainingSplits, hold_out_identities
from schemas.cfam import CfamTraining
from schemas.chat import ChatImage, ChatRequest
from schemas.profile import BuiltinContraster
from schemas.requests import (
    INSTRUCTION_FIELD,
    STRATEGIES_FIELD,
    STRATEGY_PURPOSE,
    TYPE_FIELD,
    StrategyBrief,
)
from schemas.taxonomy import DifferenceType
from sources.demonstration.stills import StillTruth, jpeg_of, plan_stills

FIRST_STILLS, GROUPS = 600, 150
HELD_OUT = 1 / 3
ARMS = {"InfoNCE": 0.0, "in-group negatives": 1e-6, "contrast": 1.0}


def image_of(folder: Path, name: str, scene: Scene) -> Path:
    """Write the still without its strip and return its path."""
    path = folder / f"{name}.jpg"
    path.write_bytes(jpeg_of(draw_still(scene).crop((0, 0, WIDTH_PX, int(STRIP_BOX[1])))))
    return path


def captions_of(scene: Scene) -> tuple[str, ...]:
    """Complete captions of a scene in several wordings."""
    content = content_of(scene)
    return tuple(write(content, details_of(content))[:5])


def group_of(folder: Path, truth: StillTruth) -> Iterator[TrainingImage]:
    """Yield an anchor and its edits as proposed by the built-in contraster."""
    group = f"group-{truth.image_id}"
    yield TrainingImage(image_of(folder, group, truth.scene), group, captions_of(truth.scene))
    still = ChatImage(media_type="image/jpeg", data=jpeg_of(draw_still(truth.scene)))
    request = ChatRequest(
        purpose=STRATEGY_PURPOSE,
        prompt="",
        prompt_digest="",
        subject=StrategyBrief(caption=truth.captions[0]).text(),
        images=(still,),
    )
    answer = json.loads(StillsContraster(BuiltinContraster()).text_for(request))
    for number, strategy in enumerate(answer[STRATEGIES_FIELD]):
        change = read_change(strategy[INSTRUCTION_FIELD])
        if change is not None:
            scene = changed_scene(truth.scene, change)
            path = image_of(folder, f"{group}-{number}", scene)
            kind = DifferenceType(strategy[TYPE_FIELD])
            yield TrainingImage(path, group, captions_of(scene), kind)


def trained(
    settings: CfamTraining, splits: TrainingSplits, held_out: TrainingSplits, home: Path
) -> dict[str, float]:
    """Train, and score the last checkpoint on the held-out groups."""
    import torch

    from retrieval.cfam.network.checkpoints import load_model
    from retrieval.cfam.network.training import contrast_scores, embed_pairs, train

    train(settings, splits, home, Silent())
    model, groups = load_model(home / "last"), held_out.validation
    return contrast_scores(embed_pairs(model, groups, settings, torch.device("cpu")), groups)


def drawn(folder: Path) -> tuple[list[TrainingImage], list[TrainingImage]]:
    """Stills of the first training, and contrastive groups."""
    firsts = [
        TrainingImage(
            image_of(folder, f"first-{one.image_id}", one.scene),
            str(one.image_id),
            captions_of(one.scene),
        )
        for one in plan_stills(1, FIRST_STILLS)
    ]
    anchors = (one for one in plan_stills(0, 4 * GROUPS) if one.change is None)
    groups = [image for one in islice(anchors, GROUPS) for image in group_of(folder, one)]
    return firsts, groups


def compare(
    firsts: list[TrainingImage],
    groups: list[TrainingImage],
    seed: int,
    epochs: tuple[int, int],
    home: Path,
) -> dict[str, dict[str, float]]:
    """Scores of the small CLIP before and after each kind of training."""
    splits = hold_out_identities(groups, HELD_OUT, seed)
    demo = load_training("demo")
    plain = demo.model_copy(
        update={
            "seed": seed,
            "workers": 0,
            "losses": INFO_NCE,
            "backbone": demo.backbone.model_copy(
                update={"image_height_px": 40, "image_width_px": 56, "text_tokens": 40}
            ),
            "augmentation": load_training("pairs").augmentation,
            "schedule": demo.schedule.model_copy(update={"epochs": epochs[0]}),
        }
    )
    start = TrainingSplits(tuple(firsts), ())
    results = {"before": trained(plain, start, splits, home / "start")}
    export_clip(home / "start" / "last", home / "clip.safetensors")
    contrasts = sum(len(one.captions) for one in splits.training if one.difference)
    longer = 2 * contrasts / sum(len(one.captions) for one in splits.training)
    for name, weight in ARMS.items():
        settings = plain.model_copy(
            update={
                "losses": INFO_NCE.model_copy(update={"contrast": weight}),
                "backbone": plain.backbone.model_copy(
                    update={"checkpoint": home / "clip.safetensors"}
                ),
                "schedule": plain.schedule.model_copy(
                    update={"epochs": epochs[1] if weight else round(epochs[1] * longer)}
                ),
            }
        )
        alone = splits._replace(validation=())
        results[name] = trained(settings, alone, splits, home / name)
    return results


def main() -> None:
    """Print the table with the mean, minimum and maximum over seeds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, nargs=2, default=(8, 4), help="first, then")
    given = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        worlds = drawn(Path(scratch))
        for seed in range(given.seeds):
            home = Path(scratch) / str(seed)
            found.append(compare(*worlds, seed, tuple(given.epochs), home))
            print(json.dumps(found[-1]), flush=True)
    table = Table("held-out groups", *found[0])
    for score in ("R@1", "FG-CDA", *(f"FG-CDA {kind}" for kind in DifferenceType)):
        if score in found[0]["before"]:
            values = [[one[arm][score] for one in found] for arm in found[0]]
            table.add_row(
                score,
                *(f"{np.mean(one):.1f} ({min(one):.1f} … {max(one):.1f})" for one in values),
            )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
