"""Decisions of the lead on images that were selected in the explorer.

A decision is planned first: the plan counts what follows, and is carried out once that is
confirmed. Everything is appended to the store, as decisions always are; the next run acts on it.
"""

import getpass
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast, get_args

from loupe.annotate.answers import ReviewAnswer
from loupe.annotate.gold import GoldLine, add_known_answers
from loupe.annotate.interfaces.registry import interface_of
from loupe.annotate.queues import Queue, load_queues, without_left_out
from loupe.db.decisions import deactivated_by, decide, set_active
from loupe.db.entities import (
    LIVE,
    SHORTEST_PREFIX,
    AgentRef,
    NewDecision,
    StoredEntity,
    fetch,
    find,
    find_in_groups,
)
from loupe.db.exploring import rejected_images, releases_with, texts_of
from loupe.db.gold import reopen_items
from loupe.db.reviews import pseudonyms, set_priorities
from loupe.db.store import Store
from loupe.db.withdrawal_graph import Closure, WithdrawalTarget, closure
from loupe.flows.engine.context import RunContext
from loupe.flows.withdrawal.execution import carry_out
from loupe.flows.withdrawal.plan import confirm, plan_withdrawal, request_of
from loupe.schemas.base import Record
from loupe.schemas.errors import LoupeError, UsageError
from loupe.schemas.records import Caption, Image, Rewrite
from loupe.schemas.validation import nearest_hint, nearest_name, validated
from loupe.schemas.withdrawal import Ground
from loupe.schemas.wording import joined, many

_SEND = "send to "
_GOLD = "gold "
_WORDS = ("reject", "reopen", "withdraw", "send to QUEUE", "gold QUEUE")
_FOLLOWS = AgentRef("software", "explorer")
"""The agent that makes inactive what belongs to a rejected image."""
_NEEDED = (*LIVE, "superseded")
_UNCOUNTED = ("annotation",)
"""Kinds that stay as they are: answers of people."""


class Wanted(Record):
    """What the lead wants done with some images, and why; a withdrawal needs a ground.

    With `caption`, it is done with those texts of the images that have these words.
    """

    action: str
    reason: str
    items: tuple[str, ...]
    ground: str = ""
    caption: str = ""


class Plan(ABC):
    """A decision that is not made yet; `images`, or texts of them, are what it would change."""

    def __init__(self, context: RunContext, wanted: Wanted, images: Sequence[StoredEntity]) -> None:
        self.context = context
        self.wanted = wanted
        self.images = images
        self.unchanged = 0 if wanted.caption else len(wanted.items) - len(images)

    @property
    def counted(self) -> str:
        """How many images, or texts of images, it would change."""
        return many(len(self.images), "caption" if self.wanted.caption else "image")

    @property
    def phrase(self) -> str:
        """What a person types to confirm the plan; it changes if the plan does."""
        count = self.counted if self.wanted.caption else len(self.images)
        return f"{self.wanted.action} {count}"

    @property
    def sentence(self) -> str:
        """What would be done, and what follows from it."""
        follows = self.follows()
        what = f"{self.wanted.action} {self.counted}"
        skipped = (
            f"; {self.unchanged:,} of the selection would not change" if self.unchanged else ""
        )
        return f"{what}{skipped}. {'; '.join(follows)}."

    def releases(self, ids: Iterable[str]) -> str:
        """Say which releases hold any of these entities; they do not change."""
        with self.context.store.read() as connection:
            names = releases_with(connection, ids)
        return f"releases that hold some of them and stay as built: {joined(names) or 'none'}"

    @abstractmethod
    def follows(self) -> list[str]:
        """Return what follows, with counts."""

    @abstractmethod
    def carry_out(self) -> str:
        """Make the decisions, and return what was done, in a sentence."""


