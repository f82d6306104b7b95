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
from collections.abc import Collection, Mapping, Sequence
from functools import cache, cached_property
from typing import Any, Literal, NamedTuple

from loupe.annotate.answers import Parsed, ReviewAnswer, UnclearAnswer
from loupe.annotate.backend import OPENED_WITH
from loupe.annotate.interfaces.page import (
    UNCHANGED,
    VERDICT,
    Images,
    Interface,
    Mark,
    Regions,
    Summary,
    TaskContent,
    changed_words,
    choice_region,
    first_text,
    marked_text,
    one_line,
    only_choice,
    page_html,
    resource,
    script_frame,
    text_fields_script,
    values,
    verdict_answer,
)
from loupe.annotate.queues import latest_flags, newest_reports
from loupe.checks.rewrites import reading_checks
from loupe.db.configurations import asked_checks
from loupe.db.entities import StoredEntity, fetch, parents_of
from loupe.db.store import Store
from loupe.schemas.base import EntityRecord, digest_of
from loupe.schemas.errors import IntegrityError
from loupe.schemas.faithfulness import FaithfulnessReport, Finding
from loupe.schemas.profile import FaithfulnessSettings
from loupe.schemas.proposals import OPTIONS, ChoiceTest, Confusion
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Image, Rewrite
from loupe.schemas.retrieval_task import TASK_FORMS
from loupe.schemas.taxonomy import RetrievalTask

TEXT = "text"
"""The control of the text to edit."""
_ONLY_FORM_AND_WORDS = (
    "Form and words have no warnings. What the text states was not checked: no check of this build "
    "reads it in this language."
)


class TextVerdict(Interface):
    """A text that is accepted, edited, or rejected with a reason."""

    def kept(self, verdict: str, result: Regions, record: Caption | Rewrite) -> Parsed:
        """Parse the answer about a text.

        A changed text counts as an edit even with the verdict «accept», an unchanged one as
        accepted even with «edit». An empty text is unclear.
        """
        text = first_text(result, TEXT)
        if not text:
            label = self.labels(VERDICT, [verdict])
            return UnclearAnswer(problem=f"the verdict is {label!r}, but the text is empty")
        if text == one_line(record.text):
            return verdict_answer("accept", remark=UNCHANGED if verdict == "edit" else "")
        remark = "accepted with a changed text, which is an edit" if verdict == "accept" else ""
        return verdict_answer("edit", texts={TEXT: text}, remark=remark)

    def edited(
        self, record: Caption | Rewrite, answer: ReviewAnswer, author: str
    ) -> tuple[EntityRecord, ...]:
        """Return the record with the reviewer's text."""
        return (record.model_copy(update={"text": answer.texts[TEXT], "author": author}),)

    def details(self, answer: ReviewAnswer, record: Caption | Rewrite) -> Summary:
        """Return the text, unless it is rejected."""
        text = answer.texts.get(TEXT, record.text)
        return [("Text", "" if answer.verdict == "reject" else text)]


class _Checked(NamedTuple):
    """What is known of a text: its image, the text that it rewrites or itself, and its checks.

    `flags` is None if the text was not examined; `is_read` tells whether a check reads what texts
    of the dataset state.
    """

    image: StoredEntity
    source: StoredEntity
    report: FaithfulnessReport | None
    flags: tuple[str, ...] | None
    is_read: bool

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of its check."""
        return self.report.findings if self.report is not None else ()

    @property
    def findings_html(self) -> str:
        """Its flags and findings, as HTML."""
        is_checked = self.flags is not None or (self.report is not None and self.is_read)
        unchecked = "Not checked." if self.report is None else _ONLY_FORM_AND_WORDS
        otherwise = "No warnings." if is_checked else unchecked
        return page_html("findings", self.findings, self.flags or (), otherwise)


def _checked(
    store: Store, texts: Sequence[StoredEntity], sources: Mapping[str, StoredEntity]
) -> dict[str, _Checked]:
    """Return what is known of each text, whose image is that of its source."""
    ids = [text.id for text in texts]
    is_read = _is_read(store, texts[0].dataset) if texts else False
    images = _only_parents(store, [one.id for one in sources.values()], Role.DESCRIBES)
    reports, flags = newest_reports(store, ids), latest_flags(store, ids)
    return {
        one: _Checked(
            images[sources[one].id], sources[one], reports.get(one), flags.get(one), is_read
        )
        for one in ids
    }


def _is_read(store: Store, dataset: str) -> bool:
    """Return whether a check of the dataset's last run reads what its texts state."""
    asked = asked_checks(store, dataset)
    if asked is None:
        return True
    settings = FaithfulnessSettings.model_validate(asked.settings)
    return bool(reading_checks(asked.checks, settings))


