"""The pages of texts: rewrites, captions, captions beside a similar image, forced choices.

- Rewrite: beside its image and its source description; changed words and suspicious facts are
  marked in both.
- Caption: compared with its image.
- Caption with a similar image (ReCoS): the two images are in random order and without labels. The
  caption is accepted only if it fits its own image and not the other, because otherwise a correct
  search result would count as wrong.
- Forced choice: a caption and six images, or an image and six captions. A digest of the test's id
  determines the order of the options; neither the page nor its data reveal the correct one.
"""
# ruff: noqa: ARG002 - methods of all pages take the same

import json
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, cached_property
from html import escape
from typing import ClassVar, Literal

from annotate.answers import ReviewAnswer, UnclearAnswer
from annotate.backend import OPENED_WITH
from annotate.interfaces.page import (
    UNCHANGED,
    VERDICT,
    Interface,
    Mark,
    Regions,
    Summary,
    TaskContent,
    changed_words,
    choice_region,
    image_address,
    marked_text,
    one_line,
    only_choice,
    page_html,
    resource,
    script_frame,
    shown_image,
    text_fields_script,
    values,
    verdict_answer,
)
from annotate.queues import latest_flags, newest_reports
from db.entities import StoredEntity, fetch, parents_of
from db.reviews import ShownImage
from db.store import Store
from schemas.base import EntityRecord, digest_of
from schemas.errors import IntegrityError
from schemas.faithfulness import Finding
from schemas.proposals import OPTIONS, ChoiceTest, Confusion
from schemas.provenance import Role
from schemas.records import Caption, Image, Rewrite
from schemas.retrieval_task import TASK_FORMS
from schemas.taxonomy import RetrievalTask

TEXT = "text"
"""The control of the text to edit."""


class TextVerdict(Interface):
    """A text that is accepted, edited, or rejected with a reason."""

    record: ClassVar[type[Caption] | type[Rewrite]]

    def kept(
        self, verdict: str, result: Regions, shown: StoredEntity
    ) -> ReviewAnswer | UnclearAnswer:
        """Parse the answer about a text.

        A changed text counts as an edit even with the verdict «accept», an unchanged one as
        accepted even with «edit». An empty text is unclear.
        """
        text = one_line(" ".join(values(result, TEXT, "text")[-1:]))
        if not text:
            return UnclearAnswer(problem=f"the verdict is {verdict!r}, but the text is empty")
        if text == one_line(shown.record(self.record).text):
            return verdict_answer("accept", remark=UNCHANGED if verdict == "edit" else "")
        remark = "accepted with a changed text, which is an edit" if verdict == "accept" else ""
        return verdict_answer("edit", texts={TEXT: text}, remark=remark)

    def successors(
        self, shown: StoredEntity, answer: ReviewAnswer, author: str
    ) -> tuple[EntityRecord, ...]:
        """Return the record with the reviewer's text, if it was edited."""
        if answer.verdict != "edit":
            return ()
        change = {"text": answer.texts[TEXT], "author": author}
        return (shown.record(self.record).model_copy(update=change),)

    def details(self, answer: ReviewAnswer, shown: StoredEntity) -> Summary:
        """Return the text, unless it is rejected."""
        text = answer.texts.get(TEXT, shown.record(self.record).text)
        return [("Text", "" if answer.verdict == "reject" else text)]


