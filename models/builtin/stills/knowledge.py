"""What is remembered of drawn stills: how kinds of things, letters and places tell apart."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float32]

NOTHING = "nothing"
FILE = Path(__file__).with_name("knowledge.npz")
_SHRINKAGE = 0.08
_STEEPNESS = 0.01  # scores are in variances of drawings that are very much alike


@dataclass(frozen=True)
class Discriminant:
    """A linear discriminant: `weights` of shape (features, labels), `bias` of shape (labels,)."""

    labels: tuple[str, ...]
    weights: Matrix
    bias: Matrix

    def best(self, features: Matrix) -> tuple[str, float]:
        """The likeliest label of `features`, of shape (features,), and how likely it is."""
        scores = _STEEPNESS * (features @ self.weights + self.bias).astype(np.float64)
        likely = np.exp(scores - scores.max())
        return self.labels[int(scores.argmax())], float(likely.max() / likely.sum())


def fit(features: Matrix, labels: list[str]) -> Discriminant:
    """Linear discriminant analysis with a shrunk common covariance; equal priors."""
    known = tuple(sorted(set(labels)))
    place = np.array([known.index(label) for label in labels])
    data = features.astype(np.float64)
    means = np.stack([data[place == index].mean(axis=0) for index in range(len(known))])
    within = data - means[place]
    covariance = within.T @ within / len(data)
    spread = np.trace(covariance) / len(covariance)
    covariance = (1 - _SHRINKAGE) * covariance + _SHRINKAGE * spread * np.eye(len(covariance))
    weights = np.linalg.solve(covariance, means.T)
    bias = -0.5 * (means.T * weights).sum(axis=0)
    return Discriminant(known, weights.astype(np.float32), bias.astype(np.float32))


@dataclass(frozen=True)
class Knowledge:
    """Everything that is remembered.

    `parts` of shape (SIDE, SIDE) say, by `kind` or `person:action:garment`, where its colour is;
    `usual_places`, of shape (places, features), are the mean looks of places.
    """

    kinds: Discriminant
    letters: Discriminant
    places: Discriminant
    usual_places: Matrix
    parts: dict[str, Matrix]


def save_knowledge(knowledge: Knowledge, target: Path = FILE) -> None:
    """Writes everything, in half precision."""
    arrays: dict[str, NDArray[np.generic]] = {}
    for name in ("kinds", "letters", "places"):
        found: Discriminant = getattr(knowledge, name)
        arrays |= {
            f"{name}_labels": np.array(found.labels),
            f"{name}_weights": found.weights.astype(np.float16),
            f"{name}_bias": found.bias,
        }
    arrays["usual_places"] = knowledge.usual_places.astype(np.float16)
    arrays["part_names"] = np.array(list(knowledge.parts))
    arrays["part_maps"] = np.stack(list(knowledge.parts.values())).astype(np.float16)
    np.savez_compressed(target, allow_pickle=False, **arrays)


@cache
def load_knowledge(source: Path = FILE) -> Knowledge:
    """What was written."""
    with np.load(source, allow_pickle=False) as data:
        found = {
            name: Discriminant(
                tuple(str(label) for label in data[f"{name}_labels"]),
                data[f"{name}_weights"].astype(np.float32),
                data[f"{name}_bias"],
            )
            for name in ("kinds", "letters", "places")
        }
        usual = data["usual_places"].astype(np.float32)
        maps = data["part_maps"].astype(np.float32)
        parts = {str(name): maps[place] for place, name in enumerate(data["part_names"])}
    return Knowledge(found["kinds"], found["letters"], found["places"], usual, parts)
