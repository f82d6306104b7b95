"""Listing of copies that a withdrawal cannot remove."""

import shutil
from pathlib import Path

from loupe.db.entities import fetch, new_entity
from loupe.db.withdrawals import list_withdrawals
from loupe.flows.withdrawal.plan import residual_copies
from loupe.release.export import export_release
from loupe.release.export.formats import format_called
from loupe.release.report.writing import write_report
from loupe.schemas.provenance import Role
from loupe.schemas.records import Image
from tests.db.samples import store_entities
from tests.flows.withdrawals import home_of
from tests.release.worlds import DATASET, SOURCES

FINE = SOURCES[1]


def test_exports_reports_copies_and_source_files_are_listed(tmp_path: Path) -> None:
    home = home_of(tmp_path / "home")
    release, releases = home.release("1.0.0"), home.folder / "releases"
    export_release(release, format_called("coco", None), releases / "coco")
    write_report(release, home.folder / "report")
    shutil.copytree(release, releases / "copy")
    (releases / "notes").mkdir()
    (releases / "notes" / "export.json").write_text("{")
    home.withdraw("identity", "9", dataset=DATASET, source=FINE.name)
    left = residual_copies(home.store, home.folder, list_withdrawals(home.store)[0])
    assert set(left.made) == {releases / "coco", home.folder / "report", releases / "copy"}
    assert left.originals == {FINE.name: ("dir/0.jpg", "dir/1.jpg")}
    assert left.notices == (home.folder / "notices" / f"{DATASET}.json",)
    assert all(path.exists() for path in (*left.made, *left.notices))
    home.store.close()


def test_an_edited_image_is_not_listed_as_a_source_file(tmp_path: Path) -> None:
    home = home_of(tmp_path / "home")
    plan = home.plan("identity", "9", dataset=DATASET, source=FINE.name)
    ids = sorted(id_ for id_, one in plan.reached.items() if one.kind == "image")
    image = fetch(home.store, ids)[ids[0]].record(Image)
    edited = image.model_copy(update={"file_path": "0-3abc641b"})
    store_entities(home.store, [new_entity(edited, DATASET, parents=[(Role.EDITED_AS, ids[0])])])
    home.withdraw("identity", "9", dataset=DATASET, source=FINE.name)
    left = residual_copies(home.store, home.folder, list_withdrawals(home.store)[0])
    assert left.originals == {FINE.name: ("dir/0.jpg", "dir/1.jpg")}
    home.store.close()
