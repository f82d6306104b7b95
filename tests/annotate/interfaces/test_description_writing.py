"""The page for descriptions: its data and answers, and sessions in Chromium."""

from collections.abc import Callable
from pathlib import Path

import pytest

from loupe.annotate.answers import ReviewAnswer, UnclearAnswer
from loupe.annotate.interfaces.page import TaskContent
from loupe.annotate.interfaces.text_pages import (
    AIM_WORDS,
    ATTRIBUTES,
    DescriptionWriting,
    count_words,
    missing_attributes,
)
from loupe.db.entities import StoredEntity, new_entity
from loupe.db.store import Store
from loupe.schemas.base import Box
from loupe.schemas.records import Caption, Image
from tests.annotate.browser import SUBMIT, Bench, LabellingPage
from tests.annotate.interfaces.proposed import HOSTILE, Proposal, person, proposal
from tests.annotate.interfaces.regions import ticked, written
from tests.annotate.interfaces.texts import DESCRIPTIONS

PAGE = DescriptionWriting()
WRITER = "reviewer-1f3a90c2"
DRAFTER = "Qwen/Qwen3-VL-8B-Instruct@main"
DRAFT = (
    "A tall young man with short black hair wears a long blue coat over grey trousers, and dark "
    f"shoes. He carries a bag. {HOSTILE}"
)


def an_image(others: tuple[Box, ...] = ()) -> Proposal:
    drawn = person("to be described")
    record = Image(
        source="street",
        identity="7",
        split="train",
        file_path="7.png",
        sha256=drawn.picture.sha256,
        source_sha256=drawn.picture.sha256,
        media_type="image/png",
        width_px=drawn.picture.width_px,
        height_px=drawn.picture.height_px,
        others_xyxy=others,
    )
    return proposal(record, drawn)


def content_of(image: Proposal, store: Store, images_url: str = "http://images") -> TaskContent:
    (content,) = PAGE.contents(store, [image.shown], images_url)
    return content


def a_draft() -> StoredEntity:
    record = Caption(source="street", text=DRAFT, position=0, author=DRAFTER)
    entity = new_entity(record, "street")
    return StoredEntity(2, entity.id, "street", entity.kind, None, None, "proposed", entity.payload)


def test_a_draft_is_shown_with_its_author(sqlite_store: Store) -> None:
    content = content_of(an_image(), sqlite_store)
    assert content.data["draft_note"] == ""
    drafted = PAGE.with_draft(content, a_draft())
    assert drafted.data["draft_note"].startswith(
        f"Draft by the program {DRAFTER}: check every word"
    )
    assert drafted.data["draft_id"] == a_draft().id
    assert drafted.data["draft"] == DRAFT
    assert drafted.predictions == content.predictions


def answer_to(*regions: dict[str, object]) -> ReviewAnswer:
    answer = PAGE.read_annotation(list(regions), an_image().shown)
    assert isinstance(answer, ReviewAnswer)
    return answer


def test_the_least_length_on_the_page_is_that_of_its_reader() -> None:
    assert "loupe-least-20" in PAGE.config


def test_a_description_becomes_a_caption_by_the_annotator() -> None:
    answer = answer_to(written("text", f"  {DESCRIPTIONS[0]}\n", DRAFT))
    assert answer == ReviewAnswer(
        verdict="accept", choices={"verdict": ("accept",)}, texts={"text": DESCRIPTIONS[0]}
    )
    assert PAGE.successors(an_image().shown, answer, WRITER) == (
        Caption(source="street", text=DESCRIPTIONS[0], position=0, author=WRITER),
    )


def test_missing_attributes_are_noted_in_a_remark() -> None:
    text = DESCRIPTIONS[0].replace("sneakers", "things").replace("soles", "parts")
    text = text.replace("socks", "ones")
    answer = answer_to(written("text", text))
    assert answer.remark == "does not mention: footwear"
    assert ("Not mentioned", "footwear") in PAGE.summary(answer, an_image().shown)


def test_an_image_that_cannot_be_described_is_rejected() -> None:
    answer = answer_to(
        ticked("verdict", "reject"), ticked("reason", "other"), written("note", "only a shadow")
    )
    assert (answer.verdict, answer.reason) == ("reject", "other: only a shadow")
    assert PAGE.successors(an_image().shown, answer, WRITER) == ()


def test_invalid_answers_are_unclear(subtests: pytest.Subtests) -> None:
    for regions, problem in (
        ([], "at least 20 words; this one has 0"),
        ([written("text", "A man in a coat.")], "at least 20 words; this one has 5"),
        ([ticked("verdict", "reject")], "rejected without a reason"),
    ):
        with subtests.test(problem=problem):
            answer = PAGE.read_annotation(regions, an_image().shown)
            assert isinstance(answer, UnclearAnswer)
            assert problem in answer.problem


def test_full_descriptions_mention_almost_all_attributes(subtests: pytest.Subtests) -> None:
    for text in DESCRIPTIONS:
        with subtests.test(text=text):
            assert len(missing_attributes(text)) <= 3
            assert count_words(text) > 50


def test_attributes_are_found_as_whole_words() -> None:
    """ "chair" is not "hair", "that" is not "hat", and a hat is not a pattern."""
    assert missing_attributes("A chair that was capped.") == list(ATTRIBUTES)
    assert "hair" not in missing_attributes("HAIR")
    assert "sleeves and length" not in missing_attributes("a short-sleeve top")
    assert "colour" not in missing_attributes("dark coloured trousers")


