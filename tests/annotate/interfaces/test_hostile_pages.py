"""Every labelling page in a real Label Studio, with hostile markup in all texts.

On pages with text fields, typed text must survive a reload.
"""

import json
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import ValidationError

from annotate.answers import ReviewAnswer
from annotate.interfaces.page import (
    Interface,
    TaskContent,
    adjudication_config,
    adjudication_data,
    adjudication_instructions,
)
from annotate.interfaces.registry import INTERFACES
from annotate.queues import Step, shipped
from db.entities import StoredEntity, fetch
from schemas.base import EntityRecord
from schemas.proposals import Candidate, CaptionGroup, Strategy, Tracklet
from schemas.quality import ChoiceTest, Confusion
from schemas.records import Caption, Image, Rewrite
from schemas.recos import DuplicateQuestion, Selection
from tests.annotate.browser import PAGE_TEST, Bench, LabellingPage
from tests.annotate.interfaces.proposed import Proposal, one_of_each_kind, photograph, proposal
from tests.annotate.interfaces.test_caption_verification import add_caption
from tests.annotate.interfaces.test_text_fields import PAGES, assert_text_survives
from tests.annotate.world import REWRITE, SOURCE, World

ATTACK = (
    '"><img src=x onerror=parent.hacked=top.hacked=1><svg onload=top.hacked=2>'
    "<script>top.hacked=3</script><iframe srcdoc='<script>top.hacked=4</script>'></iframe>"
    "[x](javascript:top.hacked=5) {{constructor.constructor('top.hacked=6')()}} $image ${7*7}"
)
BROKEN_IMAGE = """() => new Promise(done => {
  const image = new Image();
  image.onerror = () => done();
  image.src = "x";
})"""
"""Waits as long as an image of the attack would need to fail to load."""
pytestmark = [*PAGE_TEST, pytest.mark.slow]
RECORDS: tuple[type[EntityRecord], ...] = (
    Candidate, Caption, CaptionGroup, ChoiceTest, Confusion, DuplicateQuestion, Image, Rewrite,
    Selection, Strategy, Tracklet,
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


@pytest.mark.parametrize("step", shipped().steps.values(), ids=shipped().steps)
def test_hostile_markup_does_not_run_and_typed_text_survives(
    bench: Bench, tmp_path: Path, step: Step
) -> None:
    world, page = World(tmp_path), INTERFACES[step.interface]
    if step.kind in ("rewrite", "caption"):
        shown, pictures = stored_proposal(world, step.kind)
    else:
        shown, pictures = hostile_proposal(one_of_each_kind()[step.kind])
    (content,) = page.contents(world.store, [shown], bench.images_url)
    one = {"verdict": ("accept",), "fit": ("own",), "pick": ("1",)}
    other = {"verdict": ("reject",), "fit": ("both",), "pick": ("2",)}
    answers = {
        "1": ReviewAnswer(verdict="accept", choices=one),
        "2": ReviewAnswer(verdict="reject", choices=other, reason=ATTACK, texts={"text": ATTACK}),
    }
    content = TaskContent(
        content.data | adjudication_data(page, shown, answers), content.predictions, content.images
    )
    opened = bench.open(cast("Interface", Adjudicated(page)), content, pictures)
    opened.read_instructions()
    assert "onerror" in json.dumps(content.data)
    assert_nothing_ran(opened)
    if fields := PAGES.get(step.interface):
        assert_text_survives(opened, fields)
        assert_nothing_ran(opened)


def assert_nothing_ran(page: LabellingPage) -> None:
    page.browser_page.evaluate(BROKEN_IMAGE)
    ran = [frame.evaluate("window.hacked") for frame in page.browser_page.frames]
    assert not any(ran), ran
