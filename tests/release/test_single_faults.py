"""Table of single faults: verification names any one fault in a copy of a release.

Signed releases of every kind are verified with their id and key. Faults of rows are tried twice:
with the old digests, and with digests, root and id written again.
"""

import json
import os
import shutil
from collections.abc import Callable, Collection, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from loupe.release.build import build_release
from loupe.release.format.findings import Problem
from loupe.release.format.manifest import FileEntry, manifest_text, read_manifest
from loupe.release.format.row_files import shards_among
from loupe.release.format.signing import SIGNATURE, Signer
from loupe.release.lineage import ENTITIES, TABLES
from loupe.release.verify import verify_release
from loupe.schemas.release import Manifest, ReleasedFile
from tests.release import ccd_world, street_world
from tests.release.cases import check_each, check_on_copies
from tests.release.forging import reseal
from tests.release.worlds import DATASET, Composer, small_world, store_world

SIGNER = Signer(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
MANIFEST = "manifest.json"
PLACE = 2
"""Index of the damaged row, from 0; its split has rows before and after it."""
ROW = PLACE + 1
WORLDS: dict[str, tuple[str, Callable[[], Composer]]] = {
    "plain": (DATASET, small_world),
    "contrastive": (ccd_world.CCD, lambda: ccd_world.benchmark().world),
    "video": (street_world.DATASET, street_world.street_world),
}
T = TypeVar("T")
Row = dict[str, Any]
Rows = list[Row]


class Release(NamedTuple):
    """A copy of a release with methods to damage it."""

    folder: Path
    id: str
    dataset: str

    @property
    def json(self) -> str:
        return f"{self.dataset}.json"

    @property
    def shard(self) -> str:
        """Path of the Parquet file with the damaged row."""
        return shards_among(self.paths())[0]

    def paths(self) -> list[str]:
        found = (path for path in self.folder.rglob("*") if path.is_file())
        return sorted(path.relative_to(self.folder).as_posix() for path in found)

    def image(self) -> str:
        """Path of the image file of the damaged row."""
        return str(pq.read_table(self.folder / self.shard)["file_path"][PLACE])

    def edit_json(self, change: Callable[[Rows], object]) -> None:
        rows = json.loads((self.folder / self.json).read_text("utf-8"))
        change(rows)
        lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        (self.folder / self.json).write_text(f"[\n{lines}\n]\n", "utf-8")

    def edit_parquet(self, change: Callable[[Rows], object]) -> None:
        table = pq.read_table(self.folder / self.shard)
        rows = table.to_pylist()
        change(rows)
        pq.write_table(pa.Table.from_pylist(rows, table.schema), self.folder / self.shard)

    def edit_both(self, change: Callable[[Rows], object]) -> None:
        self.edit_json(change)
        self.edit_parquet(change)

    def edit_manifest(self, change: Callable[[dict[str, Any]], object]) -> None:
        """Change the manifest without adapting its id."""
        values = json.loads((self.folder / MANIFEST).read_text("utf-8"))
        change(values)
        files = [FileEntry.model_validate(entry).file() for entry in values.pop("files")]
        try:
            manifest = Manifest.model_validate(values)
        except ValueError:
            text = json.dumps({**values, "files": [one._asdict() for one in files]})
            (self.folder / MANIFEST).write_text(text, "utf-8")
        else:
            (self.folder / MANIFEST).write_bytes(b"".join(manifest_text(manifest, files)))

    def edit_listed(self, change: Callable[[ReleasedFile], ReleasedFile]) -> None:
        """Change the listed entry of the image of the damaged row."""
        image = self.image()

        def entries(values: dict[str, Any]) -> None:
            files = [FileEntry.model_validate(entry).file() for entry in values["files"]]
            changed = [change(one) if one.path == image else one for one in files]
            values["files"] = [one._asdict() for one in changed]

        self.edit_manifest(entries)

    def reseal(self, left: Collection[str] = ()) -> None:
        """Reseal the release; documents in `left` are not rewritten."""
        reseal(self.folder, left=left)

    def problems(self) -> list[Problem]:
        """Problems that verification finds with the expected id and key."""
        return verify_release(
            self.folder, expected_id=self.id, public_key=SIGNER.public_key
        ).problems


OF_EVERY_WORLD = pytest.mark.parametrize(
    "name",
    ["plain", *(pytest.param(one, marks=pytest.mark.soak) for one in WORLDS if one != "plain")],
)
ReleaseOf = Callable[[str], Release]


@pytest.fixture(scope="module")
def release_of(tmp_path_factory: pytest.TempPathFactory) -> ReleaseOf:
    """Signed releases of the worlds by name, each built once."""

    @cache
    def built(name: str) -> Release:
        dataset, composed = WORLDS[name]
        home = tmp_path_factory.mktemp(name)
        world = store_world(home / "world", composed().contents())
        stored = world.store, world.blobs
        release = build_release(*stored, dataset, "1.0.0", home / "out", signer=SIGNER)
        world.store.close()
        return Release(release.folder, release.manifest.id, dataset)

    return built


@pytest.fixture
def plain(release_of: ReleaseOf, tmp_path: Path) -> Release:
    """A copy of the plain release that a test may damage."""
    sound = release_of("plain")
    return sound._replace(folder=Path(shutil.copytree(sound.folder, tmp_path / "plain")))


def details(problems: list[Problem]) -> str:
    return "\n".join(f"{one.fault}: {one.message}" for one in problems) or "nothing"


def assert_clear(problems: list[Problem]) -> None:
    """Check that problems are one line each and name the row and its file."""
    for one in problems:
        assert "\n" not in one.message
        if one.row is not None:
            assert f"row {one.row}" in one.message, one.message
            assert one.file in one.message, one.message


@OF_EVERY_WORLD
def test_a_valid_copy_has_no_problems(release_of: ReleaseOf, name: str, tmp_path: Path) -> None:
    sound = release_of(name)
    copy = sound._replace(folder=Path(shutil.copytree(sound.folder, tmp_path / name)))
    assert details(copy.problems()) == "nothing"
    assert details(verify_release(copy.folder, decode=True).problems) == "nothing"
    copy.reseal()
    assert read_manifest(copy.folder).id == copy.id


# Faults of files, tried on every kind of file in a release.


def flip(place: float) -> Callable[[Path], None]:
    def flipped(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[int(place * (len(data) - 1))] ^= 0x10
        path.write_bytes(data)

    return flipped


def link(path: Path) -> None:
    real = (
        path.parent.parent / f"real-{path.name}"
    )  # may be in the release, for a file in a subfolder
    real = path.with_suffix(".real") if real.is_relative_to(path.parent) else real
    path.rename(real)
    path.symlink_to(real)


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


class FileFault(NamedTuple):
    """A fault of a file; expected faults if it is a listed file, the manifest or the signature."""

    name: str
    do: Callable[[Path], object]
    listed: set[str]
    manifest: set[str]
    signature: set[str]


_UNREAD = {"manifest_unreadable", "manifest_invalid", "manifest_edited", "licence_missing"}
_UNSIGNED = {"signature_unreadable", "signature_wrong", "signature_of_other_release"}
FILE_FAULTS = [
    FileFault("a byte flipped", flip(0.6), {"file_changed"}, _UNREAD, _UNSIGNED),
    FileFault("cut short", lambda path: os.truncate(path, path.stat().st_size - 1),
              {"file_changed"}, _UNREAD, _UNSIGNED),
    FileFault("emptied", lambda path: path.write_bytes(b""),
              {"file_changed"}, _UNREAD, _UNSIGNED),
    FileFault("grown", lambda path: path.write_bytes(path.read_bytes() + b"\n"),
              {"file_changed"}, _UNREAD, _UNSIGNED),
    FileFault("missing", Path.unlink, {"file_missing"}, {"manifest_missing"},
              {"signature_missing"}),
    FileFault("renamed", lambda path: path.rename(path.with_name(f"x{path.name}")),
              {"file_renamed"}, {"manifest_missing"}, {"signature_missing"}),
    FileFault("replaced by a link", link, {"not_a_file"}, {"manifest_unreadable"},
              {"signature_unreadable"}),
    FileFault("replaced by a pipe", pipe, {"not_a_file"}, {"manifest_unreadable"},
              {"signature_unreadable"}),
    FileFault("replaced by a folder", replace_by_folder,
              {"file_missing"}, {"manifest_unreadable"}, {"signature_unreadable"}),
    FileFault("added again", lambda path: shutil.copy(path, path.with_name(f"x{path.name}")),
              {"file_extra"}, {"file_extra"}, {"file_extra"}),
]  # fmt: skip


OF_EVERY_RELEASE = {
    *(MANIFEST, SIGNATURE, "README.md", "CITATION.cff", "words.svg", "croissant.json"),
    *(table.path for table in TABLES),
}


def kinds_of(paths: list[str]) -> list[str]:
    """All files except images, and the last image."""
    return [path for path in paths if not path.startswith("images/")] + [
        [path for path in paths if path.startswith("images/")][-1]
    ]


@OF_EVERY_WORLD
def test_faults_of_every_file_are_reported(
    release_of: ReleaseOf, name: str, tmp_path: Path
) -> None:
    sound = release_of(name)
    files = kinds_of(sound.paths())
    assert {MANIFEST, SIGNATURE, sound.json, sound.shard, "README.md"} < set(files)
    is_plain = sound.dataset == DATASET
    if not is_plain:  # files of every release are tried only on the plain one
        files = [path for path in files if path not in OF_EVERY_RELEASE]
    own = "ccd.jsonl", "leaks.json"  # these the plain release does not have
    cases = [
        (fault, path)
        for (number, fault), (place, path) in product(enumerate(FILE_FAULTS), enumerate(files))
        if (_is_parsed(path) and (is_plain or path.endswith(own))) or (number + place) % 4 == 0
    ]

    def check(case: tuple[FileFault, str]) -> None:
        fault, path = case
        copy = sound._replace(folder=tmp_path / "copy")
        shutil.copytree(sound.folder, copy.folder, copy_function=os.link)
        (copy.folder / path).unlink()  # a copy instead of a hard link to the valid release
        shutil.copy(sound.folder / path, copy.folder / path)
        fault.do(copy.folder / path)
        problems = copy.problems()
        shutil.rmtree(copy.folder)
        wanted = {MANIFEST: fault.manifest, SIGNATURE: fault.signature}.get(path, fault.listed)
        name = path.rpartition("/")[2]
        named_it = [one for one in problems if one.fault in wanted and name in one.message]
        assert named_it, details(problems)
        assert_clear(problems)

    check_each(cases, check)


def _is_parsed(path: str) -> bool:
    """Whether verification reads more of a file than its bytes; of the lineage, one table."""
    if path.startswith("lineage/"):
        return path == ENTITIES.path
    return path.endswith((".parquet", ".json", ".jsonl")) and path != "croissant.json"


# Faults of rows.


class RowFault(NamedTuple):
    """A fault of rows, the expected fault, and the file and row to be reported.

    `file` is "json", "parquet" or the name of a file. `resealed` is the expected fault after
    resealing (None: the same); "other_release" if only the cited id reveals the change.
    """

    name: str
    do: Callable[[Release], object]
    fault: str
    file: str
    row: int | None = None
    resealed: str | None = None


def swap(rows: Rows) -> None:
    rows[PLACE], rows[PLACE + 1] = rows[PLACE + 1], rows[PLACE]


def swap_field(*fields: str) -> Callable[[Rows], None]:
    def swapped(rows: Rows) -> None:
        for field in fields:
            first, second = rows[PLACE], rows[PLACE + 1]
            first[field], second[field] = second[field], first[field]

    return swapped


def put(**values: Any) -> Callable[[Rows], None]:
    return lambda rows: rows[PLACE].update(values)


def other_text(rows: Rows) -> None:
    rows[PLACE]["captions"][0] = "Somebody else entirely."


def drop_everywhere(release: Release) -> None:
    (release.folder / release.image()).unlink()
    release.edit_both(lambda rows: rows.pop(PLACE))


def swap_image_files(release: Release) -> None:
    paths = pq.read_table(release.folder / release.shard)["file_path"].to_pylist()
    first, second = (release.folder / paths[place] for place in (PLACE, PLACE + 1))
    kept = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(kept)


def move_to_new_shard(release: Release) -> None:
    """Move the row to a Parquet file of another split and change its split."""
    table = pq.read_table(release.folder / release.shard)
    rows = table.to_pylist()
    moved = rows.pop(PLACE)
    moved["split"] = "val"
    pq.write_table(pa.Table.from_pylist(rows, table.schema), release.folder / release.shard)
    shard = release.folder / "data/val-00000-of-00001.parquet"
    pq.write_table(pa.Table.from_pylist([moved], table.schema), shard)
    release.edit_json(put(split="val"))


ROW_FAULTS = [
    RowFault("row removed from JSON", lambda r: r.edit_json(lambda rows: rows.pop(PLACE)),
             "rows_differ", "json", ROW),
    RowFault("row removed from Parquet", lambda r: r.edit_parquet(lambda rows: rows.pop(PLACE)),
             "row_missing", "parquet", ROW),
    RowFault("row removed everywhere", drop_everywhere, "row_missing", "parquet", ROW),
    RowFault("last row removed from JSON", lambda r: r.edit_json(lambda rows: rows.pop()),
             "rows_differ", "json"),
    RowFault("row duplicated in JSON",
             lambda r: r.edit_json(lambda rows: rows.insert(PLACE, dict(rows[PLACE]))),
             "rows_differ", "json", ROW + 1),
    RowFault("row duplicated in Parquet",
             lambda r: r.edit_parquet(lambda rows: rows.insert(PLACE, rows[PLACE])),
             "row_out_of_order", "parquet", ROW),
    RowFault("row duplicated in both",
             lambda r: r.edit_both(lambda rows: rows.insert(PLACE, rows[PLACE])),
             "row_out_of_order", "parquet", ROW),
    RowFault("rows swapped in JSON", lambda r: r.edit_json(swap),
             "rows_differ", "json", ROW),
    RowFault("rows swapped in Parquet", lambda r: r.edit_parquet(swap),
             "row_out_of_order", "parquet", ROW),
    RowFault("rows swapped in both", lambda r: r.edit_both(swap),
             "row_out_of_order", "parquet", ROW),
    RowFault("row moved to another split in JSON", lambda r: r.edit_json(put(split="val")),
             "rows_differ", "json", ROW),
    RowFault("row moved to another split in Parquet", lambda r: r.edit_parquet(put(split="val")),
             "split_wrong", "parquet", ROW),
    RowFault("row moved to another split in both", lambda r: r.edit_both(put(split="val")),
             "split_wrong", "parquet", ROW),
    RowFault("row moved to a file of another split", move_to_new_shard,
             "row_missing", "data/"),
    RowFault("captions swapped in JSON", lambda r: r.edit_json(swap_field("captions")),
             "rows_differ", "json", ROW),
    RowFault("captions swapped in Parquet", lambda r: r.edit_parquet(swap_field("captions")),
             "rows_differ", "json", ROW),
    RowFault("image files swapped", swap_image_files, "file_changed", "image", None,
             "image_wrong"),
    RowFault("digest changed in Parquet", lambda r: r.edit_parquet(put(sha256="0" * 64)),
             "image_wrong", "parquet", ROW),
    RowFault("identity changed in JSON", lambda r: r.edit_json(put(id=999)),
             "rows_differ", "json", ROW),
    RowFault("caption changed in JSON", lambda r: r.edit_json(other_text),
             "rows_differ", "json", ROW),
    RowFault("caption changed in Parquet", lambda r: r.edit_parquet(other_text),
             "rows_differ", "json", ROW),
    RowFault("caption changed in both", lambda r: r.edit_both(other_text),
             "file_changed", "json", None, "other_release"),
    RowFault("caption removed in both",
             lambda r: r.edit_both(lambda rows: rows[PLACE]["captions"].pop()),
             "captions_differ", "parquet", ROW),
    RowFault("image's entity id changed", lambda r: r.edit_parquet(put(image_entity_id="0" * 32)),
             "entity_differs", "parquet", ROW),
    RowFault("caption's entity id changed", lambda r: r.edit_parquet(
             lambda rows: rows[PLACE]["caption_entity_ids"].__setitem__(0, "0" * 32)),
             "lineage_incomplete", "parquet", ROW),
    RowFault("source changed", lambda r: r.edit_parquet(put(source="Elsewhere")),
             "licence_missing", "parquet", ROW),
]  # fmt: skip


def is_reported(problems: list[Problem], fault: str, file: str, row: int | None) -> bool:
    return any(
        one.fault == fault and file in one.message and row in (None, one.row) for one in problems
    )


def tried_on(sound: Release, faults: Sequence[T]) -> Sequence[T]:
    """The faults to try on a release: all on the plain one, some on each of the two others."""
    others = [dataset for dataset, _ in WORLDS.values() if dataset != DATASET]
    return faults if sound.dataset == DATASET else faults[others.index(sound.dataset) :: 5]


@OF_EVERY_WORLD
def test_faults_of_rows_are_reported(release_of: ReleaseOf, name: str, tmp_path: Path) -> None:
    sound = release_of(name)

    def check(folder: Path, fault: RowFault) -> None:
        check_fault_of_rows(sound._replace(folder=folder), fault)

    check_on_copies(sound.folder, tmp_path, tried_on(sound, ROW_FAULTS), check)


def check_fault_of_rows(copy: Release, fault: RowFault) -> None:
    where = {"json": copy.json, "parquet": copy.shard, "image": copy.image()}
    file = where.get(fault.file, fault.file)
    fault.do(copy)
    problems = copy.problems()
    assert is_reported(problems, fault.fault, file, fault.row), details(problems)
    assert any(one.fault in ("file_changed", "file_missing", "file_extra") for one in problems)
    assert_clear(problems)
    copy.reseal()
    problems = copy.problems()
    resealed = fault.resealed or fault.fault
    if fault.resealed is None:
        assert is_reported(problems, resealed, file, fault.row), details(problems)
    assert {resealed, "other_release", "signature_of_other_release"} <= {
        one.fault for one in problems
    }, details(problems)
    assert_clear(problems)


# Faults of the manifest and of the signature.


class ManifestFault(NamedTuple):
    """A change of the manifest and the expected fault in addition to the wrong id."""

    name: str
    do: Callable[[Release], object]
    fault: str
    says: str = MANIFEST
    row: int | None = None


def first_source(change: Callable[[dict[str, Any]], object]) -> Callable[[Release], None]:
    return lambda release: release.edit_manifest(lambda values: change(values["sources"][0]))


def edit(**changes: Any) -> Callable[[Release], None]:
    return lambda release: release.edit_manifest(lambda values: values.update(changes))


def statistic(name: str) -> Callable[[Release], None]:
    def more(values: dict[str, Any]) -> None:
        values["statistics"][name] += 1

    return lambda release: release.edit_manifest(more)


def with_other_entity(file: ReleasedFile) -> ReleasedFile:
    return file._replace(entity_id="0" * 32)


MANIFEST_FAULTS = [
    ManifestFault("licence removed", first_source(lambda one: one.pop("licence")),
                  "licence_missing", "states no licence"),
    ManifestFault("licence changed", first_source(lambda one: one.update(licence="Any")),
                  "manifest_edited"),
    ManifestFault("source renamed", first_source(lambda one: one.update(name="Elsewhere")),
                  "licence_missing", "states no licence", 1),
    ManifestFault("key added", edit(more=1), "manifest_invalid", "more"),
    ManifestFault("version changed", edit(version="1.0.1"), "manifest_edited"),
    ManifestFault("said to be reviewed", lambda release: release.edit_manifest(
                  lambda values: values.update(unreviewed=not values["unreviewed"])),
                  "manifest_edited"),
    ManifestFault("entity id of a source changed",
                  first_source(lambda one: one.update(entity_id="0" * 32)),
                  "lineage_incomplete"),
    ManifestFault("root changed", edit(files_root="0" * 64), "manifest_edited"),
    ManifestFault("count of files changed", edit(files_count=1), "manifest_edited"),
    ManifestFault("id changed", edit(id="0" * 64), "manifest_edited"),
    ManifestFault("images counted otherwise", statistic("images"), "totals_differ"),
    ManifestFault("entity id of an image changed",
                  lambda release: release.edit_listed(with_other_entity), "entity_differs",
                  MANIFEST, ROW),
]  # fmt: skip


def test_faults_of_the_manifest_are_reported(release_of: ReleaseOf, tmp_path: Path) -> None:
    plain = release_of("plain")

    def check(folder: Path, fault: ManifestFault) -> None:
        check_fault_of_manifest(plain._replace(folder=folder), fault)

    check_on_copies(plain.folder, tmp_path, MANIFEST_FAULTS, check)


def check_fault_of_manifest(copy: Release, fault: ManifestFault) -> None:
    fault.do(copy)
    problems = copy.problems()
    assert is_reported(problems, fault.fault, fault.says, fault.row), details(problems)
    assert_clear(problems)
    if any(one.fault in ("manifest_invalid", "licence_missing") for one in problems):
        return
    assert is_reported(problems, "manifest_edited", MANIFEST, None), details(problems)
    is_repaired = fault.name in ("root changed", "count of files changed", "id changed")
    copy.reseal()
    problems = copy.problems()
    if is_repaired:
        assert details(problems) == "nothing"
        return
    assert {"other_release", "signature_of_other_release"} <= {one.fault for one in problems}
    if fault.fault != "manifest_edited":
        assert is_reported(problems, fault.fault, fault.says, fault.row), details(problems)


def test_an_image_without_a_row_is_reported(plain: Release) -> None:
    shutil.copy(plain.folder / plain.image(), plain.folder / "images/99.jpg")
    assert is_reported(plain.problems(), "file_extra", "images/99.jpg", None)
    plain.reseal()
    assert is_reported(plain.problems(), "image_without_row", "images/99.jpg", None)


def test_leaving_out_all_images_is_one_fault_unless_allowed(plain: Release) -> None:
    shutil.rmtree(plain.folder / "images")
    assert {one.fault for one in plain.problems()} == {"images_left_out"}
    assert verify_release(plain.folder, without_images=True).problems == []
    plain.edit_parquet(put(sha256="0" * 64))
    faults = {one.fault for one in verify_release(plain.folder, without_images=True).problems}
    assert "image_wrong" in faults


def test_empty_folders_and_files_of_file_managers_are_no_fault(plain: Release) -> None:
    (plain.folder / "empty").mkdir()
    for name in (".DS_Store", "images/Thumbs.db"):
        (plain.folder / name).write_bytes(b"view")
    assert plain.problems() == []


def test_an_image_missing_from_the_list_is_reported(plain: Release) -> None:
    image = plain.image()
    (plain.folder / image).unlink()
    plain.reseal()
    assert is_reported(plain.problems(), "image_unlisted", image, ROW)