class RewriteRevision(TextVerdict):
    """The labelling interface `rewrite-revision`."""

    name = "rewrite-revision"
    record = Rewrite

    def pages(
        self, store: Store, entities: Sequence[StoredEntity], images_url: str
    ) -> list[TaskContent]:
        """Return one page per rewrite, in order.

        Raises:
            IntegrityError: a rewrite has no source description, or the description has no image.
        """
        ids = [entity.id for entity in entities]
        captions = _only_parents(store, ids, Role.REWRITE_OF)
        images = _only_parents(store, [one.id for one in captions.values()], Role.DESCRIBES)
        reports, flags = newest_reports(store, ids), latest_flags(store, ids)
        contents = []
        for entity in entities:
            source = captions[entity.id].record(Caption).text
            rewrite = entity.record(Rewrite).text
            report = reports.get(entity.id)
            findings = shown_hints(report.findings) if report is not None else []
            removed, inserted = changed_words(source, rewrite)
            data = {
                "description_html": marked_text(
                    source, [*_finding_marks(findings, "source"), *removed]
                ),
                "rewrite_html": marked_text(
                    rewrite, [*_finding_marks(findings, "rewrite"), *inserted]
                ),
                "findings_html": finding_list(findings, flags.get(entity.id, ())),
                TEXT: rewrite,
            }
            contents.append(_with_image(data, images[captions[entity.id].id], images_url))
        return contents


class CaptionVerification(TextVerdict):
    """The labelling interface `caption-verification`."""

    name = "caption-verification"
    record = Caption

    def pages(
        self, store: Store, entities: Sequence[StoredEntity], images_url: str
    ) -> list[TaskContent]:
        """Return one page per caption, in order; flagged words are marked in the text.

        For a caption of a task, the heading says what it has to distinguish.

        Raises:
            IntegrityError: a caption has no image.
        """
        ids = [entity.id for entity in entities]
        images = _only_parents(store, ids, Role.DESCRIBES)
        reports, flags = newest_reports(store, ids), latest_flags(store, ids)
        contents = []
        for entity in entities:
            text = entity.record(Caption).text
            report = reports.get(entity.id)
            findings = shown_hints(report.findings) if report is not None else []
            examined = report is not None or entity.id in flags
            noticed = finding_list(findings, flags.get(entity.id, ()))
            data = {
                "heading": _caption_heading(images[entity.id].record(Image).task),
                # A check compares two texts; it calls the caption the rewrite.
                "caption_html": marked_text(text, _finding_marks(findings, "rewrite")),
                "findings_html": noticed if examined else "<p>Not checked.</p>",
                TEXT: text,
            }
            contents.append(_with_image(data, images[entity.id], images_url))
        return contents


def _with_image(data: dict[str, str], image: StoredEntity, images_url: str) -> TaskContent:
    record = image.record(Image)
    shown = ShownImage(record.sha256, record.media_type, image.id)
    return TaskContent({"image": image_address(images_url, record), **data}, [], (shown,))


def _only_parents(store: Store, ids: Sequence[str], role: Role) -> dict[str, StoredEntity]:
    """Return the only parent of each entity in that role."""
    parents = parents_of(store, ids, role)
    for entity_id in ids:
        if len(found := parents.get(entity_id, [])) != 1:
            raise IntegrityError(
                f"entity {entity_id} must have one parent in the role '{role}'; got {len(found)}"
            )
    stored = fetch(store, {parent for (parent,) in parents.values()})
    return {entity_id: stored[parent] for entity_id, (parent,) in parents.items()}


# Marks on suspicious facts.

_CHANGES = {"added": "added", "lost": "left out", "contradicted": "contradicts"}
HintType = tuple[str, str]
"""The change that a hint reports (`added`, `lost`, `contradicted`), and its attribute."""

HINTS_NOT_SHOWN: frozenset[HintType] = frozenset()
"""Types of hint that are right less than nine times in ten, as `test_hints.py` measures them."""


def hint_type(finding: Finding) -> HintType:
    """Return the type of a hint; one that replaces a fact has the attribute of the old one."""
    fact = finding.source or finding.rewrite
    return finding.change, str(fact.attribute) if fact is not None else ""


def shown_hints(
    findings: Iterable[Finding], hidden: Collection[HintType] = HINTS_NOT_SHOWN
) -> list[Finding]:
    """Return the findings to show: those of a type that is right often enough."""
    return [finding for finding in findings if hint_type(finding) not in hidden]


