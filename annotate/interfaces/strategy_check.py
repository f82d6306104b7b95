"""The page on which a contrastive strategy is checked: its type, truth and feasibility.

The anchor is on the left. On the right are its caption, the strategy, the verdict, the type and the
problems. «Edit» opens the texts.
"""

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from functools import cached_property
from html import escape
from typing import Any

from annotate.answers import ReviewAnswer, UnclearAnswer
from annotate.interfaces.page import (
    PROBLEMS,
    VERDICT,
    LabellingPage,
    Summary,
    TaskContent,
    accepted_despite,
    choice_region,
    image_address,
    one_line,
    only_choice,
    page_config,
    read_problems,
    shown_image,
    ticked_problems,
    values,
)
from db.entities import StoredEntity
from schemas.base import EntityRecord
from schemas.proposals import Strategy
from schemas.requests import MOST_INSTRUCTION_WORDS
from schemas.taxonomy import DifferenceType

TYPE = "type"
TEXTS = ("detail", "plan", "contrastive_caption", "editing_instruction")
"""The fields that can be edited; their controls have the same names."""

TYPE_KEYS = "asdfzxcgq"
"""The keys of the types, in the taxonomy's order: a row of the keyboard for each aspect."""

_OBJECT = "caption"
_NAMES = ("Detail", "Change", "Caption of the wanted image", "Editing instruction")


class StrategyCheck(LabellingPage):
    """The labelling interface `strategy-check`."""

    name = "strategy-check"

    @cached_property
    def config(self) -> str:
        """The page in Label Studio's XML, with the types of the taxonomy in it."""
        page = ET.fromstring(page_config("strategy_check.xml"))  # noqa: S314 - our own file
        offered = next(tag for tag in page.iter("Choices") if tag.get("name") == TYPE)
        for kind, key in zip(DifferenceType, TYPE_KEYS, strict=True):
            attributes = {"value": kind.value, "hotkey": key, "hint": kind.explanation}
            ET.SubElement(offered, "Choice", attributes)
        return ET.tostring(page, encoding="unicode")

    @cached_property
    def instructions(self) -> str:
        """What an annotator reads first, with the types of the taxonomy."""
        items = (
            f"<li><b>{escape(kind)}</b>: {escape(kind.explanation)}</li>" for kind in DifferenceType
        )
        return super().instructions.replace("TYPES", f"<ul>{''.join(items)}</ul>")

    def page(self, entity: StoredEntity, images_url: str) -> TaskContent:
        """The page of one strategy."""
        return _content(entity.record(Strategy), images_url)

    def read_annotation(
        self, result: Sequence[dict[str, Any]], shown: StoredEntity
    ) -> ReviewAnswer | UnclearAnswer:
        """What the regions of an annotation say about the strategy that was shown.

        Another type makes an acceptance an edit. Texts count only under «edit», where the page
        shows them.
        """
        verdict = only_choice(result, VERDICT)
        if verdict == "reject":
            return read_problems(result)
        if verdict not in ("accept", "edit"):
            return UnclearAnswer(problem="no verdict was chosen")
        return _approval(result, shown.record(Strategy), verdict)

    def successors(
        self, shown: StoredEntity, answer: ReviewAnswer, author: str
    ) -> tuple[EntityRecord, ...]:
        """The strategy with its new type and texts, where it was edited."""
        if answer.verdict != "edit":
            return ()
        change: dict[str, Any] = {"author": author, **answer.texts}
        if kinds := answer.choices.get(TYPE):
            change["difference"] = DifferenceType(kinds[0])
        return (shown.record(Strategy).model_copy(update=change),)

    def summary(self, answer: ReviewAnswer, shown: StoredEntity) -> Summary:
        """The answer in words."""
        strategy = shown.record(Strategy)
        kind = answer.choices.get(TYPE, ())
        texts = [
            (name, answer.texts.get(field, getattr(strategy, field)))
            for name, field in zip(_NAMES, TEXTS, strict=True)
        ]
        return [
            ("Verdict", self.labels(VERDICT, [answer.verdict])),
            ("Type", ", ".join(kind)),
            ("Problems", self.labels(PROBLEMS, answer.choices.get(PROBLEMS, ()))),
            ("Reason", answer.reason),
            *(texts if answer.verdict != "reject" else ()),
        ]


def _content(strategy: Strategy, images_url: str) -> TaskContent:
    anchor = strategy.anchor
    data = {
        "image": image_address(images_url, anchor.sha256),
        "caption_html": _rows([("Caption", strategy.caption)]),
        "strategy_html": _strategy(strategy),
        **{field: getattr(strategy, field) for field in TEXTS},
    }
    proposed = choice_region(TYPE, _OBJECT, strategy.difference.value)
    return TaskContent(
        data,
        [{"model_version": strategy.author, "result": [proposed]}],
        (shown_image(anchor),),
    )


def _strategy(strategy: Strategy) -> str:
    texts = [(name, getattr(strategy, field)) for name, field in zip(_NAMES, TEXTS, strict=True)]
    kind = strategy.difference
    rows = [*texts, ("Proposed type", f"{kind}: {kind.definition}")]
    words = len(strategy.editing_instruction.split())
    if words > MOST_INSTRUCTION_WORDS:
        note = (
            f"The instruction has {words} words; with more than {MOST_INSTRUCTION_WORDS} no image "
            "is edited."
        )
        rows.append(("Note", note))
    return _rows(rows)


def _rows(rows: Sequence[tuple[str, str]]) -> str:
    items = (f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in rows)
    return f'<dl class="loupe-strategy">{"".join(items)}</dl>'


def _approval(
    result: Sequence[dict[str, Any]], strategy: Strategy, verdict: str
) -> ReviewAnswer | UnclearAnswer:
    problems = ticked_problems(result)
    if verdict == "accept" and problems:
        return accepted_despite(problems)
    chosen = only_choice(result, TYPE)
    if chosen is None:
        return UnclearAnswer(problem="no type was chosen")
    texts = _texts(result) if verdict == "edit" else {}
    if empty := [field for field, text in texts.items() if not text]:
        return UnclearAnswer(problem=f"edited, but empty: {', '.join(empty)}")
    rewritten = any(one_line(getattr(strategy, field)) != text for field, text in texts.items())
    changed = rewritten or chosen != strategy.difference
    return ReviewAnswer(
        verdict="edit" if changed else "accept",
        choices={VERDICT: ("edit" if changed else "accept",), TYPE: (chosen,)},
        texts=texts if rewritten else {},
        remark=_remark(verdict, changed),
    )


def _texts(result: Sequence[dict[str, Any]]) -> dict[str, str]:
    """What the fields say now."""
    # The page offers each text once; a second value is the offer, sent again with an old answer.
    written = {field: values(result, field, "text")[:1] for field in TEXTS}
    return {field: one_line(" ".join(texts)) for field, texts in written.items()}


def _remark(verdict: str, changed: bool) -> str:
    if verdict == "accept" and changed:
        return "accepted with another type, which is an edit"
    return "an edit that changed nothing" if verdict == "edit" and not changed else ""
