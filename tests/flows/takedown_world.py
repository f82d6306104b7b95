"""Four datasets that show the same people: crops from videos, and three that contain the crops.

`walkers` (UFine6926) is built from videos with known ground truth. `fine` (UFine3C) imports a copy
of its release; `tasks` (ReCoS) and `contrasts` (CCD) are built from collections of drawn stills and
copies of some of its crops.
"""

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from loupe.annotate.backend import Desks
from loupe.annotate.queues import SHARED
from loupe.demo.worlds.stills import StillsWorld, load_stills_truth, write_stills_world
from loupe.demo.worlds.street import (
    StreetWorld,
    TrueSighting,
    TrueVideo,
    write_street_world,
)
from loupe.flows.ccd.pipeline import ccd_pipeline
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.pipeline import run_pipeline
from loupe.flows.recos.pipeline import recos_pipeline
from loupe.flows.ufine3c.pipeline import ufine3c_pipeline
from loupe.flows.ufine6926.pipeline import ufine6926_pipeline
from loupe.models.profiles.loader import load_profile
from loupe.release.format.manifest import read_manifest
from loupe.release.format.row_files import read_parquet_rows
from loupe.schemas.base import sha256_of
from loupe.schemas.build import (
    CcdBuild,
    RecosBuild,
    SourceSpec,
    TaskSpec,
    UFine3CBuild,
    UFine6926Build,
    VideoSourceSpec,
)
from loupe.schemas.profile import Profile
from loupe.schemas.recos import DiscriminabilitySettings
from loupe.schemas.taxonomy import RetrievalTask
from loupe.schemas.tracking import FilterSettings, TrackingSettings
from tests.annotate.memory_desk import MemoryOffice
from tests.flows.ccd_reviewers import answer, right
from tests.flows.recos_world import seeing_profile, write_names
from tests.flows.street import KnownStreet

WALKERS, FINE, TASKS, CONTRASTS = "walkers", "fine", "tasks", "contrasts"
PERSON = 2
"""Identity to withdraw, from the ground truth; shown in five crops, all of the test split."""
_OTHERS = (1, 3)
_TERMS = {"licence": "CC0-1.0", "citation": "none"}
_LENIENT = FilterSettings(
    least_height_px=24,
    least_width_px=8,
    least_sharpness=0,
    darkest=5,
    brightest=250,
    most_overlap=0.6,
    most_images=6,  # below the observations that the tracker keeps
)
_FEW = DiscriminabilitySettings(k=4, rounds=2)
Row = dict[str, Any]


class Collection(NamedTuple):
    """Images with captions, in a folder."""

    folder: Path
    annotations: Path
    names: Mapping[int, Sequence[str]]

    def spec(self, name: str) -> SourceSpec:
        """The collection as a source."""
        return SourceSpec(
            name=name,
            format="coco-captions",
            annotations=self.annotations,
            images=self.folder,
            **_TERMS,
        )


