"""Typed text survives a reload, and Ctrl+Enter submits from inside a text field.

`test_hostile_pages.py` checks this on every page, with `assert_text_survives`.
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
    """Text fields of a page: `texts` appear after the keys `edit`, the note after `reject`."""

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


def test_every_page_with_text_fields_is_tested() -> None:
    assert {name for name, page in INTERFACES.items() if has_text(page)} == set(PAGES)


def write(page: LabellingPage, name: str) -> str:
    """Replace the content of a field and return the typed text."""
    text = TYPED.format(name)
    field(page, name).click()
    page.press("Control+A")
    page.type(text)
    return text


def field(page: LabellingPage, name: str) -> Any:
    return page.browser_page.locator(f".loupe [name='{name}']").locator("visible=true")


def assert_text_survives(page: LabellingPage, fields: Fields) -> None:
    """Assert that typed text is kept by a reload and submitted from inside its field."""
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
    page.press(fields.reject[0])  # the reason is still chosen
    field(page, "note").click()
    result = page.submit()
    assert values(result, "note", "text") == [typed["note"]]


@pytest.mark.label_studio
@pytest.mark.browser
def test_text_typed_while_a_draft_is_being_saved_is_saved_too(
    bench: Bench, sqlite_store: Store
) -> None:
    interface = INTERFACES["description-writing"]
    shown, pictures = one_of_each_kind()["image"]
    (content,) = interface.contents(sqlite_store, [shown], bench.images_url)
    page = bench.open(interface, content, pictures)
    page.read_instructions()
    held_requests: list[Any] = []

    def hold_the_first(route: Any) -> None:
        if held_requests:
            route.continue_()
        else:
            held_requests.append(route)

    page.browser_page.route("**/drafts**", hold_the_first)
    page.press("1")
    typed = write(page, "text")
    while not held_requests:
        page.browser_page.wait_for_timeout(50)
    page.type(" and more")
    held_requests[0].continue_()
    page.wait_until_saved()
    page.reload()
    page.press("1")
    assert field(page, "text").input_value() == f"{typed} and more"
