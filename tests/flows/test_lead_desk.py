"""The lead's page and its buttons, and questions of annotators, without a browser."""

import json
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, select

from loupe.annotate.instructions import additions, instructions_of, instructions_version
from loupe.annotate.lead_page import live_parts
from loupe.annotate.pull import pull
from loupe.annotate.queues import shipped
from loupe.annotate.statistics.queue import Round, queue_statistics
from loupe.db.decisions import decide
from loupe.db.desk_events import desk_events
from loupe.db.entities import AgentRef, NewDecision, fetch, register_agents
from loupe.db.gold import gold_items
from loupe.db.reviews import (
    annotator_named,
    annotators,
    images_of_item,
    open_image_media_type,
    review_tasks,
)
from loupe.db.tables import Annotation, Withdrawal
from loupe.db.withdrawal_traces import close_reviews, erase_answers_of
from loupe.flows.lead_actions import COMMAND_LINE, Buttons, log_account, reopen
from loupe.flows.lead_desk import LeadDesk
from loupe.models.profiles.settings import load_settings
from loupe.schemas.errors import UsageError
from loupe.services.label_studio import label_studio_name
from tests.annotate.answering import accepting
from tests.annotate.memory_desk import MemoryOffice
from tests.annotate.office import IMAGES, hire, push, work
from tests.annotate.world import DATASET, World

QUEUE = shipped().queue(DATASET, "rewrites")
LEAD = "lead@localhost"
QUESTION = 'Is an empty hand "carrying" <nothing>?'


class Team:
    """Ann and Bea with a task each, and the lead."""

    def __init__(self, folder: Path) -> None:
        self.world, self.office = World(folder), MemoryOffice()
        self.store = self.world.store
        self.ann = hire(self.store, self.office, "ann")
        self.bea = hire(self.store, self.office, "bea")
        self.items = self.world.add_rewrites(2)
        push(self.store, self.office, QUEUE)
        self.buttons = Buttons(self.store, self.office, lambda: [QUEUE], IMAGES)
        (self.task,) = review_tasks(self.store, QUEUE.name, assignee=self.ann).values()
        url = {"database_url": str(self.store.engine.url), "label_studio_url": self.task.server}
        settings = load_settings(home=folder).model_copy(update=url)
        assert label_studio_name(settings) == self.task.server
        self.desk = LeadDesk(settings, clock=lambda: 0.0)

    def press(self, **asked: Any) -> str:
        """Press a button as the lead."""
        return self.buttons.press({"queue": QUEUE.name, **asked}, LEAD)

    def ask(self, **asked: Any) -> dict[str, Any]:
        """Send what Label Studio sends for Ann's task."""
        (ann,) = [one for one in annotators(self.store) if one.pseudonym == self.ann]
        reply = self.desk.answer({"user": ann.user_id, "task": self.task.task_id, **asked})
        assert reply.status == HTTPStatus.OK, reply
        return reply.content

    def log(self) -> list[tuple[str, str]]:
        """Return the author and the kind of each event."""
        return [(one.author, one.kind) for one in desk_events(self.store)]


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return Team(tmp_path)


def test_a_question_and_its_answer_are_seen_by_both_and_become_instructions(team: Team) -> None:
    assert team.ask(ask="thread") == {"said": [], "open": True}
    (said,) = team.ask(ask="question", text=f"  {QUESTION}\n")["said"]
    assert (said["by"], said["text"]) == ("you", QUESTION)
    page = team.ask(ask="page")
    assert "Is an empty hand &#34;carrying&#34; &lt;nothing&gt;?" in page["html"]
    assert "1 without an answer" in page["html"]
    assert team.ask(ask="page", known=page["known"]) == {"known": page["known"]}

    before = instructions_version(instructions_of(QUEUE, "review", additions(team.store, QUEUE)))
    done = team.press(
        action="answer", item=team.task.entity_id, person=team.ann, text="No.", instructs=True
    )
    assert "part of the instructions" in done
    assert [one["text"] for one in team.ask(ask="thread")["said"]] == [QUESTION, "No."]
    (answered,) = team.ask(ask="inbox")["said"]
    assert (answered["question"], answered["text"]) == (QUESTION, "No.")
    assert len(answered["images"]) == 1
    (bea,) = [one for one in annotators(team.store) if one.pseudonym == team.bea]
    (instruction,) = team.desk.answer({"ask": "inbox", "user": bea.user_id}).content["said"]
    assert (instruction["kind"], instruction["question"]) == ("instruction", QUESTION)
    assert "1 without an answer" not in team.ask(ask="page")["html"]

    push(team.store, team.office, QUEUE)
    for person in (team.ann, team.bea):
        (shown,) = {one.instructions for one in team.office(person).specs.values()}
        assert "<b>No.</b>" in shown
        assert "carrying&#34; &lt;nothing&gt;" in shown
    team.office.server.now = datetime.now(UTC)
    work(team.store, team.office, team.ann, accepting)
    pull(team.store, team.office, QUEUE, "", "")
    version = instructions_version(instructions_of(QUEUE, "review", additions(team.store, QUEUE)))
    assert recorded_versions(team) == {version}
    assert version != before


def recorded_versions(team: Team) -> set[str | None]:
    """Return the versions of instructions that answers recorded."""
    with team.store.read() as connection:
        return set(connection.scalars(select(Annotation.instructions)))


def test_others_see_neither_question_nor_answer(team: Team) -> None:
    team.ask(ask="question", text=QUESTION)
    team.press(action="answer", item=team.task.entity_id, person=team.ann, text="No.")
    (bea,) = [one for one in annotators(team.store) if one.pseudonym == team.bea]
    about = {"user": bea.user_id, "task": team.task.task_id}
    assert team.desk.answer({"ask": "thread", **about}).content == {"said": [], "open": False}
    assert team.desk.answer({"ask": "inbox", **about}).content == {"said": []}
    refused = team.desk.answer({"ask": "question", "text": "?", **about})
    assert refused.status == HTTPStatus.CONFLICT