class TakedownWorld:
    """An installation with four datasets, and their ground truth.

    Attributes:
        run: the installation.
        folder: folder of the videos and collections.
    """

    def __init__(self, run: RunContext, folder: Path) -> None:
        self.run = run
        self.folder = folder
        self.office = MemoryOffice()
        self._street: StreetWorld = write_street_world(
            folder / "street",
            12,
            2,
            5,
            people=4,
            size_px=(480, 270),
            frame_rate=10,
            copy_first=False,
        )
        self.known = KnownStreet(self._street)
        self._stills: StillsWorld = write_stills_world(folder / "stills", seed=11, count=30)

    def build_all(self, version: str = "0.1.0") -> None:
        """Build and release all four as `version`, continuing from the stored state."""
        self.build_walkers(version)
        self.build_fine(version)
        self.build_tasks(version)
        self.build_contrasts(version)

    def build_walkers(self, version: str) -> None:
        """Build UFine6926: people tracked in videos."""
        spec = VideoSourceSpec(name="street", videos=tuple(map(str, self._street.videos)), **_TERMS)
        build = UFine6926Build(
            dataset=WALKERS, version=version, test_share=0.5, seed=1, drawn=True, sources=(spec,)
        )
        profile = _builtin(
            tracking=TrackingSettings(checkpoint_frames=20, observations=8), filter=_LENIENT
        )
        pipeline = ufine6926_pipeline(self.known.detector)
        run_pipeline(self.run, pipeline, build, profile, _no_desks)

    def build_fine(self, version: str) -> None:
        """Build UFine3C: a copy of the release of `walkers`, imported and rewritten."""
        release = self.downloaded
        spec = SourceSpec(
            name="published",
            format="ufine6926",
            annotations=release / f"{WALKERS}.json",
            images=release,
            **_TERMS,
        )
        build = UFine3CBuild(
            dataset=FINE, version=version, identities_per_source=4, sources=(spec,)
        )
        run_pipeline(self.run, ufine3c_pipeline(), build, load_profile("builtin"), _no_desks)

    def build_tasks(self, version: str) -> None:
        """Build ReCoS in its three tiers from stills and crops of people."""
        shown = self.folder / "action.txt"
        firsts = [names[0] for names in self.pictures.names.values()]
        shown.write_text("\n".join(firsts) + "\n", encoding="utf-8")
        color = write_names(self._stills, RetrievalTask.COLOR, self.folder / "color.txt")
        tasks = (
            TaskSpec(task=RetrievalTask.COLOR, images=3, source="pictures", names=color),
            TaskSpec(task=RetrievalTask.ACTION, images=3, source="pictures", names=shown),
        )
        source = self.pictures.spec("pictures")
        build = RecosBuild(
            dataset=TASKS,
            revision=version.partition(".")[2],
            seed=3,
            neighbours=4,
            max_unusable_share=0.8,  # the answers that see a crop repeat each other
            sources=(source,),
            tasks=tasks,
        )
        with seeing_profile(_FEW) as profile:
            run_pipeline(self.run, recos_pipeline(), build, profile, _no_desks)

    def build_contrasts(self, version: str) -> None:
        """Build CCD: crops of people as anchors, edited; an annotator reviews the groups."""
        build = CcdBuild(
            dataset=CONTRASTS,
            version=version,
            seed=3,
            methods=("edit",),
            groups_gate="required",
            sources=(self.photographs.spec("photographs"),),
        )
        pipeline, profile = ccd_pipeline(), load_profile("builtin")
        while run_pipeline(self.run, pipeline, build, profile, lambda: self.office).waiting:
            assert answer(self.run, self.office, SHARED, right), "waits without open tasks"

    def release(self, name: str) -> Path:
        """Return the folder of a release, such as `walkers-0.1.0`."""
        return self.run.settings.home / "releases" / name

    @cached_property
    def downloaded(self) -> Path:
        """A copy of the first release of `walkers`, as a downloader has it."""
        return Path(shutil.copytree(self.release(f"{WALKERS}-0.1.0"), self.folder / "downloaded"))

    @cached_property
    def crops(self) -> dict[int, list[Row]]:
        """The rows of that release by the person they show."""
        found: dict[int, list[Row]] = {}
        for row in released_rows(self.downloaded):
            found.setdefault(self.person_in(row), []).append(row)
        return found

    @cached_property
    def pictures(self) -> Collection:
        """Stills, and some crops of each of three people."""
        return self._collection("pictures", 30, {PERSON: 4} | dict.fromkeys(_OTHERS, 3))

    @cached_property
    def photographs(self) -> Collection:
        """Two crops of the person to withdraw and two of another person."""
        return self._collection("photographs", 0, {PERSON: 2, _OTHERS[0]: 2})

    def _collection(self, name: str, stills: int, crops: Mapping[int, int]) -> Collection:
        folder = self.folder / name
        folder.mkdir()
        truth = load_stills_truth(self._stills.folder)[:stills]
        output = json.loads(self._stills.annotation_file.read_text(encoding="utf-8"))
        names = {one.file_name for one in truth}
        images = [one for one in output["images"] if one["file_name"] in names]
        captions: dict[int, list[str]] = {one["id"]: [] for one in images}
        for one in output["annotations"]:
            if one["image_id"] in captions:
                captions[one["image_id"]].append(one["caption"])
        for one in images:
            shutil.copy(self._stills.image_root / one["file_name"], folder)
        of_people: dict[int, list[str]] = {}
        for person, count in crops.items():
            for number, row in enumerate(self.crops[person][:count]):
                file_name, id_ = f"walk-{person}-{number}.jpg", 1000 * person + number
                (folder / file_name).write_bytes(row["image"]["bytes"])
                images.append({"id": id_, "file_name": file_name})
                captions[id_] = row["captions"]
                of_people.setdefault(person, []).append(file_name)
        return Collection(folder, _annotations(folder, images, captions), of_people)

    def person_in(self, row: Row) -> int:
        """Return the person in a crop by ground truth: the one with the highest overlap."""
        crop = row["crop"]
        video = self._video(crop["video"])
        seen = [one for one in video.sightings if one.frame == crop["frame"] and one.visible > 0]
        return video.identities[max(seen, key=lambda one: _overlap(crop["box_xyxy"], one)).visit]

    def showing(self, person: int, rows: Iterable[Row]) -> list[Row]:
        """Return the rows of a release that show a person, by ground truth.

        These are crops of the person and edited versions of them.
        """
        of_person = {sha256_of(row["image"]["bytes"]) for row in self.crops[person]}
        listed = list(rows)
        files = {one["file_path"] for one in listed if stored_digest(one) in of_person}
        return [
            one
            for one in listed
            if one["file_path"] in files or (one.get("contrast") or {}).get("anchor") in files
        ]

    def tracked(self, person: int, sightings: Iterable[Mapping[str, Any]], video: str) -> bool:
        """Whether any of a track's sightings in a video is of a person, by ground truth."""
        return any(self.person_in({"crop": {**one, "video": video}}) == person for one in sightings)

    def _video(self, name: str) -> TrueVideo:
        return next(one for one in self.known.videos if Path(one.file_path).name == Path(name).name)


