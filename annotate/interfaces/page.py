"""The base of all labelling pages: regions, choices, images, forms, marked text."""

import json
import re
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, cached_property
from html import escape
from importlib.resources import files
from itertools import pairwise
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

from annotate.answers import ReviewAnswer, UnclearAnswer, Verdict
from annotate.backend import parse_config
from db.entities import StoredEntity
from db.reviews import ShownImage
from db.store import Store
from schemas.base import EntityRecord
from schemas.contrast import WORD, PhraseKind, content_words, phrases
from schemas.errors import ServiceError
from schemas.faithfulness import Fact, Finding
from schemas.proposals import Picture
from schemas.records import Caption, Rewrite

# A labelling interface: a page, how to fill it, and how to read the answers.


class TaskContent(NamedTuple):
    """The content of a page: values of its variables, pre-annotations, and the images.

    `images` are all images with an address in `data`: the image server serves no others.
    """

    data: dict[str, Any]
    predictions: list[dict[str, Any]]
    images: tuple[ShownImage, ...] = ()


Summary = list[tuple[str, str]]
"""An answer in words: names and values. What has no value is not shown."""


class Interface(Protocol):
    """A labelling interface. It has no state; one object serves all queues.

    Every page has instructions, keys for its choices, and a pre-annotation if something is known.
    Text from outside is escaped.
    """

    @property
    def name(self) -> str:
        """Its name in queue declarations."""
        ...

    @property
    def config(self) -> str:
        """The page in Label Studio's XML."""
        ...

    @property
    def instructions(self) -> str:
        """The instructions for annotators, as HTML."""
        ...

    @property
    def independent(self) -> bool:
        """Whether every answer is a result of its own, such as a description; none can conflict."""
        ...

    def contents(
        self, store: Store, entities: Sequence[StoredEntity], images_url: str
    ) -> list[TaskContent]:
        """One page per entity, in order; images lie at `<images_url>/<sha256>`."""
        ...

    def with_draft(self, content: TaskContent, draft: StoredEntity) -> TaskContent:
        """The page with a model's draft in it, marked as that model's."""
        ...

    def read_annotation(
        self, result: Sequence[dict[str, Any]], shown: StoredEntity
    ) -> ReviewAnswer | UnclearAnswer:
        """The answer in an annotation's regions about the entity that was shown."""
        ...

    def same(self, one: ReviewAnswer, other: ReviewAnswer, text_agreement: float) -> bool:
        """Whether two answers agree; texts do from a similarity of `text_agreement` (0 to 1)."""
        ...

    def successors(
        self, shown: StoredEntity, answer: ReviewAnswer, author: str
    ) -> tuple[EntityRecord, ...]:
        """The records that replace an accepted or edited entity, if any.

        If the interface is `independent`, the records that the answer adds.
        """
        ...

    def summary(self, answer: ReviewAnswer, shown: StoredEntity) -> Summary:
        """The answer in words, for an adjudicator and for feedback."""
        ...


# Regions, choices, images, and escaped text.


def resource(name: str) -> str:
    """A file beside this one: a page's XML, its instructions, or a script of it."""
    return files("annotate.interfaces").joinpath(name).read_text(encoding="utf-8")


RETURNED = "returned"
"""The variable of the reason why a task came back to its annotator; empty if it did not."""
_RETURNED_VIEW = f'<View className="loupe-returned"><Header value="${RETURNED}" size="5"/></View>'

_INSTRUCTIONS_STYLE = (
    ".loupe-instructions p, .loupe-instructions ul { margin: 8px 0; } "
    ".loupe-instructions ul { list-style: disc; padding-left: 20px; }"
)


def instructions(name: str) -> str:
    """The instructions in a file beside this one, with the spacing that Label Studio removes."""
    style = f"<style>{_INSTRUCTIONS_STYLE}</style>"
    return f'<div class="loupe-instructions">{style}{resource(name).strip()}</div>'


def page_config(name: str) -> str:
    """A page's XML from a file beside this one, with what all pages have in common.

    That is the style, the text fields, and the reason why a task came back.
    """
    common = f"<Style>\n{resource('common.css')}"
    page = resource(name).replace("<Style>\n", common, 1)
    return _with_text_fields(page.replace("</Style>", f"</Style>{_RETURNED_VIEW}", 1))


