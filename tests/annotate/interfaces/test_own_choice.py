"""The page of a choice: its keys and warnings, in Chromium, and its value on the lead's page."""

import pytest

from loupe.annotate.interfaces.own_pages import OwnPage, record_of
from loupe.annotate.interfaces.page import TaskContent
from loupe.annotate.lead_page import found_items, render_items
from loupe.annotate.queues import Queue
from loupe.db.entities import new_entity
from loupe.db.store import Store
from tests.annotate.browser import Bench
from tests.annotate.interfaces.proposed import a_tracklet
from tests.db.samples import store_entities

QUEUE = Queue(
    kind="scene",
    interface="own-choice",
    name="shop-scenes",
    dataset="shop",
    field="place",
    choices=("outdoors", "indoors"),
)
UNCHANGED = "Nothing is changed: choose another value, or submit again to accept it as it is"


@pytest.mark.label_studio
@pytest.mark.browser
def test_another_value_is_a_change_and_a_change_needs_one(bench: Bench) -> None:
    _, pictures = a_tracklet(frames=1)
    shown = {
        "image": f"{bench.images_url}/{next(iter(pictures))}",
        "heading": "scene",
        "item_html": "<table><tr><td><b>place</b></td><td>outdoors</td></tr></table>",
        "changed": "outdoors",
        "returned": "",
    }
    contents = [TaskContent(shown, [])] * 2
    page = bench.open(OwnPage(QUEUE), contents, pictures, "its key is beside it: 7, 8")
    page.press("2", "Control+Enter")
    page.wait_until_objects(UNCHANGED)
    page.press("7")  # the value that it has
    made = {one["from_name"]: one["value"]["choices"] for one in page.submit()}
    assert made == {"changed": ["outdoors"], "verdict": ["edit"]}
    page.wait_for_next_task()
    page.press("8")
    page.browser_page.locator("label:has(input:checked)").nth(1).wait_for()
    assert page.chosen()[1].startswith("Change")
    made = {one["from_name"]: one["value"]["choices"] for one in page.submit()}
    assert made == {"changed": ["indoors"], "verdict": ["edit"]}


def test_the_lead_sees_the_value_of_an_item(sqlite_store: Store) -> None:
    store_entities(sqlite_store, [new_entity(record_of("scene")(place="outdoors"), "shop")])
    items = found_items(sqlite_store, QUEUE, "", "")
    assert "place: outdoors" in render_items(QUEUE, items, "http://127.0.0.1:1/blobs")