class RewriteRevision(TextVerdict):
    """The labelling interface `rewrite-revision`."""

    name = "rewrite-revision"
    record = Rewrite

    def related(self, store: Store, entities: Sequence[StoredEntity]) -> dict[str, _Checked]:
        """Return the source description, image and check of each rewrite.

        Raises:
            IntegrityError: a rewrite has no source description, or the description has no image.
        """
        sources = _only_parents(store, [entity.id for entity in entities], Role.REWRITE_OF)
        return _checked(store, entities, sources)

    def data(self, entity: StoredEntity, images: Images, related: _Checked) -> dict[str, Any]:
        """Return both texts, with marks on findings and on words that changed."""
        source, rewrite = related.source.record(Caption).text, entity.record(Rewrite).text
        removed, inserted = changed_words(source, rewrite)
        return {
            "image": images.address(related.image),
            "description_html": marked_text(source, [*_marks(related, "source"), *removed]),
            "rewrite_html": marked_text(rewrite, [*_marks(related, "rewrite"), *inserted]),
            "findings_html": related.findings_html,
            TEXT: rewrite,
        }


class CaptionVerification(TextVerdict):
    """The labelling interface `caption-verification`."""

    name = "caption-verification"
    record = Caption

    def related(self, store: Store, entities: Sequence[StoredEntity]) -> dict[str, _Checked]:
        """Return the image and check of each caption.

        Raises:
            IntegrityError: a caption has no image.
        """
        return _checked(store, entities, {entity.id: entity for entity in entities})

    def data(self, entity: StoredEntity, images: Images, related: _Checked) -> dict[str, Any]:
        """Return the caption, with marks on findings.

        For a caption of a task, the heading says what it has to distinguish.
        """
        text = entity.record(Caption).text
        return {
            "image": images.address(related.image),
            "heading": _caption_heading(related.image.record(Image).task),
            # A check compares two texts; it calls the caption the rewrite.
            "caption_html": marked_text(text, _marks(related, "rewrite")),
            "findings_html": related.findings_html,
            TEXT: text,
        }


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


def _marks(checked: _Checked, side: Literal["source", "rewrite"]) -> list[Mark]:
    """Return marks on the facts of findings in the source description or in the rewrite."""
    return [
        Mark(*fact.span, style="minor" if one.minor else one.change, title=one.message)
        for one in checked.findings
        if (fact := one.source if side == "source" else one.rewrite) is not None
    ]


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
    record = Confusion

    def related(self, store: Store, entities: Sequence[StoredEntity]) -> dict[str, tuple[str, ...]]:
        """Return the warnings about each caption."""
        return latest_flags(store, [entity.id for entity in entities])

    def data(
        self, entity: StoredEntity, images: Images, related: tuple[str, ...] | None
    ) -> dict[str, Any]:
        """Return the images in random order, and the caption with its warnings below it."""
        asked = entity.record(Confusion)
        shown = (asked.own, asked.other)
        left, right = shown if own_side(entity.id) == "left" else reversed(shown)
        warnings = page_html("findings", (), related, "") if related else ""
        return {
            "left": images.address(left),
            "right": images.address(right),
            "caption_html": marked_text(asked.text) + warnings,
        }

    def read_annotation(self, result: Regions, shown: StoredEntity) -> Parsed:
        """Parse which images the caption fits."""
        outcome = _outcomes(shown.id).get(only_choice(result, _FIT) or "")
        if outcome is None:
            return UnclearAnswer(problem="none of the four was chosen")
        choices = {_FIT: (outcome,)}
        if outcome == "own":
            return ReviewAnswer(verdict="accept", choices=choices)
        return ReviewAnswer(verdict="reject", choices=choices, reason=OUTCOMES[outcome])

    def answer_choices(self, shown: StoredEntity) -> Collection[tuple[str, str]]:
        """Return the outcomes: sides differ from page to page."""
        return {(_FIT, outcome) for outcome in OUTCOMES}

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
    record = ChoiceTest
    independent = True

    def data(self, entity: StoredEntity, images: Images, related: Any) -> dict[str, Any]:
        """Return the question, and the options in the order of the page."""
        test, order = entity.record(ChoiceTest), option_order(entity.id)
        return {
            "question_html": page_html("question", test, images.address),
            "options_html": page_html("options", test, order, images.address),
        }

    def read_annotation(self, result: Regions, shown: StoredEntity) -> Parsed:
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


