"""Hand-made tracks with known faults, without pixels."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loupe.models.tracking.association import packed
from loupe.schemas.base import sha256_of
from loupe.schemas.records import Picture
from loupe.schemas.video import CropMeasures, Observation, Track

DIMENSIONS = 16
GOOD: dict[str, Any] = {
    "width_px": 60.0,
    "height_px": 160.0,
    "cut_off": 0.0,
    "border_px": 40.0,
    "sharpness": 400.0,
    "brightness": 120.0,
    "contrast": 50.0,
    "overlap": 0.0,
    "other_people": 0,
}
"""Measures that pass all rules."""


def hash_of(number: int) -> str:
    """Return a perceptual hash far from those of all other numbers below 1,000."""
    return sha256_of(f"hash {number}".encode())[:16]


def person(number: int, *, noise: float = 0.0, seed: int = 0) -> NDArray[np.float32]:
    """Return a unit embedding of shape (16,), the same for each person except for noise."""
    direction = np.eye(DIMENSIONS)[number]
    direction = direction + noise * np.random.default_rng(seed).normal(size=DIMENSIONS)
    unit: NDArray[np.float32] = (direction / np.linalg.norm(direction)).astype(np.float32)
    return unit


def observation(
    frame: int,
    embedding: NDArray[np.float32] | None = None,
    *,
    score: float = 0.9,
    **measures: Any,
) -> Observation:
    """Return a good observation with the given faults."""
    values = {**GOOD, "perceptual_hash": hash_of(frame), **measures}
    vector = person(0) if embedding is None else embedding
    return Observation(
        frame=frame,
        time_seconds=frame / 10,
        box_xyxy=(100.0, 50.0, 160.0, 210.0),
        score=score,
        crop=Picture(
            sha256=sha256_of(f"crop {frame}".encode()),
            media_type="image/jpeg",
            width_px=60,
            height_px=160,
        ),
        measures=CropMeasures(**values),
        embedding=packed(vector),
    )


def track(observations: Sequence[Observation], number: int = 1, **changes: Any) -> Track:
    """Return a track of these observations."""
    values: dict[str, Any] = {
        "source": "street",
        "video": "street/one.mp4",
        "video_sha256": sha256_of(b"video"),
        "number": number,
        "first_frame": observations[0].frame,
        "last_frame": observations[-1].frame,
        "seen_frames": len(observations),
        "observations": tuple(observations),
        "author": "tracker@1",
    }
    return Track(**{**values, **changes})


def walk(
    people: Iterable[int], *, step: int = 5, begin: int = 0, noise: float = 0.05
) -> list[Observation]:
    """Return one good observation for each of `people`."""
    return [
        observation(begin + step * place, person(number, noise=noise, seed=1000 * begin + place))
        for place, number in enumerate(people)
    ]
