"""Association of boxes with and without embeddings, compared with `trackers`.

    python -m benchmarks.association [--people 8 25 50 100 200] [--frames 100] [--truth gt.txt …]

People cross each other, 5 % of detections are missing, boxes jitter, and the area grows with the
number of people. Speed is the processor time per frame on one thread, the best of three runs, and
its ratio to that of the peers (below 1: ours is faster). Quality is computed by `trackers`: IDF1,
HOTA, MOTA and identity switches; `--truth` uses the boxes of MOTChallenge ground truth as
detections.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import supervision as sv
from numpy.typing import NDArray
from trackers import ByteTrackTracker, OCSORTTracker, SORTTracker
from trackers.eval import evaluate_mot_sequence

from benchmarks.measuring import run_apart
from loupe.models.tracking.association import Association
from loupe.models.tracking.detector import Detections
from loupe.schemas.tracking import AssociationSettings
from loupe.sources.motchallenge import Boxes, Result, read_boxes

RUNS = 3
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
EMBEDDING_LENGTH = 128
HEIGHT_PX = 120.0
SIZE_PX = np.array([50.0, HEIGHT_PX])
PEERS = {"SORT": SORTTracker, "ByteTrack": ByteTrackTracker, "OC-SORT": OCSORTTracker}


class Scene(NamedTuple):
    """Detections of each frame and the ground truth."""

    name: str
    frame_rate: float
    detections: list[Detections]
    truth: list[Result]


Tracker = Callable[[Scene], Iterator[list[Result]]]


def ours(scene: Scene, *, embeddings: bool = False) -> Iterator[list[Result]]:
    association = Association(AssociationSettings(), scene.frame_rate)
    for frame, detections in enumerate(scene.detections, 1):
        given = detections if embeddings else detections._replace(embeddings=None)
        people = association.update(given)
        yield [Result(frame, one.number, one.box_xyxy, one.score) for one in people]


def ours_with_embeddings(scene: Scene) -> Iterator[list[Result]]:
    return ours(scene, embeddings=True)


def peer(name: str) -> Tracker:
    def follow(scene: Scene) -> Iterator[list[Result]]:
        tracker = PEERS[name](frame_rate=scene.frame_rate)
        for frame, (boxes, scores, _) in enumerate(scene.detections, 1):
            found = tracker.update(sv.Detections(xyxy=boxes.astype(float), confidence=scores))
            rows = zip(found.tracker_id, found.xyxy, found.confidence, strict=True)
            yield [Result(frame, int(n), box, score) for n, box, score in rows if n >= 0]

    return follow


OURS: dict[str, Tracker] = {"ours": ours, "ours, embeddings": ours_with_embeddings}
TRACKERS: dict[str, Tracker] = {**OURS, **{name: peer(name) for name in PEERS}}


def crowd(people: int, frames: int, seed: int = 0) -> Scene:
    """People who walk straight across a square and turn round at its edges."""
    random = np.random.default_rng(seed)
    side = 2.5 * HEIGHT_PX * people**0.5
    places = random.uniform(0, side, (people, 2))
    steps = random.normal(0, 0.02 * HEIGHT_PX, (people, 2))
    embeddings = random.normal(size=(people, EMBEDDING_LENGTH))
    detections, truth = [], []
    for frame in range(1, frames + 1):
        steps = np.where((places < 0) | (places > side), -steps, steps)
        places += steps
        boxes = np.concatenate([places, places + SIZE_PX], axis=1)
        truth += [Result(frame, one, box, 1.0) for one, box in enumerate(boxes, 1)]
        detections.append(_detected(boxes, embeddings, random))
    return Scene(f"{people} people", 30, detections, truth)


def _detected(
    boxes: NDArray[np.float64], embeddings: NDArray[np.float64], random: np.random.Generator
) -> Detections:
    detected = np.flatnonzero(random.random(len(boxes)) > 0.05)
    scores = np.sort(random.uniform(0.75, 0.99, len(detected)))[::-1]
    jittered = boxes[detected] + random.normal(0, 0.01 * HEIGHT_PX, (len(detected), 4))
    near = embeddings[detected] + random.normal(0, 0.3, (len(detected), EMBEDDING_LENGTH))
    near /= np.linalg.norm(near, axis=1, keepdims=True)
    return Detections(
        jittered.astype(np.float32), scores.astype(np.float32), near.astype(np.float32)
    )


def true_boxes(path: Path, frame_rate: float) -> Scene:
    """Scene with the boxes of a ground truth file as complete detections."""
    boxes, _ = read_boxes(path)
    by_frame = dict(boxes.by_frame())
    none = Boxes(boxes.frames[:0], boxes.numbers[:0], boxes.boxes_tlwh[:0], boxes.scores[:0])
    detections, truth = [], []
    for frame in range(1, max(by_frame) + 1):
        found = by_frame.get(frame, none)
        corners = found.boxes_tlwh.copy()
        corners[:, 2:] += corners[:, :2]
        truth += [
            Result(frame, number, box, 1.0)
            for number, box in zip(found.numbers.tolist(), corners, strict=True)
        ]
        scores = np.ones(len(corners), np.float32)
        detections.append(Detections(corners.astype(np.float32), scores, None))
    return Scene(path.parent.name, frame_rate, detections, truth)


def measure(people: int, frames: int) -> None:
    """Print the time of each tracker in microseconds per frame as JSON."""
    scene = crowd(people, frames)
    runs = [
        {name: microseconds_per_frame(tracker, scene) for name, tracker in TRACKERS.items()}
        for _ in range(RUNS)
    ]
    print(json.dumps({name: min(run[name] for run in runs) for name in TRACKERS}))


def measured(people: int, frames: int) -> dict[str, float]:
    """Run `measure` in a separate process with a single thread."""
    single = dict.fromkeys(THREADS, "1")
    options = ("--measure", people, "--frames", frames)
    times: dict[str, float] = run_apart("association", *options, variables=single)
    return times


def microseconds_per_frame(tracker: Tracker, scene: Scene) -> float:
    start = time.process_time()
    for _ in tracker(scene):
        pass
    return (time.process_time() - start) * 1e6 / len(scene.detections)


def print_speed(sizes: Sequence[int], frames: int) -> None:
    times = {size: measured(size, frames) for size in sizes}
    print(f"{'µs per frame':<14}" + "".join(f"{name:>18}" for name in TRACKERS))
    for size, each in times.items():
        print(f"{size:>7} people" + "".join(f"{each[name]:>18,.0f}" for name in TRACKERS))
    for own in OURS:
        print(f"\n{own + ' / theirs':<26}" + "".join(f"{name:>12}" for name in PEERS))
        for size, each in times.items():
            ratios = "".join(f"{each[own] / each[name]:>12.2f}" for name in PEERS)
            print(f"{size:>19} people{ratios}")


def print_quality(scene: Scene) -> None:
    print(f"\n{scene.name:<20}{'IDF1':>8}{'HOTA':>8}{'MOTA':>8}{'switches':>10}")
    for name, tracker in TRACKERS.items():
        if scene.detections[0].embeddings is None and tracker is ours_with_embeddings:
            continue
        results = [result for frame in tracker(scene) for result in frame]
        identity, hota, mota, switches = quality(scene.truth, results)
        print(f"{name:<20}{identity:>8.1f}{hota:>8.1f}{mota:>8.1f}{switches:>10}")


def quality(truth: list[Result], results: list[Result]) -> tuple[float, float, float, int]:
    """IDF1, HOTA and MOTA in percent, and the number of identity switches."""
    with TemporaryDirectory() as folder:
        paths = Path(folder) / "truth.txt", Path(folder) / "results.txt"
        for path, boxes in zip(paths, (truth, results), strict=True):
            path.write_text("".join(map(_line, boxes)))
        found = evaluate_mot_sequence(*paths, metrics=["CLEAR", "HOTA", "Identity"])
    identity, hota, clear = found.Identity, found.HOTA, found.CLEAR
    if identity is None or hota is None or clear is None:
        raise RuntimeError("trackers gave no metrics")
    return 100 * identity.IDF1, 100 * hota.HOTA, 100 * clear.MOTA, clear.IDSW


def _line(one: Result) -> str:
    """A line in the format of `trackers`, with class 1, because it ignores other classes."""
    left, top, right, bottom = one.box_xyxy
    return f"{one.frame},{one.number},{left},{top},{right - left},{bottom - top},1,1,1\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, nargs="+", default=[8, 25, 50, 100, 200])
    parser.add_argument("--frames", type=int, default=100)
    parser.add_argument("--truth", type=Path, nargs="*", default=[])
    parser.add_argument("--frame-rate", type=float, default=25)
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.measure, arguments.frames)
        return
    print_speed(arguments.people, arguments.frames)
    print_quality(crowd(25, 200))
    for path in arguments.truth:
        print_quality(true_boxes(path, arguments.frame_rate))


if __name__ == "__main__":
    main()
