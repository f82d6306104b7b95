"""Withdrawn files, and no others, are refused by their digest on import."""

from pathlib import Path

from db.entities import find
from flows.ufine6926.video_import import import_videos
from schemas.build import VideoSourceSpec
from schemas.video import Video
from sources.demonstration.street import StreetWorld
from tests.flows.withdrawals import Home, home_of


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
