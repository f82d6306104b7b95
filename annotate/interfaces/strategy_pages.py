"""The pages of contrast groups: check an edit strategy, review the captions of a group.

The page of a strategy has the anchor on the left, and its caption, the strategy, the verdict, the
type and the problems on the right. «Edit» opens the texts.

The page of a group has one column per image and one row per coarse caption. Words that distinguish
an image are marked, and warnings about captions are listed above them. In a group with a second
language, each caption has its translation below it. «Edit» turns all of them into text fields. An
edited caption whose translation was not edited loses the translation, and the new group gets a flag
that says so.
"""

from collections.abc import Iterator
from functools import cached_property
from html import escape
from typing import Any, ClassVar, NamedTuple
from xml.sax.saxutils import quoteattr

from loupe.annotate.answers import Parsed, ReviewAnswer, UnclearAnswer
from loupe.annotate.interfaces.page import (
    PROBLEMS,
    UNCHANGED,
    VERDICT,
    Images,
    Interface,
    Regions,
    Summary,
    choice_region,
    first_text,
    marked_captions,
    one_line,
    only_choice,
    page_html,
    verdict_answer,
)
from loupe.db.entities import StoredEntity
from loupe.schemas.base import EntityRecord
from loupe.schemas.phrases import caption_name, indistinct
from loupe.schemas.proposals import CaptionGroup, Strategy
from loupe.schemas.requests import MOST_INSTRUCTION_WORDS
from loupe.schemas.taxonomy import DifferenceType

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
    record = Strategy
    image_fields: ClassVar = {"image": "anchor"}
    html_parts: ClassVar = {"caption_html": "strategy_caption"}

    @cached_property
    def config(self) -> str:
        """The page in Label Studio's XML, with the types of the taxonomy in it."""
        types = (
            f"<Choice value={quoteattr(kind)} hotkey='{key}' hint={quoteattr(kind.explanation)}/>"
            for kind, key in zip(DifferenceType, _TYPE_KEYS, strict=True)
        )
        return super().config.replace("TYPES", "".join(types))

    @cached_property
    def instructions(self) -> str:
        """The instructions for annotators, with the types of the taxonomy."""
        items = (
            f"<li><b>{escape(kind)}</b>: {escape(kind.explanation)}</li>" for kind in DifferenceType
        )
        return super().instructions.replace("TYPES", f"<ul>{''.join(items)}</ul>")

    def data(self, entity: StoredEntity, images: Images, related: Any) -> dict[str, Any]:
        """Return the strategy as a list, and as texts to edit."""
        strategy = entity.record(Strategy)
        return {
            **super().data(entity, images, related),
            "strategy_html": page_html("strategy", strategy, TEXTS, MOST_INSTRUCTION_WORDS),
            **{field: getattr(strategy, field) for field in TEXTS},
        }

    def guesses(self, record: Strategy) -> list[dict[str, Any]]:
        """Return the proposed type, ticked."""
        proposed = choice_region(_TYPE, "caption", record.difference.value)
        return [{"model_version": record.author, "result": [proposed]}]

    def kept(self, verdict: str, result: Regions, record: Strategy) -> Parsed:
        """Parse the answer about a strategy.

        An acceptance with another type is an edit. Texts count only under «edit», where the page
        shows them.
        """
        is_edit = verdict == "edit"
        accepted = super().kept(verdict, result, record)
        if not is_edit and isinstance(accepted, UnclearAnswer):
            return accepted
        chosen = only_choice(result, _TYPE)
        if chosen is None:
            return UnclearAnswer(problem="no type was chosen")
        texts = {field: first_text(result, field) for field in TEXTS} if is_edit else {}
        if empty := [TEXTS[field] for field, text in texts.items() if not text]:
            return UnclearAnswer(problem=f"edited, but empty: {', '.join(empty)}")
        rewritten = any(one_line(getattr(record, field)) != text for field, text in texts.items())
        changed = rewritten or chosen != record.difference
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

    def edited(
        self, record: Strategy, answer: ReviewAnswer, author: str
    ) -> tuple[EntityRecord, ...]:
        """Return the strategy with its new type and texts."""
        change: dict[str, Any] = {"author": author, **answer.texts}
        if kinds := answer.choices.get(_TYPE):
            change["difference"] = DifferenceType(kinds[0])
        return (record.model_copy(update=change),)

    def details(self, answer: ReviewAnswer, record: Strategy) -> Summary:
        """Return the type, the problems, and the texts."""
        texts = [
            (name, answer.texts.get(field, getattr(record, field))) for field, name in TEXTS.items()
        ]
        return [
            ("Type", ", ".join(answer.choices.get(_TYPE, ()))),
            ("Problems", self.labels(PROBLEMS, answer.choices.get(PROBLEMS, ()))),
            *(texts if answer.verdict != "reject" else ()),
        ]


class GroupRefinement(Interface):
    """The labelling interface `group-refinement`."""

    name = "group-refinement"
    record = CaptionGroup
    html_parts: ClassVar = {"pictures_html": "pictures", "warnings_html": "warnings"}

    def data(self, entity: StoredEntity, images: Images, related: Any) -> dict[str, Any]:
        """Return the images, the warnings, and a row for each coarse caption."""
        group = entity.record(CaptionGroup)
        rows = [_row(group, row) for row in range(len(group.coarse_captions))]
        return {**super().data(entity, images, related), "rows": rows}

    def kept(self, verdict: str, result: Regions, record: CaptionGroup) -> Parsed:
        """Parse the answer about a group.

        Texts count only under «edit», where the page shows them.
        """
        if verdict == "edit":
            return _edit(result, record)
        return verdict_answer("accept")

    def edited(
        self, record: CaptionGroup, answer: ReviewAnswer, author: str
    ) -> tuple[EntityRecord, ...]:
        """Return the group with its new captions.

        The old flags are dropped, as the editor has read them. Removed translations become flags of
        the new group.
        """
        texts: dict[tuple[bool, int], list[str]] = {}
        removed = []
        for cell in _cells(record):
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
            for column, member in enumerate(record.members)
        )
        change = {"members": members, "author": author, "warnings": tuple(removed)}
        return (record.model_copy(update=change),)

    def details(self, answer: ReviewAnswer, record: CaptionGroup) -> Summary:
        """Return the texts that were changed."""
        return [
            (cell.name, answer.texts[cell.control] or "(removed)")
            for cell in _cells(record)
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


def _edit(result: Regions, group: CaptionGroup) -> Parsed:
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
