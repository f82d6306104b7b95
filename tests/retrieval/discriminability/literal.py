"""Literal reference of dis(t) as defined in the paper, by plain loops in float64."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[Any]


def cosine(left: Rows, right: Rows) -> float:
    """Cosine similarity of two rows."""
    product = math.fsum(float(a) * float(b) for a, b in zip(left, right, strict=True))
    lengths = (math.sqrt(math.fsum(float(a) ** 2 for a in row)) for row in (left, right))
    return product / math.prod(lengths)


def nearest(text: Rows, images: Rows, target: int, k: int) -> list[int]:
    """The k images of D - x nearest to a text, nearest first."""
    others = [at for at in range(len(images)) if at != target]
    return sorted(others, key=lambda at: (-cosine(text, images[at]), at))[:k]


def dis(similarities: list[float], temperature: float) -> float:
    """entropy(softmax(similarities / temperature)), with the natural logarithm."""
    largest = max(similarities)
    weights = [math.exp((one - largest) / temperature) for one in similarities]
    shares = [weight / math.fsum(weights) for weight in weights]
    return -math.fsum(share * math.log(share) for share in shares if share > 0)


def dis_of(texts: Rows, images: Rows, targets: Rows, k: int, temperature: float) -> list[float]:
    """dis(t) of each text."""
    return [
        dis([cosine(text, images[at]) for at in nearest(text, images, int(target), k)], temperature)
        for text, target in zip(texts, targets, strict=True)
    ]


def world(seed: int, texts: int, images: int, dimension: int) -> tuple[Rows, Rows, Rows]:
    """Texts near their images, images, targets."""
    random = np.random.default_rng(seed)
    image_rows = random.standard_normal((images, dimension))
    targets = random.integers(images, size=texts)
    noise = random.standard_normal((texts, dimension)) * random.uniform(0.2, 3, (texts, 1))
    return image_rows[targets] + noise, image_rows, targets
