"""Whether a model ranks captions better that were validated with it (ReCoS uses BLIP-2 for both).

Run from the repository root: `python -m benchmarks.caption_validators` (three minutes on one core).
Three small CLIPs are trained from different seeds on drawn stills. Each validates the same captions
of other stills, of one to all details, and each ranks what each of them left. The bias is the mean
of R@1 of a model on its own captions less what is expected from how well it ranks in general and
how easy the captions of that validator are; its interval is over images.
"""

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.cfam_training import Silent
from benchmarks.pair_training import FIRST_STILLS, plain_training, still_of
from models.builtin.stills.text import content_of, details_of, write
from retrieval.cfam.training_data import TrainingImage, TrainingSplits
from retrieval.discriminability import CaptionValidator
from retrieval.embeddings import unit_rows
from schemas.recos import CaptionVerdict, DiscriminabilitySettings
from sources.demonstration.people import Chance
from sources.demonstration.stills import StillTruth, plan_stills

MODELS, EPOCHS, STILLS, CAPTIONS, DRAWS = 3, 6, 300, 5, 2000
Hits = NDArray[np.float64]


def candidates(truth: StillTruth) -> Iterator[str]:
    """True captions of one to all details, in random order."""
    content = content_of(truth.scene)
    details = details_of(content)
    chance = Chance("candidates", truth.image_id)
    for number in range(4 * CAPTIONS):
        chosen = set(chance.shuffled(details)[: 1 + number % len(details)])
        texts = write(content, [one for one in details if one in chosen])
        yield texts[number % len(texts)]


def bias_of(share: Hits) -> float:
    """The mean of the diagonal of (validators, rankers) less its row and column effects."""
    expected = share.mean(axis=1, keepdims=True) + share.mean(axis=0) - share.mean()
    return float(np.diag(share - expected).mean())


def main() -> None:
    """Prints R@1 by validator and ranker, and the bias."""
    import torch

    from retrieval.cfam.network.checkpoints import load_model
    from retrieval.cfam.network.training import embed_pairs, train

    parser = argparse.ArgumentParser()
    parser.add_argument("--eta", type=float, default=DiscriminabilitySettings().eta)
    judged = DiscriminabilitySettings(eta=parser.parse_args().eta)
    with tempfile.TemporaryDirectory() as scratch:
        folder, truths = Path(scratch), list(plan_stills(5, STILLS))
        firsts = tuple(
            still_of(folder, f"first-{one.image_id}", str(one.image_id), one.scene)
            for one in plan_stills(1, FIRST_STILLS)
        )
        stills = [
            TrainingImage(
                still_of(folder, f"{one.image_id:06d}", f"{one.image_id:06d}", one.scene).path,
                f"{one.image_id:06d}",
                tuple(dict.fromkeys(candidates(one))),
            )
            for one in truths
        ]
        vectors = []
        for seed in range(MODELS):
            settings = plain_training(seed, EPOCHS, folder / f"model-{seed}")
            home = folder / f"training-{seed}"
            train(settings, TrainingSplits(firsts, ()), home, Silent())
            model = load_model(home / "last")
            vectors.append(embed_pairs(model, stills, settings, torch.device("cpu")))
    own = np.repeat(np.arange(STILLS), [len(one.captions) for one in stills])
    ranked = []
    for one in vectors:
        similarity = unit_rows(one.texts, "texts") @ unit_rows(one.images, "images").T
        right = similarity[np.arange(len(own)), own][:, None]
        ranked.append((similarity >= right).sum(axis=1) == 1)
    hits = np.zeros((MODELS + 1, MODELS, STILLS))  # the last validator accepts everything
    counts = np.zeros((MODELS + 1, STILLS))
    for validator in range(MODELS + 1):
        passes = np.ones(len(own), dtype=np.bool_)
        if validator < MODELS:
            found = CaptionValidator(vectors[validator].images, judged)
            scores = found.score_calibrated(vectors[validator].texts, own)
            passes = np.array([one is CaptionVerdict.PASS for one in scores.verdicts])
        for still in range(STILLS):
            kept = np.flatnonzero(passes & (own == still))[:CAPTIONS]
            counts[validator, still] = len(kept)
            hits[validator, :, still] = [found[kept].sum() for found in ranked]
    rng = np.random.default_rng(0)
    biases = []
    for _ in range(DRAWS):
        drawn = rng.integers(STILLS, size=STILLS)
        total = counts[:MODELS, None, drawn].sum(axis=2)
        biases.append(bias_of(100 * hits[:MODELS][:, :, drawn].sum(axis=2) / total))
    share = 100 * hits.sum(axis=2) / counts.sum(axis=1)[:, None]
    table = Table("validated with", "captions", *(f"R@1 of model {n}" for n in range(MODELS)))
    for validator, row in enumerate(share):
        name = f"model {validator}" if validator < MODELS else "none"
        table.add_row(name, f"{counts[validator].sum():.0f}", *(f"{one:.1f}" for one in row))
    Console(width=100).print(table)
    low, high = np.quantile(biases, [0.025, 0.975])
    print(f"bias: {bias_of(share[:MODELS]):+.2f} points ({low:+.2f} … {high:+.2f})")


if __name__ == "__main__":
    main()
