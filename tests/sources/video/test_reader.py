from pathlib import Path

import av
import fsspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loupe.models.tracking.detector import Frame
from loupe.sources.video.reader import VideoLimits, VideoProblem, VideoRefusedError, open_video
from tests.sources.video.clips import (
    is_upright,
    number_in,
    without_index_at_end,
    write_clip,
    write_sound,
)

SIXTY = [number % 16 for number in range(60)]
REAL_TIME = {"deadline": "realtime", "cpu-used": "8", "lag-in-frames": "0"}
OPEN_GROUPS = "open-gop=1:keyint=10:min-keyint=10:bframes=3:scenecut=0"


def read(
    path: Path | str, start: int = 0, every: int = 1
) -> tuple[list[Frame], VideoProblem | None]:
    with open_video(path) as reader:
        return list(reader.frames(start, every)), reader.problem


def refusal(path: Path, limits: VideoLimits | None = None) -> VideoRefusedError:
    with pytest.raises(VideoRefusedError) as caught, open_video(path, limits):
        pass
    return caught.value


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clip(tmp_path_factory.mktemp("clip") / "a.mp4")


def test_all_frames_come_in_order_with_their_times(
    subtests: pytest.Subtests, tmp_path: Path
) -> None:
    cases = [
        ("a.mp4", "libx264"), ("a.mkv", "libx264"), ("a.avi", "libx264"), ("a.ts", "libx264"),
        ("a.webm", "libvpx-vp9"), ("a.mov", "libx265"), ("a.flv", "flv"),
    ]  # fmt: skip
    for name, codec in cases:
        with subtests.test(name=name, codec=codec):
            path = write_clip(tmp_path / name, codec=codec)
            frames, problem = read(path)
            assert problem is None
            assert [number_in(frame.pixels) for frame in frames] == list(range(15))
            assert [frame.number for frame in frames] == list(range(15))
            times = [frame.time_seconds for frame in frames]
            np.testing.assert_allclose(times, np.arange(15) / 10, atol=0.002)
            assert all(is_upright(frame.pixels) for frame in frames)


def test_facts_come_from_the_container(clip: Path) -> None:
    with open_video(clip) as reader:
        facts = reader.facts
    assert (facts.width_px, facts.height_px, facts.frame_count) == (64, 48, 15)
    assert (facts.frame_rate, facts.duration_seconds, facts.codec) == (10, 1.5, "h264")


@settings(max_examples=15)
@given(start=st.integers(0, 17), every=st.integers(1, 6))
def test_a_later_start_reads_the_same_frames(clip: Path, start: int, every: int) -> None:
    all_frames, _ = read(clip)
    wanted = [frame for frame in all_frames if frame.number >= start and frame.number % every == 0]
    frames, problem = read(clip, start, every)
    assert problem is None
    assert [frame[:2] for frame in frames] == [frame[:2] for frame in wanted]
    for frame, other in zip(frames, wanted, strict=True):
        np.testing.assert_array_equal(frame.pixels, other.pixels)


def test_a_variable_frame_rate_is_kept(tmp_path: Path) -> None:
    times = [0, 40, 80, 1000, 1500, 1510]
    frames, problem = read(write_clip(tmp_path / "a.mkv", range(6), times_ms=times))
    assert [frame.time_seconds for frame in frames] == pytest.approx([t / 1000 for t in times])
    assert problem is None


@pytest.mark.parametrize(
    ("name", "rate", "times_ms", "found", "is_stated"),
    [
        ("a.h264", 10, None, 10, True),
        ("a.264", 10, None, 10, True),
        ("a.hevc", 10, None, 10, True),
        ("a.mkv", 1000, range(0, 600, 40), 25, True),  # the clock's rate instead of the frames'
        ("a.webm", 1000, range(0, 600, 40), 25, True),
        ("a.flv", 1000, range(0, 600, 40), 25, True),
        ("a.mkv", 1000, range(15), 25, False),
        ("a.mp4", 1000, range(15), 25, False),
    ],
)
def test_the_frame_rate_is_a_plausible_one(
    tmp_path: Path,
    name: str,
    rate: int,
    times_ms: range | None,
    found: float,
    is_stated: bool,
) -> None:
    codec = {"webm": "libvpx-vp9", "hevc": "libx265"}.get(name[2:], "libx264")
    options = {"x265-params": "log-level=none"} if codec == "libx265" else None
    path = write_clip(tmp_path / name, codec=codec, rate=rate, times_ms=times_ms, options=options)
    with open_video(path) as reader:
        frames = list(reader.frames())
    assert reader.facts.frame_rate == pytest.approx(found)
    assert reader.facts.has_stated_rate is is_stated
    assert frames[-1].time_seconds == pytest.approx(14 / found, abs=0.002)


