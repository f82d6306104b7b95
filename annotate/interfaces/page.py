"""The base of all labelling pages: configuration, controls, regions, answers.

Every page also serves adjudication: it then shows the annotators' answers after the item, without
names and in an order that reveals nothing. Words that differ are marked, and an adjudicator can
take one of the answers as it is.
"""
# ruff: noqa: ARG002 - methods for pages to override take what some pages need

import json
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, cached_property
from html import escape
from importlib.resources import files
from itertools import pairwise
from string import ascii_uppercase
from typing import Any, ClassVar, NamedTuple

from loupe.annotate.answers import Parsed, ReviewAnswer, UnclearAnswer, Verdict
from loupe.annotate.backend import parse_config
from loupe.db.entities import StoredEntity
from loupe.db.reviews import ShownImage
from loupe.db.store import Store
from loupe.schemas.base import EntityRecord, digest_of
from loupe.schemas.errors import ServiceError
from loupe.schemas.pages import page_environment
from loupe.schemas.phrases import WORD, PhraseKind, content_words, image_letter, phrases
from loupe.schemas.records import Image, Picture
from loupe.schemas.retrieval_task import TASK_FORMS


class TaskContent(NamedTuple):
    """The content of a page: values of its variables, pre-annotations, and the images.

    `images` are all images with an address in `data`: the image server serves no others.
    """

    data: dict[str, Any]
    predictions: list[dict[str, Any]]
    images: tuple[ShownImage, ...] = ()


