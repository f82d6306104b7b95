"""The pages of contrast groups: check an edit strategy, review the captions of a group.

The page of a strategy has the anchor on the left, and its caption, the strategy, the verdict, the
type and the problems on the right. «Edit» opens the texts.

The page of a group has one column per image and one row per coarse caption. Words that distinguish
an image are marked, and warnings about captions are listed above them. In a group with a second
language, each caption has its translation below it. «Edit» turns all of them into text fields. An
edited caption whose translation was not edited loses the translation, and the new group gets a flag
that says so.
"""

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from functools import cached_property
from html import escape
from typing import Any, NamedTuple

from annotate.answers import ReviewAnswer, UnclearAnswer
from annotate.interfaces.page import (
    PROBLEMS,
    UNCHANGED,
    VERDICT,
    Interface,
    Regions,
    Summary,
    TaskContent,
    choice_region,
    first_text,
    image_address,
    marked_captions,
    one_line,
    only_choice,
    page_html,
    shown_image,
    verdict_answer,
)
from db.entities import StoredEntity
from schemas.base import EntityRecord
from schemas.phrases import caption_name, indistinct
from schemas.proposals import CaptionGroup, Strategy
from schemas.requests import MOST_INSTRUCTION_WORDS
from schemas.taxonomy import DifferenceType

_TYPE = "type"
TEXTS = {
    "detail": "Detail",
    "plan": "Change",
    "contrastive_caption": "Caption of the wanted image",
    "editing_instruction": "Editing instruction",
}
"""The fields that can be edited, named like their controls, with their labels."""

_TYPE_KEYS = "asdfzxcgq"
"""The keys of the types, in the taxonomy's order: a row of the keyboard for each aspect."""


class StrategyCheck(Interface):
    """The labelling interface `strategy-check`."""

    name = "strategy-check"

    @cached_property
    def config(self) -> str:
        """The page in Label Studio's XML, with the types of the taxonomy in it."""
        page = ET.fromstring(super().config)  # noqa: S314 - our own file
        offered = next(tag for tag in page.iter("Choices") if tag.get("name") == _TYPE)
        for kind, key in zip(DifferenceType, _TYPE_KEYS, strict=True):
            attributes = {"value": kind.value, "hotkey": key, "hint": kind.explanation}
            ET.SubElement(offered, "Choice", attributes)
        return ET.tostring(page, encoding="unicode")

    @cached_property
    def instructions(self) -> str:
        """The instructions for annotators, with the types of the taxonomy."""
        items = (
            f"<li><b>{escape(kind)}</b>: {escape(kind.explanation)}</li>" for kind in DifferenceType
        )
        return super().instructions.replace("TYPES", f"<ul>{''.join(items)}</ul>")

    def page(self, entity: StoredEntity, images_url: str) -> TaskContent:
        """Return the page of one strategy."""
        strategy = entity.record(Strategy)
        kind = strategy.difference
        rows = [(name, getattr(strategy, field)) for field, name in TEXTS.items()]
        rows.append(("Proposed type", f"{kind}: {kind.definition}"))
        words = len(strategy.editing_instruction.split())
        if words > MOST_INSTRUCTION_WORDS:
            note = (
                f"The instruction has {words} words; with more than {MOST_INSTRUCTION_WORDS} no "
                "image is edited."
            )
            rows.append(("Note", note))
        data = {
            "image": image_address(images_url, strategy.anchor),
            "caption_html": page_html("terms", [("Caption", strategy.caption)]),
            "strategy_html": page_html("terms", rows),
            **{field: getattr(strategy, field) for field in TEXTS},
        }
        proposed = choice_region(_TYPE, "caption", kind.value)
        guess = {"model_version": strategy.author, "result": [proposed]}
        return TaskContent(data, [guess], (shown_image(strategy.anchor),))

    def kept(
        self, verdict: str, result: Regions, shown: StoredEntity
    ) -> ReviewAnswer | UnclearAnswer:
        """Parse the answer about a strategy.

        An acceptance with another type is an edit. Texts count only under «edit», where the page
        shows them.
        """
        is_edit = verdict == "edit"
        accepted = super().kept(verdict, result, shown)
        if not is_edit and isinstance(accepted, UnclearAnswer):
            return accepted
        chosen = only_choice(result, _TYPE)
        if chosen is None:
            return UnclearAnswer(problem="no type was chosen")
        texts = {field: first_text(result, field) for field in TEXTS} if is_edit else {}
        if empty := [field for field, text in texts.items() if not text]:
            return UnclearAnswer(problem=f"edited, but empty: {', '.join(empty)}")
        strategy = shown.record(Strategy)
        rewritten = any(one_line(getattr(strategy, field)) != text for field, text in texts.items())
        changed = rewritten or chosen != strategy.difference
        remark = ""
        if changed != is_edit:
            remark = UNCHANGED if is_edit else "accepted with another type, which is an edit"
        made = "edit" if changed else "accept"
        return ReviewAnswer(
            verdict=made,
            choices={VERDICT: (made,), _TYPE: (chosen,)},
            texts=texts if rewritten else {},
            remark=remark,
        )

    def successors(
        self, shown: StoredEntity, answer: ReviewAnswer, author: str
    ) -> tuple[EntityRecord, ...]:
        """Return the strategy with its new type and texts, if it was edited."""
        if answer.verdict != "edit":
            return ()
        change: dict[str, Any] = {"author": author, **answer.texts}
        if kinds := answer.choices.get(_TYPE):
            change["difference"] = DifferenceType(kinds[0])
        return (shown.record(Strategy).model_copy(update=change),)

    def details(self, answer: ReviewAnswer, shown: StoredEntity) -> Summary:
        """Return the type, the problems, and the texts."""
        strategy = shown.record(Strategy)
        texts = [
            (name, answer.texts.get(field, getattr(strategy, field)))
            for field, name in TEXTS.items()
        ]
        return [
            ("Type", ", ".join(answer.choices.get(_TYPE, ()))),
            ("Problems", self.labels(PROBLEMS, answer.choices.get(PROBLEMS, ()))),
            *(texts if answer.verdict != "reject" else ()),
        ]


