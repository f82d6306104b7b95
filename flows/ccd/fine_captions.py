"""Apply the decisions on groups to their captions.

A group is judged as a whole, so its captions are accepted or rejected with it by the same judge.
Captions that a person changed are replaced by new ones; the others are kept.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from db.decisions import NewDecision, append_decisions, last_agents
from db.entities import (
    AgentRef,
    NewEntity,
    StoredEntity,
    children_of,
    fetch,
    find,
    new_entity,
    pages,
    parents_of,
)
from db.store import Store
from db.work import register_plan, store_activity
from flows.ccd.caption_checks import refuse_unusable_groups
from flows.engine.context import RunContext
from flows.engine.report import StageReport
from schemas.proposals import CaptionGroup
from schemas.provenance import Role
from schemas.records import Caption

STAGE = "apply_group_decisions"
VERSION = "1"
_PAGE = 200
_JUDGED_AGAIN = "its group was judged again"


class _Judged(NamedTuple):
    """A group as it was written, its current version (None: rejected), and who judged it."""

    written: StoredEntity
    standing: StoredEntity | None
    judge: AgentRef


def apply_group_decisions(context: RunContext, dataset: str) -> StageReport:
    """Update all captions according to the decisions on their groups.

    Groups that cannot be released are rejected first, even if they were accepted.
    """
    store = context.store
    report = refuse_unusable_groups(context, dataset)
    plan_id = register_plan(store, STAGE, VERSION, {"dataset": dataset})
    for page in pages(_judged(store, dataset), _PAGE):
        for judge, captions, decisions in _changes(store, page):
            activity = context.activity(plan_id, dataset)._replace(agents=(judge,))
            with store.write() as connection:
                if captions:
                    store_activity(connection, activity, captions)
                append_decisions(connection, decisions)
    return report


def _judged(store: Store, dataset: str) -> Iterator[_Judged]:
    """Return the decided groups as models wrote them."""
    groups = {one.id: one for one in find(store, dataset, CaptionGroup.kind)}
    edited = parents_of(store, groups, Role.EDITED_FROM)
    standing = {
        edited[one.id][0]: one
        for one in groups.values()
        if one.id in edited and one.state == "accepted"
    }
    agents = last_agents(store, list(groups))
    for group in groups.values():
        if group.id in edited or group.state == "proposed":
            continue
        now = group if group.state == "accepted" else standing.get(group.id)
        if group.id in agents:
            yield _Judged(group, now, agents[now.id if now else group.id])


def _changes(
    store: Store, judged: Sequence[_Judged]
) -> Iterator[tuple[AgentRef, list[NewEntity], list[NewDecision]]]:
    """Yield for each judgement its judge, new captions and decisions."""
    below = children_of(store, [one.written.id for one in judged], Role.WRITTEN_IN)
    captions = fetch(store, {id_ for many in below.values() for id_ in many})
    images = {id_: found[0] for id_, found in parents_of(store, captions, Role.DESCRIBES).items()}
    edits = children_of(store, captions, Role.EDITED_FROM)
    edited = fetch(store, {id_ for many in edits.values() for id_ in many})
    for one in judged:
        texts = _texts(one.standing.record(CaptionGroup)) if one.standing else {}
        made: list[NewEntity] = []
        decisions: list[NewDecision] = []
        for caption_id in below.get(one.written.id, ()):
            caption, image_id = captions[caption_id], images[caption_id]
            record = caption.record(Caption)
            text = texts.get((image_id, record.position, record.language))
            new = _edit(one, caption, image_id, text)
            earlier = [edited[id_] for id_ in edits.get(caption_id, ())]
            if new is not None and new.id not in edited:
                made.append(new)
            decisions += _decisions(one, caption, text, new, earlier)
        if decisions:
            yield one.judge, made, decisions


def _texts(group: CaptionGroup) -> dict[tuple[str | None, int, str | None], str]:
    """Return the texts of a group by image, position and language; removed texts are empty."""
    return {
        (member.picture.image_id, position, language): text
        for member in group.members
        for language, texts in (
            (None, member.captions),
            (group.second_language, member.translations),
        )
        for position, text in enumerate(texts)
        if text
    }


def _edit(
    judged: _Judged, caption: StoredEntity, image_id: str, text: str | None
) -> NewEntity | None:
    """Return the caption as a person changed it, or None if it is unchanged."""
    record = caption.record(Caption)
    if text is None or judged.standing is None or text == record.text:
        return None
    author = judged.standing.record(CaptionGroup).author
    return new_entity(
        record.model_copy(update={"text": text, "author": author}),
        caption.dataset,
        parents=[
            (Role.EDITED_FROM, caption.id),
            (Role.DESCRIBES, image_id),
            (Role.WRITTEN_IN, judged.standing.id),
        ],
        split=caption.split,
        group=caption.group,
    )


def _decisions(
    judged: _Judged,
    caption: StoredEntity,
    text: str | None,
    new: NewEntity | None,
    earlier: Sequence[StoredEntity],
) -> Iterator[NewDecision]:
    """Return the decisions to make on a caption and its edits; empty if it is up to date."""
    if caption.state == "withdrawn":
        return
    group = judged.standing or judged.written
    reason = f"as its group {group.id[:12]} was judged"
    if new is not None:
        stands = {one.id: one.state for one in earlier}.get(new.id) == "accepted"
        if caption.state != "superseded" or not stands:
            yield NewDecision(caption.id, "edit", judged.judge, reason, new.id)
            yield NewDecision(new.id, "accept", judged.judge, reason)
    elif text is not None and caption.state != "accepted":
        yield NewDecision(caption.id, "accept", judged.judge, reason)
    elif text is None and caption.state != "rejected":
        yield NewDecision(caption.id, "reject", judged.judge, reason)
    for one in earlier:
        if one.state == "accepted" and (new is None or one.id != new.id):
            yield NewDecision(one.id, "reject", judged.judge, _JUDGED_AGAIN)