def script_frame(name: str, document: str) -> str:
    """A frame with a document of ours in it, as HTML for the `value` of a `Markdown` tag.

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
    return escape(f'<iframe class="{name}" title="" srcdoc="{inside}"></iframe>')


def _with_text_fields(config: str) -> str:
    """The page with the frame that saves what is typed, says so, and gives text fields their keys.

    Enter goes to the page's text (class `loupe-write`), Escape leaves a text field, and Ctrl+Enter
    submits from inside one.
    """
    document = resource("text_fields.html").replace('"FIELDS"', text_fields_script())
    return config.replace("TEXT_FIELDS", script_frame("loupe-saved", document))


def text_fields_script() -> str:
    """The script of a frame that adds `text_fields.js` to Label Studio's page.

    It is added to the page itself, because frames come and go with the tasks.
    """
    code = json.dumps(resource("text_fields.js"))
    return (
        "{ const script = parent.document.createElement('script'); "
        f"script.textContent = {code}; parent.document.head.append(script); }}"
    )


def image_address(images_url: str, sha256: str) -> str:
    """The address of an image for the annotator's browser."""
    return f"{images_url.rstrip('/')}/{sha256}"


class Control(NamedTuple):
    """A control of a page; `offered` is None if each task has choices of its own.

    `name` is a pattern, as a page may repeat a control for each row of its data.
    """

    name: re.Pattern[str]
    kind: str
    target: str
    single: bool
    offered: frozenset[str] | None


_VALUES = {"choices": "choices", "textarea": "text"}
"""The key of a region's value, by the region's type."""
_SHOWN_CHARACTERS = 60


@cache
def controls(config: str) -> tuple[Control, ...]:
    """The controls of a page."""
    root = ET.fromstring(config)  # noqa: S314 - our own page
    return tuple(
        Control(
            re.compile(r"\d+".join(map(re.escape, re.split(r"{{\w+}}", tag.get("name", ""))))),
            tag.tag.lower(),
            tag.get("toName", ""),
            tag.get("choice", "").startswith("single"),
            _offered(tag),
        )
        for tag in root.iter()
        if tag.tag.lower() in _VALUES
    )


@cache
def choice_labels(config: str) -> dict[tuple[str, str], str]:
    """What the choices of a page are called on it, by control and alias."""
    root = ET.fromstring(config)  # noqa: S314 - our own page
    return {
        (tag.get("name", ""), one.get("alias", "")): one.get("value", "")
        for tag in root.iter("Choices")
        for one in tag.iter("Choice")
    }


def _offered(tag: ET.Element) -> frozenset[str] | None:
    if tag.tag != "Choices" or tag.get("value", "").startswith("$"):
        return None
    return frozenset(one.get("alias", one.get("value", "")) for one in tag.iter("Choice"))


def malformed(config: str, result: Any) -> str:
    """Why the page cannot have made these regions, naming the first wrong one; "" if it can."""
    if not isinstance(result, list):
        return f"an answer must be a list of regions; got {_shown(result)}"
    chosen: set[str] = set()
    for number, region in enumerate(result, start=1):
        if problem := _malformed_region(config, region, chosen):
            return f"region {number} {problem}"
    return ""


def _malformed_region(config: str, region: Any, chosen: set[str]) -> str:
    """The problem of a region; `chosen` collects the controls with a single choice."""
    if not isinstance(region, dict):
        return f"must be an object; got {_shown(region)}"
    name = region.get("from_name")
    fitting = (one for one in controls(config) if one.name.fullmatch(str(name)))
    control = next(fitting, None)
    if control is None or not isinstance(name, str):
        return f"must name a control of the page; got {_shown(name)}"
    kind = _VALUES[control.kind]
    if region.get("type") != control.kind:
        return f"({name}) must be of the type {control.kind}; got {_shown(region.get('type'))}"
    if region.get("to_name") != control.target:
        return f"({name}) must be about {control.target}; got {_shown(region.get('to_name'))}"
    value = region.get("value")
    if not isinstance(value, dict):
        return f"({name}) must hold an object with its {kind}; got {_shown(value)}"
    given = value.get(kind)
    if not isinstance(given, list) or not all(map(_is_text, given)):
        return f"({name}) must hold a list of texts as its {kind}; got {_shown(given)}"
    if control.offered is not None and (unknown := [x for x in given if x not in control.offered]):
        return f"({name}) must hold choices that the page offers; got {_shown(unknown[0])}"
    if control.single and (len(given) != 1 or name in chosen):
        return f"({name}) must hold one choice; got {_shown(given)}"
    if control.single:
        chosen.add(name)
    return ""


