"""People decide on records of one's own, on a page that the pipeline declares."""

from pathlib import Path
from typing import Literal

import pytest

import loupe
from loupe import Image
from loupe.annotate.interfaces.own_pages import NAMES, OwnPage, record_of
from loupe.annotate.queues import Queue, declare_queues, load_queues, queues_in_use
from loupe.db.entities import StoredEntity, fetch, new_entity
from loupe.db.store import Store
from loupe.flows.engine.pipeline import run_pipeline
from loupe.models.profiles.loader import load_profile
from loupe.release.verify import verify_release
from loupe.schemas import records
from loupe.schemas.provenance import Role
from tests.annotate.interfaces.regions import Regions, ticked, variables, written
from tests.api.shop import draw_photograph
from tests.db.samples import store_entities
from tests.flows.ccd_reviewers import answer_all, open_office
from tests.flows.runs import context_of


class Label(loupe.Record, kind="label"):
    colour: Literal["red", "green"]
    note: str = ""


@loupe.step(version="1")
def label(image: Image) -> Label:
    return Label(colour="red", note=f"of {image.identity}")


def opinion(shown: StoredEntity) -> Regions:
    if "of P0" in shown.payload:
        return [ticked("verdict", "edit"), ticked("changed", "green")]
    if "of P1" in shown.payload:
        return [ticked("verdict", "reject"), ticked("reason", "does not fit")]
    return [ticked("verdict", "accept"), ticked("changed", "red")]


def test_a_choice_changes_a_field_and_the_release_has_it(
    sqlite_store: Store, tmp_path: Path
) -> None:
    (tmp_path / "photos").mkdir()
    for number in range(3):
        draw_photograph(tmp_path / "photos" / f"P{number}.jpg", number)
    lines = ["sku,title", *(f"P{number},Thing {number}." for number in range(3))]
    (tmp_path / "shop.csv").write_text("\n".join(lines), encoding="utf-8")
    source = loupe.source(
        "csv", "shop.csv", images="photos", identity="sku", captions=["title"], licence="CC0-1.0"
    )
    pipeline = loupe.Pipeline(
        "shop",
        version="0.1.0",
        folder=tmp_path,
        sources=[source],
        steps=[
            label,
            loupe.gate("labels", of=Label, page="choice", field="colour", policy="required"),
            loupe.release(),
        ],
    )
    run = context_of(sqlite_store, tmp_path / "home")
    office, people = open_office(run)
    declare_queues(pipeline.name, pipeline.queues())

    def again() -> int:
        built = pipeline.build()
        report = run_pipeline(run, pipeline.spec(), built, load_profile("builtin"), lambda: office)
        return report.waiting

    assert again() == 3
    assert len(answer_all(run, office, people, opinion)) == 3
    assert again() == 0
    folder = run.settings.home / "releases" / "shop-0.1.0"
    assert verify_release(folder).problems == []
    rows = {row["identity"]: row["label"] for row in loupe.open_release(folder).rows()}
    colours = {name: [one["colour"] for one in labels] for name, labels in rows.items()}
    assert colours == {"P0": ["green"], "P1": [], "P2": ["red"]}
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "Unreviewed" not in card, "people decided on the labels, and no model wrote a text"
    assert "meant to tell apart" not in card

    draw_photograph(tmp_path / "photos" / "P3.jpg", 3)
    added = [lines[0], "P3,Thing 3.", *lines[1:3], "P2,Another thing 2."]
    (tmp_path / "shop.csv").write_text("\n".join(added), encoding="utf-8")
    pipeline.version = "0.2.0"
    assert again() == 1, "people are asked about the new line alone"
    assert [one.payload for one in answer_all(run, office, people, opinion)] == [
        '{"colour":"red","note":"of P3"}'
    ]
    assert again() == 0
    folder = run.settings.home / "releases" / "shop-0.2.0"
    assert verify_release(folder).problems == []
    rows = {row["identity"]: row for row in loupe.open_release(folder).rows()}
    colours = {name: [one["colour"] for one in row["label"]] for name, row in rows.items()}
    assert colours == {"P0": ["green"], "P1": [], "P2": ["red"], "P3": ["red"]}
    assert rows["P2"]["captions"] == ["Another thing 2."]


