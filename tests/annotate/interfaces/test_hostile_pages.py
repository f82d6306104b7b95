"""Hostile markup in all texts of labelling pages, and texts that are typed there.

What Label Studio does with a text depends on the tag that shows it. Each tag is on one of the pages
that are opened in a real Label Studio; all pages are checked for escaped texts and for their tags.
"""

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from pydantic import ValidationError

from loupe.annotate.answers import ReviewAnswer
from loupe.annotate.interfaces.page import (
    RETURNED,
    Interface,
    TaskContent,
    adjudication_config,
    adjudication_data,
    adjudication_instructions,
    values,
)
from loupe.annotate.interfaces.registry import INTERFACES
from loupe.annotate.interfaces.strategy_pages import TEXTS
from loupe.annotate.queues import Step, shipped
from loupe.db.entities import StoredEntity, fetch
from loupe.schemas.base import EntityRecord
from loupe.schemas.proposals import (
    Candidate,
    CaptionGroup,
    ChoiceTest,
    Confusion,
    ImageQuestion,
    Strategy,
    Tracklet,
)
from loupe.schemas.records import Caption, Image, Rewrite
from loupe.schemas.recos import DuplicateQuestion, Selection
from tests.annotate.browser import Bench, LabellingPage
from tests.annotate.interfaces.proposed import Proposal, one_of_each_kind, photograph, proposal
from tests.annotate.interfaces.regions import ParsedHtml
from tests.annotate.interfaces.test_caption_verification import add_caption
from tests.annotate.world import REWRITE, SOURCE, World

ATTACK = (
    '"><img src=x onerror=parent.hacked=top.hacked=1><svg onload=top.hacked=2>'
    "<script>top.hacked=3</script><iframe srcdoc='<script>top.hacked=4</script>'></iframe>"
    "[x](javascript:top.hacked=5) {{constructor.constructor('top.hacked=6')()}} $image ${7*7}"
)
RECORDS: tuple[type[EntityRecord], ...] = (
    Candidate, Caption, CaptionGroup, ChoiceTest, Confusion, DuplicateQuestion, Image,
    ImageQuestion, Rewrite, Selection, Strategy, Tracklet,
)  # fmt: skip


class Adjudicated:
    """A page together with the panel that shows answers."""

    def __init__(self, page: Interface) -> None:
        self.name = f"hostile {page.name}"
        self.config = adjudication_config(page)
        self.instructions = adjudication_instructions(page)


def hostile(record: EntityRecord) -> EntityRecord:
    """Return the record with the attack in each text field that accepts it."""
    content = json.loads(record.payload())

    def attacked(inner: Any) -> None:
        for key in inner if isinstance(inner, dict) else range(len(inner)):
            if isinstance(inner[key], dict | list):
                attacked(inner[key])
            elif isinstance(inner[key], str):
                before = inner[key]
                inner[key] = f"{before} {ATTACK}"
                try:
                    type(record).model_validate_json(json.dumps(content))
                except ValidationError:
                    inner[key] = before

    attacked(content)
    return type(record).model_validate_json(json.dumps(content))


def hostile_proposal(one: Proposal) -> Proposal:
    kind = next(kind for kind in RECORDS if kind.kind == one.shown.kind)
    attacked = proposal(hostile(kind.model_validate_json(one.shown.payload)))
    return Proposal(attacked.shown, one.pictures)


def stored_proposal(world: World, kind: str) -> tuple[StoredEntity, dict[str, bytes]]:
    """Store a rewrite or a caption, whose pages look up images, checks and warnings."""
    picture, _ = photograph(2)
    if kind == "caption":
        shown = add_caption(world, f"A red coat. {ATTACK}", checked=True, warnings=(ATTACK,))
    else:
        rewrite_id = world.add(f"{REWRITE} {ATTACK}", f"{SOURCE} {ATTACK}", picture=picture.data)
        shown = fetch(world.store, [rewrite_id])[rewrite_id]
    return shown, {picture.picture.sha256: picture.data}


def hostile_content(world: World, step: Step, images_url: str) -> tuple[TaskContent, Proposal]:
    """Return an adjudicator's page with the attack in every text, and what it is about."""
    page = INTERFACES[step.interface]
    if step.kind in ("rewrite", "caption"):
        shown = Proposal(*stored_proposal(world, step.kind))
    else:
        shown = hostile_proposal(one_of_each_kind()[step.kind])
    (content,) = page.contents(world.store, [shown.shown], images_url)
    one = {"verdict": ("accept",), "fit": ("own",), "pick": ("1",)}
    other = {"verdict": ("reject",), "fit": ("both",), "pick": ("2",)}
    answers = {
        "1": ReviewAnswer(verdict="accept", choices=one),
        "2": ReviewAnswer(verdict="reject", choices=other, reason=ATTACK, texts={"text": ATTACK}),
    }
    panel = adjudication_data(page, shown.shown, answers)
    data = content.data | panel | {RETURNED: ATTACK}
    assert "onerror" in json.dumps(data)
    return content._replace(data=data), shown


