"""The page on which a contrastive strategy is checked: its type, truth and feasibility.

The anchor is on the left. On the right are its caption, the strategy, the verdict, the type and the
problems. «Edit» opens the texts.
"""

import xml.etree.ElementTree as ET
from collections.abc import Iterable
from functools import cached_property
from html import escape
from typing import Any

from annotate.answers import ReviewAnswer, UnclearAnswer
from annotate.interfaces.page import (
    NO_VERDICT,
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
    one_line,
    only_choice,
    read_acceptance,
    read_problems,
    shown_image,
)
from db.entities import StoredEntity
from schemas.base import EntityRecord
from schemas.proposals import Strategy
from schemas.requests import MOST_INSTRUCTION_WORDS
from schemas.taxonomy import DifferenceType

TYPE = "type"
TEXTS = {
    "detail": "Detail",
    "plan": "Change",
    "contrastive_caption": "Caption of the wanted image",
    "editing_instruction": "Editing instruction",
}
"""The fields that can be edited, named like their controls, with their labels."""

TYPE_KEYS = "asdfzxcgq"
"""The keys of the types, in the taxonomy's order: a row of the keyboard for each aspect."""


class StrategyCheck(Interface):
    """The labelling interface `strategy-check`."""

    name = "strategy-check"

    @cached_property
    def config(self) -> str:
        """The page in Label Studio's XML, with the types of the taxonomy in it."""
        page = ET.fromstring(super().config)  # noqa: S314 - our own file
        offered = next(tag for tag in page.iter("Choices") if tag.get("name") == TYPE)
        for kind, key in zip(DifferenceType, TYPE_KEYS, strict=True):
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
            "image": image_address(images_url, strategy.anchor.sha256),
            "caption_html": _definitions([("Caption", strategy.caption)]),
            "strategy_html": _definitions(rows),
            **{field: getattr(strategy, field) for field in TEXTS},
        }
        proposed = choice_region(TYPE, "caption", kind.value)
        guess = {"model_version": strategy.author, "result": [proposed]}
        return TaskContent(data, [guess], (shown_image(strategy.anchor),))

    def read_annotation(self, result: Regions, shown: StoredEntity) -> ReviewAnswer | UnclearAnswer:
        """Parse the answer about a strategy.

        An acceptance with another type is an edit. Texts count only under «edit», where the page
        shows them.
        """
        verdict = only_choice(result, VERDICT)
        if verdict == "reject":
            return read_problems(result)
        if verdict not in ("accept", "edit"):
            return NO_VERDICT
        is_edit = verdict == "edit"
        if not is_edit and isinstance(answer := read_acceptance(result), UnclearAnswer):
            return answer
        chosen = only_choice(result, TYPE)
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
            choices={VERDICT: (made,), TYPE: (chosen,)},
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
        if kinds := answer.choices.get(TYPE):
            change["difference"] = DifferenceType(kinds[0])
        return (shown.record(Strategy).model_copy(update=change),)

    def summary(self, answer: ReviewAnswer, shown: StoredEntity) -> Summary:
        """Return the answer in words."""
        strategy = shown.record(Strategy)
        texts = [
            (name, answer.texts.get(field, getattr(strategy, field)))
            for field, name in TEXTS.items()
        ]
        return [
            ("Verdict", self.labels(VERDICT, [answer.verdict])),
            ("Type", ", ".join(answer.choices.get(TYPE, ()))),
            ("Problems", self.labels(PROBLEMS, answer.choices.get(PROBLEMS, ()))),
            ("Reason", answer.reason),
            *(texts if answer.verdict != "reject" else ()),
        ]


def _definitions(rows: Iterable[tuple[str, str]]) -> str:
    items = (f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in rows)
    return f'<dl class="loupe-strategy">{"".join(items)}</dl>'
