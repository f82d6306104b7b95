"""Decisions of the lead from the explorer, and what the next run makes of them."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from loupe.annotate.queues import candidates, load_queues, needs_review
from loupe.db.decisions import decision_rows
from loupe.db.entities import find
from loupe.db.gold import gold_items
from loupe.db.reviews import priorities
from loupe.flows.engine.context import RunContext
from loupe.flows.exploring.deciding import Wanted, answer_form, plan_decision
from loupe.flows.exploring.items import StoreItems
from loupe.flows.exploring.session import folder_of
from loupe.release.format.row_files import read_release
from loupe.schemas.errors import UsageError
from loupe.schemas.records import Image
from tests.flows.command_line import Loupe
from tests.flows.exploring.conftest import DATASET, People

REWRITES = f"{DATASET}-rewrites"


def states(run: RunContext, kind: str) -> list[str]:
    return sorted(one.state for one in find(run.store, DATASET, kind))


def decide(run: RunContext, action: str, items: Sequence[str], ground: str = "") -> str:
    """Decide on images and return what was planned."""
    wanted = Wanted(action=action, reason="a test", items=tuple(items), ground=ground)
    plan = plan_decision(run, wanted)
    sentence = plan.sentence
    plan.carry_out()
    return sentence


def released(folder: Path | None) -> set[str]:
    assert folder is not None
    return {row.image_entity_id for row in read_release(folder).rows}


def test_the_next_release_lacks_what_was_rejected_until_it_is_reopened(people: People) -> None:
    run = people.run
    first = released(people.build("1.0.0").release)
    gone = sorted(first)[:2]
    before = states(run, "rewrite"), states(run, "caption")
    sentence = decide(run, "reject", gone)
    assert "4 captions" in sentence
    assert f"{DATASET}@1.0.0" in sentence
    assert released(people.build("1.1.0").release) == first - set(gone)
    assert states(run, "caption").count("inactive") == 4
    (decision, other) = [one for one in decision_rows(run.store, DATASET) if one.item in gone]
    assert (decision.verdict, decision.by_kind, decision.reason) == ("reject", "person", "a test")
    assert other.by == decision.by
    decide(run, "reopen", gone)
    assert (states(run, "rewrite"), states(run, "caption")) == before
    assert released(people.build("1.2.0").release) == first


def test_a_caption_is_rejected_without_its_image(people: People) -> None:
    run = people.run
    first = released(people.build("1.0.0").release)
    image = next(iter(people.items.read(sorted(first)[:1])))
    caption = next(text for text in image.texts if text.kind == "caption")
    wanted = Wanted(
        action="reject", reason="it is wrong", items=(image.id,), caption=caption.text[:-1].upper()
    )
    asked = {"action": "reject", "reason": "it is wrong", "items": [image.id]}
    asked["caption"] = wanted.caption
    is_usable, sentence = answer_form(run, asked)
    assert is_usable, "the plan is a normal answer"
    phrase = plan_decision(run, wanted).phrase
    assert f"To confirm, type: {phrase}." in sentence
    assert re.fullmatch(r"reject \d captions?", phrase)
    assert answer_form(run, {**asked, "confirm": "yes"})[0] is False
    assert answer_form(run, {**asked, "confirm": phrase})[0] is True
    release = people.build("1.1.0").release
    assert released(release) == first
    assert release is not None
    texts = {one.text for row in read_release(release).rows for one in row.captions}
    assert caption.text not in texts
    with pytest.raises(UsageError, match="no caption of 1 image has 'unicorn'"):
        plan_decision(run, wanted.model_copy(update={"caption": "unicorn"}))


def test_what_two_rejected_images_share_is_active_once_both_are_reopened(people: People) -> None:
    """What an image is not the only reason for stays inactive."""
    run = people.run
    people.build("1.0.0")
    first, second = people.items.ids()[:2]
    decide(run, "reject", [first, second])
    decide(run, "reopen", [first])
    inactive = {
        item.id: {text.state for text in item.texts} for item in people.items.read([first, second])
    }
    assert "inactive" not in inactive[first]
    assert inactive[second] == {"inactive"}


def test_items_are_sent_to_people_and_made_gold(people: People) -> None:
    run = people.run
    people.build("1.0.0")
    (image,) = people.items.ids()[:1]
    texts = [one.id for item in people.items.read([image]) for one in item.texts]
    rewrites = {one.id for one in find(run.store, DATASET, "rewrite") if one.id in texts}
    decide(run, f"gold {REWRITES}", [image])
    known = gold_items(run.store, REWRITES)
    assert known.keys() == rewrites
    assert {one.explanation for one in known.values()} == {"a test"}
    decide(run, f"send to {REWRITES}", [image])
    queue = load_queues().queue_named(REWRITES)
    waiting = {one.entity.id for one in candidates(run.store, queue) if needs_review(queue, one)}
    assert waiting == rewrites
    assert priorities(run.store, REWRITES) == dict.fromkeys(rewrites, 1)


def test_an_image_or_a_caption_of_it_is_rejected_by_name(people: People, loupe: Loupe) -> None:
    store = people.run.store
    people.build("1.0.0")
    image = next(find(store, DATASET, "image"))
    path = image.record(Image).file_path
    words = next(text.text for item in people.items.read([image.id]) for text in item.texts)
    why = "--reason", "blurred", "--yes"
    done = loupe("reject", DATASET, path, "--caption", words, *why)
    assert done.out == "rejected 1 caption; the next run leaves them out\n"
    assert "add --yes" in loupe("reject", DATASET, path, *why[:2]).err
    done = loupe("reject", DATASET, image.id[:10], *why)
    assert done.out == "rejected 1 image; the next run leaves them out\n"
    assert states(people.run, "image").count("rejected") == 1
    assert loupe("reject", DATASET, path, "--undo", *why).exit_code == 0
    assert "rejected" not in states(people.run, "image")
    refused = loupe("reject", DATASET, f"{path}g", *why)
    assert (refused.exit_code, f"did you mean {path}?" in refused.err) == (2, True)
    assert "there is no dataset" in loupe("reject", "peple", path, *why).err


def test_a_withdrawn_image_is_gone(people: People) -> None:
    people.build("1.0.0")
    first, *others = people.items.ids()
    sentence = decide(people.run, "withdraw", [first], ground="privacy")
    assert "erased" in sentence
    assert people.items.ids() == others
    assert list(people.items.read([first])) == []


@pytest.mark.parametrize(
    ("action", "reason", "ground", "message"),
    [
        ("rejct", "x", "", "did you mean reject"),
        ("reject", " ", "", "needs a reason"),
        ("reopen", "x", "", "would change none of 6 images"),
        ("withdraw", "x", "bad", "needs a ground, one of privacy"),
        ("send to people-rewrite", "x", "", "did you mean people-rewrites"),
    ],
)
def test_bad_decisions_are_refused_in_a_sentence(
    action: str, reason: str, ground: str, message: str, people: People
) -> None:
    people.build("1.0.0")
    items: StoreItems = people.items
    wanted = Wanted(action=action, reason=reason, items=tuple(items.ids()), ground=ground)
    with pytest.raises(UsageError, match=message):
        plan_decision(people.run, wanted)


def test_a_tag_is_applied_from_the_command_line_once_it_is_confirmed(
    people: People, loupe: Loupe
) -> None:
    people.build("1.0.0")
    chosen = people.items.ids()[:2]
    tags = folder_of(people.run.settings.home, DATASET) / "tags.json"
    tags.write_text(json.dumps({"blurred": chosen}))
    apply = ("explore", DATASET, "--apply")
    unconfirmed = loupe(*apply, "blurred=reject", "--reason", "motion blur")
    assert unconfirmed.exit_code == 2
    assert "reject 2 images" in unconfirmed.err
    assert "nothing was decided; add --yes" in unconfirmed.err
    unknown = loupe(*apply, "blured=reject", "--reason", "motion blur", "--yes")
    assert "did you mean blurred?" in unknown.err
    assert "rejected" not in states(people.run, "image")
    done = loupe(*apply, "blurred=reject", "--reason", "motion blur", "--yes", "--json")
    assert done.json == {"decided": ["rejected 2 images; the next run leaves them out"]}
    assert states(people.run, "image").count("rejected") == 2