def plan_decision(context: RunContext, wanted: Wanted) -> Plan:
    """Plan a decision on images of the store.

    Raises:
        UsageError: the action is not known, a reason or a ground is missing, or nothing would
            change.
    """
    if not wanted.reason.strip():
        raise UsageError("a decision needs a reason, in your words")
    plans: dict[str, type[Plan]] = {"reject": _Reject, "reopen": _Reopen, "withdraw": _Withdraw}
    kind = plans.get(wanted.action)
    if wanted.action.startswith(_SEND):
        kind = _Send
    elif wanted.action.startswith(_GOLD):
        kind = _Gold
    if kind is None:
        raise UsageError(
            f"there is no action {wanted.action!r}; {nearest_hint(wanted.action, _WORDS)}"
        )
    found = fetch(context.store, wanted.items)
    images = [one for one in found.values() if one.kind == Image.kind and one.state != "withdrawn"]
    if not images:
        raise UsageError(
            "none of the images is in the store of this installation: only look at them"
        )
    if wanted.caption:
        images = _texts_with(context, images, wanted)
    plan = kind(context, wanted, images)
    if not plan.images:
        noun = "caption" if wanted.caption else "image"
        raise UsageError(f"{wanted.action!r} would change none of {many(len(images), noun)}")
    return plan


