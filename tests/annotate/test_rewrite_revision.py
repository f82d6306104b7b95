import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotate.answers import ReviewAnswer, UnclearAnswer
from annotate.interfaces.rewrite_revision import RewriteRevision, read_annotation
from annotate.items import load_rewrite_items
from annotate.sdk import parse_config
from db.entities import fetch, new_entity
from schemas.errors import IntegrityError
from schemas.records import Rewrite
from tests.annotate.answering import Regions, accepting, editing, rejecting
from tests.annotate.world import DATASET, REWRITE, SOURCE, World

IMAGES = "http://127.0.0.1:8090/blobs/"
HOSTILE = "A <script>alert(1)</script><img src=x onerror=alert(2)> \"'&amp; $text {{7*7}}"


class Page(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def data_of(world: World, rewrite_id: str) -> dict[str, Any]:
    entity = fetch(world.store, [rewrite_id])[rewrite_id]
    (content,) = RewriteRevision().contents(world.store, [entity], IMAGES)
    return content.data


def test_the_page_shows_image_texts_and_marked_findings(world: World) -> None:
    rewrite_id = world.add()
    data = data_of(world, rewrite_id)
    assert re.fullmatch(r"http://127\.0\.0\.1:8090/blobs/[0-9a-f]{64}", data["image"])
    description, rewrite = Page(data["description_html"]), Page(data["rewrite_html"])
    assert (description.text, rewrite.text) == (SOURCE, REWRITE)
    assert '<mark class="loupe-contradicted" title="The coat is red' in data["description_html"]
    assert '">blue</mark> coat' in data["rewrite_html"]
    assert (
        '<mark class="loupe-added" title="The description knows no hat.">hat</mark>'
        in (data["rewrite_html"])
    )
    assert "The left shoulder is left out." in Page(data["findings_html"]).text


def test_the_form_is_filled_with_the_rewrite(world: World) -> None:
    rewrite_id = world.add()
    entity = fetch(world.store, [rewrite_id])[rewrite_id]
    (content,) = RewriteRevision().contents(world.store, [entity], IMAGES)
    (prediction,) = content.predictions
    assert prediction["model_version"] == "loupe-rule-rewriter@1"
    assert prediction["result"][0]["value"] == {"text": [REWRITE]}


def test_foreign_text_becomes_text(world: World) -> None:
    data = data_of(world, world.add(HOSTILE, source=HOSTILE))
    for name in ("description_html", "rewrite_html"):
        page = Page(data[name])
        assert page.tags == ["p"]
        assert page.text == HOSTILE


@given(st.text(max_size=60), st.data())
def test_marks_change_nothing_of_the_text(text: str, data: st.DataObject) -> None:
    from annotate.interfaces.rewrite_revision import _page_text
    from schemas.faithfulness import Finding

    position = st.integers(0, len(text))
    spans = data.draw(st.lists(st.tuples(position, position).map(sorted).map(tuple), max_size=5))
    finding = Finding(change="added", message='"><script>')
    html = _page_text(text, [((span[0], span[1]), finding) for span in spans])
    page = Page(html)
    assert page.text == Page(f"<p>{text.replace('&', '&amp;').replace('<', '&lt;')}</p>").text
    assert set(page.tags) <= {"p", "mark"}
    assert {name for name, _ in page.attributes} <= {"class", "title"}


def test_a_rewrite_without_a_description_is_an_integrity_error(world: World) -> None:
    orphan = new_entity(Rewrite(source="street", text="A man.", author="m@1"), DATASET)
    world.keep(orphan)
    stored = fetch(world.store, [orphan.id])
    with pytest.raises(IntegrityError, match="must have one parent in the role 'rewrite_of'"):
        load_rewrite_items(world.store, list(stored.values()))


@pytest.mark.parametrize(
    ("regions", "answer"),
    [
        (accepting(REWRITE), ReviewAnswer(verdict="accept")),
        (accepting(f"  {REWRITE}\n"), ReviewAnswer(verdict="accept")),
        (editing("A hat.\u200b  So  big."), ReviewAnswer(verdict="edit", text="A hat. So big.")),
        (
            accepting("A hat."),
            ReviewAnswer(
                verdict="edit",
                text="A hat.",
                remark="accepted with a changed text, which is an edit",
            ),
        ),
        (
            editing(REWRITE),
            ReviewAnswer(verdict="accept", remark="an edit that changed nothing"),
        ),
        (rejecting(REWRITE), ReviewAnswer(verdict="reject", reason="not in the image")),
        (
            rejecting("A hat.", "other", note=" too  vague "),
            ReviewAnswer(verdict="reject", reason="other: too vague"),
        ),
    ],
)
def test_what_an_annotation_says(regions: Regions, answer: ReviewAnswer) -> None:
    assert read_annotation(regions, REWRITE) == answer


@pytest.mark.parametrize(
    ("regions", "problem"),
    [
        ([], "no verdict was chosen"),
        (editing(REWRITE)[:1], "no verdict was chosen"),
        (accepting(REWRITE) + editing(REWRITE)[1:], "no verdict was chosen"),
        (editing(" \n\u200b"), "the verdict is 'edit', but the text is empty"),
        (accepting(REWRITE)[1:], "the verdict is 'accept', but the text is empty"),
        (rejecting(REWRITE, reason=None), "rejected without a reason"),
    ],
)
def test_what_is_no_answer(regions: Regions, problem: str) -> None:
    assert read_annotation(regions, REWRITE) == UnclearAnswer(problem=problem)


def test_the_configuration_offers_what_is_read(world: World) -> None:
    interface = parse_config(RewriteRevision().config)
    names = {control.name for control in interface.controls}
    assert names == {"text", "verdict", "reason", "note"}
    data = data_of(world, world.add())
    variables = set(re.findall(r'value="\$(\w+)"', RewriteRevision().config))
    assert variables == set(data)
