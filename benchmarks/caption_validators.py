"""Whether a model ranks captions better that were validated with it (ReCoS uses BLIP-2 for both).

Run from the repository root: `python -m benchmarks.caption_validators` (half an hour, one core).
For each of three seeds, three small CLIPs are trained on drawn stills. Each validates the same
captions of other stills, of one to all details, and each ranks what each of them left. The bias is
the mean reciprocal rank (MRR) by a model on its own captions less what is expected from how well it
ranks in general and how easy the captions of that validator are; its interval is over images.
"""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from rich.console import Console
from rich.table import Table

from benchmarks.cfam_training import INFO_NCE, Silent
from loupe.demo.stills.drawing import draw_still
from loupe.demo.stills.scene import STRIP_BOX, WIDTH_PX, Scene
from loupe.demo.stills.text import content_of, details_of, write
from loupe.demo.worlds.stills import StillTruth, plan_stills
from loupe.flows.evaluation.training import load_training
from loupe.retrieval.cfam.training_data import TrainingImage, TrainingSplits
from loupe.retrieval.discriminability import CaptionValidator
from loupe.retrieval.embeddings import unit_rows
from loupe.schemas.cfam import CfamAugmentation, CfamTraining
from loupe.schemas.recos import CaptionVerdict, DiscriminabilitySettings
from loupe.sources.chance import Chance

FIRST_STILLS = 400
SIZE_PX = (56, 40)
SMALL_CLIP = {
    "embed_dim": 64,
    "quick_gelu": False,
    "vision_cfg": {"image_size": 40, "layers": 2, "width": 64, "head_width": 32, "patch_size": 8},
    "text_cfg": {"context_length": 40, "vocab_size": 49408, "width": 64, "heads": 2, "layers": 2},
}
NOTHING_AUGMENTED = CfamAugmentation(flip=0, padding_px=0, erase=0, mask_token=0, replace_token=0)
SEEDS, MODELS, EPOCHS, STILLS, CAPTIONS, DRAWS = 3, 3, 6, 300, 5, 2000
ETAS = (0.8, 0.4)
Floats = NDArray[np.floating[Any]]


def picture_of(scene: Scene) -> Image.Image:
    """The still without its strip."""
    return draw_still(scene).crop((0, 0, WIDTH_PX, int(STRIP_BOX[1])))


def still_of(folder: Path, name: str, scene: Scene) -> TrainingImage:
    """A still at the network's size, with complete captions in several forms."""
    path = folder / f"{name}.png"
    picture_of(scene).resize(SIZE_PX, Image.Resampling.BICUBIC).save(path)
    content = content_of(scene)
    return TrainingImage(path, name, tuple(write(content, details_of(content))[:5]))


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
            "augmentation": NOTHING_AUGMENTED,
            "schedule": demo.schedule.model_copy(update=schedule),
        }
    )


def candidates(truth: StillTruth) -> Iterator[str]:
    """True captions of one to all details, in random order."""
    content = content_of(truth.scene)
    details = details_of(content)
    chance = Chance("candidates", truth.image_id)
    for number in range(4 * CAPTIONS):
        chosen = set(chance.shuffled(details)[: 1 + number % len(details)])
        texts = write(content, [one for one in details if one in chosen])
        yield texts[number % len(texts)]


def bias_of(share: Floats) -> float:
    """The mean of the diagonal of (validators, rankers) less its row and column effects."""
    expected = share.mean(axis=1, keepdims=True) + share.mean(axis=0) - share.mean()
    return float(np.diag(share - expected).mean())


class Measured(NamedTuple):
    """The MRR and the captions by validator (the last: none), and the bias with its interval."""

    share: Floats
    captions: NDArray[np.int64]
    bias: float
    low: float
    high: float


