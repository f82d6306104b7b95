from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loupe.annotate.answers import ReviewAnswer, UnclearAnswer
from loupe.annotate.interfaces.strategy_pages import GroupRefinement
from loupe.db.entities import StoredEntity
from loupe.db.store import Store
from loupe.schemas.proposals import CaptionGroup
from tests.annotate.browser import Bench, LabellingPage
from tests.annotate.interfaces.proposed import HOSTILE, a_group
from tests.annotate.interfaces.regions import ParsedHtml, Regions, ticked, variables, written

PAGE = GroupRefinement()
SHOWN = a_group(images=3, captions=2).shown
GROUP = SHOWN.record(CaptionGroup)
CHINESE = (
    "一辆带柳条筐的自行车锁在安静街道旁的人行道上，车轮靠近路缘。",
    "一辆自行车停在街边，靠在一根柱子旁。",
    "一辆细轮胎的自行车锁在柱子上，停在人行道上。",
    "一辆自行车被链条锁在空荡荡的城市街道的固定物上。",
    "一辆自行车停在人行道上，车把朝向马路。",
)


def translated(shown: StoredEntity) -> StoredEntity:
    """Return the group with a second language; all images have the same translations."""
    group = shown.record(CaptionGroup)
    chinese = CHINESE[: len(group.coarse_captions)]
    members = [one.model_copy(update={"translations": chinese}) for one in group.members]
    change = {"members": tuple(members), "second_language": "zh"}
    return shown._replace(payload=group.model_copy(update=change).payload())


TRANSLATED = translated(a_group(images=3, captions=2, warnings=("Caption A1 is long.",)).shown)
TRANSLATED_GROUP = TRANSLATED.record(CaptionGroup)


def texts(**changes: str) -> Regions:
    """Return all captions as the page sends them, with changes."""
    return [
        written(name := f"text_{row}_{column}", changes.get(name, member.captions[row]))
        for row in range(2)
        for column, member in enumerate(GROUP.members)
    ]


def answer_to(*regions: dict[str, Any]) -> ReviewAnswer:
    answer = PAGE.read_annotation(list(regions), SHOWN)
    assert isinstance(answer, ReviewAnswer), answer
    return answer


def test_a_correct_group_is_accepted() -> None:
    answer = answer_to(ticked("verdict", "accept"), *texts(text_0_0="hidden, so not counted"))
    assert answer == ReviewAnswer(verdict="accept", choices={"verdict": ("accept",)})
    assert PAGE.successors(SHOWN, answer, "reviewer-1") == ()


def test_an_edited_caption_replaces_the_old_one() -> None:
    answer = answer_to(ticked("verdict", "edit"), *texts(text_1_2=" A grey  bike.\n"))
    assert answer.verdict == "edit"
    assert len(answer.texts) == 6
    (edited,) = PAGE.successors(SHOWN, answer, "reviewer-1")
    assert isinstance(edited, CaptionGroup)
    assert edited.author == "reviewer-1"
    assert edited.members[2].captions == (GROUP.members[2].captions[0], "A grey bike.")
    assert edited.members[:2] == GROUP.members[:2]
    assert PAGE.summary(answer, SHOWN)[2:] == [("C2", "A grey bike.")]


def test_an_edit_without_changes_is_an_acceptance() -> None:
    answer = answer_to(ticked("verdict", "edit"), *texts())
    assert (answer.verdict, answer.remark) == ("accept", "an edit that changed nothing")


def test_invalid_answers_are_unclear(subtests: pytest.Subtests) -> None:
    for regions, problem in (
        ([], "no verdict was chosen"),
        ([ticked("verdict", "reject")], "rejected, but no problem is ticked"),
        ([ticked("verdict", "edit"), *texts(text_0_1="  ")], "edited, but caption B1 is empty"),
        ([ticked("verdict", "edit"), *texts()[:-1]], "edited, but caption C2 is empty"),
    ):
        with subtests.test(problem=problem):
            assert PAGE.read_annotation(regions, SHOWN) == UnclearAnswer(problem=problem)