@pytest.mark.parametrize("name", NAMES)
def test_a_page_uses_only_what_it_is_given(name: str) -> None:
    queue = Queue(
        kind="label", interface=name, name="shop-x", dataset="shop", field="note", choices=("a",)
    )
    wanted = variables(OwnPage(queue).config)
    images = {"first", "second"} if name == "own-compare" else {"image"}
    assert wanted <= {"heading", "item_html", "changed", "returned", *images}


def test_a_text_that_is_emptied_is_unclear_and_one_that_is_kept_is_accepted() -> None:
    queue = Queue(kind="label", interface="own-text", name="s-x", dataset="s", field="note")
    page = OwnPage(queue)
    shown = StoredEntity(1, "0" * 32, "s", "label", None, None, "proposed", '{"note":"a mug"}')
    accepted = ticked("verdict", "accept")
    unclear = page.read_annotation([accepted, written("changed", " ")], shown)
    assert getattr(unclear, "problem", "") == "the text is empty"
    kept = page.read_annotation([accepted, written("changed", "a mug")], shown)
    assert getattr(kept, "verdict", "") == "accept"
    changed = page.read_annotation([accepted, written("changed", "a cup")], shown)
    (made,) = page.successors(shown, changed, "ann")  # type: ignore[arg-type]
    assert (made.kind, made.payload()) == ("label", '{"note":"a cup"}')


def test_a_gate_of_images_shows_the_image_alone_or_asks_for_a_description() -> None:
    def page_of(page: str = "") -> tuple[str, str | None]:
        queue = loupe.gate("photos", of=loupe.Image, page=page).queue()
        return queue.kind, queue.interface

    assert page_of() == ("image", "own-image")
    assert page_of("text") == ("image", "description-writing")


def test_queues_of_a_pipeline_are_known_to_other_commands(tmp_path: Path) -> None:
    file = tmp_path / "queues.toml"
    gate = loupe.gate("labels", of=Label, page="choice", field="colour", policy="sample:0.1")
    declare_queues("other", {"labels": gate.queue()}, file)
    file.write_text("[queues.other-labels]\noverlap = 2\n", encoding="utf-8")
    queue = load_queues(file).queue_named("other-labels")
    assert (queue.kind, queue.choices, queue.overlap) == ("label", ("red", "green"), 2)


def test_the_page_of_a_record_made_of_a_caption_shows_the_caption(sqlite_store: Store) -> None:
    caption = new_entity(
        records.Caption(source="s", position=0, text="A red mug.", author="x"), "shop"
    )
    made = new_entity(
        record_of("label")(colour="red"),
        "shop",
        parents=[(Role.DERIVED_FROM, caption.id)],
    )
    store_entities(sqlite_store, [caption, made])
    queue = Queue(kind="label", interface="own-choice", name="s-x", dataset="shop", field="colour")
    page = OwnPage(queue)
    shown = fetch(sqlite_store, [made.id])[made.id]
    related = page.related(sqlite_store, [shown])[made.id]
    html = page.data(shown, related=related, images=None)["item_html"]  # type: ignore[arg-type]
    assert "<b>caption</b></td><td>A red mug." in html


def test_a_queue_is_listed_before_anything_was_sent_to_people(sqlite_store: Store) -> None:
    gates = [
        loupe.gate("labels", of=Label, page="choice", field="colour", policy="required"),
        loupe.gate("nobody", of=Label, page="choice", field="colour", policy="auto"),
    ]
    declare_queues("stall", {one.name: one.queue() for one in gates})

    def listed() -> list[str]:
        used = [one.name for one in queues_in_use(sqlite_store, load_queues())]
        return [name for name in used if name.startswith("stall-")]

    assert listed() == []
    store_entities(sqlite_store, [new_entity(record_of("label")(colour="red"), "stall")])
    assert listed() == ["stall-labels"]