def measured(seed: int, folder: Path) -> dict[float, Measured]:
    """The effect by η, on stills and with models of their own for each seed."""
    import torch

    from loupe.retrieval.cfam.network.checkpoints import load_model
    from loupe.retrieval.cfam.network.training import embed_pairs, train

    firsts = tuple(
        still_of(folder, f"first-{one.image_id}", one.scene) for one in plan_stills(1, FIRST_STILLS)
    )
    stills = [
        TrainingImage(
            still_of(folder, f"{one.image_id:06d}", one.scene).path,
            f"{one.image_id:06d}",
            tuple(dict.fromkeys(candidates(one))),
        )
        for one in plan_stills(5 + seed, STILLS)
    ]
    vectors = []
    for model in range(MODELS):
        settings = plain_training(MODELS * seed + model, EPOCHS, folder / f"model-{model}")
        home = folder / f"training-{model}"
        train(settings, TrainingSplits(firsts, ()), home, Silent())
        found = embed_pairs(load_model(home / "last"), stills, settings, torch.device("cpu"))
        vectors.append(found)
    own = np.repeat(np.arange(STILLS), [len(one.captions) for one in stills])
    ranked = np.array([reciprocal_ranks(one.texts, one.images, own) for one in vectors])
    results = {}
    for eta in ETAS:
        passing = []
        for one in vectors:
            validator = CaptionValidator(one.images, DiscriminabilitySettings(eta=eta))
            verdicts = validator.score(one.texts, own).verdicts
            passing.append(np.array([verdict is CaptionVerdict.PASS for verdict in verdicts]))
        passing.append(np.ones(len(own), dtype=np.bool_))
        kept = np.array([first_of_each(passes, own) for passes in passing])
        share, low, high = shares(kept, ranked, own)
        results[eta] = Measured(share, kept.sum(axis=1), bias_of(share[:MODELS]), low, high)
    return results


def main() -> None:
    """Prints the bias of each seed, and the mean reciprocal ranks by validator and ranker."""
    table = Table(
        "η", "seed", "validated with", "captions", *(f"MRR of model {n}" for n in range(MODELS))
    )
    for seed in range(SEEDS):
        with tempfile.TemporaryDirectory() as scratch:
            found = measured(seed, Path(scratch))
        for eta, one in found.items():
            interval = f"{one.low:+.2f} … {one.high:+.2f}"
            print(f"η {eta:g}, seed {seed}: bias {one.bias:+.2f} points ({interval})", flush=True)
            for number, (row, captions) in enumerate(zip(one.share, one.captions, strict=True)):
                name = f"model {number}" if number < MODELS else "none"
                table.add_row(
                    f"{eta:g}", str(seed), name, str(captions), *(f"{mean:.1f}" for mean in row)
                )
    Console(width=100).print(table)


def reciprocal_ranks(texts: Floats, images: Floats, own: NDArray[np.int64]) -> Floats:
    """100 / rank of each text's own image."""
    similarity = unit_rows(texts, "texts") @ unit_rows(images, "images").T
    right = similarity[np.arange(len(own)), own][:, None]
    ranks: Floats = 100.0 / (similarity >= right).sum(axis=1)
    return ranks


def first_of_each(passes: NDArray[np.bool_], own: NDArray[np.int64]) -> NDArray[np.bool_]:
    """The first captions of each still that pass."""
    kept = np.zeros(len(own), dtype=np.bool_)
    for still in range(STILLS):
        kept[np.flatnonzero(passes & (own == still))[:CAPTIONS]] = True
    return kept


def shares(
    kept: NDArray[np.bool_], ranked: Floats, own: NDArray[np.int64]
) -> tuple[Floats, float, float]:
    """The means by validator and ranker, and the interval of the bias over images."""
    still = np.arange(STILLS)[:, None] == own
    counts = kept @ still.T.astype(np.float64)
    sums = np.stack([(kept * one) @ still.T for one in ranked], axis=1)
    rng, biases = np.random.default_rng(0), []
    for _ in range(DRAWS):
        drawn = rng.integers(STILLS, size=STILLS)
        total = counts[:MODELS, None, drawn].sum(axis=2)
        biases.append(bias_of(sums[:MODELS][:, :, drawn].sum(axis=2) / total))
    low, high = np.quantile(biases, [0.025, 0.975])
    return sums.sum(axis=2) / counts.sum(axis=1)[:, None], float(low), float(high)


if __name__ == "__main__":
    main()
