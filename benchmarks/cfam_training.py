"""Learning of CFAM on a demonstration world, and speed of steps of its full-size network.

Run from the repository root: `python -m benchmarks.cfam_training`. The demonstration uses drawn
people: a small CLIP is trained from scratch with InfoNCE; from there, training continues with the
losses of CFAM and with InfoNCE for equally many steps, and both are scored on unseen people.
(CFAM's losses do not converge from random weights, see docs/training.md; the paper starts from a
trained CLIP, too.) Then steps of the full-size network are compared with those of its bare CLIP,
on a GPU if there is one.
"""

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.cfam_steps import measure_steps
from loupe.demo.worlds import DemonstrationWorld, load_truth, write_people_world
from loupe.demo.worlds.writing import TrueIdentity
from loupe.flows.evaluation.training import load_training
from loupe.retrieval.cfam.training_data import TrainingImage, hold_out_identities
from loupe.retrieval.evaluation import chance_scores
from loupe.retrieval.ranking import bootstrap_means
from loupe.schemas.cfam import CfamLosses, CfamTraining, StepLine, ValidationLine

WORLD_SEED = 11
TRAINED, TESTED = 120, 50  # identities of each of the three sources
INFO_NCE = CfamLosses(
    global_sdm=0, local_sdm=0, matching=0, identity=0, info_nce=1, temperature=0.07
)
CFAM = CfamLosses(temperature=0.07)


class Scored(NamedTuple):
    """Seconds of a training, and R@1 (0 or 100), average precision and identity of each query."""

    seconds: float
    hits: NDArray[np.float64]
    precision: NDArray[np.float64]
    owners: NDArray[np.int64]
    matches: NDArray[np.int64]


class Silent:
    """A training observer that ignores everything."""

    def begin(self, _steps: int, _done: int) -> None:
        """Do nothing."""

    def stepped(self, _: StepLine) -> None:
        """Do nothing."""

    def validated(self, _: ValidationLine) -> None:
        """Do nothing."""


class People(NamedTuple):
    """Training and test images of a world."""

    trained: list[TrainingImage]
    tested: list[TrainingImage]


def people(folder: Path, trained: int, tested: int) -> People:
    """Load a world, or draw it if it does not exist yet."""
    if not (folder / "world.json").exists():
        world = write_people_world(folder, WORLD_SEED, tested, trained, 0)
        (folder / "world.json").write_text(world.model_dump_json(), encoding="utf-8")
    world = DemonstrationWorld.model_validate_json((folder / "world.json").read_bytes())
    truth = load_truth(folder)
    images: dict[str, list[TrainingImage]] = {"train": [], "val": [], "test": []}
    for source in world.sources:
        for identity in truth[source.name]:
            images[identity.split] += _images(Path(source.images), source.name, identity)
    return People(images["train"], images["test"])


def _images(home: Path, source: str, identity: TrueIdentity) -> Iterator[TrainingImage]:
    for image in identity.images:
        name = f"{source}/{identity.id}"
        yield TrainingImage(home / image.file_path, name, image.captions)


def trained(settings: CfamTraining, world: People, home: Path) -> Scored:
    """Train, and score the last checkpoint on unseen people."""
    import torch

    from loupe.retrieval.cfam.network.checkpoints import load_model
    from loupe.retrieval.cfam.network.training import embed_pairs, train
    from loupe.retrieval.ranking import score_retrieval

    splits = hold_out_identities(world.trained, settings.validation_share, seed=0)
    came = train(settings, splits, home, Silent())
    if came is None:
        raise RuntimeError("the benchmark trains in one process")
    found = embed_pairs(load_model(home / "last"), world.tested, settings, torch.device("cpu"))
    scores = score_retrieval(
        found.texts, found.images, found.text_identities, found.image_identities
    )
    by_query = scores.by_query
    return Scored(
        came.seconds, by_query["R@1"], by_query["mAP"], found.text_identities, scores.matches
    )


def export_clip(checkpoint: Path, target: Path) -> None:
    """Write the CLIP of a checkpoint as weights that OpenCLIP, and so CFAM, can start from."""
    from safetensors.torch import save_file

    from loupe.retrieval.cfam.network.checkpoints import load_model

    state = load_model(checkpoint).backbone.clip.state_dict()
    save_file({name: tensor.contiguous() for name, tensor in state.items()}, target)


def compare(world: People, seed: int, epochs: tuple[int, int], home: Path) -> dict[str, Scored]:
    """Scores of the small CLIP and of its further training with CFAM and InfoNCE."""
    demo = load_training("demo").model_copy(update={"seed": seed, "validate_every_epochs": 99})
    start = demo.model_copy(
        update={
            "losses": INFO_NCE,
            "schedule": demo.schedule.model_copy(update={"epochs": epochs[0]}),
        }
    )
    results = {"InfoNCE from scratch": trained(start, world, home / "start")}
    weights = home / "clip.safetensors"
    export_clip(home / "start" / "last", weights)
    backbone = demo.backbone.model_copy(update={"checkpoint": weights})
    for name, losses in (("then InfoNCE", INFO_NCE), ("then CFAM", CFAM)):
        settings = demo.model_copy(
            update={
                "losses": losses,
                "backbone": backbone,
                "schedule": demo.schedule.model_copy(update={"epochs": epochs[1]}),
            }
        )
        results[name] = trained(settings, world, home / name)
    return results


def show(all_results: Sequence[dict[str, Scored]], world: People) -> None:
    """Print the table over all seeds, with bootstrap intervals over identities."""
    first = next(iter(all_results[0].values()))
    identities = len({image.identity for image in world.tested})
    chance = chance_scores(first.matches.tolist(), len(world.tested))
    console = Console(width=120)
    console.print(
        f"{len(world.trained):,} images to train on; {len(world.tested):,} images of {identities} "
        f"other people to retrieve; by chance R@1 {chance['R@1']:.2f} %, mAP {chance['mAP']:.2f} %"
    )
    table = Table("training", "seconds", "R@1", "95 %", "times chance", "mAP", "95 %")
    values = {
        name: np.mean([[one[name].hits, one[name].precision] for one in all_results], axis=0)
        for name in all_results[0]
    }
    values["CFAM less InfoNCE"] = values["then CFAM"] - values["then InfoNCE"]
    for name, (hits, precision) in values.items():
        means = bootstrap_means({"R@1": hits, "mAP": precision}, first.owners)
        recall, average = means["R@1"], means["mAP"]
        seconds = [one[name].seconds for one in all_results if name in one]
        table.add_row(
            name,
            f"{np.mean(seconds):.0f}" if seconds else "",
            f"{recall.value:.1f}",
            f"{recall.low:.1f} … {recall.high:.1f}",
            f"{recall.value / chance['R@1']:.0f}" if seconds else "",
            f"{average.value:.1f}",
            f"{average.low:.1f} … {average.high:.1f}",
        )
    console.print(table)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--world", type=Path, help="folder of the world, drawn if missing")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--epochs", type=int, nargs=2, default=(5, 5), help="first, then")
    parser.add_argument("--only", choices=["learning", "steps"])
    given = parser.parse_args()
    if given.only != "steps":
        with tempfile.TemporaryDirectory() as scratch:
            folder = given.world or Path(scratch) / "world"
            world = people(folder, TRAINED, TESTED)
            epochs = (given.epochs[0], given.epochs[1])
            results = [
                compare(world, seed, epochs, Path(scratch) / str(seed))
                for seed in range(given.seeds)
            ]
            show(results, world)
    if given.only != "learning":
        measure_steps()


if __name__ == "__main__":
    main()