def _is_text(value: Any) -> bool:
    """Whether it is text that can be stored."""
    return isinstance(value, str) and not re.search("[\0\ud800-\udfff]", value)


def _shown(value: Any) -> str:
    """A value for a message; nested ones are only counted."""
    if isinstance(value, list | dict):
        return f"a {type(value).__name__} of {len(value)}"
    return ascii(value)[:_SHOWN_CHARACTERS]


def values(result: Sequence[dict[str, Any]], control: str, kind: str) -> list[str]:
    """All values of `kind` (`choices`, `text`) that an annotation has in a control, in order."""
    return [
        str(value)
        for region in result
        if region.get("from_name") == control
        for value in region.get("value", {}).get(kind, [])
    ]


def only_choice(result: Sequence[dict[str, Any]], control: str) -> str | None:
    """The choice in a control, or None without exactly one."""
    chosen = values(result, control, "choices")
    return chosen[0] if len(chosen) == 1 else None


def one_line(text: str) -> str:
    """The text with single spaces and without invisible characters."""
    visible = "".join(
        character for character in text if character.isprintable() or character.isspace()
    )
    return re.sub(r"\s+", " ", visible).strip()


def choice_region(control: str, target: str, *choices: str) -> dict[str, Any]:
    """A pre-annotation that ticks `choices`."""
    return {
        "from_name": control,
        "to_name": target,
        "type": "choices",
        "value": {"choices": list(choices)},
    }


def validate(config: str, contents: Sequence[TaskContent]) -> None:
    """Checks that pre-annotations fit a page.

    Raises:
        ServiceError: one does not fit.
    """
    guesses = [guess for content in contents for guess in content.predictions]
    if not guesses:
        return  # the SDK takes seconds to import
    interface = parse_config(config)
    for guess in guesses:
        problems = interface.validate_prediction(guess, return_errors=True)
        if problems:
            raise ServiceError(f"a pre-annotation does not fit its page: {'; '.join(problems)}")


def returned_content(content: TaskContent, config: str, problem: str, result: Any) -> TaskContent:
    """The page of a task that comes back: why, and filled in as its annotator had left it."""
    why = f"Your answer could not be used: {problem}. Please correct it and submit it again."
    data = {**content.data, RETURNED: why}
    if not result or malformed(config, result):
        return content._replace(data=data)
    return content._replace(
        data=data, predictions=[{"model_version": "your earlier answer", "result": result}]
    )


# When two answers agree, and how an answer is shown to an adjudicator.


def text_similarity(one: str, other: str) -> float:
    """The similarity of two texts, 0 to 1, ignoring case and white space."""
    from rapidfuzz.distance import Levenshtein

    return Levenshtein.normalized_similarity(_plain(one), _plain(other))


def same_answer(one: ReviewAnswer, other: ReviewAnswer, text_agreement: float) -> bool:
    """Whether two answers agree: equal choices and similar texts.

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


def definition_list(rows: Iterable[tuple[str, str]]) -> str:
    """Names and values as escaped HTML; rows without a value are left out."""
    items = [
        f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in rows if value.strip()
    ]
    return f"<dl>{''.join(items)}</dl>"


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


# Base classes of the labelling interfaces.


class LabellingPage:
    """A page whose XML and instructions are in files named after it."""

    name: ClassVar[str]
    independent: ClassVar[bool] = False

    @cached_property
    def config(self) -> str:
        """The page in Label Studio's XML."""
        return page_config(f"{self._file_name}.xml")

    @cached_property
    def instructions(self) -> str:
        """The instructions for annotators."""
        return instructions(f"{self._file_name}.html")

    @property
    def _file_name(self) -> str:
        return self.name.replace("-", "_")

    def contents(
        self, store: Store, entities: Sequence[StoredEntity], images_url: str
    ) -> list[TaskContent]:
        """One page per entity, in order."""
        contents = [
            content._replace(data={**content.data, RETURNED: ""})
            for content in self.pages(store, entities, images_url)
        ]
        validate(self.config, contents)
        return contents

    def labels(self, control: str, aliases: Iterable[str]) -> str:
        """Choices in the words of the page."""
        known = choice_labels(self.config)
        return ", ".join(known.get((control, alias), alias) for alias in aliases)

    def with_draft(
        self,
        content: TaskContent,
        draft: StoredEntity,  # noqa: ARG002 - most pages have no drafts
    ) -> TaskContent:
        """The page as it is."""
        return content

    def pages(
        self,
        store: Store,  # noqa: ARG002 - read by pages that show more than their entity
        entities: Sequence[StoredEntity],
        images_url: str,
    ) -> list[TaskContent]:
        """One page per entity, in order; not validated yet."""
        return [self.page(entity, images_url) for entity in entities]

    def page(self, entity: StoredEntity, images_url: str) -> TaskContent:
        """The page of one entity; what reads the store overrides `pages` instead."""
        raise NotImplementedError

    def same(self, one: ReviewAnswer, other: ReviewAnswer, text_agreement: float) -> bool:
        """Whether the verdicts are equal and the texts similar."""
        return same_answer(one, other, text_agreement)

    def successors(
        self,
        shown: StoredEntity,  # noqa: ARG002 - it is accepted or rejected unchanged
        answer: ReviewAnswer,  # noqa: ARG002
        author: str,  # noqa: ARG002
    ) -> tuple[EntityRecord, ...]:
        """Nothing: the entity is accepted or rejected unchanged."""
        return ()


