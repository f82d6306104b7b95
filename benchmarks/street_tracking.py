"""Tracking and the noise filter on demonstration videos with known ground truth.

    python -m benchmarks.street_tracking [--videos 4] [--seconds 12] [--seed 7] [--profile builtin]

Our association and ByteTrack and OC-SORT of `trackers` use the same detections, which the street
brings, and `trackers` computes IDF1, HOTA and MOTA. Then our tracks are cropped and filtered:
purity is the share of kept images that show the person shown by most images of their tracklet;
precision and recall measure how the filter finds planted faults. A crop shows the person whose box
has the highest IoU with it, at least 0.3; otherwise it shows nobody and is never pure. A rule is
*right* about a crop of a person if its fault was planted there, or follows from the ground truth (a
truncated or hidden person, or one behind the box of another); recall counts a faulty crop as found
if any rule drops it.
"""

import argparse
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from benchmarks.association import Scene, Tracker, ours, ours_with_embeddings, peer, quality
from loupe.demo.worlds.street import (
    DETECTIONS,
    OCCLUDED_FROM,
    TrueSighting,
    TrueVideo,
    load_street_truth,
    write_street_world,
)
from loupe.demo.worlds.street_script import FaultKind
from loupe.flows.ufine6926.crops import TrackOrigin
from loupe.flows.ufine6926.given_detections import GivenDetector, given_detections
from loupe.flows.ufine6926.noise_filter import filter_track
from loupe.flows.ufine6926.tracking import PeopleFollower
from loupe.models.profiles.loader import load_profile
from loupe.models.tracking.association import PersonTracker
from loupe.models.tracking.detector import Detections, Frame
from loupe.schemas.base import sha256_of
from loupe.schemas.chat import ModelRef
from loupe.schemas.profile import Profile
from loupe.schemas.video import FilterReport, Track
from loupe.sources.motchallenge import Result
from loupe.sources.video.reader import open_video

TRACKERS: dict[str, Tracker] = {
    "ours": ours_with_embeddings,
    "ours, no embeddings": ours,
    "ByteTrack": peer("ByteTrack"),
    "OC-SORT": peer("OC-SORT"),
}
CHOICE = {"surplus", "near_duplicate", "too_few_images"}
"""Rules that select among crops without finding a fault."""
LEAST_IOU = 0.3
Shown = tuple[int | None, frozenset[FaultKind]]
"""The identity that a crop shows, and its faults."""
RULES = {
    FaultKind.BLUR: {"blurred"},
    FaultKind.DARKNESS: {"too_dark", "flat"},
    FaultKind.TRUNCATION: {"truncated"},
    FaultKind.OCCLUSION: {"occluded", "crowded"},
    FaultKind.DUPLICATE: {"near_duplicate"},
}


class Replay:
    """A detector that replays recorded detections."""

    ref = ModelRef(name="replay", revision="1")

    def __init__(self, detections: Mapping[int, Detections]) -> None:
        self._detections = detections

    def detect(self, frame: Frame) -> Detections:
        """Return the recorded detections of the frame."""
        return self._detections[frame.number]

    def reset(self) -> None:
        """Do nothing; there is no state."""

    def state(self) -> bytes:
        """Return an empty state."""
        return b""

    def restore(self, state: bytes) -> None:
        """Do nothing; there is no state."""


@dataclass
class Counts:
    """Counts of crops for one kind of fault."""

    planted: int = 0
    found: int = 0
    dropped: int = 0
    rightly: int = 0

    def __str__(self) -> str:
        recall = f"{self.found / self.planted:.0%}" if self.planted else "–"
        precision = f"{self.rightly / self.dropped:.0%}" if self.dropped else "–"
        of = f"({self.found}/{self.planted} found, {self.rightly}/{self.dropped} right)"
        return f"recall {recall:>5}  precision {precision:>5}  {of}"


@dataclass
class Filtered:
    """Results of the filter over all videos."""

    faults: dict[FaultKind, Counts] = field(default_factory=lambda: defaultdict(Counts))
    switches: Counts = field(default_factory=Counts)
    images: int = 0
    pure: int = 0
    tracks: int = 0
    tracklets: int = 0
    clean: int = 0
    clean_kept: int = 0
    nobody: int = 0
    nobody_kept: int = 0