def translations(**changes: str) -> Regions:
    """Return all translations as the page sends them, with changes."""
    return [
        written(name := f"translation_{row}_{column}", changes.get(name, member.translations[row]))
        for row in range(2)
        for column, member in enumerate(TRANSLATED_GROUP.members)
    ]


def translated_answer(*regions: dict[str, Any]) -> ReviewAnswer:
    answer = PAGE.read_annotation([ticked("verdict", "edit"), *regions], TRANSLATED)
    assert isinstance(answer, ReviewAnswer), answer
    return answer


def test_a_translation_is_removed_if_only_its_caption_was_edited() -> None:
    answer = translated_answer(*texts(text_1_2="A grey bike."), *translations())
    assert answer.remark == "translations removed because their captions changed: C2"
    (edited,) = PAGE.successors(TRANSLATED, answer, "reviewer-1")
    assert isinstance(edited, CaptionGroup)
    old = TRANSLATED_GROUP.members
    assert edited.members[2].translations == (old[2].translations[0], "")
    assert [one.translations for one in edited.members[:2]] == [one.translations for one in old[:2]]
    assert edited.warnings == ("Caption C2 has no translation: it was edited.",)
    assert CaptionGroup.model_validate_json(edited.payload()) == edited
    changed = [("C2", "A grey bike."), ("C2 translated", "(removed)")]
    assert PAGE.summary(answer, TRANSLATED)[2:] == changed


def test_a_translation_edited_with_its_caption_is_kept() -> None:
    answer = translated_answer(
        *texts(text_1_2="A grey bike."), *translations(translation_1_2="一辆灰色的自行车。")
    )
    assert answer.remark == ""
    (edited,) = PAGE.successors(TRANSLATED, answer, "reviewer-1")
    assert isinstance(edited, CaptionGroup)
    assert edited.members[2].translations[1] == "一辆灰色的自行车。"
    assert edited.warnings == ()


def test_a_translation_can_be_edited_without_its_caption() -> None:
    answer = translated_answer(*texts(), *translations(translation_0_0="一辆蓝色的自行车。"))
    (edited,) = PAGE.successors(TRANSLATED, answer, "reviewer-1")
    assert isinstance(edited, CaptionGroup)
    assert edited.members[0].translations[0] == "一辆蓝色的自行车。"
    assert [one.captions for one in edited.members] == [one.captions for one in GROUP.members]


def test_an_edit_of_a_translated_group_without_changes_is_an_acceptance() -> None:
    assert translated_answer(*texts(), *translations()).verdict == "accept"


def test_a_missing_translation_is_shown_as_missing(sqlite_store: Store) -> None:
    answer = translated_answer(*texts(text_0_0="A blue bike."), *translations())
    (edited,) = PAGE.successors(TRANSLATED, answer, "reviewer-1")
    shown = TRANSLATED._replace(payload=edited.payload())
    (content,) = PAGE.contents(sqlite_store, [shown], "http://b")
    assert "<p><i>no translation</i></p>" in content.data["rows"][0]["html"]
    assert "Caption A1 has no translation" in content.data["warnings_html"]


def test_warnings_and_translations_are_shown(sqlite_store: Store) -> None:
    (content,) = PAGE.contents(sqlite_store, [TRANSLATED], "http://b")
    assert set(content.data) == variables(PAGE.config)
    assert ParsedHtml(content.data["warnings_html"]).text == "Caption A1 is long."
    row = content.data["rows"][1]
    assert row["translations"] == [one.translations[1] for one in TRANSLATED_GROUP.members]
    assert TRANSLATED_GROUP.members[0].translations[1] in ParsedHtml(row["html"]).text
    (plain,) = PAGE.contents(sqlite_store, [SHOWN], "http://b")
    assert plain.data["warnings_html"] == "<span></span>"
    assert plain.data["rows"][0]["translations"] == []