def test_a_given_frame_rate_replaces_times_and_rate(clip: Path) -> None:
    with open_video(clip, frame_rate=50) as reader:
        frames = list(reader.frames())
    assert reader.facts.frame_rate == 50
    assert reader.problem is None
    assert frames[10].time_seconds == pytest.approx(0.2)


def test_times_count_from_the_first_frame(tmp_path: Path) -> None:
    frames, _ = read(write_clip(tmp_path / "a.mkv", range(3), times_ms=[700, 800, 900]))
    assert [frame.time_seconds for frame in frames] == pytest.approx([0, 0.1, 0.2])


def test_frames_are_turned_upright(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for turned in [90, 180, 270]:
        with subtests.test(turned=turned):
            path = write_clip(tmp_path / "a.mp4", range(3), turned=turned)
            with open_video(path) as reader:
                facts, frames = reader.facts, list(reader.frames())
            assert (facts.width_px, facts.height_px) == (64, 48)
            assert facts.rotation_degrees == 360 - turned
            for frame in frames:
                assert frame.pixels.shape == (48, 64, 3)
                assert frame.pixels.flags.c_contiguous
                assert is_upright(frame.pixels)
                assert number_in(frame.pixels) == frame.number


def test_frames_of_another_size_are_scaled_to_the_first(tmp_path: Path) -> None:
    parts = [
        write_clip(tmp_path / "a.ts", range(4), size=(64, 48)).read_bytes(),
        write_clip(tmp_path / "b.ts", range(4, 9), size=(128, 96)).read_bytes(),
    ]
    (tmp_path / "both.ts").write_bytes(b"".join(parts))
    frames, _ = read(tmp_path / "both.ts")
    assert {frame.pixels.shape for frame in frames} == {(48, 64, 3)}
    assert len(frames) > 4
    times = [frame.time_seconds for frame in frames]
    assert times == sorted(set(times))


def test_a_4k_video_is_read(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "a.mkv", [0], codec="mpeg4", size=(3840, 2160))
    frames, problem = read(path)
    assert frames[0].pixels.shape == (2160, 3840, 3)
    assert problem is None


def test_the_header_is_checked_against_the_pixel_limit(clip: Path) -> None:
    limits = VideoLimits(max_pixels=64 * 48 - 1)
    error = refusal(clip, limits)
    assert error.reason == "too_many_pixels"
    assert str(error) == (
        f"video {str(clip)!r} has frames of 64×48 pixels, wanted at most 3,071 in all"
    )
    with open_video(clip, VideoLimits(max_pixels=64 * 48)) as reader:
        assert len(list(reader.frames())) == 15


def test_frames_above_the_pixel_limit_end_the_video(tmp_path: Path) -> None:
    small = write_clip(tmp_path / "a.ts", range(9), size=(64, 48)).read_bytes()
    large = write_clip(tmp_path / "b.ts", range(9), size=(320, 240)).read_bytes()
    (tmp_path / "both.ts").write_bytes(small + large)
    with open_video(tmp_path / "both.ts", VideoLimits(max_pixels=10_000)) as reader:
        frames = list(reader.frames())
    assert len(frames) <= 9
    assert reader.problem is not None
    assert reader.problem.reason == "damaged_video"


def test_a_truncated_video_yields_its_complete_frames(tmp_path: Path) -> None:
    data = without_index_at_end(write_clip(tmp_path / "a.mp4", range(15)))
    (tmp_path / "cut.mp4").write_bytes(data[: len(data) * 2 // 3])
    runs = [read(tmp_path / "cut.mp4") for _ in range(3)]
    frames, problem = runs[0]
    assert 3 < len(frames) < 15
    assert [number_in(frame.pixels) for frame in frames] == list(range(len(frames)))
    assert problem is not None
    assert problem.detail.startswith(
        f"video '{tmp_path}/cut.mp4' is damaged after {len(frames)} frames, and read no further: "
    )
    assert {(len(frames), str(problem)) for frames, problem in runs} == {
        (len(frames), str(problem))
    }


def test_a_missing_end_is_detected_in_formats_without_a_length(tmp_path: Path) -> None:
    data = write_clip(
        tmp_path / "a.webm", SIXTY, codec="libvpx-vp9", options=REAL_TIME
    ).read_bytes()
    (tmp_path / "cut.webm").write_bytes(data[: len(data) // 2])
    frames, problem = read(tmp_path / "cut.webm")
    assert 0 < len(frames) < 50
    assert problem is not None
    assert problem.reason == "truncated_video"


def test_a_damaged_video_always_ends_at_the_same_frame(tmp_path: Path) -> None:
    data = bytearray(write_clip(tmp_path / "a.ts", SIXTY).read_bytes())
    data[len(data) // 2 : len(data) // 2 + 600] = bytes(600)
    (tmp_path / "bad.ts").write_bytes(data)
    runs = [read(tmp_path / "bad.ts") for _ in range(3)]
    frames, problem = runs[0]
    assert problem is not None
    assert problem.reason == "damaged_video"
    assert [number_in(frame.pixels) for frame in frames] == SIXTY[: len(frames)]
    assert 15 < len(frames) < 45
    assert {len(frames) for frames, _ in runs} == {len(frames)}


def test_a_recording_is_read_from_its_first_complete_group_of_frames(
    subtests: pytest.Subtests, tmp_path: Path
) -> None:
    for codec, options in [
        ("libx264", {"x264-params": f"{OPEN_GROUPS}:log-level=none"}),
        ("libx265", {"x265-params": f"{OPEN_GROUPS}:log-level=none"}),
        ("mpeg2video", {"g": "10", "bf": "2"}),
    ]:
        with subtests.test(codec=codec, options=options):
            path = write_clip(tmp_path / "a.ts", SIXTY, codec=codec, rate=25, options=options)
            with av.open(str(path)) as source:
                packets = [
                    packet for packet in source.demux(source.streams.video[0]) if packet.size
                ]
                (tmp_path / "late.bin").write_bytes(
                    b"".join(bytes(packet) for packet in packets[4:])
                )
            frames, problem = read(tmp_path / "late.bin")
            assert problem is None
            numbers = [number_in(frame.pixels) for frame in frames]
            assert numbers == SIXTY[-len(numbers) :]
            assert len(numbers) > 40


def test_a_file_with_only_sound_is_refused(tmp_path: Path) -> None:
    error = refusal(write_sound(tmp_path / "a.m4a"))
    assert error.reason == "no_pictures"
    assert str(error).endswith("has no moving pictures: audio only")


def test_files_that_are_no_videos_are_refused(subtests: pytest.Subtests, tmp_path: Path) -> None:
    cases: list[tuple[bytes, str]] = [
        (b"", "empty_file"),
        (b"no video at all " * 100, "not_a_video"),
        (b"\x00\x00\x00\x18ftypisom" + bytes(500), "not_a_video"),
        (b"ffconcat version 1.0\nfile '/etc/passwd'\n", "not_a_video"),
    ]
    for content, reason in cases:
        with subtests.test(reason=reason):
            path = tmp_path / "a.mp4"
            path.write_bytes(content)
            assert refusal(path).reason == reason


def test_a_playlist_is_refused(tmp_path: Path) -> None:
    """FFmpeg would open the file named in the playlist if it recognised the format."""
    write_clip(tmp_path / "part.ts")
    playlist = tmp_path / "list.m3u8"
    playlist.write_text("#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:1.5,\npart.ts\n#EXT-X-ENDLIST\n")
    assert refusal(playlist).reason == "not_a_video"


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "nowhere.mp4").reason == "missing_video"
    assert refusal(tmp_path).reason == "not_a_file"


def test_a_video_is_read_from_any_file_system(clip: Path) -> None:
    with fsspec.open("memory://street/a.mp4", "wb") as file:
        file.write(clip.read_bytes())
    frames, problem = read("memory://street/a.mp4")
    assert [number_in(frame.pixels) for frame in frames] == list(range(15))
    assert problem is None


def test_frames_remain_valid_after_the_video_is_closed(clip: Path) -> None:
    with open_video(clip) as reader:
        frames = reader.frames()
        first, second = next(frames), next(frames)
    assert [number_in(frame.pixels) for frame in (first, second)] == [0, 1]
    assert reader.problem is None


def test_frames_can_be_requested_only_once(clip: Path) -> None:
    with open_video(clip) as reader:
        list(reader.frames())
        with pytest.raises(ValueError, match="requested before"):
            reader.frames()


def test_invalid_starts_and_steps_are_refused(subtests: pytest.Subtests, clip: Path) -> None:
    for start, every in [(-1, 1), (0, 0)]:
        with (
            subtests.test(start=start, every=every),
            open_video(clip) as reader,
            pytest.raises(ValueError, match="start must be >= 0"),
        ):
            reader.frames(start, every)


def test_reading_stops_at_the_frame_limit(clip: Path) -> None:
    with open_video(clip, VideoLimits(max_frames=4)) as reader:
        frames = list(reader.frames())
    assert [frame.number for frame in frames] == [0, 1, 2, 3]
    assert reader.problem is not None
    assert reader.problem.reason == "too_many_frames"


class NoMemory(VideoLimits):
    @property
    def memory(self) -> int:
        return 0


def test_a_decoder_out_of_memory_ends_only_its_own_video(clip: Path, tmp_path: Path) -> None:
    large = write_clip(tmp_path / "large.mp4", range(2), size=(1920, 1088))
    reasons = ("too_much_memory", "decoder_crashed", "undecodable_video", "not_a_video")
    assert refusal(large, NoMemory()).reason in reasons
    assert len(read(clip)[0]) == 15