def stored_digest(row: Row) -> str:
    """Return the digest of the stored image of a row, which may be encoded for the release."""
    return str(row.get("stored_sha256") or row["sha256"])


def released_rows(folder: Path) -> Iterator[Row]:
    """Return all rows of a release, split by split, in the order of their numbers."""
    splits = [one.split for one in read_manifest(folder).statistics.splits]
    for split in splits:
        for shard in sorted((folder / "data").glob(f"{split}-*.parquet")):
            yield from read_parquet_rows(shard)


def _annotations(
    folder: Path, images: Sequence[Mapping[str, Any]], captions: Mapping[int, Iterable[str]]
) -> Path:
    output = [
        {"image_id": image, "caption": text} for image, texts in captions.items() for text in texts
    ]
    numbered = [{"id": number, **one} for number, one in enumerate(output, 1)]
    path = folder.with_suffix(".json")
    path.write_text(json.dumps({"images": images, "annotations": numbered}), encoding="utf-8")
    return path


def _overlap(box: Sequence[float], seen: TrueSighting) -> float:
    """Intersection over union."""
    left, top, right_, bottom = seen.box_xyxy
    width = min(box[2], right_) - max(box[0], left)
    height = min(box[3], bottom) - max(box[1], top)
    shared = max(0.0, width) * max(0.0, height)
    areas = (box[2] - box[0]) * (box[3] - box[1]) + (right_ - left) * (bottom - top)
    return shared / (areas - shared)


def _builtin(**values: Any) -> Profile:
    return load_profile("builtin").model_copy(update=values)


def _no_desks() -> Desks:
    raise AssertionError("no annotator may be asked")
