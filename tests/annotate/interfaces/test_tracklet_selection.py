from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loupe.annotate.answers import ReviewAnswer, UnclearAnswer
from loupe.annotate.interfaces.image_pages import FRAME_KEYS, TrackletSelection
from loupe.db.store import Store
from loupe.schemas.proposals import Tracklet
from tests.annotate.browser import Bench, LabellingPage
from tests.annotate.interfaces.proposed import a_tracklet
from tests.annotate.interfaces.regions import ParsedHtml, ticked, variables

PAGE = TrackletSelection()
SHOWN = a_tracklet().shown
TRACKLET = SHOWN.record(Tracklet)
NUMBERS = [str(frame.frame) for frame in TRACKLET.frames]
OTHER = TRACKLET.others[0].tracklet_id


def answer_to(*regions: dict[str, Any]) -> ReviewAnswer:
    answer = PAGE.read_annotation(list(regions), SHOWN)
    assert isinstance(answer, ReviewAnswer), answer
    return answer


def parts_of(answer: ReviewAnswer) -> list[list[str]]:
    successors = PAGE.successors(SHOWN, answer, "reviewer-1")
    return [
        [str(frame.frame) for frame in record.frames]
        for record in successors
        if isinstance(record, Tracklet)
    ]


def test_dropped_frames_are_removed_from_the_tracklet() -> None:
    answer = answer_to(ticked("verdict", "keep"), ticked("dropped", NUMBERS[5], NUMBERS[2]))
    assert answer.verdict == "edit"
    assert answer.choices["dropped"] == (NUMBERS[2], NUMBERS[5])
    assert parts_of(answer) == [[n for n in NUMBERS if n not in (NUMBERS[2], NUMBERS[5])]]


def test_a_split_with_n_cuts_makes_n_plus_one_tracklets() -> None:
    answer = answer_to(
        ticked("verdict", "split"), ticked("cuts", NUMBERS[8]), ticked("dropped", NUMBERS[9])
    )
    assert parts_of(answer) == [NUMBERS[:8], [NUMBERS[8], *NUMBERS[10:]]]
    first, second = PAGE.successors(SHOWN, answer, "reviewer-1")
    assert isinstance(first, Tracklet)
    assert isinstance(second, Tracklet)
    assert {first.author, second.author} == {"reviewer-1"}
    assert (first.switches, second.switches) == ((), ())
    assert first.others == TRACKLET.others
    answer = answer_to(ticked("verdict", "split"), ticked("cuts", NUMBERS[8], NUMBERS[4]))
    assert parts_of(answer) == [NUMBERS[:4], NUMBERS[4:8], NUMBERS[8:]]


def test_cuts_count_only_if_the_verdict_is_split() -> None:
    answer = answer_to(ticked("verdict", "keep"), ticked("cuts", NUMBERS[8]))
    assert (answer.verdict, answer.choices["cuts"]) == ("accept", ())


def test_other_tracklets_of_the_same_person_are_recorded() -> None:
    answer = answer_to(ticked("verdict", "keep"), ticked("same_person", OTHER))
    (kept,) = PAGE.successors(SHOWN, answer, "reviewer-1")
    assert isinstance(kept, Tracklet)
    assert kept.same_person_as == (OTHER,)
    assert [other.tracklet_id for other in kept.others] == [TRACKLET.others[1].tracklet_id]
    assert kept.frames == TRACKLET.frames


def test_a_split_discards_the_answer_about_the_same_person() -> None:
    answer = answer_to(
        ticked("verdict", "split"), ticked("cuts", NUMBERS[8]), ticked("same_person", OTHER)
    )
    assert answer.choices["same_person"] == ()
    for part in PAGE.successors(SHOWN, answer, "reviewer-1"):
        assert isinstance(part, Tracklet)
        assert (part.same_person_as, part.others) == ((), TRACKLET.others)


def test_invalid_answers_are_unclear(subtests: pytest.Subtests) -> None:
    for regions, problem in (
        ([], "no verdict was chosen"),
        ([ticked("verdict", "keep", "split")], "no verdict was chosen"),
        ([ticked("verdict", "reject")], "rejected without a reason"),
        ([ticked("verdict", "split")], "split without a frame to split at"),
        (
            [ticked("verdict", "split"), ticked("cuts", NUMBERS[0])],
            f"cuts must hold choices that the page offers; got {NUMBERS[0]!r}",
        ),
        (
            [ticked("verdict", "keep"), ticked("dropped", *NUMBERS)],
            "all frames are dropped, but the tracklet is not",
        ),
    ):
        with subtests.test(problem=problem):
            assert PAGE.read_annotation(regions, SHOWN) == UnclearAnswer(problem=problem)


@given(st.sets(st.sampled_from(NUMBERS)), st.sets(st.sampled_from(NUMBERS[1:]), min_size=1))
def test_parts_contain_every_kept_frame_once(dropped: set[str], cuts: set[str]) -> None:
    regions = [ticked("verdict", "split"), ticked("dropped", *dropped), ticked("cuts", *cuts)]
    answer = PAGE.read_annotation(regions, SHOWN)
    if dropped == set(NUMBERS):
        assert isinstance(answer, UnclearAnswer)
        return
    assert isinstance(answer, ReviewAnswer)
    parts = parts_of(answer)
    assert [number for part in parts for number in part] == [n for n in NUMBERS if n not in dropped]
    assert all(parts)
    assert len(parts) <= len(cuts) + 1
    for cut in map(int, cuts):
        assert not any(int(part[0]) < cut <= int(part[-1]) for part in parts)