def test_hyphens_and_dashes_do_not_change_the_count_of_words() -> None:
    assert count_words("A short-sleeved T-shirt – and a cap …") == 6


def test_captions_without_an_author_keep_their_payload() -> None:
    """The ids of imported captions must not change."""
    payload = Caption(source="street", text="A man.", position=1).payload()
    assert payload == '{"source":"street","text":"A man.","position":1}'


@pytest.mark.label_studio
@pytest.mark.browser
def test_an_annotator_describes_an_image_and_changes_a_draft(
    bench: Bench, sqlite_store: Store, keep_screenshot: Callable[[LabellingPage], Path]
) -> None:
    images = an_image(), an_image(others=((0.0, 20.0, 45.0, 250.0),))
    blank, other = (content_of(image, sqlite_store, bench.images_url) for image in images)
    contents = [blank, PAGE.with_draft(other, a_draft())]
    page = bench.open(PAGE, contents, images[0].pictures, "about 80 words")
    counter = page.browser_page.frame_locator(".loupe-counter")
    assert counter.locator("li").all_inner_texts() == list(ATTRIBUTES)
    assert counter.locator("li.there").count() == 0
    assert page.browser_page.locator(".loupe-draft").inner_text().strip() == ""
    assert page.browser_page.locator(".loupe-write textarea").input_value() == ""
    assert_on_a_phone_the_text_is_below_the_image(page)

    page.press("Enter")
    page.type("A woman with black hair")
    counter.get_by_text("5 words", exact=True).wait_for()
    # An attribute may be found before its word is complete.
    counter.locator("li.there").nth(2).wait_for()
    assert counter.locator("li.there").all_inner_texts() == ["sex and age", "hair", "colour"]
    page.press("Control+A")
    text = f"{DESCRIPTIONS[0]} {HOSTILE}"
    page.browser_page.keyboard.insert_text(text)
    counter.get_by_text(f"{count_words(text)} words", exact=True).wait_for()
    assert counter.locator("li:not(.there)").count() == len(missing_attributes(text)) == 0
    page.press("Escape", "2", "5")
    assert page.chosen() == ["Cannot be described[2]", "Too blurred or too dark[5]"]
    page.press("1", "1")
    assert page.chosen()[0] == "Described[1]", "pressing the key again does not deselect it"
    keep_screenshot(page)
    page.assert_in_view(".loupe-image", ".loupe-write", ".loupe-counter", ".lsf-choice", SUBMIT)
    page.assert_apart(".loupe-image", ".loupe-write", ".loupe-counter", ".loupe-answer", SUBMIT)

    answer = PAGE.read_annotation(page.submit(), images[0].shown)
    assert isinstance(answer, ReviewAnswer)
    assert answer.texts == {"text": text}
    assert count_words(text) >= AIM_WORDS

    page.wait_for_next_task()
    assert "which program wrote it" in PAGE.instructions
    assert page.browser_page.get_by_text("Describe the person without a frame").is_visible()
    assert red_columns(page) == [1, 43, 44], "the left and the right line of the frame"
    mark = page.browser_page.locator(".loupe-draft")
    assert mark.inner_text().startswith(f"Draft by the program {DRAFTER}")
    counter.get_by_text(f"{count_words(DRAFT)} words", exact=True).wait_for()
    page.press("Enter", "Control+End")
    page.type(" He walks.")
    page.press("Escape")
    keep_screenshot(page)
    page.assert_in_view(".loupe-draft", ".loupe-write", ".loupe-counter", ".lsf-choice", SUBMIT)
    page.assert_apart(".loupe-draft", ".loupe-write", ".loupe-counter", ".loupe-answer", SUBMIT)
    answer = PAGE.read_annotation(page.submit(), images[1].shown)
    assert isinstance(answer, ReviewAnswer)
    assert answer.texts == {"text": f"{DRAFT} He walks."}


def red_columns(page: LabellingPage) -> list[int]:
    """Return the pixel columns of the stored image that have red lines."""
    found: list[int] = page.browser_page.evaluate(
        """() => {
            const image = [...document.images].find(one => one.src.startsWith("blob:"));
            const canvas = new OffscreenCanvas(120, 260).getContext("2d");
            canvas.imageSmoothingEnabled = false;
            canvas.drawImage(image, 0, 0, 120, 260);
            const isRed = (x, y) => {
                const [red, green, blue] = canvas.getImageData(x, y, 1, 1).data;
                return red > 190 && green < 40 && blue < 90;
            };
            return [...Array(120).keys()].filter(x => [60, 120, 240].every(y => isRed(x, y)));
        }"""
    )
    return found


def assert_on_a_phone_the_text_is_below_the_image(page: LabellingPage) -> None:
    """Label Studio adapts the image to the new width by a script, a moment after the layout."""
    before = page.browser_page.viewport_size
    page.browser_page.set_viewport_size({"width": 390, "height": 844})
    try:
        page.browser_page.wait_for_function(
            """() => {
                const [image, texts] = [".loupe-image", ".loupe-texts"].map(
                    selector => document.querySelector(selector).getBoundingClientRect()
                );
                return image.bottom <= texts.top;
            }"""
        )
        shown, texts, submit = map(page.box, (".loupe-image", ".loupe-texts", SUBMIT))
        assert min(one.right - one.left for one in (shown, texts)) > 250
        assert submit.right <= 390
    finally:
        page.browser_page.set_viewport_size(before)