class Truth:
    """Ground truth of a video: the person in a box and its faults."""

    def __init__(self, video: TrueVideo) -> None:
        self._video = video
        self._faulty: dict[int, list[tuple[TrueSighting, frozenset[FaultKind]]]] = defaultdict(list)
        for sighting, kinds in video.faulty():
            self._faulty[sighting.frame].append((sighting, kinds))

    def at(self, frame: int, box: Sequence[float]) -> Shown:
        """The identity, or None if the box shows nobody, and the faults."""
        best = max(self._faulty[frame], key=lambda one: iou(one[0].box_xyxy, box), default=None)
        if best is None or iou(best[0].box_xyxy, box) < LEAST_IOU:
            return None, frozenset()
        sighting, kinds = best
        others = [one for one, _ in self._faulty[frame] if one is not sighting]
        if _is_covered(sighting, others):
            kinds |= {FaultKind.OCCLUSION}
        return self._video.identities[sighting.visit], kinds


def _is_covered(sighting: TrueSighting, others: Iterable[TrueSighting]) -> bool:
    """Whether the box of another person covers much of the box."""
    before = (one for one in others if one.box_xyxy[3] >= sighting.box_xyxy[3])
    covered = (share_covered(sighting.box_xyxy, one.box_xyxy) for one in before)
    return max(covered, default=0.0) >= OCCLUDED_FROM


def iou(one: Sequence[float], other: Sequence[float]) -> float:
    """Intersection over union of two boxes (left, top, right, bottom)."""
    shared = shared_area(one, other)
    return shared / (area(one) + area(other) - shared)


def share_covered(box: Sequence[float], other: Sequence[float]) -> float:
    """Share of `box` that is covered by `other`."""
    return shared_area(box, other) / area(box)


def shared_area(one: Sequence[float], other: Sequence[float]) -> float:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(0.0, width) * max(0.0, height)


def area(box: Sequence[float]) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def frames_of(path: Path) -> Iterator[Frame]:
    with open_video(str(path)) as reader:
        yield from reader.frames()


def detect(path: Path, folder: Path) -> dict[int, Detections]:
    detector = GivenDetector(given_detections(folder), path.name)
    return {frame.number: detector.detect(frame) for frame in frames_of(path)}


def print_tracking(
    video: TrueVideo,
    truth: list[Result],
    found: dict[int, Detections],
    sums: dict[str, NDArray[np.float64]],
) -> None:
    scene = Scene(video.name, video.frame_rate, list(found.values()), truth)
    print(f"\n{video.name} ({video.theme})".ljust(32) + "IDF1    HOTA    MOTA  switches")
    for name, tracker in TRACKERS.items():
        results = [result for frame in tracker(scene) for result in frame]
        figures = quality(truth, results)
        sums[name] = sums.get(name, np.zeros(4)) + figures
        print_figures(name, *figures)


def print_figures(name: str, identity: float, hota: float, mota: float, switches: float) -> None:
    print(f"  {name:<26}{identity:>8.1f}{hota:>8.1f}{mota:>8.1f}{switches:>10.0f}")


def true_results(video: TrueVideo) -> list[Result]:
    """Sightings that a tracker should find, of which at least a quarter is visible."""
    return [
        Result(one.frame + 1, one.visit, np.array(one.box_xyxy, float), 1.0)
        for one in video.sightings
        if one.visible >= 0.25
    ]


def tracks_of(
    video: TrueVideo, path: Path, profile: Profile, found: dict[int, Detections]
) -> Iterable[Track]:
    tracker = PersonTracker(Replay(found), profile.tracking.association, video.frame_rate)
    origin = TrackOrigin("street", video.name, "0" * 64, str(tracker.ref))
    follower = PeopleFollower(
        tracker, origin, profile.tracking.observations, lambda data, _: sha256_of(data)
    )
    for frame in frames_of(path):
        follower.follow(frame)
    follower.end()
    return follower.take_finished()


