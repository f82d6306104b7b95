"""The pages of pipelines that declare theirs: a text, a choice, two images, or one image.

They show any record: what it states, beside the image that it is about. What may be changed is a
field of the record, which the queue names.
"""
# ruff: noqa: ARG002 - methods of all pages take the same

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from types import new_class
from typing import Any, ClassVar, Literal
from xml.sax.saxutils import quoteattr

from pydantic import ConfigDict

from loupe.annotate.answers import Parsed, ReviewAnswer, UnclearAnswer
from loupe.annotate.interfaces.page import (
    PROBLEMS,
    REASON,
    RETURNED,
    VERDICT,
    Images,
    Interface,
    Regions,
    Summary,
    choice_labels,
    first_text,
    one_line,
    only_choice,
    resource,
    verdict_answer,
)
from loupe.annotate.queues import Queue, latest_flags
from loupe.db.entities import StoredEntity, fetch, parents_of
from loupe.db.store import Store
from loupe.schemas.base import EntityRecord
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Image
from loupe.schemas.validation import nearest_hint

TEXT, CHOICE, COMPARE, IMAGE = "own-text", "own-choice", "own-compare", "own-image"
NAMES = (TEXT, CHOICE, COMPARE, IMAGE)
_CHANGED = "changed"
"""The control of the field that may be changed."""
_PAIR = ("first", "second")
"""The fields of a record that compares two images: their ids."""
_HIDDEN = ("source", "sha256", "source_sha256", "media_type", "position", "split")
_VERDICTS = {(VERDICT, "accept"), (VERDICT, "reject")}
_USED = re.compile(r"\$([A-Za-z_]\w*)")
_EDIT = '<Choice value="Change" alias="edit" hotkey="2"/>'
_PICTURE = (
    '<Image name="{0}" value="${0}" zoom="true" zoomControl="true" rotateControl="false" '
    'width="100%" maxHeight="min(640px, 78vh)"/>'
)


class AnyRecord(EntityRecord):
    """A record whose class is not known here."""

    model_config = ConfigDict(extra="allow")


@cache
def record_of(kind: str) -> type[AnyRecord]:
    """Return the class of records of a kind whose own class is not known here."""
    return new_class("OwnRecord", (AnyRecord,), {"kind": kind})


class OwnPage(Interface):
    """The page of a queue that a pipeline declares; classes of plugins vary it.

    docs/python.md lists what `page_xml` may refer to.

    Attributes:
        like: which page a class varies: "text", "choice", "compare" or "image".
        instructions: what annotators read before they begin, as HTML; begins with `<h3>`.
    """

    name = TEXT
    record: ClassVar = AnyRecord
    like: ClassVar[Literal["text", "choice", "compare", "image"]] = "text"

    def __init__(self, queue: Queue) -> None:
        self.page = queue.interface if queue.interface in NAMES else f"own-{self.like}"
        self.kind = queue.kind
        self.field = queue.field or "text"
        self.choices = queue.choices

    @property
    def _file_name(self) -> str:
        return "own"

    def page_xml(self) -> str:
        """Return the page in Label Studio's XML, with the images and controls that it needs."""
        pictures = _PAIR if self.page == COMPARE else ("image",)
        controls = ""
        if self.page == TEXT:
            controls = (
                f'<View className="loupe-write"><TextArea name="{_CHANGED}" toName="item" '
                f'value="${_CHANGED}" rows="3" editable="true" maxSubmissions="1" '
                f'showSubmitButton="false"/></View>'
            )
        elif self.page == CHOICE:
            options = "".join(f"<Choice value={quoteattr(one)}/>" for one in self.choices)
            controls = (
                f'<Header value={quoteattr(self.field)} size="5"/><Choices name="{_CHANGED}" '
                f'toName="item" choice="single-radio" showInline="true">{options}</Choices>'
            )
        return (
            resource("own.xml")
            .replace("IMAGES", "".join(map(_PICTURE.format, pictures)))
            .replace("CONTROLS", controls)
            .replace("EDIT", _EDIT if controls else "")
        )

    def related(
        self, store: Store, entities: Sequence[StoredEntity]
    ) -> Mapping[str, dict[str, Any]]:
        """Return the images and captions of each record, and what speaks against it."""
        wanted: dict[str, dict[str, str]] = {}
        for one in entities:
            fields = json.loads(one.payload)
            if self.page == COMPARE:
                wanted[one.id] = {name: str(fields.get(name)) for name in _PAIR}
            else:
                is_image = one.kind == Image.kind
                wanted[one.id] = {"image": one.id if is_image else str(one.group)}
        images = fetch(store, {id_ for many in wanted.values() for id_ in many.values()})
        flags = latest_flags(store, [one.id for one in entities])
        captions = _captions_of(store, [one.id for one in entities])
        return {
            id_: {
                "images": {name: images[id_] for name, id_ in many.items() if id_ in images},
                "captions": captions.get(id_, ()),
                "flags": flags.get(id_, ()),
            }
            for id_, many in wanted.items()
        }

    def data(self, entity: StoredEntity, images: Images, related: Any) -> dict[str, Any]:
        """Return the values of the page's placeholders.

        Args:
            entity: the item; `entity.payload` is its record as JSON.
            images: gives addresses of images to the annotator's browser.
            related: the images and captions that belong to the item, and what speaks against it.
        """
        fields = json.loads(entity.payload)
        shown = {name: one for name, one in fields.items() if name not in _HIDDEN and one}
        rows = [_row("caption", one) for one in related["captions"]]
        rows += [_row(name, value) for name, value in shown.items() if name not in _PAIR]
        rows += [_row("warning", one) for one in related["flags"]]
        return {
            **{name: images.address(one) for name, one in related["images"].items()},
            "heading": self.kind.replace("_", " "),
            "item_html": f"<table>{''.join(rows)}</table>",
            _CHANGED: str(fields.get(self.field) or ""),
        }

    def kept(self, verdict: str, result: Regions, record: AnyRecord) -> Parsed:
        """Parse an acceptance, or a change of the field; what was not changed is accepted."""
        before = one_line(str(getattr(record, self.field, "") or ""))
        after = before
        if self.page == TEXT:
            after = first_text(result, _CHANGED)
        elif self.page == CHOICE:
            after = only_choice(result, _CHANGED) or before
        if self.page == TEXT and not after and before:
            return UnclearAnswer(problem="the text is empty")
        if after == before:
            return verdict_answer("accept")
        return verdict_answer("edit", texts={_CHANGED: after})

    def edited(
        self, record: AnyRecord, answer: ReviewAnswer, author: str
    ) -> tuple[EntityRecord, ...]:
        """Return the record with the changed field, and its reviewer if it names authors."""
        values = record.model_dump() | {self.field: answer.texts[_CHANGED]}
        if "author" in values:
            values["author"] = author
        return (record_of(self.kind).model_validate(values),)

    def details(self, answer: ReviewAnswer, record: AnyRecord) -> Summary:
        """Return the changed field."""
        return [(self.field, answer.texts.get(_CHANGED, ""))]