def _finding_marks(findings: Iterable[Finding], side: Literal["source", "rewrite"]) -> list[Mark]:
    """Return marks on the facts of findings in the source description or in the rewrite."""
    return [
        Mark(*fact.span, style=_style(finding), title=finding.message)
        for finding in findings
        if (fact := finding.source if side == "source" else finding.rewrite) is not None
    ]


def finding_list(findings: Sequence[Finding], flags: Sequence[str] = ()) -> str:
    """Return flags, which no mark in the text shows, and findings as HTML, major ones first."""
    rows = [f"<li>{escape(flag)}</li>" for flag in flags]
    rows += [
        f'<li><mark class="loupe-{_style(finding)}">{_CHANGES[finding.change]}</mark> '
        f"{escape(finding.message)}</li>"
        for finding in sorted(findings, key=lambda finding: (finding.minor, finding.change))
    ]
    return f"<ul>{''.join(rows)}</ul>" if rows else "<p>No warnings.</p>"


def _style(finding: Finding) -> str:
    return "minor" if finding.minor else finding.change


# Marks on the words that distinguish captions.


_FIT = "fit"
OUTCOMES = {
    "own": "fits its own image only",
    "both": "fits the other image as well",
    "other": "fits the other image only",
    "neither": "fits neither image",
}
"""The outcomes; only the first accepts the caption."""


def own_side(entity_id: str) -> str:
    """Return where a question shows the caption's own image, `left` or `right`, by a digest."""
    return "left" if int(digest_of("confusion-side", entity_id), 16) % 2 else "right"


def _outcomes(entity_id: str) -> dict[str, str]:
    """Return the outcome of each choice on a question's page."""
    left, right = ("own", "other") if own_side(entity_id) == "left" else ("other", "own")
    return {"left": left, "both": "both", "right": right, "neither": "neither"}


class ConfusingCaption(Interface):
    """The labelling interface `confusing-caption`."""

    name = "confusing-caption"

    def pages(
        self, store: Store, entities: Sequence[StoredEntity], images_url: str
    ) -> list[TaskContent]:
        """Return one page per caption and pair of images, with warnings below the caption."""
        flags = latest_flags(store, [entity.id for entity in entities])
        contents = []
        for entity in entities:
            asked, warnings = entity.record(Confusion), flags.get(entity.id)
            shown = (asked.own, asked.other)
            left, right = shown if own_side(entity.id) == "left" else reversed(shown)
            data = {
                "left": image_address(images_url, left),
                "right": image_address(images_url, right),
                "caption_html": marked_text(asked.text)
                + (finding_list((), warnings) if warnings else ""),
            }
            contents.append(TaskContent(data, [], (shown_image(left), shown_image(right))))
        return contents

    def read_annotation(self, result: Regions, shown: StoredEntity) -> ReviewAnswer | UnclearAnswer:
        """Parse which images the caption fits."""
        outcome = _outcomes(shown.id).get(only_choice(result, _FIT) or "")
        if outcome is None:
            return UnclearAnswer(problem="no choice of the images that the caption fits")
        choices = {_FIT: (outcome,)}
        if outcome == "own":
            return ReviewAnswer(verdict="accept", choices=choices)
        return ReviewAnswer(verdict="reject", choices=choices, reason=OUTCOMES[outcome])

    def summary(self, answer: ReviewAnswer, shown: StoredEntity) -> Summary:
        """Return the answer in the words of the page."""
        chosen = [
            choice
            for choice, outcome in _outcomes(shown.id).items()
            if outcome in answer.choices.get(_FIT, ())
        ]
        return [("The caption", self.labels(_FIT, chosen))]


_PICK, _ALSO = "pick", "also"
_NUMBERS = tuple(str(number) for number in range(1, OPTIONS + 1))