def html_in(value: Any, name: str = "") -> Iterator[str]:
    """Yield all HTML in a page's data."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from html_in(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from html_in(inner, name)
    elif name.endswith("html"):
        yield value


def test_the_texts_of_every_page_are_escaped(tmp_path: Path) -> None:
    for name, step in shipped().steps.items():
        (folder := tmp_path / name).mkdir()
        content, _ = hostile_content(World(folder), step, "http://images")
        for html in html_in(content.data):
            parsed = ParsedHtml(html)
            assert {"script", "svg", "iframe", "a"}.isdisjoint(parsed.tags), (name, html)
            assert parsed.attributes <= {"class", "src", "alt", "title"}, (name, html)
            assert not re.search(r"<img (?!src=.http://images/)", html), (name, html)


def test_pages_show_texts_only_with_tags_that_run_no_scripts() -> None:
    shown = {"HyperText", "TextArea", "Choices", "Header", "Repeater", "Image"}
    for name, page in INTERFACES.items():
        for tag in ET.fromstring(adjudication_config(page)).iter():  # noqa: S314 - our own page
            texts = [value for value in tag.attrib.values() if value.startswith("$")]
            assert not texts or tag.tag in shown, (name, tag.tag)


class Fields(NamedTuple):
    """Text fields of a page: `texts` appear after the key `edit`, the note after `reject`."""

    edit: str
    texts: tuple[str, ...]
    reject: tuple[str, ...]


PAGES = {
    "strategies": Fields("2", tuple(TEXTS), ("3", "8")),
    "groups": Fields("2", ("text_0_0", "text_1_1"), ("3", "7")),
    "tracklets": Fields("1", (), ("3", "0")),
}
"""Pages that have, together, every tag that shows or takes texts."""
TYPED = "Typed «{}»: a $grey <b>coat</b>, {{{{now}}}} 灰色的"


def test_every_page_with_text_fields_keeps_what_is_typed() -> None:
    """The script in `text_fields.js` serves all text fields, if they are declared alike."""
    for name, interface in INTERFACES.items():
        page = ET.fromstring(interface.config)  # noqa: S314 - our own page
        fields = list(page.iter("TextArea"))
        frames = [tag.get("value", "") for tag in page.iter("Markdown")]
        assert bool(fields) == any("loupeTextFields" in frame for frame in frames), name
        assert page.get("className") == "loupe", name
        for field in fields:
            assert (field.get("maxSubmissions"), field.get("editable")) == ("1", "true"), name


@pytest.mark.parametrize("step", PAGES)
@pytest.mark.slow
@pytest.mark.label_studio
@pytest.mark.browser
def test_hostile_markup_does_not_run_and_typed_text_survives(
    bench: Bench, tmp_path: Path, step: str
) -> None:
    declared = shipped().steps[step]
    content, shown = hostile_content(World(tmp_path), declared, bench.images_url)
    page = cast("Interface", Adjudicated(INTERFACES[declared.interface]))
    opened = bench.open(page, content, shown.pictures, has_images=False)
    opened.assert_harmless()
    assert_text_survives(opened, PAGES[step])


def assert_text_survives(page: LabellingPage, fields: Fields) -> None:
    """Assert that a reload keeps typed text, also if it was typed while a draft was being saved.

    It is also kept if the connection is lost while a draft is sent. Ctrl+Enter submits from inside
    a field.
    """
    drafts: list[Any] = []

    def hold_the_first_and_lose_the_second(route: Any) -> None:
        drafts.append(route)
        if len(drafts) == 2:
            route.abort()
        elif len(drafts) > 2:
            route.continue_()

    page.press(fields.edit)
    typed = {text: write(page, text) for text in fields.texts}
    page.press("Escape", *fields.reject)
    page.browser_page.route("**/drafts**", hold_the_first_and_lose_the_second)
    typed["note"] = write(page, "note")
    while not drafts:
        page.browser_page.wait_for_timeout(50)
    page.type(" and more")
    drafts[0].continue_()
    typed["note"] += " and more"
    page.wait_until_saved()
    assert len(drafts) > 2

    page.reload()
    wait_for_text(page, "note", typed["note"])
    page.press(fields.edit)
    for text in fields.texts:
        wait_for_text(page, text, typed[text])
    page.press(fields.reject[0])  # the reason is still chosen
    field(page, "note").click()
    result = page.submit()
    assert values(result, "note", "text") == [typed["note"]]


def write(page: LabellingPage, name: str) -> str:
    """Replace the content of a field and return the new text."""
    text = TYPED.format(name)
    field(page, name).click()
    page.press("Control+A")
    page.browser_page.keyboard.insert_text(text)
    return text


def wait_for_text(page: LabellingPage, name: str, text: str) -> None:
    """Wait until a visible field has that text: a draft is put back into it a little later."""
    page.browser_page.wait_for_function(
        """([name, text]) => [...document.querySelectorAll(`.loupe [name='${name}']`)]
          .some(one => one.checkVisibility() && one.value === text)""",
        arg=[name, text],
    )


def field(page: LabellingPage, name: str) -> Any:
    return page.browser_page.locator(f".loupe [name='{name}']").locator("visible=true")
