"""Withdrawn files, and no others, are refused by their digest on import."""

from pathlib import Path

from sqlalchemy import select

from db.entities import find
from db.tables import WithdrawnDigest
from flows.engine.importing import Tombstones
from flows.ufine6926.video_import import import_videos
from schemas.build import VideoSourceSpec
from schemas.video import Video
from sources.demonstration.street import StreetWorld
from tests.flows.withdrawals import Home, home_of
from tests.release.worlds import DATASET, SOURCES


def test_tombstones_include_new_withdrawals_after_a_refresh(tmp_path: Path) -> None:
    home = home_of(tmp_path / "home")
    tombstones = Tombstones(home.store)
    tombstones.look()
    home.withdraw("identity", "9", dataset=DATASET, source=SOURCES[1].name)
    with home.store.read() as connection:
        query = select(WithdrawnDigest.sha256).where(WithdrawnDigest.is_refused)
        digests = list(connection.execute(query).scalars())
    assert len(digests) == 2
    assert tombstones.refusal("s", "a.jpg", digests) is None
    tombstones.look()
    refused = tombstones.refusal("s", "a.jpg", ["0" * 64, digests[0]])
    assert refused is not None
    assert refused.reason == "withdrawn"
    assert tombstones.refusal("s", "a.jpg", ["0" * 64]) is None
    home.store.close()


def test_a_withdrawn_video_is_not_imported_again(tmp_path: Path, street: StreetWorld) -> None:
    home: Home = home_of(tmp_path / "home")

    def import_street(name: str) -> list[Video]:
        spec = VideoSourceSpec(
            name=name, videos=(str(street.folder),), licence="CC0-1.0", citation="c"
        )
        import_videos(home.run, spec)
        return [one.record(Video) for one in find(home.store, name, Video.kind)]

    first = import_street("first")
    assert len(first) == 2
    home.withdraw("video", first[0].file_path, "law", dataset="first")
    assert [one.sha256 for one in import_street("second")] == [first[1].sha256]
    home.store.close()