def option_order(test_id: str) -> list[int]:
    """Return the option at each of the six positions, the same for all annotators."""
    return sorted(
        range(OPTIONS), key=lambda option: digest_of("option-order", test_id, str(option))
    )


class SixWayChoice(Interface):
    """The labelling interface `six-way-choice`.

    Answers are independent: if two testers differ, that is not a conflict to settle.
    """

    name = "six-way-choice"
    independent = True

    def page(self, entity: StoredEntity, images_url: str) -> TaskContent:
        """Return the page of one test."""
        test = entity.record(ChoiceTest)
        order = option_order(entity.id)
        if test.direction == "caption-to-image":
            images = [test.images[option] for option in order]
            question = f'<div class="loupe-caption">{marked_text(test.captions[0])}</div>'
            options = [page_html("picture", image, images_url) for image in images]
        else:
            images = list(test.images)
            question = page_html("picture", test.images[0], images_url)
            options = [marked_text(test.captions[option]) for option in order]
        items = "".join(
            f'<li><span class="loupe-number">{number}</span>{option}</li>'
            for number, option in zip(_NUMBERS, options, strict=True)
        )
        data = {
            "question_html": f'<div class="loupe-question-{test.direction}">{question}</div>',
            "options_html": f'<ol class="loupe-options loupe-{test.direction}">{items}</ol>',
        }
        return TaskContent(data, [], tuple(map(shown_image, images)))

    def read_annotation(self, result: Regions, shown: StoredEntity) -> ReviewAnswer | UnclearAnswer:
        """Parse the chosen position; the test is accepted if it has the correct option."""
        picked = only_choice(result, _PICK)
        if picked not in _NUMBERS:
            return UnclearAnswer(problem="none of the six was chosen")
        right = _NUMBERS[option_order(shown.id).index(shown.record(ChoiceTest).answer)]
        choices: dict[str, tuple[str, ...]] = {_PICK: (picked,)}
        if also := {*values(result, _ALSO, "choices")} & {*_NUMBERS} - {picked}:
            choices[_ALSO] = tuple(sorted(also))
        if picked == right:
            return ReviewAnswer(verdict="accept", choices=choices)
        reason = f"number {picked} was chosen; the correct one was {right}"
        return ReviewAnswer(verdict="reject", choices=choices, reason=reason)

    def same(self, one: ReviewAnswer, other: ReviewAnswer, text_agreement: float) -> bool:
        """Return whether both chose the same option."""
        return one.choices[_PICK] == other.choices[_PICK]

    def summary(self, answer: ReviewAnswer, shown: StoredEntity) -> Summary:
        """Return the answer, without saying whether it is right."""
        also = [("Fits, too", number) for number in answer.choices.get(_ALSO, ())]
        return [("Chosen", "".join(answer.choices.get(_PICK, ()))), *also]


# The words by which a description mentions an attribute. They remind writers of what is missing;
# they do not check the truth. The page searches for the same words while people write.

ATTRIBUTES: Mapping[str, str] = tomllib.loads(resource("description_attributes.toml"))
"""The attributes in the order of a description, each with its words."""


def _attribute_pattern(attribute: str) -> str:
    """Return the regular expression for an attribute's words, for Python and JavaScript."""
    words = re.split(r"\s(?![^\[]*\])", ATTRIBUTES[attribute].strip())
    return rf"\b(?:{'|'.join(words)})\b"


def missing_attributes(text: str) -> Sequence[str]:
    """Return the attributes that a description does not mention, in the order of `ATTRIBUTES`."""
    return [attribute for attribute in ATTRIBUTES if not _compiled(attribute).search(text)]


def count_words(text: str) -> int:
    """Count the words of a text: strings between white space with a letter or a digit."""
    return sum(any(character.isalnum() for character in word) for word in text.split())


@cache
def _compiled(attribute: str) -> re.Pattern[str]:
    return re.compile(_attribute_pattern(attribute), re.IGNORECASE)