def judge(track: Track, report: FilterReport, truth: Truth, into: Filtered) -> None:
    """Add the results of the filter for a track to `into`."""
    shown = {one.frame: truth.at(one.frame, one.box_xyxy) for one in track.observations}
    dropped: dict[int, set[str]] = defaultdict(set)
    for finding in report.findings:
        if finding.outcome == "dropped" and finding.frame is not None:
            dropped[finding.frame].add(finding.rule)
    kept = {frame for part in report.parts for frame in part}
    _accept_one_duplicate(shown, kept)
    for frame, (identity, kinds) in shown.items():
        if identity is None:
            into.nobody += 1
            into.nobody_kept += frame in kept
            continue
        _count_faults(kinds, dropped[frame], into)
        if not kinds:
            into.clean += 1
            into.clean_kept += not dropped[frame] - CHOICE
    into.tracks += 1
    for part in report.parts:
        people = Counter(shown[frame][0] for frame in part)
        into.images += len(part)
        into.pure += max((count for who, count in people.items() if who is not None), default=0)
        into.tracklets += 1
    _count_switches(shown, report, into.switches)


def _accept_one_duplicate(shown: dict[int, Shown], kept: Container[int]) -> None:
    """Remove the fault from one kept duplicate of a track, because one has to be kept."""
    for frame, (identity, kinds) in shown.items():
        if FaultKind.DUPLICATE in kinds and frame in kept:
            shown[frame] = identity, kinds - {FaultKind.DUPLICATE}
            return


def _count_faults(kinds: frozenset[FaultKind], rules: set[str], into: Filtered) -> None:
    for kind, names in RULES.items():
        counts = into.faults[kind]
        counts.planted += kind in kinds
        counts.found += kind in kinds and bool(rules - CHOICE or rules & names)
        counts.dropped += bool(rules & names)
        counts.rightly += bool(rules & names) and kind in kinds


def _count_switches(
    shown: Mapping[int, Shown],
    report: FilterReport,
    counts: Counts,
) -> None:
    """Count switches between crops of different people; found if no part contains both people."""
    seen = [(frame, who) for frame, (who, _) in shown.items() if who is not None]
    true = {later: (one, other) for (_, one), (later, other) in pairwise(seen) if one != other}
    together = [{shown[frame][0] for frame in part} for part in report.parts]
    counts.planted += len(true)
    counts.found += sum(not any({*pair} <= people for people in together) for pair in true.values())
    counts.dropped += len(report.switches)
    counts.rightly += sum(_near(switch, true, seen) for switch in report.switches)


def _near(switch: int, true: Mapping[int, object], seen: Sequence[tuple[int, int]]) -> bool:
    """Whether the person changes within two observations of `switch`."""
    frames = [frame for frame, _ in seen]
    place = int(np.searchsorted(frames, switch))
    return any(frame in true for frame in frames[max(0, place - 2) : place + 3])


def of_drawings(profile: Profile) -> Profile:
    """The profile as used by builds of drawn people, see `UFine6926Build.drawn`."""
    filtering = profile.filter.model_copy(update={"pose_model": None})
    return profile.model_copy(update={"filter": filtering})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--videos", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=12)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--profile", default="builtin")
    arguments = parser.parse_args()
    profile, filtered = of_drawings(load_profile(arguments.profile)), Filtered()
    sums: dict[str, NDArray[np.float64]] = {}
    with TemporaryDirectory() as folder:
        home = Path(folder)
        write_street_world(home, arguments.seed, arguments.videos, arguments.seconds)
        videos = load_street_truth(home)
        for video in videos:
            path, truth = home / video.file_path, Truth(video)
            found = detect(path, home / DETECTIONS)
            print_tracking(video, true_results(video), found, sums)
            for track in tracks_of(video, path, profile, found):
                judge(track, filter_track(track, profile.filter)[0], truth, filtered)
    print("\nmean of all videos")
    for name, figures in sums.items():
        print_figures(name, *(figures / len(videos)))
    print_filtered(filtered)


def print_filtered(filtered: Filtered) -> None:
    share = filtered.pure / max(1, filtered.images)
    print(f"\n{filtered.tracks} tracks, {filtered.tracklets} tracklets, {filtered.images} images")
    print(f"purity after filtering {share:.1%}")
    print(f"crops of people without a fault that pass {filtered.clean_kept}/{filtered.clean}")
    print(f"crops of nobody that are kept {filtered.nobody_kept}/{filtered.nobody}")
    for kind, counts in filtered.faults.items():
        print(f"  {kind:<18}{counts}")
    print(f"  {'identity switch':<18}{filtered.switches}")


if __name__ == "__main__":
    main()
