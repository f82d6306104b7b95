"""The database as lmdb reads it."""

import json
from pathlib import Path

from tests.release.export.conftest import Releases
from tests.release.export.kinds import truth, without_image


def test_lmdb_gives_every_image_by_its_path(release: Path, kind: str, exports: Releases) -> None:
    import lmdb

    folder, wanted = exports[f"{kind}/lmdb"], truth(release)
    index = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    assert index == [without_image(row) for row in wanted]
    with (
        lmdb.open(str(folder), readonly=True, lock=False) as environment,
        environment.begin() as transaction,
    ):
        assert transaction.stat()["entries"] == len(wanted)
        for row in wanted:
            assert transaction.get(row["file_path"].encode()) == row["image"]


def test_nothing_but_the_database_and_its_index_is_left(exports: Releases) -> None:
    names = {path.name for path in exports["plain/lmdb"].iterdir()}
    assert names == {"data.mdb", "index.json", "export.json"}
