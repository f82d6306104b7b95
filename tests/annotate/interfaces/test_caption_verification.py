"""The page for captions: its data and answers, and a session in Chromium."""

from collections.abc import Callable
from pathlib import Path

import pytest

from loupe.annotate.answers import ReviewAnswer
from loupe.annotate.interfaces.page import TaskContent
from loupe.annotate.interfaces.text_pages import CaptionVerification
from loupe.db.entities import NewEntity, StoredEntity, fetch, new_entity
from loupe.schemas.faithfulness import Attribute, Fact, FaithfulnessReport, Finding
from loupe.schemas.provenance import Role
from loupe.schemas.quality import CaptionCheck
from loupe.schemas.records import Caption, Image
from loupe.schemas.taxonomy import RetrievalTask
from tests.annotate.browser import SUBMIT, Bench, LabellingPage
from tests.annotate.interfaces.proposed import HOSTILE, photograph
from tests.annotate.interfaces.regions import ParsedHtml, ticked, variables, written
from tests.annotate.world import DATASET, World

PAGE = CaptionVerification()
TEXT = "A red bicycle is chained to a post on a city street."
DOUBTS = (
    "It is under-detailed, and was regenerated 2 times.",
    "“chained” may be misspelt: “chaired”?",
)


def add_caption(
    world: World,
    text: str = TEXT,
    *,
    checked: bool = False,
    task: RetrievalTask | None = None,
    warnings: tuple[str, ...] | None = None,
) -> StoredEntity:
    drawn, _ = photograph(2)
    image = new_entity(
        Image(
            source="coco",
            identity="2",
            split="test",
            file_path="2.png",
            sha256=drawn.picture.sha256,
            source_sha256=drawn.picture.sha256,
            media_type="image/png",
            width_px=drawn.picture.width_px,
            height_px=drawn.picture.height_px,
            task=task,
            tier="v0" if task else None,
        ),
        DATASET,
    )
    caption = new_entity(
        Caption(source="coco", text=text, position=3), DATASET, parents=[(Role.DESCRIBES, image.id)]
    )
    world.keep(
        image,
        caption,
        *([_check(caption, text)] if checked else []),
        *([_examined(caption, warnings)] if warnings is not None else []),
    )
    return fetch(world.store, [caption.id])[caption.id]


def _check(caption: NewEntity, text: str) -> NewEntity:
    start = text.index("red")
    fact = Fact(subject="bicycle", attribute=Attribute.COLOUR, value="red", span=(start, start + 3))
    finding = Finding(change="contradicted", message="The bicycle is blue elsewhere.", rewrite=fact)
    report = FaithfulnessReport(verdict="suspect", findings=(finding,))
    return new_entity(report, DATASET, parents=[(Role.CHECKS, caption.id)])


def _examined(caption: NewEntity, warnings: tuple[str, ...]) -> NewEntity:
    return new_entity(
        CaptionCheck(warnings=warnings), DATASET, parents=[(Role.EXAMINES, caption.id)]
    )


def content_of(world: World, shown: StoredEntity, images_url: str = "http://images") -> TaskContent:
    (content,) = PAGE.contents(world.store, [shown], images_url)
    return content


def test_suspected_words_and_warnings_of_a_check_are_shown(world: World) -> None:
    data = content_of(world, add_caption(world, checked=True, warnings=DOUBTS[:1])).data
    assert variables(PAGE.config) == set(data)
    assert (
        '<mark class="loupe-contradicted" title="The bicycle is blue elsewhere.">red</mark>'
        in data["caption_html"]
    )
    findings = ParsedHtml(data["findings_html"]).text
    assert findings == f"{DOUBTS[0]}contradicts The bicycle is blue elsewhere."
    assert data["heading"] == "Caption"


def test_the_page_shows_the_warnings_and_the_task_of_a_caption(world: World) -> None:
    shown = add_caption(world, task=RetrievalTask.COUNT, warnings=(*DOUBTS, HOSTILE))
    data = content_of(world, shown).data
    assert data["heading"].startswith("Caption for the task count: how many there are of each")
    parsed = ParsedHtml(data["findings_html"])
    assert parsed.tags == ["ul", "li", "li", "li"]
    assert parsed.text == "".join((*DOUBTS, HOSTILE))

    data = content_of(world, add_caption(world, HOSTILE)).data
    parsed = ParsedHtml(data["caption_html"])
    assert (parsed.tags, parsed.text) == (["p"], HOSTILE)
    assert data["findings_html"] == "<p>Not checked.</p>"

    data = content_of(world, add_caption(world, "A red bus.", warnings=())).data
    assert data["findings_html"] == "<p>No warnings.</p>"


def test_an_edited_caption_keeps_its_position_and_names_its_author(world: World) -> None:
    shown = add_caption(world)
    regions = [written("text", TEXT.replace("red", "blue")), ticked("verdict", "edit")]
    answer = PAGE.read_annotation(regions, shown)
    assert isinstance(answer, ReviewAnswer)
    assert PAGE.successors(shown, answer, "reviewer-1") == (
        Caption(source="coco", text=TEXT.replace("red", "blue"), position=3, author="reviewer-1"),
    )
    assert "A blue bicycle" in str(PAGE.summary(answer, shown))


@pytest.mark.label_studio
@pytest.mark.browser
def test_an_annotator_edits_a_caption_of_a_task(
    world: World, bench: Bench, keep_screenshot: Callable[[LabellingPage], Path]
) -> None:
    text = f"{TEXT} {HOSTILE}"
    shown = add_caption(world, text, task=RetrievalTask.TRANSLATION, warnings=DOUBTS)
    drawn, _ = photograph(2)
    content = content_of(world, shown, bench.images_url)
    pictures = {drawn.picture.sha256: drawn.data}
    page = bench.open(PAGE, content, pictures, "Is the caption true of the image?")
    page.press("3", "5")
    assert page.chosen() == ["Reject[3]", "Too vague: fits many images[5]"]
    page.assert_in_view(".loupe-image", ".loupe-texts li", ".loupe-write", ".lsf-choice", SUBMIT)
    page.assert_apart(".loupe-image", ".loupe-texts", SUBMIT)
    heading, noticed = "text=Caption for the task text translation", "text=Automatic checks"
    page.assert_in_view(heading, noticed)
    page.assert_apart(heading, noticed, ".loupe-texts li", ".loupe-write", SUBMIT)
    keep_screenshot(page)
    page.press("2", "Enter", "Control+End")
    page.type(" At night.")
    page.press("Escape")
    answer = PAGE.read_annotation(page.submit(), shown)
    assert isinstance(answer, ReviewAnswer)
    assert (answer.verdict, answer.texts["text"]) == ("edit", f"{text} At night.")
