import hashlib
from pathlib import Path

from sources.video.finding import FoundVideo, find_videos
from sources.video.inspecting import InspectedVideo, inspect_video
from sources.video.problem import VideoProblem
from tests.sources.video.clips import write_clip


def test_a_video_is_known_by_the_digest_of_its_bytes(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "a.mp4", range(3))
    (found,) = find_videos(path)
    assert isinstance(found, FoundVideo)
    video = inspect_video(found)
    assert isinstance(video, InspectedVideo)
    data = path.read_bytes()
    assert (video.sha256, video.size_bytes) == (hashlib.sha256(data).hexdigest(), len(data))
    assert (video.file_path, video.facts.frame_count) == ("a.mp4", 3)


def test_problems_name_the_path_below_the_root(tmp_path: Path) -> None:
    (tmp_path / "night").mkdir()
    (tmp_path / "night" / "a.mp4").write_bytes(b"no video")
    (found,) = find_videos(tmp_path)
    assert isinstance(found, FoundVideo)
    problem = inspect_video(found)
    assert isinstance(problem, VideoProblem)
    assert problem.file_path == "night/a.mp4"
    assert problem.detail.startswith("video 'night/a.mp4' is no video that can be read")