def test_the_page_shows_all_images_and_marks_distinguishing_words(
    sqlite_store: Store,
) -> None:
    (content,) = PAGE.contents(sqlite_store, [SHOWN], "http://127.0.0.1:8/blobs")
    assert set(content.data) == variables(PAGE.config)
    first = content.data["rows"][0]
    assert first["texts"] == [member.captions[0] for member in GROUP.members]
    assert '<mark class="loupe-own">red</mark>' in first["html"]
    assert '<mark class="loupe-shared">blue</mark>' in first["html"]
    assert "nothing tells it" not in first["html"]
    assert [image.sha256 for image in content.images] == [
        member.picture.sha256 for member in GROUP.members
    ]


def test_captions_that_do_not_distinguish_images_are_pointed_out(sqlite_store: Store) -> None:
    same = GROUP.members[0].captions
    members = (GROUP.members[0], GROUP.members[1].model_copy(update={"captions": same}))
    payload = GROUP.model_copy(update={"members": members}).payload()
    (content,) = PAGE.contents(sqlite_store, [SHOWN._replace(payload=payload)], "http://b")
    assert "not distinct from B" in content.data["rows"][1]["html"]


@pytest.mark.label_studio
@pytest.mark.browser
def test_an_annotator_edits_captions_and_a_translation(
    bench: Bench, sqlite_store: Store, keep_screenshot: Callable[[LabellingPage], Path]
) -> None:
    warnings = (
        "Caption B3 says nothing that distinguishes it from A.",
        "Caption C2 names what is not there: 'without'.",
        "Caption D5 fits image A as well as its own or better (0.412 and 0.398).",
        f"Caption A1 is 4.3 times as long as the coarse caption {HOSTILE}.",
    )
    shown, pictures = a_group(images=4, captions=5, caption=HOSTILE)
    flagged = translated(a_group(images=4, captions=5, warnings=warnings).shown)
    contents = PAGE.contents(sqlite_store, [shown, flagged], bench.images_url)
    page = bench.open(PAGE, contents, pictures, "Does every caption fit its own image")
    page.assert_in_view(".loupe-pictures figure", ".loupe-row p", ".loupe-answer")
    page.press("2")
    page.assert_in_view(".loupe-pictures figure", ".loupe-fields textarea", ".loupe-answer")
    assert len(page.boxes(".loupe-fields textarea")) == 20
    keep_screenshot(page)
    page.browser_page.locator("textarea[name=text_1_2]").fill("A $grey bike & a <b>post</b>.")
    page.press("Shift+Enter")
    answer = PAGE.read_annotation(page.submit(), shown)
    assert isinstance(answer, ReviewAnswer)
    assert answer.verdict == "edit"
    (edited,) = PAGE.successors(shown, answer, "reviewer-1")
    assert isinstance(edited, CaptionGroup)
    assert edited.members[2].captions[1] == "A $grey bike & a <b>post</b>."
    assert edited.members[0].captions[0] == HOSTILE

    page.wait_for_next_task()
    page.assert_in_view(".loupe-pictures figure", ".loupe-warnings li", ".loupe-answer")
    page.assert_apart(".loupe-pictures figure", ".loupe-warnings")
    keep_screenshot(page)
    page.press("2")
    assert len(page.boxes(".loupe-fields textarea")) == 40
    page.browser_page.locator("textarea[name=text_1_2]").fill("A grey bike by a post.")
    page.browser_page.locator("textarea[name=text_0_0]").fill("A blue bike on a walk.")
    page.browser_page.locator("textarea[name=translation_0_0]").fill("人行道上的一辆蓝色自行车。")
    page.press("Shift+Enter")
    answer = PAGE.read_annotation(page.submit(), flagged)
    assert isinstance(answer, ReviewAnswer)
    (edited,) = PAGE.successors(flagged, answer, "reviewer-1")
    assert isinstance(edited, CaptionGroup)
    assert edited.members[0].translations[0] == "人行道上的一辆蓝色自行车。"
    assert edited.members[2].translations[1] == ""
    assert edited.warnings == ("Caption C2 has no translation: it was edited.",)