def test_an_image_stays_visible_to_those_who_talk_about_it(team: Team) -> None:
    team.ask(ask="question", text=QUESTION)
    work(team.store, team.office, team.ann, accepting)
    work(team.store, team.office, team.bea, accepting)
    pull(team.store, team.office, QUEUE, "", "")
    about, other = team.task.entity_id, (set(team.items) - {team.task.entity_id}).pop()
    with team.store.read() as connection:
        for item, expected in ((about, "image/png"), (other, None)):
            (image,) = images_of_item(team.store, QUEUE.name, item)
            assert open_image_media_type(connection, image.sha256) == expected, item


def test_buttons_do_and_log_what_the_command_line_does(team: Team) -> None:
    first, second = team.items
    assert "items accepted" in team.press(action="accept", item=first, text="fine")
    assert "1 of 1 items are open again" in team.press(action="reopen", item=first, text="look")
    assert fetch(team.store, [first])[first].state == "proposed"
    statistics = queue_statistics(team.store, QUEUE, datetime.now(UTC))
    assert statistics.rounds == (Round(number=2, items=1, undecided=1),)
    said = team.press(action="gold", item=second, verdict="reject")
    assert "added (reject)" in said
    assert "this answer is not compared; gold_rate of the queue is 0" in said
    assert gold_items(team.store, QUEUE.name)[second].answer["verdict"] == "reject"
    assert team.press(action="pause", person=team.ann) == f"paused {team.ann}"
    assert team.press(action="resume", person=team.ann) == f"resumed {team.ann}"
    assert "2 people" in team.press(action="message", text="Good morning")
    team.press(action="push")
    actions = [("lead@localhost", "action")] * 5
    assert team.log() == [*actions, *[(LEAD, "message")] * 2, (LEAD, "action")]
    for wrong, sentence in (
        ({"action": "erase"}, "no button is called"),
        ({"action": "reinstate", "person": team.ann}, "not suspended"),
        ({"action": "accept", "item": first, "text": " "}, "write a text"),
        ({"action": "accept", "item": first, "text": "x", "queue": "other"}, "no queue 'other'"),
        ({"action": "pause", "person": "reviewer-nobody"}, "no annotator"),
        ({"action": "reopen", "item": first, "text": "x"}, "nothing to reopen"),
        ({"action": "gold", "item": second, "verdict": "accept"}, "a gold item already"),
    ):
        with pytest.raises(UsageError, match=sentence):
            team.press(**wrong)


def test_the_log_says_to_what_and_to_whom(team: Team) -> None:
    first, _ = team.items
    team.press(action="accept", item=first, text="fine")
    team.press(action="message", text="Good morning")
    team.press(action="pause", person=team.ann)
    paused, message, accepted = live_parts(team.store, [QUEUE], IMAGES).log
    assert (paused.what, message.what) == ("paused ann", "message to ann, bea: Good morning")
    words = json.loads(fetch(team.store, [first])[first].payload)["text"]
    assert accepted.item == f"{first[:12]}: {words}"
    with pytest.raises(UsageError, match="decided already"):
        team.press(action="accept", item=first, text="fine")
    reopen(team.store, QUEUE, team.items, "look again", COMMAND_LINE)
    log_account(team.store, annotator_named(team.store, "bea"), "added")
    account, reopened, *_ = live_parts(team.store, [QUEUE], IMAGES).log
    assert reopened.item == ", ".join(sorted(one[:12] for one in team.items))
    assert (account.author, account.what) == (COMMAND_LINE, "added bea (annotator)")


def test_an_item_that_a_step_rejected_is_not_offered_to_reopen(team: Team) -> None:
    first, second = team.items
    team.press(action="accept", item=second, text="fine")
    step = AgentRef("software", "a-check")
    decide(team.store, [NewDecision(first, "reject", step, "names a colour that is not there")])
    html = team.ask(ask="items", queue=QUEUE.name)["html"]
    assert html.count('data-do="reopen"') == 1
    assert "Rejected because: names a colour that is not there" in html


def test_an_item_moves_to_the_person_whom_the_lead_names(team: Team) -> None:
    mine = team.task.entity_id
    with pytest.raises(UsageError, match="has, or had"):
        team.press(action="assign", item=mine, person=team.ann)
    team.press(action="assign", item=mine, person=team.bea)
    push(team.store, team.office, QUEUE)
    tasks = review_tasks(team.store, QUEUE.name, entity_id=mine, state="open").values()
    assert [task.assignee for task in tasks] == [team.bea]
    assert len(team.office(team.bea).open_tasks("review")) == 2


def test_what_was_said_is_erased_with_its_item(team: Team) -> None:
    team.ask(ask="question", text=QUESTION)
    close_reviews(team.store, [team.task.entity_id])
    assert team.log() == [(team.ann, "question")]
    withdrawal = {
        "key": "k",
        "target": {},
        "ground": "consent",
        "reason": "",
        "erases": True,
        "state": "confirmed",
        "confirmed_at": datetime.now(UTC),
    }
    with team.store.write() as connection:
        (agent,) = register_agents(connection, [AgentRef("person", LEAD)])
        connection.execute(insert(Withdrawal), {**withdrawal, "id": 1, "agent_id": agent})
    close_reviews(team.store, [team.task.entity_id], erased_by=1)
    assert team.log() == []
    team.press(action="message", person=team.ann, text="Good morning")
    team.press(action="pause", person=team.ann)
    erase_answers_of(team.store, team.ann, 1)
    assert team.log() == [(LEAD, "action")]
