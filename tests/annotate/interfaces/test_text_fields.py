"""Typed text survives a reload on every page, and Ctrl+Enter submits from inside a text field.

`test_hostile_pages.py` tries it on every page, with `assert_text_survives`.
"""

import xml.etree.ElementTree as ET
from typing import Any, NamedTuple

import pytest

from annotate.interfaces.page import Interface, values
from annotate.interfaces.registry import INTERFACES
from db.store import Store
from tests.annotate.browser import Bench, LabellingPage
from tests.annotate.interfaces.proposed import one_of_each_kind

TYPED = "Typed «{}»: a $grey <b>coat</b>, {{{{now}}}} 灰色的"


class Fields(NamedTuple):
    """The text fields of a page: those of an edit after `edit`, the note after `reject`."""

    edit: tuple[str, ...]
    texts: tuple[str, ...]
    reject: tuple[str, ...]


PAGES = {
    "description-writing": Fields(("1",), ("text",), ("2", "6")),
    "rewrite-revision": Fields(("2",), ("text",), ("3", "9")),
    "caption-verification": Fields(("2",), ("text",), ("3", "9")),
    "strategy-check": Fields(
        ("2",),
        ("detail", "plan", "contrastive_caption", "editing_instruction"),
        ("3", "8"),
    ),
    "group-refinement": Fields(("2",), ("text_0_0", "text_1_1"), ("3", "7")),
    "image-filter": Fields(("1",), (), ("2", "8")),
    "image-selection": Fields(("1",), (), ("2", "8")),
    "tracklet-selection": Fields(("1",), (), ("3", "0")),
}


def has_text(interface: Interface) -> bool:
    page = ET.fromstring(interface.config)  # noqa: S314 - our own page
    return page.find(".//TextArea") is not None


def test_every_page_with_text_is_tried() -> None:
    assert {name for name, page in INTERFACES.items() if has_text(page)} == set(PAGES)


def write(page: LabellingPage, name: str) -> str:
    """Types into a field, keeping nothing of what was there; gives what was typed."""
    text = TYPED.format(name)
    field(page, name).click()
    page.press("Control+A")
    page.type(text)
    return text


def field(page: LabellingPage, name: str) -> Any:
    return page.browser_page.locator(f".loupe [name='{name}']").locator("visible=true")


def assert_text_survives(page: LabellingPage, fields: Fields) -> None:
    """What is typed is there after a reload, and is submitted from inside its field."""
    page.press(*fields.edit)
    typed = {text: write(page, text) for text in fields.texts}
    page.press("Escape", *fields.reject)
    typed["note"] = write(page, "note")
    page.wait_until_saved()

    page.reload()
    assert field(page, "note").input_value() == typed["note"]
    page.press(*fields.edit)
    assert {text: field(page, text).input_value() for text in fields.texts} == {
        text: typed[text] for text in fields.texts
    }
    page.press(fields.reject[0])  # its reason is still chosen
    field(page, "note").click()
    result = page.submit()
    assert values(result, "note", "text") == [typed["note"]]


@pytest.mark.label_studio
@pytest.mark.browser
def test_what_is_typed_while_a_draft_is_on_its_way_is_not_called_saved(
    bench: Bench, sqlite_store: Store
) -> None:
    interface = INTERFACES["description-writing"]
    shown, pictures = one_of_each_kind()["image"]
    (content,) = interface.contents(sqlite_store, [shown], bench.images_url)
    page = bench.open(interface, content, pictures)
    page.read_instructions()
    held: list[Any] = []

    def hold_the_first(route: Any) -> None:
        if held:
            route.continue_()
        else:
            held.append(route)

    page.browser_page.route("**/drafts**", hold_the_first)
    page.press("1")
    typed = write(page, "text")
    while not held:
        page.browser_page.wait_for_timeout(50)
    page.type(" and more")
    held[0].continue_()
    page.wait_until_saved()
    page.reload()
    page.press("1")
    assert field(page, "text").input_value() == f"{typed} and more"
