"""The page on which the captions of a whole group of images are judged together.

There is one column per image and one row per coarse caption. Words that distinguish an image are
marked, and warnings about captions are listed above them. In a group with a second language, each
caption has its translation below it in smaller type. «Edit» turns all of them into text fields.

An edited caption no longer matches its translation. Unless the translation is edited too, it is
removed (an empty text), and the new group gets a doubt that says so.
"""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from annotate.answers import ReviewAnswer, UnclearAnswer
from annotate.interfaces.page import (
    VERDICT,
    LabellingPage,
    Summary,
    TaskContent,
    marked_captions,
    one_line,
    only_choice,
    picture_tag,
    read_problems,
    shown_image,
    values,
)
from db.entities import StoredEntity
from schemas.base import EntityRecord
from schemas.contrast import caption_name, image_letter, indistinct
from schemas.proposals import CaptionGroup, GroupMember
from schemas.taxonomy import DifferenceType


class GroupRefinement(LabellingPage):
    """The labelling interface `group-refinement`."""

    name = "group-refinement"

    def page(self, entity: StoredEntity, images_url: str) -> TaskContent:
        """The page of one group."""
        return _content(entity.record(CaptionGroup), images_url)

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
        """The group with its new captions, if they were edited.

        The old doubts are dropped, as the editor has read them. Removed translations become doubts
        of the new group.
        """
        if answer.verdict != "edit":
            return ()
        group = shown.record(CaptionGroup)
        texts = {cell.control: cell.text for cell in _cells(group)} | answer.texts
        members = tuple(
            member.model_copy(update=_column(texts, group, column))
            for column, member in enumerate(group.members)
        )
        change = {"members": members, "author": author, "doubts": _removed(group, texts)}
        return (group.model_copy(update=change),)

    def summary(self, answer: ReviewAnswer, shown: StoredEntity) -> Summary:
        """The answer; of the texts, those that were changed."""
        changed = [
            (cell.name, answer.texts[cell.control] or "(removed)")
            for cell in _cells(shown.record(CaptionGroup))
            if answer.texts.get(cell.control, cell.text) != cell.text
        ]
        verdict = self.labels(VERDICT, [answer.verdict])
        return [("Verdict", verdict), ("Reason", answer.reason), *changed]


class _Cell(NamedTuple):
    """A text on the page: its control, its place, and whether it is a translation."""

    control: str
    row: int
    column: int
    text: str
    translated: bool = False

    @property
    def name(self) -> str:
        """Its name for people: `B2`, or `B2 translated`."""
        return f"{caption_name(self.row, self.column)}{' translated' if self.translated else ''}"


def _cells(group: CaptionGroup) -> Iterator[_Cell]:
    """Every caption, row by row, each with its translation after it where it has one."""
    for row in range(len(group.coarse_captions)):
        for column, member in enumerate(group.members):
            yield _Cell(_control("text", row, column), row, column, member.captions[row])
            if group.second_language is not None:
                control, text = _control("translation", row, column), member.translations[row]
                yield _Cell(control, row, column, text, translated=True)


def _control(kind: str, row: int, column: int) -> str:
    return f"{kind}_{row}_{column}"


def _column(texts: Mapping[str, str], group: CaptionGroup, column: int) -> dict[str, Any]:
    """The captions and translations of an image, by the texts of their controls."""
    rows = range(len(group.coarse_captions))
    column_texts = {"captions": tuple(texts[_control("text", row, column)] for row in rows)}
    if group.second_language is not None:
        column_texts["translations"] = tuple(
            texts[_control("translation", row, column)] for row in rows
        )
    return column_texts


def _removed(group: CaptionGroup, texts: Mapping[str, str]) -> tuple[str, ...]:
    """A doubt for each caption that has no translation, in a group that has a second language."""
    return tuple(
        f"Caption {caption_name(cell.row, cell.column)} has no translation: it was edited."
        for cell in _cells(group)
        if cell.translated and not texts[cell.control]
    )


