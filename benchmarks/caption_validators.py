"""Whether a model ranks captions better that were validated with it (ReCoS uses BLIP-2 for both).

Run from the repository root: `python -m benchmarks.caption_validators` (four minutes on an idle
core). Three small CLIPs are trained from different seeds on drawn stills. Each validates the same
captions of other stills, of one to all details, and each ranks what each of them left. The bias is
the mean reciprocal rank (MRR) by a model on its own captions less what is expected from how well it
ranks in general and how easy the captions of that validator are; its interval is over images.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
ETAS = (0.8, 0.4)
Floats = NDArray[np.floating[Any]]


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


def main() -> None:
    """Prints the mean reciprocal rank by validator and ranker, and the bias."""
    import torch

    from retrieval.cfam.network.checkpoints import load_model
    from retrieval.cfam.network.training import embed_pairs, train

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
    ranked = [reciprocal_ranks(one.texts, one.images, own) for one in vectors]
    table = Table("η", "validated with", "captions", *(f"MRR of model {n}" for n in range(MODELS)))
    for eta in ETAS:
        passing = [np.ones(len(own), dtype=np.bool_)]
        for one in vectors:
            found = CaptionValidator(one.images, DiscriminabilitySettings(eta=eta))
            verdicts = found.score(one.texts, own).verdicts
            passing.insert(-1, np.array([verdict is CaptionVerdict.PASS for verdict in verdicts]))
        kept = np.array([first_of_each(passes, own) for passes in passing])
        share, low, high = shares(kept, np.array(ranked), own)
        for number, row in enumerate(share):
            name = f"model {number}" if number < MODELS else "none"
            cells = (f"{one:.1f}" for one in row)
            table.add_row(f"{eta:g}", name, f"{kept[number].sum():.0f}", *cells)
        print(f"η {eta:g}: bias {bias_of(share[:MODELS]):+.2f} points ({low:+.2f} … {high:+.2f})")
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