# The pictures of proposals on a page.


def shown_image(picture: Picture) -> ShownImage:
    """The picture as one that the image server has to serve."""
    return ShownImage(picture.sha256, picture.media_type, picture.image_id)


def picture_tag(picture: Picture, images_url: str) -> str:
    """The picture as HTML."""
    return f'<img src="{escape(image_address(images_url, picture.sha256))}" alt="">'


# The form below a text. Its pages name their controls `text`, `verdict`, `reason` and `note`.

TEXT, VERDICT, REASON, NOTE = "text", "verdict", "reason", "note"


def read_text_verdict(
    result: Sequence[dict[str, Any]], shown_text: str
) -> ReviewAnswer | UnclearAnswer:
    """The answer in an annotation's regions about the text that was shown.

    A changed text counts as an edit even with the verdict «accept», an unchanged one as accepted
    even with «edit». An empty text or a missing verdict is unclear.
    """
    verdict = only_choice(result, VERDICT)
    if verdict == "reject":
        return read_rejection(result)
    if verdict not in ("accept", "edit"):
        return UnclearAnswer(problem="no verdict was chosen")
    texts = values(result, TEXT, "text")
    text = one_line(texts[-1]) if texts else ""
    if not text:
        return UnclearAnswer(problem=f"the verdict is {verdict!r}, but the text is empty")
    if text == one_line(shown_text):
        return _answer("accept", remark="an edit that changed nothing" if verdict == "edit" else "")
    remark = "accepted with a changed text, which is an edit" if verdict == "accept" else ""
    return _answer("edit", {TEXT: text}, remark)


def read_rejection(result: Sequence[dict[str, Any]]) -> ReviewAnswer | UnclearAnswer:
    """The rejection in an annotation's regions, with its reason and its note."""
    reason = only_choice(result, REASON)
    if reason is None:
        return UnclearAnswer(problem="rejected without a reason")
    note = " ".join(one_line(text) for text in values(result, NOTE, "text")).strip()
    return ReviewAnswer(
        verdict="reject",
        choices={VERDICT: ("reject",), REASON: (reason,)},
        reason=f"{reason}: {note}" if note else reason,
    )


def _answer(
    verdict: Verdict, texts: dict[str, str] | None = None, remark: str = ""
) -> ReviewAnswer:
    return ReviewAnswer(
        verdict=verdict, choices={VERDICT: (verdict,)}, texts=texts or {}, remark=remark
    )


# The problems of a rejection. Its pages name their controls `verdict`, `problems` and `note`.

PROBLEMS = "problems"