def _content(group: CaptionGroup, images_url: str) -> TaskContent:
    data = {
        "pictures_html": _pictures(group.members, images_url),
        "doubts_html": _doubts(group.doubts),
        "rows": [_row(group, row) for row in range(len(group.coarse_captions))],
    }
    pictures = [member.picture for member in group.members]
    images = tuple(map(shown_image, pictures))
    return TaskContent(data, [], images)


def _row(group: CaptionGroup, row: int) -> dict[str, Any]:
    """The row of a coarse caption as HTML, and the texts of its fields."""
    translated = group.second_language is not None
    texts = [member.captions[row] for member in group.members]
    translations = [member.translations[row] for member in group.members] if translated else []
    differences = [member.difference for member in group.members]
    coarse = f'<div class="loupe-coarse">{row + 1}. {escape(group.coarse_captions[row])}</div>'
    html = coarse + _captions(texts, differences) + _translations(translations)
    return {"html": html, "texts": texts, "translations": translations}


def _doubts(doubts: Sequence[str]) -> str:
    """The warnings about captions; an empty element if there are none."""
    items = "".join(f"<li>{escape(doubt)}</li>" for doubt in doubts)
    return f'<ul class="loupe-doubts">{items}</ul>' if doubts else "<span></span>"


def _pictures(members: Sequence[GroupMember], images_url: str) -> str:
    items = "".join(
        f"<figure>{picture_tag(member.picture, images_url)}"
        f"<figcaption><b>{image_letter(column)}</b> {_difference(member)}</figcaption></figure>"
        for column, member in enumerate(members)
    )
    return f'<div class="loupe-pictures">{items}</div>'


def _difference(member: GroupMember) -> str:
    if member.difference is None:
        return "Anchor"
    return f"{escape(member.difference)}: {escape(member.plan)}"


def _captions(fine: Sequence[str], differences: Sequence[DifferenceType | None]) -> str:
    """The fine captions of a row with the distinguishing words marked."""
    same = indistinct(fine, differences)
    cells = "".join(
        f"<p>{marked}{_warning(others)}</p>"
        for marked, others in zip(marked_captions(fine), same, strict=True)
    )
    return f'<div class="loupe-row">{cells}</div>'


def _translations(texts: Sequence[str]) -> str:
    cells = "".join(f"<p>{escape(text) or '<i>no translation</i>'}</p>" for text in texts)
    return f'<div class="loupe-row loupe-translated">{cells}</div>' if texts else ""


def _warning(same: Sequence[int]) -> str:
    if not same:
        return ""
    letters = " and ".join(map(image_letter, same))
    return f' <span class="loupe-warning">not distinct from {letters}</span>'


def _edit(result: Sequence[dict[str, Any]], group: CaptionGroup) -> ReviewAnswer | UnclearAnswer:
    texts: dict[str, str] = {}
    outdated: list[str] = []
    edited = False  # the caption before a translation
    for cell in _cells(group):
        # The page offers each text once; a second value is the offer, sent again with an old one.
        written = values(result, cell.control, "text")[:1]
        text, shown = one_line(written[0]) if written else "", one_line(cell.text)
        if not cell.translated:
            if not text:
                return UnclearAnswer(problem=f"edited, but caption {cell.name} is empty")
            edited = text != shown
        elif edited and text == shown and text:
            outdated.append(caption_name(cell.row, cell.column))
            text = ""
        texts[cell.control] = text
    if all(texts[cell.control] == one_line(cell.text) for cell in _cells(group)):
        return ReviewAnswer(
            verdict="accept",
            choices={VERDICT: ("accept",)},
            remark="an edit that changed nothing",
        )
    remark = f"translations removed because their captions changed: {', '.join(outdated)}"
    return ReviewAnswer(
        verdict="edit",
        choices={VERDICT: ("edit",)},
        texts=texts,
        remark=remark if outdated else "",
    )