class GroupRefinement(Interface):
    """The labelling interface `group-refinement`."""

    name = "group-refinement"

    def page(self, entity: StoredEntity, images_url: str) -> TaskContent:
        """Return the page of one group."""
        group = entity.record(CaptionGroup)
        data = {
            "pictures_html": page_html("group", group.members, images_url),
            "warnings_html": page_html("listed", group.warnings) or "<span></span>",
            "rows": [_row(group, row) for row in range(len(group.coarse_captions))],
        }
        return TaskContent(data, [], tuple(shown_image(one.picture) for one in group.members))

    def kept(
        self, verdict: str, result: Regions, shown: StoredEntity
    ) -> ReviewAnswer | UnclearAnswer:
        """Parse the answer about a group.

        Texts count only under «edit», where the page shows them.
        """
        if verdict == "edit":
            return _edit(result, shown.record(CaptionGroup))
        return verdict_answer("accept")

    def successors(
        self, shown: StoredEntity, answer: ReviewAnswer, author: str
    ) -> tuple[EntityRecord, ...]:
        """Return the group with its new captions, if they were edited.

        The old flags are dropped, as the editor has read them. Removed translations become flags of
        the new group.
        """
        if answer.verdict != "edit":
            return ()
        group = shown.record(CaptionGroup)
        texts: dict[tuple[bool, int], list[str]] = {}
        removed = []
        for cell in _cells(group):
            text = answer.texts.get(cell.control, cell.text)
            texts.setdefault((cell.translated, cell.column), []).append(text)
            if cell.translated and not text:
                caption = caption_name(cell.row, cell.column)
                removed.append(f"Caption {caption} has no translation: it was edited.")
        members = tuple(
            member.model_copy(
                update={
                    "captions": tuple(texts[False, column]),
                    "translations": tuple(texts.get((True, column), member.translations)),
                }
            )
            for column, member in enumerate(group.members)
        )
        change = {"members": members, "author": author, "warnings": tuple(removed)}
        return (group.model_copy(update=change),)

    def details(self, answer: ReviewAnswer, shown: StoredEntity) -> Summary:
        """Return the texts that were changed."""
        return [
            (cell.name, answer.texts[cell.control] or "(removed)")
            for cell in _cells(shown.record(CaptionGroup))
            if answer.texts.get(cell.control, cell.text) != cell.text
        ]


class _Cell(NamedTuple):
    """A text on the page: its row and column, and whether it is a translation."""

    row: int
    column: int
    text: str
    translated: bool = False

    @property
    def control(self) -> str:
        """The name of its control."""
        return f"{'translation' if self.translated else 'text'}_{self.row}_{self.column}"

    @property
    def name(self) -> str:
        """Its name for people: `B2`, or `B2 translated`."""
        return f"{caption_name(self.row, self.column)}{' translated' if self.translated else ''}"


def _cells(group: CaptionGroup) -> Iterator[_Cell]:
    """Return all captions, row by row, each followed by its translation if it has one."""
    for row in range(len(group.coarse_captions)):
        for column, member in enumerate(group.members):
            yield _Cell(row, column, member.captions[row])
            if group.second_language is not None:
                yield _Cell(row, column, member.translations[row], translated=True)


def _row(group: CaptionGroup, row: int) -> dict[str, Any]:
    """Return the row of a coarse caption as HTML, and the texts of its fields."""
    texts = [member.captions[row] for member in group.members]
    same = indistinct(texts, [member.difference for member in group.members])
    translations: list[str] = []
    if group.second_language is not None:
        translations = [member.translations[row] for member in group.members]
    captions = list(zip(marked_captions(texts), same, strict=True))
    html = page_html("row", row + 1, group.coarse_captions[row], captions, translations)
    return {"html": html, "texts": texts, "translations": translations}


def _edit(result: Regions, group: CaptionGroup) -> ReviewAnswer | UnclearAnswer:
    texts: dict[str, str] = {}
    outdated: list[str] = []
    edited = False  # the caption before a translation
    for cell in _cells(group):
        text, shown = first_text(result, cell.control), one_line(cell.text)
        if not cell.translated:
            if not text:
                return UnclearAnswer(problem=f"edited, but caption {cell.name} is empty")
            edited = text != shown
        elif edited and text == shown and text:
            outdated.append(caption_name(cell.row, cell.column))
            text = ""
        texts[cell.control] = text
    if all(texts[cell.control] == one_line(cell.text) for cell in _cells(group)):
        return verdict_answer("accept", remark=UNCHANGED)
    remark = f"translations removed because their captions changed: {', '.join(outdated)}"
    return verdict_answer("edit", texts=texts, remark=remark if outdated else "")