@cache
def _attribute_pattern(attribute: str) -> re.Pattern[str]:
    """Return the regular expression for an attribute's words, for Python and JavaScript."""
    words = re.split(r"\s(?![^\[]*\])", ATTRIBUTES[attribute].strip())
    return re.compile(rf"\b(?:{'|'.join(words)})\b", re.IGNORECASE)


def missing_attributes(text: str) -> Sequence[str]:
    """Return the attributes that a description does not mention, in the order of `ATTRIBUTES`."""
    return [one for one in ATTRIBUTES if not _attribute_pattern(one).search(text)]


def count_words(text: str) -> int:
    """Count the words of a text: strings between white space with a letter or a digit."""
    return sum(any(character.isalnum() for character in word) for word in text.split())


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
    record = Image
    independent = True

    @cached_property
    def config(self) -> str:
        """The page in Label Studio's XML, with the frame that counts words."""
        patterns = [[one, _attribute_pattern(one).pattern] for one in ATTRIBUTES]
        settings = json.dumps({"aim": AIM_WORDS, "attributes": patterns})
        document = resource("description_counter.html").replace('"SETTINGS"', settings)
        frame = document.replace('"FIELDS"', text_fields_script())
        page = super().config.replace("loupe-least-LEAST", f"loupe-least-{LEAST_WORDS}")
        return page.replace("COUNTER", script_frame("loupe-counter", frame))

    def data(self, entity: StoredEntity, images: Images, related: Any) -> dict[str, Any]:
        """Return the image, without a draft."""
        person = "this person"
        if entity.record(Image).others_xyxy:
            person = "the person without a frame"
        return {
            "image": images.address(entity),
            "heading": f"Describe {person} as precisely as you can",
            DRAFT: "",
            DRAFT_NOTE: "",
        }

    def guesses(self, record: Image) -> list[dict[str, Any]]:
        """Return a verdict: without one, Label Studio submits no text."""
        described = choice_region(VERDICT, "image", "accept")
        return [{"model_version": "loupe", "result": [described]}]

    def with_draft(self, content: TaskContent, draft: StoredEntity) -> TaskContent:
        """Return the page with the draft in the text field and its author above it."""
        caption = draft.record(Caption)
        note = (
            f"Draft by the program {caption.author}: check every word, correct what is wrong, "
            f"add what is missing, or delete it and write your own."
        )
        opening = {DRAFT: caption.text, DRAFT_NOTE: note, OPENED_WITH: draft.id}
        return content._replace(data={**content.data, **opening})

    def read_annotation(self, result: Regions, shown: StoredEntity) -> Parsed:
        """Parse the description, or why the image cannot be described."""
        if only_choice(result, VERDICT) == "reject":
            return self.rejection(result)
        text = first_text(result, TEXT)
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

    def details(self, answer: ReviewAnswer, record: Image) -> Summary:
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
