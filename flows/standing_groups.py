"""Which captions of groups stand: those of today's groups, written with today's settings."""

from db.entities import LIVE, find, parents_of
from flows.captioning import WRITTEN_WITH
from flows.context import RunContext
from flows.contrast_groups import REFINED_FOR
from flows.retiring import keep_current_edits
from schemas.contrast_records import ContrastGroup
from schemas.proposals import CaptionGroup


def keep_standing_groups(context: RunContext, dataset: str, settings_id: str) -> None:
    """Takes back groups of captions that do not stand any more, puts back those that do again.

    They stand as long as their images are a group and `settings_id` is what they were written with.
    """
    store = context.store
    groups = [one.id for one in find(store, dataset, CaptionGroup.kind)]
    refined = parents_of(store, groups, REFINED_FOR)
    written = parents_of(store, groups, WRITTEN_WITH)
    current = {one.id for one in find(store, dataset, ContrastGroup.kind, states=LIVE)}

    def stands(group: str) -> bool | None:
        if group not in refined:
            return None
        return refined[group][0] in current and written[group] == [settings_id]

    keep_current_edits(context, dataset, CaptionGroup.kind, stands)
