"""The page on which the captions of a whole group of images are judged together.

One column per image, one row per coarse caption; words that tell an image from the others are
marked. «Edit» turns every caption into a text field.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from html import escape
from typing import Any

from annotate.answers import ReviewAnswer, UnclearAnswer
from annotate.interfaces.comparison import definition_list
from annotate.interfaces.contrast import marked_captions, not_told_apart
from annotate.interfaces.interface import TaskContent
from annotate.interfaces.labelling_page import LabellingPage
from annotate.interfaces.page import (
    instructions,
    one_line,
    only_choice,
    values,
)
from annotate.interfaces.pictures import picture_tag, shown_image
from annotate.interfaces.problems import read_problems
from annotate.interfaces.text_verdict import VERDICT
from db.entities import StoredEntity
from db.store import Store
from schemas.base import EntityRecord
from schemas.proposals import CaptionGroup, GroupMember

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class GroupRefinement(LabellingPage):
    """The labelling interface `group-refinement`."""

    name = "group-refinement"

    @cached_property
    def instructions(self) -> str:
        """What an annotator reads first."""
        return instructions("group_refinement.html")

    def pages(
        self,
        store: Store,  # noqa: ARG002 - the record holds all that the page shows
        entities: Sequence[StoredEntity],
        images_url: str,
    ) -> list[TaskContent]:
        """One page per group, in order."""
        return [_content(entity.record(CaptionGroup), images_url) for entity in entities]

    def read_annotation(
        self, result: Sequence[dict[str, Any]], shown: StoredEntity
    ) -> ReviewAnswer | UnclearAnswer:
        """What the regions of an annotation say about the group that was shown.

        Texts count only under «edit», where the page shows them.
        """
        verdict = only_choice(result, VERDICT)
        if verdict == "reject":
            return read_problems(result)
        if verdict == "accept":
            return ReviewAnswer(verdict="accept", choices={VERDICT: ("accept",)})
        if verdict != "edit":
            return UnclearAnswer(problem="no verdict was chosen")
        return _edit(result, shown.record(CaptionGroup))

    def successors(
        self, shown: StoredEntity, answer: ReviewAnswer, author: str
    ) -> tuple[EntityRecord, ...]:
        """The group with its new captions, where they were edited."""
        if answer.verdict != "edit":
            return ()
        group = shown.record(CaptionGroup)
        captions = [list(member.captions) for member in group.members]
        for control, row, column, _ in _cells(group):
            captions[column][row] = answer.texts.get(control, captions[column][row])
        members = tuple(
            member.model_copy(update={"captions": tuple(texts)})
            for member, texts in zip(group.members, captions, strict=True)
        )
        return (group.model_copy(update={"members": members, "author": author}),)

    def summary(self, answer: ReviewAnswer, shown: StoredEntity) -> str:
        """The answer as a piece of HTML: of the captions, those that were changed."""
        changed = [
            (f"{_LETTERS[column]}{row + 1}", answer.texts[control])
            for control, row, column, caption in _cells(shown.record(CaptionGroup))
            if answer.texts.get(control, caption) != caption
        ]
        return definition_list([("Verdict", answer.verdict), ("Reason", answer.reason), *changed])


def _cells(group: CaptionGroup) -> Iterator[tuple[str, int, int, str]]:
    """The control, the row, the column and the text of every caption."""
    for row in range(len(group.coarse_captions)):
        for column, member in enumerate(group.members):
            yield f"text_{row}_{column}", row, column, member.captions[row]


def _content(group: CaptionGroup, images_url: str) -> TaskContent:
    rows = list(zip(*(member.captions for member in group.members), strict=True))
    data = {
        "pictures_html": _pictures(group.members, images_url),
        "rows": [
            {"html": _captions(number, coarse, fine), "texts": list(fine)}
            for number, (coarse, fine) in enumerate(
                zip(group.coarse_captions, rows, strict=True), start=1
            )
        ],
    }
    pictures = [member.picture for member in group.members]
    images = tuple(map(shown_image, pictures))
    return TaskContent(data, [], images)


def _pictures(members: Sequence[GroupMember], images_url: str) -> str:
    items = "".join(
        f"<figure>{picture_tag(member.picture, images_url)}"
        f"<figcaption><b>{letter}</b> {_difference(member)}</figcaption></figure>"
        for letter, member in zip(_LETTERS, members, strict=False)
    )
    return f'<div class="loupe-pictures">{items}</div>'


def _difference(member: GroupMember) -> str:
    if member.difference is None:
        return "Anchor"
    return f"{escape(member.difference)}: {escape(member.plan)}"


def _captions(number: int, coarse: str, fine: Sequence[str]) -> str:
    """A row: the coarse caption, and below it the fine ones with what tells them apart."""
    cells = "".join(
        f"<p>{marked}{_warning(same)}</p>"
        for marked, same in zip(marked_captions(fine), not_told_apart(fine), strict=True)
    )
    return (
        f'<div class="loupe-coarse">{number}. {escape(coarse)}</div>'
        f'<div class="loupe-row">{cells}</div>'
    )


def _warning(same: Sequence[int]) -> str:
    if not same:
        return ""
    letters = " and ".join(_LETTERS[position] for position in same)
    return f' <span class="loupe-warning">nothing tells it from {letters}</span>'


def _edit(result: Sequence[dict[str, Any]], group: CaptionGroup) -> ReviewAnswer | UnclearAnswer:
    texts: dict[str, str] = {}
    changed = False
    for control, row, column, caption in _cells(group):
        # The page offers each text once; a second value is the offer, sent again with an old one.
        written = values(result, control, "text")[:1]
        texts[control] = one_line(written[0]) if written else ""
        if not texts[control]:
            return UnclearAnswer(
                problem=f"edited, but caption {_LETTERS[column]}{row + 1} is empty"
            )
        changed = changed or texts[control] != one_line(caption)
    if not changed:
        return ReviewAnswer(
            verdict="accept",
            choices={VERDICT: ("accept",)},
            remark="an edit that changed nothing",
        )
    return ReviewAnswer(verdict="edit", choices={VERDICT: ("edit",)}, texts=texts)