def ticked_problems(result: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """The problems ticked in an annotation, in the page's order."""
    return tuple(values(result, PROBLEMS, "choices"))


def read_problems(result: Sequence[dict[str, Any]]) -> ReviewAnswer | UnclearAnswer:
    """The rejection in an annotation, with its problems as the reason."""
    problems = ticked_problems(result)
    if not problems:
        return UnclearAnswer(problem="rejected, but no problem is ticked")
    note = " ".join(one_line(text) for text in values(result, NOTE, "text")).strip()
    reason = ", ".join(problems)
    return ReviewAnswer(
        verdict="reject",
        choices={VERDICT: ("reject",), PROBLEMS: problems},
        reason=f"{reason}: {note}" if note else reason,
    )


def accepted_despite(problems: Sequence[str]) -> UnclearAnswer:
    """A contradictory acceptance is unclear."""
    return UnclearAnswer(problem=f"accepted, but problems are ticked: {', '.join(problems)}")


# Marks on the words that distinguish captions.

_MARKS = {
    PhraseKind.OTHER_IMAGE: "compares",
    PhraseKind.COMPARISON: "compares",
    PhraseKind.ABSENCE: "absent",
}


def marked_captions(captions: Sequence[str]) -> list[str]:
    """Each caption as HTML with its distinguishing words marked.

    `loupe-own` marks words of no other caption, `loupe-shared` words of some others,
    `loupe-compares` phrases about another image, `loupe-absent` phrases that name something absent.
    Function words are not marked.
    """
    having = Counter(word for caption in captions for word in content_words(caption))
    return [_marked(caption, having, len(captions)) for caption in captions]


def _marked(caption: str, having: Mapping[str, int], count: int) -> str:
    """The caption with its marks, where `having` of `count` captions have each content word."""
    spoken = [(one.start, one.end, _MARKS[one.kind]) for one in phrases(caption)]
    spans = spoken.copy()
    for match in WORD.finditer(caption):
        captions = having.get(match.group().casefold(), count)
        if captions < count and not any(start <= match.start() < end for start, end, _ in spoken):
            spans.append((*match.span(), "own" if captions == 1 else "shared"))
    pieces, position = [], 0
    for start, end, kind in sorted(spans):
        pieces.append(escape(caption[position:start]))
        pieces.append(f'<mark class="loupe-{kind}">{escape(caption[start:end])}</mark>')
        position = end
    return "".join(pieces) + escape(caption[position:])


# Escaped text with marks on suspicious facts and changed words.

REMOVED, INSERTED = "removed", "inserted"
_WORD = re.compile(r"\w+(?:[-’']\w+)*")
_CHANGES = {"added": "added", "lost": "left out", "contradicted": "contradicts"}


class Mark(NamedTuple):
    """A span of a text (end exclusive), its style and its tooltip."""

    start: int
    end: int
    style: str
    title: str = ""


class _Word(NamedTuple):
    start: int
    end: int
    plain: str


def marked_text(text: str, marks: Sequence[Mark] = ()) -> str:
    """`text` as a paragraph of HTML; marks may overlap."""
    within = [(place, mark) for place, mark in enumerate(marks) if mark.start < len(text)]
    edges = {0, len(text)}
    opening: dict[int, list[tuple[int, Mark]]] = defaultdict(list)
    for place, mark in within:
        edges |= {mark.start, min(mark.end, len(text))}
        opening[mark.start].append((place, mark))
    pieces: list[str] = []
    open_marks: list[tuple[int, Mark]] = []
    for start, end in pairwise(sorted(edges)):
        still = [(place, mark) for place, mark in open_marks if mark.end > start]
        open_marks = sorted(still + opening.get(start, []))
        pieces.append(_piece(text[start:end], [mark for _, mark in open_marks]))
    return f"<p>{''.join(pieces)}</p>"


HintType = tuple[str, str]
"""What a hint says happened (`added`, `lost`, `contradicted`), and to which attribute."""

HINTS_NOT_SHOWN: frozenset[HintType] = frozenset()
"""Types of hint that are right less than nine times in ten, as `test_hints.py` measures them."""


def hint_type(finding: Finding) -> HintType:
    """The type of a hint; one that replaces a fact has the attribute of the old one."""
    fact = finding.source or finding.rewrite
    return finding.change, str(fact.attribute) if fact is not None else ""


def shown_hints(
    findings: Iterable[Finding], hidden: Collection[HintType] = HINTS_NOT_SHOWN
) -> list[Finding]:
    """The findings that people see: those of a type that is right often enough."""
    return [finding for finding in findings if hint_type(finding) not in hidden]


def finding_marks(findings: Iterable[Finding], side: Literal["source", "rewrite"]) -> list[Mark]:
    """Marks on the facts of findings in the source description or in the rewrite."""
    facts: list[tuple[Fact | None, Finding]] = [
        (finding.source if side == "source" else finding.rewrite, finding) for finding in findings
    ]
    return [
        Mark(*fact.span, style=_style(finding), title=finding.message)
        for fact, finding in facts
        if fact is not None
    ]


def finding_list(findings: Sequence[Finding], doubts: Sequence[str] = ()) -> str:
    """The messages of findings as HTML, major ones first, followed by doubts."""
    rows = [
        f'<li><mark class="loupe-{_style(finding)}">{_CHANGES[finding.change]}</mark> '
        f"{escape(finding.message)}</li>"
        for finding in sorted(findings, key=lambda finding: (finding.minor, finding.change))
    ]
    rows += [f"<li>{escape(doubt)}</li>" for doubt in doubts]
    return f"<ul>{''.join(rows)}</ul>" if rows else "<p>No warnings.</p>"


def changed_words(before: str, after: str) -> tuple[list[Mark], list[Mark]]:
    """Marks on the words of `before` missing in `after`, and on the new words of `after`.

    Words that only moved are not marked.
    """
    old, new = _words(before), _words(after)
    return _more_often(old, new, REMOVED), _more_often(new, old, INSERTED)


def _words(text: str) -> list[_Word]:
    return [_Word(*match.span(), match.group().casefold()) for match in _WORD.finditer(text)]


def _more_often(words: Sequence[_Word], elsewhere: Sequence[_Word], style: str) -> list[Mark]:
    """Marks on words that are not elsewhere; on the last ones if they are there less often.

    Neighbouring words share a mark.
    """
    there = Counter(word.plain for word in elsewhere)
    marks: list[Mark] = []
    goes_on = False
    for word in words:
        if there[word.plain] > 0:
            there[word.plain] -= 1
            goes_on = False
            continue
        start = marks.pop().start if goes_on else word.start
        marks.append(Mark(start, word.end, style))
        goes_on = True
    return marks


def _style(finding: Finding) -> str:
    return "minor" if finding.minor else finding.change


def _piece(text: str, marks: Sequence[Mark]) -> str:
    if not marks:
        return escape(text)
    styles = " ".join(dict.fromkeys(f"loupe-{mark.style}" for mark in marks))
    titles = [mark.title for mark in marks if mark.title]
    title = f' title="{escape(titles[0])}"' if titles else ""
    return f'<mark class="{styles}"{title}>{escape(text)}</mark>'


class TextVerdict(LabellingPage):
    """A text that is accepted, edited, or rejected with a reason."""

    record: ClassVar[type[Caption] | type[Rewrite]]

    def read_annotation(
        self, result: Sequence[dict[str, Any]], shown: StoredEntity
    ) -> ReviewAnswer | UnclearAnswer:
        """What the regions of an annotation say about the text that was shown."""
        return read_text_verdict(result, shown.record(self.record).text)

    def successors(
        self, shown: StoredEntity, answer: ReviewAnswer, author: str
    ) -> tuple[EntityRecord, ...]:
        """The record with the reviewer's text, if it was edited."""
        if answer.verdict != "edit":
            return ()
        change = {"text": answer.texts[TEXT], "author": author}
        return (shown.record(self.record).model_copy(update=change),)

    def summary(self, answer: ReviewAnswer, shown: StoredEntity) -> Summary:
        """The answer in words."""
        shown_text = shown.record(self.record).text
        kept = "" if answer.verdict == "reject" else answer.texts.get(TEXT, shown_text)
        return [
            ("Verdict", self.labels(VERDICT, [answer.verdict])),
            ("Text", kept),
            ("Reason", answer.reason),
        ]


class ImageVerdict(LabellingPage):
    """An image that is accepted, or rejected with a list of problems."""

    def read_annotation(
        self,
        result: Sequence[dict[str, Any]],
        shown: StoredEntity,  # noqa: ARG002 - nothing in it can be changed
    ) -> ReviewAnswer | UnclearAnswer:
        """Whether the image fits, and what is wrong where it does not."""
        verdict = only_choice(result, VERDICT)
        if verdict == "reject":
            return read_problems(result)
        if verdict != "accept":
            return UnclearAnswer(problem="no verdict was chosen")
        if problems := ticked_problems(result):
            return accepted_despite(problems)
        return ReviewAnswer(verdict="accept", choices={VERDICT: ("accept",)})

    def summary(
        self,
        answer: ReviewAnswer,
        shown: StoredEntity,  # noqa: ARG002 - the answer says it all
    ) -> Summary:
        """The answer in words."""
        verdict = self.labels(VERDICT, [answer.verdict])
        return [("Verdict", verdict), ("Reason", answer.reason)]