def page_problem(page: OwnPage) -> str | None:
    """Return why answers on a page of a plugin could not be used; None if they can."""
    try:
        root = ET.fromstring(page.config)  # noqa: S314 - of an installed package
    except ET.ParseError as error:
        return f"its XML cannot be read: {error}"
    except Exception as error:  # noqa: BLE001 - the code of other people
        return f"page_xml raised {type(error).__name__}: {error}"
    tags = list(root.iter())
    named = {tag.get("name") for tag in tags}
    choices = choice_labels(page.config)
    is_read_here = type(page).kept is OwnPage.kept
    classes = {one for tag in tags for one in tag.get("className", "").split()}
    for what, is_there in (
        ("Choices named verdict, with the aliases accept and reject", choices.keys() >= _VERDICTS),
        ("Choices named reason or problems", bool(named & {REASON, PROBLEMS})),
        (
            f"a TextArea named {_CHANGED}",
            page.page != TEXT or _CHANGED in named or not is_read_here,
        ),
        ("a View with the class loupe-answer", "loupe-answer" in classes),
        ("a Style", "loupe-returned" in classes),
    ):
        if not is_there:
            return f"it lacks {what}"
    for tag in tags:
        if (target := tag.get("toName")) is not None and target not in named:
            return f"{tag.tag} {tag.get('name')} has toName={target!r}, but nothing has that name"
    if type(page).data is not OwnPage.data:
        return None
    known = {*_placeholders(page), RETURNED}
    used = (found for tag in tags for one in tag.attrib.values() for found in _USED.findall(one))
    unknown = next((one for one in used if one not in known), None)
    return unknown and f"nothing fills ${unknown}; {nearest_hint(unknown, known)}"


def _placeholders(page: OwnPage) -> tuple[str, ...]:
    """Return the placeholders that `OwnPage.data` fills."""
    return (*(_PAIR if page.page == COMPARE else ("image",)), "heading", "item_html", _CHANGED)


def _captions_of(store: Store, ids: Sequence[str]) -> dict[str, list[str]]:
    """Return the texts that each record was made from."""
    found: dict[str, list[str]] = {}
    for role in (Role.DERIVED_FROM, Role.DESCRIBES):
        above = parents_of(store, ids, role)
        parents = fetch(store, {id_ for many in above.values() for id_ in many})
        for id_, many in above.items():
            texts = [parents[one] for one in many if one in parents]
            found.setdefault(id_, []).extend(
                one.record(Caption).text for one in texts if one.kind == Caption.kind
            )
    return found


def _row(name: str, value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"<tr><td><b>{escape(name)}</b></td><td>{escape(text)}</td></tr>"