class Images:
    """The images of one page; `shown` are all that have an address on it."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self.shown: dict[ShownImage, None] = {}

    def address(self, image: Picture | StoredEntity) -> str:
        """Return the address of an image for the annotator's browser.

        The image server frames the other people in a crop of a person.
        """
        record: Picture | Image
        if isinstance(image, Picture):
            record, image_id = image, image.image_id
        else:
            record, image_id = image.record(Image), image.id
        self.shown[ShownImage(record.sha256, record.media_type, image_id)] = None
        boxes = ";".join(",".join(f"{side:g}" for side in box) for box in record.others_xyxy)
        return f"{self._url}/{record.sha256}" + (f"?others={boxes}" if boxes else "")


Regions = Sequence[dict[str, Any]]
"""The regions of an annotation, as Label Studio stores them: one for each control."""
Summary = list[tuple[str, str]]
"""An answer in words, as names and values. Empty values are not shown."""


class Interface:
    """A labelling interface: a page, how to fill it, and how to parse the answers.

    The page (Label Studio's XML) and its instructions (HTML) are in files named after it. An
    interface has no state; one object serves all queues. Every page has keys for its choices, and a
    pre-annotation if something is known. External text is escaped.

    Attributes:
        name: its name in queue declarations.
        record: the type of the records that it shows.
        image_fields: the fields of the record with the images of the page, by variable.
        html_parts: the macros in `templates/pages.html.j2` that render the record, by variable.
        independent: each answer is a separate result, such as a description; none can conflict.
    """

    name: ClassVar[str]
    record: ClassVar[type[EntityRecord]]
    image_fields: ClassVar[Mapping[str, str]] = {}
    html_parts: ClassVar[Mapping[str, str]] = {}
    independent: ClassVar[bool] = False

    @cached_property
    def config(self) -> str:
        """The page in Label Studio's XML, with the common parts of all pages.

        These are the style, the text fields, and the reason why a task came back.
        """
        page = self.page_xml()
        page = page.replace("<Style>\n", f"<Style>\n{resource('common.css')}", 1)
        page = page.replace("</Style>", f"</Style>{_RETURNED_VIEW}", 1)
        frame = resource("text_fields.html").replace('"FIELDS"', text_fields_script())
        return page.replace("TEXT_FIELDS", script_frame("loupe-saved", frame))

    def page_xml(self) -> str:
        """Return the page alone, from its file."""
        return resource(f"{self._file_name}.xml")

    @cached_property
    def instructions(self) -> str:
        """The instructions for annotators, as HTML."""
        return instructions(f"{self._file_name}.html")

    @property
    def _file_name(self) -> str:
        return self.name.replace("-", "_")

    def contents(
        self, store: Store, entities: Sequence[StoredEntity], images_url: str
    ) -> list[TaskContent]:
        """Return one page per entity, in order; images have the address `<images_url>/<sha256>`.

        Raises:
            ServiceError: a pre-annotation does not fit the page.
        """
        related = self.related(store, entities)
        contents = []
        for entity in entities:
            images = Images(images_url)
            data = self.data(entity, images, related.get(entity.id))
            ticked = self.guesses(entity.record(self.record))
            contents.append(TaskContent({**data, RETURNED: ""}, ticked, tuple(images.shown)))
        guesses = [guess for content in contents for guess in content.predictions]
        if not guesses:
            return contents  # the SDK takes seconds to import
        page = parse_config(self.config)
        for guess in guesses:
            if problems := page.validate_prediction(guess, return_errors=True):
                raise ServiceError(f"a pre-annotation does not fit its page: {'; '.join(problems)}")
        return contents

    def related(self, store: Store, entities: Sequence[StoredEntity]) -> Mapping[str, Any]:
        """Return what the pages show besides the entities' records, by id of the entity."""
        return {}

    def data(self, entity: StoredEntity, images: Images, related: Any) -> dict[str, Any]:
        """Return the values of the page's variables: by default the declared images and parts."""
        record = entity.record(self.record)
        return {
            **{
                name: images.address(getattr(record, field))
                for name, field in self.image_fields.items()
            },
            **{
                name: page_html(part, record, images.address)
                for name, part in self.html_parts.items()
            },
        }

    def guesses(self, record: Any) -> list[dict[str, Any]]:
        """Return the pre-annotations of the page."""
        return []

    def with_draft(self, content: TaskContent, draft: StoredEntity) -> TaskContent:
        """Return the page with a model's draft in it, marked as that model's."""
        return content

    def read_annotation(self, result: Regions, shown: StoredEntity) -> Parsed:
        """Parse the answer in an annotation's regions about the entity that was shown."""
        verdict = only_choice(result, VERDICT)
        if verdict == "reject":
            return self.rejection(result)
        if verdict is None or (VERDICT, verdict) not in choice_labels(self.config):
            return UnclearAnswer(problem="no verdict was chosen")
        return self.kept(verdict, result, shown.record(self.record))

    def rejection(self, result: Regions) -> Parsed:
        """Parse a rejection, with its one reason, or the ticked problems, and its note."""
        asks_problems = any(control == PROBLEMS for control, _ in choice_labels(self.config))
        control, missing = (
            (PROBLEMS, "rejected, but no problem is ticked")
            if asks_problems
            else (REASON, "rejected without a reason")
        )
        chosen = tuple(values(result, control, "choices"))
        if not chosen or (control == REASON and len(chosen) > 1):
            return UnclearAnswer(problem=missing)
        note = " ".join(one_line(text) for text in values(result, NOTE, "text")).strip()
        reason = ", ".join(chosen)
        return ReviewAnswer(
            verdict="reject",
            choices={VERDICT: ("reject",), control: chosen},
            reason=f"{reason}: {note}" if note else reason,
        )

    def kept(self, verdict: str, result: Regions, record: Any) -> Parsed:
        """Parse an answer with a verdict other than «reject»; by default an acceptance.

        An acceptance with ticked problems is unclear.
        """
        if problems := values(result, PROBLEMS, "choices"):
            ticked = self.labels(PROBLEMS, problems)
            return UnclearAnswer(problem=f"accepted, but problems are ticked: {ticked}")
        return verdict_answer("accept")

    def same(self, one: ReviewAnswer, other: ReviewAnswer, text_agreement: float) -> bool:
        """Return whether two answers agree: equal choices and sufficiently similar texts (0 to 1).

        Two rejections always agree, even with different reasons.
        """
        if one.verdict == other.verdict == "reject":
            return True
        if one.verdict != other.verdict or one.choices != other.choices:
            return False
        return one.texts.keys() == other.texts.keys() and all(
            text_similarity(text, other.texts[control]) >= text_agreement
            for control, text in one.texts.items()
        )

    def successors(
        self, shown: StoredEntity, answer: ReviewAnswer, author: str
    ) -> tuple[EntityRecord, ...]:
        """Return the records that replace an accepted or edited entity, if any.

        If the interface is `independent`, these are the records that the answer adds.
        """
        if answer.verdict != "edit":
            return ()
        return self.edited(shown.record(self.record), answer, author)

    def edited(self, record: Any, answer: ReviewAnswer, author: str) -> tuple[EntityRecord, ...]:
        """Return the records that an edit makes of a record."""
        return ()

    def summary(self, answer: ReviewAnswer, shown: StoredEntity) -> Summary:
        """Return the answer in words, for an adjudicator and for feedback."""
        chosen = answer.choices.get(VERDICT, (answer.verdict,))
        return [
            ("Verdict", self.labels(VERDICT, chosen)),
            ("Reason", answer.reason),
            *self.details(answer, shown.record(self.record)),
        ]

    def details(self, answer: ReviewAnswer, record: Any) -> Summary:
        """Return what an answer contains in addition to a verdict and a reason, in words."""
        return []

    def answer_choices(self, shown: StoredEntity) -> Collection[tuple[str, str]]:
        """Return all choices that an answer about an entity may have, each with its control."""
        return choice_labels(self.config).keys()

    def labels(self, control: str, aliases: Iterable[str]) -> str:
        """Return choices in the words of the page."""
        known = choice_labels(self.config)
        return ", ".join(known.get((control, alias), alias) for alias in aliases)


# Configuration: XML, instructions, scripts.


def resource(name: str) -> str:
    """Return the text of a file beside this one: a page's XML, instructions, or script."""
    return files("loupe.annotate.interfaces").joinpath(name).read_text(encoding="utf-8")


RETURNED = "returned"
"""The variable of the reason why a task came back to its annotator; empty if it did not."""
_RETURNED_VIEW = f'<View className="loupe-returned"><Header value="${RETURNED}" size="5"/></View>'

_INSTRUCTIONS_STYLE = (
    ".loupe-instructions p, .loupe-instructions ul { margin: 8px 0; } "
    ".loupe-instructions ul { list-style: disc; padding-left: 20px; }"
)


def instructions(name: str) -> str:
    """Return the instructions in a file beside this one, with a style for their spacing."""
    style = f"<style>{_INSTRUCTIONS_STYLE}</style>"
    return f'<div class="loupe-instructions">{style}{resource(name).strip()}</div>'


def script_frame(name: str, document: str) -> str:
    """Return a frame with a document of ours, as HTML for the `value` of a `Markdown` tag.

    Label Studio's own tags run no scripts, and its tag for scripted controls (`ReactCode`) is not
    in the community edition; its `Markdown` tag shows HTML, frames included. The page must also
    work without the script, as a Label Studio may not show frames. Because `Markdown` tags run
    scripts, they must never contain text from users, models or the web.

    Args:
        name: the name of the frame's class, for the page's style.
        document: the document, without any `$`, which Label Studio would take for a variable.
    """
    # A line break would end the HTML for Markdown.
    inside = escape(document).replace("\n", "&#10;")
    attributes = f'class="{name}" title="What is saved" tabindex="-1" srcdoc="{inside}"'
    return escape(f"<iframe {attributes}></iframe>")


def text_fields_script() -> str:
    """Return the script of a frame that adds `text_fields.js` to Label Studio's page.

    It saves what is typed, reports that, and gives text fields their keys: Enter moves the cursor
    to the page's text (class `loupe-write`), Escape leaves a text field, and Ctrl+Enter submits
    from inside one. It is added to the page itself, because frames are created and removed with the
    tasks.
    """
    code = json.dumps(resource("text_fields.js"))
    return (
        "{ const script = parent.document.createElement('script'); "
        f"script.textContent = {code}; parent.document.head.append(script); }}"
    )


class Control(NamedTuple):
    """A control of a page; `offered` has the label of each choice, by alias.

    It is None if each task has its own choices. `name` is a pattern, as a page may repeat a control
    for each row of its data.
    """

    name: re.Pattern[str]
    kind: str
    target: str
    single: bool
    offered: Mapping[str, str] | None


_VALUES = {"choices": "choices", "textarea": "text"}
"""The key of a region's value, by the region's type."""
_SHOWN_CHARACTERS = 60


@cache
def controls(config: str) -> tuple[Control, ...]:
    """Return the controls of a page."""
    root = ET.fromstring(config)  # noqa: S314 - our own page
    found = []
    for tag in root.iter():
        kind = tag.tag.lower()
        if kind in _VALUES:
            parts = re.split(r"{{\w+}}", tag.get("name", ""))
            name = re.compile(r"\d+".join(map(re.escape, parts)))
            is_single = tag.get("choice", "").startswith("single")
            found.append(Control(name, kind, tag.get("toName", ""), is_single, _offered(tag)))
    return tuple(found)


def choice_labels(config: str) -> dict[tuple[str, str], str]:
    """Return the labels of a page's choices, by control and alias."""
    labels = {}
    for control in controls(config):
        for alias, label in (control.offered or {}).items():
            labels[control.name.pattern, alias] = label
    return labels


def _offered(tag: ET.Element) -> dict[str, str] | None:
    if tag.tag != "Choices" or tag.get("value", "").startswith("$"):
        return None
    labels = ((one, one.get("value", "")) for one in tag.iter("Choice"))
    return {one.get("alias", label): label for one, label in labels}


def malformed(config: str, result: Any) -> str:
    """Return the problem of the first region that the page cannot have created, or ""."""
    if not isinstance(result, list):
        return f"an answer must be a list of regions; got {_abbreviated(result)}"
    chosen: set[str] = set()
    for number, region in enumerate(result, start=1):
        if problem := _malformed_region(config, region, chosen):
            return f"region {number} {problem}"
    return ""


def _malformed_region(config: str, region: Any, chosen: set[str]) -> str:
    """Return the problem of a region; `chosen` collects the controls with a single choice."""
    if not isinstance(region, dict):
        return f"must be an object; got {_abbreviated(region)}"
    name = region.get("from_name")
    fitting = (one for one in controls(config) if one.name.fullmatch(str(name)))
    control = next(fitting, None)
    if control is None or not isinstance(name, str):
        return f"must name a control of the page; got {_abbreviated(name)}"
    kind = _VALUES[control.kind]
    if region.get("type") != control.kind:
        return (
            f"({name}) must be of the type {control.kind}; got {_abbreviated(region.get('type'))}"
        )
    if region.get("to_name") != control.target:
        return f"({name}) must be about {control.target}; got {_abbreviated(region.get('to_name'))}"
    value = region.get("value")
    if not isinstance(value, dict):
        return f"({name}) must hold an object with its {kind}; got {_abbreviated(value)}"
    given = value.get(kind)
    if not isinstance(given, list) or not all(map(_is_text, given)):
        return f"({name}) must hold a list of texts as its {kind}; got {_abbreviated(given)}"
    if control.offered is not None and (unknown := [x for x in given if x not in control.offered]):
        return f"({name}) must hold choices that the page offers; got {_abbreviated(unknown[0])}"
    if control.single and (len(given) != 1 or name in chosen):
        return f"({name}) must hold one choice; got {_abbreviated(given)}"
    if control.single:
        chosen.add(name)
    return ""


def _is_text(value: Any) -> bool:
    """Return whether the value is text that can be stored."""
    return isinstance(value, str) and not re.search("[\0\ud800-\udfff]", value)


def _abbreviated(value: Any) -> str:
    """Return a value for a message; only the size of nested ones is shown."""
    if isinstance(value, list | dict):
        return f"a {type(value).__name__} of {len(value)}"
    return ascii(value)[:_SHOWN_CHARACTERS]


def values(result: Regions, control: str, kind: str) -> list[str]:
    """Return all values of `kind` (`choices`, `text`) in a control, in order."""
    found: list[str] = []
    for region in result:
        if region.get("from_name") == control:
            found += map(str, region.get("value", {}).get(kind, []))
    return found


def only_choice(result: Regions, control: str) -> str | None:
    """Return the choice in a control, or None unless there is exactly one."""
    chosen = values(result, control, "choices")
    return chosen[0] if len(chosen) == 1 else None


def first_text(result: Regions, control: str) -> str:
    """Return the present text of a field, in one line; "" without it.

    A page pre-fills each text once; a second value is the pre-filled text, sent again with an old
    answer.
    """
    return one_line(" ".join(values(result, control, "text")[:1]))


def one_line(text: str) -> str:
    """Return the text with single spaces and without invisible characters."""
    visible = "".join(
        character for character in text if character.isprintable() or character.isspace()
    )
    return re.sub(r"\s+", " ", visible).strip()


def choice_region(control: str, target: str, *choices: str) -> dict[str, Any]:
    """Return a pre-annotation that ticks `choices`."""
    return {
        "from_name": control,
        "to_name": target,
        "type": "choices",
        "value": {"choices": list(choices)},
    }


def returned_content(content: TaskContent, config: str, problem: str, result: Any) -> TaskContent:
    """Return the page of a task that comes back, with the reason and the earlier answer."""
    why = f"Your answer could not be used: {problem}. Please correct it and submit it again."
    data = {**content.data, RETURNED: why}
    if not result or malformed(config, result):
        return content._replace(data=data)
    return content._replace(
        data=data, predictions=[{"model_version": "your earlier answer", "result": result}]
    )


def text_similarity(one: str, other: str) -> float:
    """Return the similarity of two texts, 0 to 1, ignoring case and white space."""
    from rapidfuzz.distance import Levenshtein

    return Levenshtein.normalized_similarity(one, other, processor=_plain)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


# Parts of pages as HTML.


def page_html(part: str, *values: Any) -> str:
    """Return a part of a page as HTML, by its macro in `templates/pages.html.j2`."""
    return str(getattr(_parts(), part)(*values))


@cache
def _parts() -> Any:
    environment = page_environment("loupe.annotate")
    environment.globals["task_forms"] = TASK_FORMS
    environment.filters.update(image_letter=image_letter, percent=percent)
    return environment.get_template("pages.html.j2").module


def percent(share: float) -> str:
    """Return a share in percent: one decimal below 10 %, "less than 0.1 %" below that."""
    percents = 100 * share
    if 0 < percents < 0.1:
        return "less than 0.1 %"
    return f"{percents:.0f} %" if percents >= 10 or not percents else f"{percents:.1f} %"


# Controls of most pages: a verdict; for a rejection a reason or the problems, and a note.

VERDICT, REASON, PROBLEMS, NOTE = "verdict", "reason", "problems", "note"
"""The names of their controls."""
UNCHANGED = "an edit that changed nothing"


def verdict_answer(verdict: Verdict, **values: Any) -> ReviewAnswer:
    """Return an answer with the verdict as its only choice; `values` are its other fields."""
    return ReviewAnswer(verdict=verdict, choices={VERDICT: (verdict,)}, **values)


ANSWERS = "answers_html"
"""The variable of the panel."""
TAKES = "takes"
"""The variable of the choices to take one of the answers."""
TAKE = "take"
"""The control with which an answer is taken; its choices are keys of annotations, or `OWN`."""
OWN = "own"
_PLACES = {"loupe-answer", "loupe-decision"}
"""The classes of the views with the controls; the first of them gets the panel."""


def adjudication_config(interface: Interface) -> str:
    """Return the page of `interface` with the panel of the answers after the item.

    None of the controls is required, as an answer may be taken instead.
    """
    page = ET.fromstring(interface.config)  # noqa: S314 - our own page
    for tag in page.iter("Choices"):
        tag.attrib.pop("required", None)
    panel = ET.fromstring(resource("adjudication.xml"))  # noqa: S314 - our own file
    tags = list(page.iter())
    place = next(one for one in tags if _PLACES & set(one.get("className", "").split()))
    if any(tag.get("name") for tag in tags[: tags.index(place)]):
        place.insert(0, panel)
    else:  # the item comes after the controls
        page.append(panel)
    return ET.tostring(page, encoding="unicode")


def taken_answer(result: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the key of the annotation that an adjudicator took; None for their own answer."""
    taken = only_choice([dict(region) for region in result], TAKE)
    return None if taken == OWN else taken


def adjudication_instructions(interface: Interface) -> str:
    """Return the adjudicator's instructions, followed by those of the annotators."""
    return instructions("adjudication.html") + interface.instructions


_NO_ANSWERS = (
    "Nobody answered this item: those who may answer skipped it, or had it as a gold item."
)


def adjudication_data(
    interface: Interface, shown: StoredEntity, answers: Mapping[str, ReviewAnswer]
) -> dict[str, Any]:
    """Return the values of the panel: the answers as «Answer A», «Answer B» …, with marks.

    A digest of their content and of the entity determines the order, so it reveals nothing.

    Args:
        interface: the page of the annotators.
        shown: the entity that they answered about.
        answers: their answers by the keys of the annotations.
    """
    ordered = sorted(
        answers, key=lambda key: digest_of(shown.id, answers[key].model_dump_json(), key)
    )
    summaries = marked_differences([interface.summary(answers[key], shown) for key in ordered])
    columns = "".join(
        f'<div class="loupe-given"><b>Answer {letter}</b>{summary}</div>'
        for letter, summary in zip(ascii_uppercase, summaries, strict=False)
    )
    takes = [
        {"value": key, "html": f"Take answer {letter}", "hotkey": f"alt+{number}"}
        for number, (letter, key) in enumerate(zip(ascii_uppercase, ordered, strict=False), start=1)
    ]
    own = {"value": OWN, "html": "My own answer, below", "hotkey": "alt+0"}
    panel = f'<div class="loupe-given-all">{columns or _NO_ANSWERS}</div>'
    return {ANSWERS: panel, TAKES: [*takes, own]}


def marked_differences(summaries: Sequence[Summary]) -> list[str]:
    """Return each summary as a list in HTML; words that another summary lacks are marked.

    Values are compared with the values of the same name.
    """
    rows = [[row for row in summary if row[1].strip()] for summary in summaries]

    def term(name: str, value: str) -> str:
        names, values = [], []
        for summary in rows:
            same = [given for one, given in summary if one == name]
            names.append(name if same else "")
            values.append(" ".join(same))
        return (
            f"<dt>{with_marks(name, _differing_words(name, names))}</dt>"
            f"<dd>{with_marks(value, _differing_words(value, values))}</dd>"
        )

    lists = []
    for summary in rows:
        terms = [term(name, value) for name, value in summary]
        lists.append(f"<dl>{''.join(terms)}</dl>")
    return lists


# Escaped text with marks.

_WORD = re.compile(r"\w+(?:[-’']\w+)*")


class Mark(NamedTuple):
    """A span of a text (end exclusive), its style and its tooltip."""

    start: int
    end: int
    style: str
    title: str = ""


def marked_text(text: str, marks: Sequence[Mark] = ()) -> str:
    """Return `text` as a paragraph of HTML; marks may overlap."""
    return f"<p>{with_marks(text, marks)}</p>"


def with_marks(text: str, marks: Sequence[Mark]) -> str:
    """Return `text` as HTML; marks may overlap."""
    edges = {0, len(text)}
    for mark in marks:
        edges |= {min(mark.start, len(text)), min(mark.end, len(text))}
    pieces = []
    for start, end in pairwise(sorted(edges)):
        covering = [mark for mark in marks if mark.start <= start and end <= mark.end]
        pieces.append(_piece(text[start:end], covering))
    return "".join(pieces)


def _piece(text: str, marks: Sequence[Mark]) -> str:
    if not marks:
        return escape(text)
    styles = " ".join(dict.fromkeys(f"loupe-{mark.style}" for mark in marks))
    titles = [mark.title for mark in marks if mark.title]
    title = f' title="{escape(titles[0])}"' if titles else ""
    return f'<mark class="{styles}"{title}>{escape(text)}</mark>'


def changed_words(before: str, after: str) -> tuple[list[Mark], list[Mark]]:
    """Return marks on the words of `before` missing in `after`, and on the new words of `after`.

    Words that only moved are not marked.
    """
    return _surplus_words(before, after, "removed"), _surplus_words(after, before, "inserted")


def _surplus_words(text: str, other: str, style: str) -> list[Mark]:
    """Return marks on words that the other text lacks; on the last ones if it has fewer of them."""
    there = Counter(word.casefold() for word in _WORD.findall(other))
    words, surplus = list(_WORD.finditer(text)), set[int]()
    for place, word in enumerate(words):
        there[plain := word.group().casefold()] -= 1
        if there[plain] < 0:
            surplus.add(place)
    return _marks_on(words, surplus, style)


def _differing_words(text: str, others: Iterable[str]) -> list[Mark]:
    """Return marks on words that another text lacks or has in another order."""
    from rapidfuzz.distance import LCSseq

    words, differing = list(re.finditer(r"\S+", text)), set[int]()
    for other in others:
        for change in LCSseq.opcodes([word.group() for word in words], other.split()):
            if change.tag != "equal":
                differing.update(range(change.src_start, change.src_end))
    return _marks_on(words, differing, "differs")


def _marks_on(words: Sequence[re.Match[str]], places: Collection[int], style: str) -> list[Mark]:
    """Return marks on the words at these places; neighbouring words share a mark."""
    marks: list[Mark] = []
    for place in sorted(places):
        start = marks.pop().start if place - 1 in places else words[place].start()
        marks.append(Mark(start, words[place].end(), style))
    return marks


_MARKS = {
    PhraseKind.OTHER_IMAGE: "compares",
    PhraseKind.COMPARISON: "compares",
    PhraseKind.ABSENCE: "absent",
}


def marked_captions(captions: Sequence[str]) -> list[str]:
    """Return each caption as HTML with its distinguishing words marked.

    `loupe-own` marks words of no other caption, `loupe-shared` words of some others,
    `loupe-compares` phrases about another image, `loupe-absent` phrases that name something absent.
    Function words are not marked.
    """
    having: Counter[str] = Counter()
    for caption in captions:
        having.update(content_words(caption))
    return [_marked(caption, having, len(captions)) for caption in captions]


def _marked(caption: str, having: Mapping[str, int], count: int) -> str:
    """Return the caption with marks; `having` of `count` captions contain each content word."""
    marks = [Mark(one.start, one.end, _MARKS[one.kind]) for one in phrases(caption)]
    spoken = marks.copy()
    for match in WORD.finditer(caption):
        captions = having.get(match.group().casefold(), count)
        if captions < count and not any(one.start <= match.start() < one.end for one in spoken):
            marks.append(Mark(*match.span(), "own" if captions == 1 else "shared"))
    return with_marks(caption, marks)