def test_the_page_shows_all_frames_and_preselects_suspicious_ones(sqlite_store: Store) -> None:
    (content,) = PAGE.contents(sqlite_store, [SHOWN], "http://127.0.0.1:8/blobs/")
    assert set(content.data) == variables(PAGE.config)
    assert [frame["value"] for frame in content.data["frames"]] == NUMBERS
    assert [cut["value"] for cut in content.data["cuts"]] == NUMBERS[1:]
    assert [frame["hotkey"] for frame in content.data["frames"]] == list(FRAME_KEYS[:12])
    (guess,) = content.predictions
    assert [(region["from_name"], region["value"]["choices"]) for region in guess["result"]] == [
        ("dropped", [NUMBERS[2]]),
        ("cuts", [NUMBERS[8]]),
    ]
    shown = {frame.crop.sha256 for frame in TRACKLET.frames}
    shown |= {frame.crop.sha256 for other in TRACKLET.others for frame in other.frames}
    assert {image.sha256 for image in content.images} == shown
    facts = ParsedHtml(content.data["facts_html"])
    assert facts.tags == ["p", "b"]
    assert "street/<b>corner</b>.mp4" in facts.text


def test_frames_beyond_the_alphabet_have_numbers_without_hotkeys(sqlite_store: Store) -> None:
    many = a_tracklet(frames=30, switch_at=30, others=0).shown
    (content,) = PAGE.contents(sqlite_store, [many], "http://127.0.0.1:8/blobs")
    assert [frame.get("hotkey") for frame in content.data["frames"]][22:25] == ["z", None, None]
    assert ">24<" in content.data["frames"][23]["html"]
    (guess,) = content.predictions
    assert [region["from_name"] for region in guess["result"]] == ["dropped"]


def test_the_most_similar_other_tracklets_have_hotkeys(sqlite_store: Store) -> None:
    less = TRACKLET.others[0].model_copy(update={"similarity": 0.1})
    more = TRACKLET.others[1].model_copy(update={"similarity": 0.9})
    payload = TRACKLET.model_copy(update={"others": (less, more)}).payload()
    (content,) = PAGE.contents(sqlite_store, [SHOWN._replace(payload=payload)], "http://b")
    offered = [(other["value"], other["hotkey"]) for other in content.data["others"]]
    assert offered == [(more.tracklet_id, "4"), (less.tracklet_id, "5")]


def test_the_summary_names_frames_like_the_page() -> None:
    answer = answer_to(
        ticked("verdict", "split"),
        ticked("cuts", NUMBERS[8]),
        ticked("dropped", NUMBERS[0], NUMBERS[7]),
    )
    summary = dict(PAGE.summary(answer, SHOWN))
    assert summary["Verdict"] == "Split"
    assert (summary["Frames dropped"], summary["Another person from"]) == ("A, I", "J")
    kept = answer_to(ticked("verdict", "keep"), ticked("same_person", OTHER))
    assert dict(PAGE.summary(kept, SHOWN))["Same person as"] == "[4]"


@pytest.mark.label_studio
@pytest.mark.browser
def test_an_annotator_splits_a_tracklet_by_keyboard(
    bench: Bench, sqlite_store: Store, keep_screenshot: Callable[[LabellingPage], Path]
) -> None:
    shown, pictures = a_tracklet(frames=24, switch_at=16, others=3)
    numbers = [str(frame.frame) for frame in shown.record(Tracklet).frames]
    (content,) = PAGE.contents(sqlite_store, [shown], bench.images_url)
    page = bench.open(PAGE, content, pictures, "Do these frames show one person")
    frames = page.browser_page.locator(".loupe-strip input")
    guessed = frames.evaluate_all("all => all.findIndex(one => one.checked)")
    tick_others = "(all, but) => all.forEach((one, at) => at === but || one.click())"
    frames.evaluate_all(tick_others, guessed)
    page.press("1", "Control+Enter")
    page.wait_until_objects("Every frame is dropped: keep one, or choose Drop")
    frames.evaluate_all(tick_others, guessed)
    page.wait_until_objects("")

    page.press("c", "d", "1", "4")
    page.assert_in_view(".loupe-frame", ".loupe-other", ".loupe-verdict")
    page.assert_apart(".loupe-strip", ".loupe-verdict", ".loupe-others")
    page.press("2", "Shift+r", "Shift+s")
    page.assert_in_view(".loupe-frame", ".loupe-cut", ".loupe-verdict")
    page.assert_apart(".loupe-strip", ".loupe-verdict", ".loupe-cuts")
    keep_screenshot(page)
    page.browser_page.locator(".loupe-frame img").first.click(modifiers=["Shift"])
    enlarged = page.browser_page.locator("#loupe-zoom img")
    enlarged.wait_for()
    page.press("Escape", "e")  # at once
    answer = PAGE.read_annotation(page.submit(), shown)
    assert isinstance(answer, ReviewAnswer)
    assert answer.verdict == "edit"
    assert answer.choices == {
        "verdict": ("split",),
        "dropped": (numbers[3], numbers[4]),
        "cuts": (numbers[17],),
        "same_person": (),
    }