def images_called(store: Store, dataset: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return the ids of images of a dataset that are called by path, file name, or digits of ids.

    Raises:
        UsageError: none is called so, or several are.
    """
    called: dict[str, set[str]] = {name: set() for name in names}
    paths: set[str] = set()
    for one in find(store, dataset, Image.kind):
        path = one.record(Image).file_path
        paths.add(path)
        for name in called:
            is_prefix = len(name) >= SHORTEST_PREFIX and one.id.startswith(name.lower())
            if is_prefix or path == name or path.endswith(f"/{name}"):
                called[name].add(one.id)
    for name, found in called.items():
        if not found:
            nearest = nearest_name(name, sorted(paths))
            hint = f"; did you mean {nearest}?" if nearest else ""
            raise UsageError(f"no image of {dataset} has the name or the id {name!r}{hint}")
        if len(found) > 1:
            raise UsageError(
                f"{many(len(found), 'image')} of {dataset} are called {name!r}; name "
                f"one by more of its path, or by its id: {joined(sorted(found)[:3])}"
            )
    return tuple(id_ for found in called.values() for id_ in found)


def _texts_with(
    context: RunContext, images: Sequence[StoredEntity], wanted: Wanted
) -> list[StoredEntity]:
    """Return the texts of images that have some words.

    Raises:
        UsageError: there is none, or the action is not one on texts.
    """
    if wanted.action not in ("reject", "reopen"):
        raise UsageError(f"single captions can be rejected or reopened; got {wanted.action!r}")
    words = " ".join(wanted.caption.split()).casefold()
    found = []
    for texts in texts_of(context.store, [one.id for one in images]).values():
        for one in texts:
            record = one.record(Rewrite) if one.kind == Rewrite.kind else one.record(Caption)
            if words in record.text.casefold():
                found.append(one)
    if not found:
        raise UsageError(f"no caption of {many(len(images), 'image')} has {wanted.caption!r}")
    return found


def answer_form(context: RunContext, form: Mapping[str, Any]) -> tuple[bool, str]:
    """Answer the form of the page: plan the decision, or make it if `confirm` is its phrase.

    Returns whether the form can be used as it was filled, and a sentence.
    """
    confirmed = str(form.get("confirm", "")).strip()
    values = {name: value for name, value in form.items() if name != "confirm"}
    try:
        plan = plan_decision(context, validated(Wanted, values, "the form"))
        if confirmed != plan.phrase:
            wrong = f" {confirmed!r} does not confirm it." if confirmed else ""
            how = f"To confirm, type: {plan.phrase}."
            return not confirmed, f"not decided yet.{wrong} {how} What follows: {plan.sentence}"
        return True, f"{plan.carry_out()} (load the page again to see it)"
    except LoupeError as error:
        return False, str(error)


def _lead(context: RunContext) -> AgentRef:
    """Return the person at this machine, by a pseudonym, as decisions are published."""
    user = os.getuid()
    return AgentRef("person", pseudonyms(context.store, "explorer", [user])[user])


def _below(context: RunContext, images: Iterable[StoredEntity]) -> Closure:
    """Return what was derived from images in their own dataset, without the images themselves."""
    ids = {one.id: one.dataset for one in images}
    datasets = set(ids.values())
    with context.store.read() as connection:
        found = closure(connection, ids, reaches=False)
    return {
        id_: one
        for id_, one in found.items()
        if id_ not in ids and one.dataset in datasets and one.kind not in _UNCOUNTED
    }


_NOUNS: Mapping[str, str] = {
    Caption.kind: "caption",
    Rewrite.kind: "rewrite",
    "caption_group": "group",
    "contrast_group": "group",
}


def _counted(kinds: Iterable[str]) -> str:
    """Return counts of captions, rewrites, groups and all others."""
    counts = Counter(_NOUNS.get(kind, "other record") for kind in kinds)
    order = dict.fromkeys((*_NOUNS.values(), "other record"))
    return joined([many(counts[noun], noun) for noun in order if counts[noun]])


class _Reject(Plan):
    """Rejects images; what belongs to them is inactive until they are reopened."""

    def __init__(self, context: RunContext, wanted: Wanted, images: Sequence[StoredEntity]) -> None:
        super().__init__(context, wanted, [one for one in images if one.state in LIVE])
        below = _below(context, self.images)
        self._below = [one for one in below.values() if one.state in _NEEDED]

    def follows(self) -> list[str]:
        counts = _counted(one.kind for one in self._below) or "nothing else"
        ids = {one.id for one in self.images} | {one.id for one in self._below}
        return [f"inactive with them: {counts}", self.releases(ids)]

    def carry_out(self) -> str:
        store, lead = self.context.store, _lead(self.context)
        reason = self.wanted.reason
        decide(store, [NewDecision(one.id, "reject", lead, reason) for one in self.images])
        set_active(store, [one.id for one in self._below], _FOLLOWS, active=False)
        return f"rejected {self.counted}; the next run leaves them out"


class _Reopen(Plan):
    """Reopens rejected images, with what was made inactive because of them alone."""

    def __init__(self, context: RunContext, wanted: Wanted, images: Sequence[StoredEntity]) -> None:
        super().__init__(context, wanted, [one for one in images if one.state == "rejected"])
        below = _below(context, self.images)
        reopened = {one.id for one in self.images}
        still: set[str] = set()
        for dataset in {one.dataset for one in self.images}:
            still.update(rejected_images(context.store, dataset))
        still -= reopened
        kept = _below(context, fetch(context.store, still).values())
        inactive = deactivated_by(context.store, below.keys() - kept.keys(), _FOLLOWS)
        self._below = [below[id_] for id_ in sorted(inactive)]

    def follows(self) -> list[str]:
        return [f"active again: {_counted(one.kind for one in self._below) or 'nothing else'}"]

    def carry_out(self) -> str:
        store, lead = self.context.store, _lead(self.context)
        reason = self.wanted.reason
        decide(store, [NewDecision(one.id, "reopen", lead, reason) for one in self.images])
        set_active(store, [one.id for one in self._below], _FOLLOWS, active=True)
        return f"reopened {self.counted}; the next run uses them again"


class _Withdraw(Plan):
    """Withdraws images from all datasets and releases, as `loupe withdraw` does."""

    def __init__(self, context: RunContext, wanted: Wanted, images: Sequence[StoredEntity]) -> None:
        super().__init__(context, wanted, images)
        grounds = get_args(Ground)
        if wanted.ground not in grounds:
            raise UsageError(
                f"a withdrawal needs a ground, one of {', '.join(grounds)}; got {wanted.ground!r}"
            )
        ground = cast("Ground", wanted.ground)
        targets = [WithdrawalTarget(sort="entity", name=one.id) for one in images]
        self._plans = [
            plan_withdrawal(context.store, request_of(one, ground, None)) for one in targets
        ]

    def follows(self) -> list[str]:
        reached = {id_: one for plan in self._plans for id_, one in plan.reached.items()}
        chosen = {one.id for one in self.images}
        counts = _counted(one.kind for id_, one in reached.items() if id_ not in chosen)
        files = {blob for plan in self._plans for blob in plan.erased}
        erased = f"{many(len(files), 'file')} erased" if files else "files are kept"
        affected = {one.release.name for plan in self._plans for one in plan.affected.releases}
        of_releases = joined(sorted(affected)) or "no release"
        return [
            f"withdrawn with them: {counts or 'nothing else'}",
            erased,
            f"marked as withdrawn from, and replaced by a patch: {of_releases}",
            "this cannot be undone",
        ]

    def carry_out(self) -> str:
        agent = AgentRef("person", getpass.getuser())  # as `loupe withdraw`
        for plan in self._plans:
            now = plan_withdrawal(self.context.store, plan.request)  # an earlier one may reach it
            if not now.is_done:
                recorded = confirm(self.context.store, now, self.wanted.reason, agent)
                carry_out(self.context, recorded)
        return f"withdrew {many(len(self.images), 'image')}; to see it: loupe withdrawals"


class _OfQueue(Plan):
    """A decision on the items of a queue that belong to images."""

    def __init__(self, context: RunContext, wanted: Wanted, images: Sequence[StoredEntity]) -> None:
        self.queue = self._queue(context, wanted)
        self.found = [one for one in _items_of(context, self.queue, images) if self.concerns(one)]
        super().__init__(context, wanted, images if self.found else [])

    @staticmethod
    def _queue(context: RunContext, wanted: Wanted) -> Queue:
        name = wanted.action.removeprefix(_SEND).removeprefix(_GOLD).strip()
        return load_queues(context.settings.queues_file).queue_named(name)

    def concerns(self, item: StoredEntity) -> bool:
        """Tell whether the decision is on this item."""
        return item.state in (*_NEEDED, "rejected")

    @property
    def phrase(self) -> str:
        return f"{self.wanted.action} {len(self.found)}"


def _items_of(
    context: RunContext, queue: Queue, images: Sequence[StoredEntity]
) -> list[StoredEntity]:
    """Return the items of a queue that are these images, describe them, or belong to them."""
    here = [one for one in images if one.dataset == queue.dataset]
    ids = [one.id for one in here]
    texts = texts_of(context.store, ids)
    found = [*here, *(text for many_ in texts.values() for text in many_)]
    with context.store.read() as connection:
        found += find_in_groups(connection, queue.dataset, queue.kind, ids)
    items = {one.id: one for one in found if one.kind == queue.kind}
    return list(without_left_out(context.store, queue, items.values()))


class _Send(_OfQueue):
    """Sends items to people, whatever the policy of their queue, before others."""

    def follows(self) -> list[str]:
        decided = sum(one.state != "proposed" for one in self.found)
        return [
            f"people are asked about {many(len(self.found), 'item')} of {self.queue.name}",
            f"{decided:,} of them are decided and open again",
            self.releases([one.id for one in self.found]),
        ]

    def carry_out(self) -> str:
        store, queue, reason = self.context.store, self.queue, self.wanted.reason
        ids = [one.id for one in self.found]
        reopen_items(store, queue.name, ids, queue.lead, reason)
        waiting = [one.id for one in fetch(store, ids).values() if one.state == "proposed"]
        decide(store, [NewDecision(id_, "reopen", queue.lead, reason) for id_ in waiting])
        set_priorities(store, queue.name, waiting, 1)
        return f"{many(len(waiting), 'item')} of {queue.name} wait for people: loupe queue push"


class _Gold(_OfQueue):
    """Makes gold items of decided ones, with the decision as the known answer."""

    def concerns(self, item: StoredEntity) -> bool:
        return item.state in ("accepted", "rejected")

    def follows(self) -> list[str]:
        return [f"annotators are tested with {many(len(self.found), 'item')} of {self.queue.name}"]

    def carry_out(self) -> str:
        lines = []
        for number, item in enumerate(self.found, 1):
            verdict: Any = "accept" if item.state == "accepted" else "reject"
            answer = ReviewAnswer(verdict=verdict)
            line = GoldLine(entity=item.id, answer=answer, explanation=self.wanted.reason)
            lines.append((number, line))
        origin = "the lead, in the explorer"
        interface = interface_of(self.queue)
        added = add_known_answers(self.context.store, self.queue, interface, lines, origin)
        unusable = f"; {added.problems[0].problem}" if added.problems else ""
        return f"{added.queue}: {added.added:,} gold items added, {added.known:,} known{unusable}"