# While the annotator writes, a frame below the text counts its words and ticks the attributes that
# it mentions. Missing ones are also listed as a remark when the answer is read.

DRAFT, DRAFT_NOTE = "draft", "draft_note"
"""The variables of the draft and of the note on its author; empty without a draft."""

AIM_WORDS = 80
"""The mean length of UFine6926's descriptions."""

LEAST_WORDS = 20
"""The minimum length of a description; all of UFine6926's are longer."""


class DescriptionWriting(Interface):
    """The labelling interface `description-writing`; its answers are independent."""

    name = "description-writing"
    independent = True

    @cached_property
    def config(self) -> str:
        """The page in Label Studio's XML, with the frame that counts words."""
        patterns = [[attribute, _attribute_pattern(attribute)] for attribute in ATTRIBUTES]
        settings = json.dumps({"aim": AIM_WORDS, "attributes": patterns})
        document = resource("description_counter.html").replace('"SETTINGS"', settings)
        frame = document.replace('"FIELDS"', text_fields_script())
        return super().config.replace("COUNTER", script_frame("loupe-counter", frame))

    def page(self, entity: StoredEntity, images_url: str) -> TaskContent:
        """Return the page of one image."""
        image = entity.record(Image)
        person = "the person without a frame" if image.others_xyxy else "this person"
        data = {
            "heading": f"Describe {person} as precisely as you can",
            DRAFT: "",
            DRAFT_NOTE: "",
        }
        # Label Studio requires a choice before a page can be submitted, whatever the text is.
        described = choice_region(VERDICT, "image", "accept")
        guess = {"model_version": "loupe", "result": [described]}
        return _with_image(data, entity, images_url)._replace(predictions=[guess])

    def with_draft(self, content: TaskContent, draft: StoredEntity) -> TaskContent:
        """Return the page with the draft in the text field and its author above it."""
        caption = draft.record(Caption)
        note = (
            f"Draft by the program {caption.author}: check every word, correct what is wrong, "
            f"add what is missing, or delete it and write your own."
        )
        opening = {DRAFT: caption.text, DRAFT_NOTE: note, OPENED_WITH: draft.id}
        return content._replace(data={**content.data, **opening})

    def read_annotation(self, result: Regions, shown: StoredEntity) -> ReviewAnswer | UnclearAnswer:
        """Parse the description, or why the image cannot be described."""
        if only_choice(result, VERDICT) == "reject":
            return self.rejection(result)
        text = one_line(" ".join(values(result, TEXT, "text")))
        words = count_words(text)
        if words < LEAST_WORDS:
            problem = f"a description must have at least {LEAST_WORDS} words; this one has {words}"
            return UnclearAnswer(problem=problem)
        missing = missing_attributes(text)
        remark = f"does not mention: {', '.join(missing)}" if missing else ""
        return verdict_answer("accept", texts={TEXT: text}, remark=remark)

    def successors(
        self, shown: StoredEntity, answer: ReviewAnswer, author: str
    ) -> tuple[EntityRecord, ...]:
        """Return the description as a caption of the image."""
        if answer.verdict == "reject":
            return ()
        source = shown.record(Image).source
        return (Caption(source=source, text=answer.texts[TEXT], position=0, author=author),)

    def details(self, answer: ReviewAnswer, shown: StoredEntity) -> Summary:
        """Return the description, its length, and what it does not mention."""
        text = answer.texts.get(TEXT, "")
        return [
            ("Description", text),
            ("Words", str(count_words(text)) if text else ""),
            ("Not mentioned", ", ".join(missing_attributes(text)) if text else ""),
        ]


def _caption_heading(task: RetrievalTask | None) -> str:
    """Return the heading above a caption of that task, or of none."""
    if task is None:
        return "Caption"
    form = TASK_FORMS.get(task)
    return f"Caption for the task {task}" + (f": {form.captions}" if form else "")
